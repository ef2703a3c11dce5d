"""What put sends with `ordering = partition-key` is there once each, and each key's in the order of the lines."""

import sys
from collections import defaultdict
from random import Random

from compare import expect_exactly, expect_keys_in_order
from expect import expect, wait_for
from producer import deliveries, put
from readers import PATIENT
from world import local_world

AGGREGATION = {"aggregated": "true", "unaggregated": "false"}


def check(way, lines=200_000, keys=10_000):
    lines, keys = int(lines), int(keys)
    random, numbers = Random(1), defaultdict(int)
    events = []
    for _ in range(lines):
        key = f"key-{random.randrange(keys)}"
        events.append((key, f"{key} {numbers[key]}".encode(), None))
        numbers[key] += 1
    settings = f"ordering = partition-key, aggregation {{ enabled = {AGGREGATION[way]} }}"
    with local_world(shards=4) as world:
        outcomes = put(world.folder, world.kinesis_url, world.stream, events, settings)
        world.put = deliveries(events, outcomes)
        records = {record.position.sequence for record in world.put}
        shards = {record.shard for record in world.put}
        print(f"{lines} lines of {len(numbers)} keys are {len(records)} records of {len(shards)} shards")
        expect(len(shards) == 4, f"only {shards} were written to")
        packed = len(records) <= lines // 10 if way == "aggregated" else len(records) == lines
        expect(packed, f"{lines} lines are {len(records)} records")
        probe = world.probe(settings=PATIENT)
        wait_for("all that was put is read", lambda: len(probe.events("delivery")) >= lines, 150)
        expect(probe.terminate() == 0, "the probe did not stop in good order")
        expect_exactly(probe, world.put)
        expect_keys_in_order(probe, world.put)
        print(f"{len(probe.deliveries())} deliveries, {probe.lines[-1]['at']:.1f} s")


check(*sys.argv[1:])
