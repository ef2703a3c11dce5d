"""The API reference of Kinesis, as the service's model in botocore has it."""

import re

import botocore.session

from expect import expect

MODEL = botocore.session.get_session().get_service_model("kinesis")
# What any operation may be refused with.
COMMON_ERRORS = {"ValidationException", "SerializationException", "InternalFailure"}
TYPES = {
    "string": str,
    "integer": int,
    "long": int,
    "boolean": bool,
    "blob": bytes,
    "list": list,
    "map": dict,
    "structure": dict,
}


def expect_kept(client):
    """From now on, each reply and error of the client has to be one that the reference knows."""
    client.meta.events.register("after-call.kinesis", lambda model, parsed, **_: check(model, parsed))


def check(operation, parsed):
    error = parsed.get("Error")
    if error:
        known = {shape.error_code for shape in operation.error_shapes} | COMMON_ERRORS
        expect(error["Code"] in known, f"{operation.name} was refused with {error}")
        expect(error["Message"], f"{operation.name} was refused without a word")
    elif operation.output_shape and not operation.has_event_stream_output:
        reply = {name: value for name, value in parsed.items() if name != "ResponseMetadata"}
        faults = list(faults_of(operation.output_shape, reply, operation.name))
        expect(not faults, "; ".join(faults))


def faults_of(shape, value, path):
    """What the reference does not allow of a value."""
    if shape.type_name in TYPES and not isinstance(value, TYPES[shape.type_name]):
        yield f"{path} is no {shape.type_name}: {value!r}"
        return
    rules = shape.metadata
    if shape.type_name in ("string", "list", "map"):
        # The examples of the reference have empty lists, and noughts, where a request may not.
        least = rules.get("min", 0) if shape.type_name == "string" else 0
        if not least <= len(value) <= rules.get("max", len(value)):
            yield f"{path} has the length {len(value)}"
    if shape.type_name in ("integer", "long"):
        if not 0 <= value <= rules.get("max", value):
            yield f"{path} is {value}"
    if "enum" in rules and value not in rules["enum"]:
        yield f"{path} is {value}, none of {rules['enum']}"
    if "pattern" in rules and not re.fullmatch(rules["pattern"], value):
        yield f"{path} does not match {rules['pattern']}: {value}"
    if shape.type_name == "structure":
        for name in shape.required_members:
            if name not in value:
                yield f"{path} lacks {name}"
        for name, member in value.items():
            yield from faults_of(shape.members[name], member, f"{path}.{name}")
    elif shape.type_name == "list":
        for item in value:
            yield from faults_of(shape.member, item, f"{path}[]")
