"""One reader stops inside an aggregated record, the other goes on behind that very user record."""

import sys

from aws_kinesis_agg.aggregator import RecordAggregator

from compare import expect_exactly
from world import local_world

ORDERS = {"probe-then-java": ("probe", "java"), "java-then-probe": ("java", "probe")}
USERS = [(f"key-{number % 7}", f"user record {number}".encode()) for number in range(400)]


def aggregate():
    """An aggregated record made by software of others."""
    aggregator = RecordAggregator()
    for key, payload in USERS:
        aggregator.add_user_record(key, payload)
    return aggregator.clear_and_get().get_contents()


def check(order):
    first, second = ORDERS[order]
    with local_world(shards=1) as world:
        world.put_records(10)
        world.put_aggregate(aggregate(), USERS)
        world.put_aggregate(aggregate(), USERS)
        world.put_records(10)
        reader = getattr(world, first)(hold_after=10 + 400 + 123)
        world.wait_until_stored(left=277 + 10)
        reader.kill()
        behind = world.behind(world.leases.rows())
        reader = getattr(world, second)()
        world.wait_until_stored()
        expect_exactly(reader, behind)


check(*sys.argv[1:])
