"""A thousand shards, with the settings that nobody has changed: a cold start of two processes, and a third one."""

import random
import time

from control import Control
from expect import wait_for
from fleet import Fleet, arguments, judge
from world import local_world

CHOSEN = arguments(shards=1000, limit=60.0, minutes=1.0)
OPERATIONS = {
    "kinesis": ["GetRecords", "GetShardIterator", "ListShards", "DescribeStreamSummary"],
    "dynamodb": ["Scan", "UpdateItem", "GetItem", "PutItem", "DeleteItem", "DescribeTable"],
}


def until(what, condition, since):
    wait_for(what, condition, 5 * CHOSEN.limit)
    return time.monotonic() - since


def calls(control):
    return {name: control.calls(name) for names in OPERATIONS.values() for name in names}


def check():
    with local_world(CHOSEN.shards, look_each=3) as world:
        control = Control(world.kinesis_url)
        fleet = Fleet(world, random.Random(CHOSEN.seed), settings="")
        took = {}
        begin, since = time.monotonic(), time.time()
        fleet.start()
        fleet.start()
        took["two read all"] = fleet.seconds_until_read(since)
        took["two have even shares"] = until("even shares", fleet.is_even, begin)
        fleet.tell(f"{took}, {fleet.shares()}")

        fleet.pass_time(10)
        # Without our own looks at the table.
        world.leases.is_watched = False
        before = calls(control)
        fleet.pass_time(60 * CHOSEN.minutes)
        after = calls(control)
        world.leases.is_watched = True
        rates = {name: round((after[name] - before[name]) / CHOSEN.minutes) for name in after}
        resident = {probe.name: probe.resident() for probe in fleet.probes}
        fleet.tell(f"requests in a minute: {rates}; resident, in MiB: {resident}")

        begin = time.monotonic()
        fleet.start()
        took["the third has its share"] = until("even shares of three", fleet.is_even, begin)
        took["a record of each shard is delivered"] = fleet.seconds_until_read(time.time())
        fleet.tell(f"{took}, {fleet.shares()}")
        world.wait_until_all_stored()
        resident = {probe.name: probe.resident() for probe in fleet.probes}
        fleet.tell(f"resident, in MiB: {resident}")
        begin = time.monotonic()
        faults = fleet.end()
        took["all have stopped"] = time.monotonic() - begin

        for what, seconds in took.items():
            print(f"{what} after {seconds:.1f} s")
        again = sum(len(probe.events("delivery")) for probe in fleet.probes) - len(world.put)
        if again:
            faults.append(f"{again} deliveries came again")
        faults += [f"{what} only after {seconds:.1f} s" for what, seconds in took.items() if seconds > CHOSEN.limit]
        faults += fleet.faults()
        judge(world, faults)


check()
