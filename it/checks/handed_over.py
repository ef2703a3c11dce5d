"""The leader of a KCL 3.x fleet hands leases from the probe to a worker of its own, in good order: no record comes twice.

It does so between workers that report how busy they are. The probe does not; the check does it in its name.
"""

import time

from compare import expect_all, expect_in_order, expect_silence_without_lease
from expect import expect, wait_for
from world import local_world

BUSY = "1.5"  # KB/s, more than what is put


def reports_table(world):
    return f"{world.table}-WorkerMetricStats"


def report(world, probe):
    """What a worker of KCL 3.x stores: that it lives, and the throughput of its leases."""
    lives = {"wid": {"S": probe.name}, "lut": {"N": str(int(time.time()))}, "sts": {"M": {}}, "opr": {"M": {}}}
    world.dynamodb.put_item(TableName=reports_table(world), Item=lives)
    for shard, owner in world.leases.owners().items():
        if owner == probe.name:
            world.dynamodb.update_item(
                TableName=world.table,
                Key={"leaseKey": {"S": shard}},
                UpdateExpression="SET throughputKBps = :busy",
                ExpressionAttributeValues={":busy": {"N": BUSY}},
            )


def check():
    with local_world(shards=4) as world:
        world.put_for(1)
        first = world.probe()
        wait_for("four shards read", lambda: len(first.shards_started()) == 4)
        second = world.java()
        reports = world.dynamodb.get_waiter("table_exists")
        reports.wait(TableName=reports_table(world), WaiterConfig={"Delay": 1, "MaxAttempts": 60})

        def handed_over():
            world.put_for(2)
            report(world, first)
            return second.shards_started()

        wait_for("a lease handed over", handed_over, 120)
        world.put_for(2)
        world.wait_until_stored()
        expect_all(world.put, [first, second])
        for reader in (first, second):
            expect_in_order(reader)
            expect_silence_without_lease(reader)
        twice = set(first.deliveries()) & set(second.deliveries())
        expect(not twice, f"{len(twice)} records came to both")


check()
