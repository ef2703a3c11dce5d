"""The Java worker reads kinesis-local through a split and a merge: by polling or fan-out, in JSON or CBOR.

On the way a call of each kind fails, and a reply or a stream of events breaks in the middle.
"""

import sys

from control import Control
from expect import expect
from lineage import read_through_a_split_and_a_merge
from world import local_world

FORMS = {"json": "application/x-amz-json-1.1", "cbor": "application/x-amz-cbor-1.1"}

READS = {"polling": "GetRecords", "fan-out": "SubscribeToShard"}
# In the order in which the calls come.
TROUBLE = {
    "polling": ["throttle", {"error": "InternalFailure"}, "half_body", "lose_reply", {"expire_iterators_ms": 0}],
    "fan-out": [{"error_after": "InternalFailureException"}, "half_body"],
}


def check(way, form):
    with local_world(shards=2) as world:
        control = Control(world.kinesis_url)
        trouble = [{"on": READS[way], "skip": skip, "times": 1, "do": does} for skip, does in enumerate(TROUBLE[way])]
        control.add(trouble)
        options = {"cbor": form == "cbor", "fan_out": way == "fan-out"}
        java = read_through_a_split_and_a_merge(world, lambda: world.java(**options))
        idle = [fault for fault in control.faults() if not fault["fired"]]
        expect(not idle, f"faults that did not strike: {idle}")
        forms = {line["operation"]: line["form"] for line in java.events("calls")}
        print(forms)
        expect(forms["ListShards"] == FORMS[form], f"Java called in {forms}")
        calls = {operation: control.calls(operation) for operation in READS.values()}
        print(calls)
        expect([operation for operation in calls if calls[operation]] == [READS[way]], f"Java read by {calls}")


check(*sys.argv[1:])
