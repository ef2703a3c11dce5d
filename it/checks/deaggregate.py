"""Aggregated records made by this library are taken apart to the same events by software of others."""

import base64
import os
import subprocess
import sys
from random import Random

from aws_kinesis_agg.deaggregator import deaggregate_records

from expect import expect
from local import CACHE, LOGS, client, kinesis_local
from producer import put
from sdk import LAST_KEY, Sdk, hash_keys

EVENTS = 10_000
STREAM = "orders"
SCRIPTS = "az\u00e9\u044f\u05d0\u0e01\u4e2d\u3042\U00010348\U0001f600"


def events():
    """Keys and payloads of many kinds. A line of put has no tab and no line feed within."""
    random = Random(1)
    few = [f"customer-{number}" for number in range(7)]
    kinds = [
        lambda: random.choice(few),
        lambda: f"key-{random.randrange(5_000)}",
        lambda: "".join(random.choice(SCRIPTS) for _ in range(256)),
        lambda: random.choice(SCRIPTS) * random.randrange(1, 257),
    ]
    plain = bytes(set(range(256)) - set(b"\t\n\r"))
    for number in range(EVENTS):
        size = random.choice([0, 1, 20, 20, 200, random.randrange(5_000)])
        hash_key = random.choice([None, None, None, 0, LAST_KEY, random.randrange(LAST_KEY)])
        # Stretches with hash keys alone, without any, and mixed.
        hash_key = [hash_key, None, random.randrange(LAST_KEY)][number // 1_000 % 3]
        yield random.choice(kinds)(), bytes(random.choices(plain, k=size)), hash_key


def taken_apart_by_python(records):
    """The events of all records: where each is, its key, its payload and its explicit hash key."""
    for _, record in records:
        kinesis = {
            "kinesisSchemaVersion": "1.0",
            "sequenceNumber": record["SequenceNumber"],
            "partitionKey": record["PartitionKey"],
            "approximateArrivalTimestamp": 0,
            "data": base64.b64encode(record["Data"]),
        }
        for user in deaggregate_records([{"kinesis": kinesis}]):
            user = user["kinesis"]
            place = user["sequenceNumber"], user.get("subSequenceNumber")
            yield place, user["partitionKey"], base64.b64decode(user["data"]), user.get("explicitHashKey")


def taken_apart_by_java(records):
    """As the KCL does, which leaves out an event whose hash key is none of the shard's."""
    lines = []
    for (first, last), record in records:
        key, data = (base64.b64encode(part).decode() for part in (record["PartitionKey"].encode(), record["Data"]))
        lines.append(f"{record['SequenceNumber']}\t{key}\t{data}\t{first}\t{last}\n")
    kcl = os.environ["IT_KCL"]
    classes = f"{CACHE}/{kcl}/classes:{CACHE}/{kcl}/jars/*"
    command = ["java", "-Dlogback.configurationFile=it/java/logback.xml", "-cp", classes, "Deaggregate"]
    done = subprocess.run(command, input="".join(lines), stdout=subprocess.PIPE, text=True)
    expect(done.returncode == 0, f"Java ended with {done.returncode}")
    for line in done.stdout.splitlines():
        sequence, sub, key, data, hash_key = line.split("\t")
        key, data = base64.b64decode(key).decode(), base64.b64decode(data)
        yield (sequence, int(sub) if sub else None), key, data, hash_key or None


LIBRARIES = {"python": taken_apart_by_python, "java": taken_apart_by_java}


def check(library):
    sent = list(events())
    with kinesis_local("--stream", f"{STREAM}:4") as local:
        outcomes = put(LOGS, local.kinesis, STREAM, sent)
        sdk = Sdk(client("kinesis", local.kinesis), by_arn=False, control=None)
        stream, records = sdk.named(STREAM), []
        for name, shard in sdk.shards(stream).items():
            read, _ = sdk.read(sdk.iterator(stream, name, "TRIM_HORIZON"))
            records += [(hash_keys(shard), record) for record in read]
    aggregates = sum(record["Data"].startswith(b"\xf3\x89\x9a\xc2") for _, record in records)
    print(f"{EVENTS} events are {len(records)} records, {aggregates} of them aggregates")
    expect(100 <= aggregates <= len(records) < EVENTS / 5, f"{len(records)} records, {aggregates} aggregates")
    found = {}
    for place, *event in LIBRARIES[library](records):
        expect(place not in found, f"two events are at {place}")
        found[place] = event
    expect(len(found) == EVENTS, f"of {EVENTS} events {len(found)} came out")
    given = 0
    for (key, payload, hash_key), outcome in zip(sent, outcomes):
        found_key, found_payload, found_hash_key = found[outcome["seq"], outcome["sub"]]
        same = (found_key, found_payload) == (key, payload)
        expect(same, f"another event is at {outcome['seq']} {outcome['sub']}")
        # A record alone has its hash key beside it. Python gives an event without one the first of its aggregate.
        if outcome["sub"] is not None and (hash_key is not None or library == "java"):
            expect(found_hash_key == (None if hash_key is None else str(hash_key)), f"{hash_key}: {found_hash_key}")
            given += hash_key is not None
    expect(given > EVENTS / 10, f"only {given} explicit hash keys were looked at")
    print(f"all equal, {given} with an explicit hash key")


check(*sys.argv[1:])
