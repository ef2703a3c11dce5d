"""What a consumer delivered against what it had to deliver."""

from collections import defaultdict

from expect import expect
from leases import END
from readers import FAILOVER_SECONDS
from records import Delivery


def by_shard(deliveries):
    shards = defaultdict(list)
    for delivery in deliveries:
        shards[delivery.shard].append(delivery)
    return dict(shards)


def expect_exactly(reader, records, shards=None):
    """The reader delivered these records, each once, in order within each shard, and no others (of these shards)."""
    delivered, wanted = by_shard(reader.deliveries()), by_shard(records)
    for shard in shards or delivered.keys() | wanted.keys():
        got, want = delivered.get(shard, []), sorted(wanted.get(shard, []), key=lambda record: record.position)
        missing, surplus = set(want) - set(got), set(got) - set(want)
        expect(not missing, f"{reader.name} did not deliver {len(missing)} of {len(want)} records of {shard}")
        expect(not surplus, f"{reader.name} delivered {len(surplus)} records of {shard} that it had not to")
        expect(got == want, f"{reader.name} delivered {shard} in another order, or records twice")


def expect_taken_after_expiry(reader, rows):
    """The reader took no lease before it had seen it stand still for the failover time. (A KCL 2.x steals sooner.)"""
    for shard, at in reader.shards_started().items():
        if shard in rows and rows[shard].owner is not None:
            expect(at >= FAILOVER_SECONDS, f"{reader.name} took {shard} after {at:.1f} s")


def expect_taken_over(reader, before, after):
    """The leases that were open are the reader's, and what is in them was kept."""
    for shard, lease in before.items():
        if lease.position == END:
            continue
        now = after[shard]
        expect(now.owner == reader.name, f"{shard} is owned by {now.owner}, not by {reader.name}")
        expect(now.counter > lease.counter, f"the counter of {shard} is {now.counter}, it was {lease.counter}")


def expect_all(records, readers):
    """Nothing is lost, and nothing came that was never put."""
    delivered = {delivery for reader in readers for delivery in reader.deliveries()}
    missing, surplus = set(records) - delivered, delivered - set(records)
    expect(not missing, f"{len(missing)} of {len(records)} records were delivered by nobody")
    expect(not surplus, f"{len(surplus)} deliveries are of no record that was put")


def expect_in_order(reader):
    """From each start of a shard on, its records came in order."""
    last = {}
    for line in list(reader.lines):
        if line["event"] == "shard-started":
            last.pop(line["shard"], None)
        elif line["event"] == "delivery":
            delivery = Delivery.of(line)
            before = last.get(delivery.shard, delivery.position)
            expect(before <= delivery.position, f"{reader.name} went back in {delivery.shard}")
            last[delivery.shard] = delivery.position


def expect_silence_without_lease(reader):
    """From the loss of a lease to the next start of its shard, nothing of the shard came."""
    lost = set()
    for line in list(reader.lines):
        if line["event"] == "lease-lost":
            lost.add(line["shard"])
        elif line["event"] == "shard-started":
            lost.discard(line["shard"])
        elif line["event"] == "delivery":
            expect(line["shard"] not in lost, f"{reader.name} delivered of {line['shard']} without its lease")


def expect_keys_in_order(reader, records):
    """Each key's records came in the order in which they were put, if repetitions are left out."""
    delivered, wanted = defaultdict(list), defaultdict(list)
    for delivery in dict.fromkeys(reader.deliveries()):
        delivered[delivery.key].append(delivery)
    for record in records:
        wanted[record.key].append(record)
    for key in wanted:
        expect(delivered[key] == wanted[key], f"the records of {key} came in another order")
