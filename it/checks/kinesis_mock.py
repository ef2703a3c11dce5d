"""The probe reads kinesis-mock through a split and a merge."""

from expect import expect
from lineage import read_through_a_split_and_a_merge
from mock_world import mock_world


def check():
    with mock_world(shards=2) as world:
        probe = read_through_a_split_and_a_merge(world, world.probe)
        expect(probe.terminate() == 0, "the probe did not stop cleanly")


check()
