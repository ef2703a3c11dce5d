"""Records as they were put and as they were delivered."""

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Position:
    """Where a record is in its shard: compared as numbers."""

    sequence: int
    sub: int


@dataclass(frozen=True)
class Delivery:
    """A record as a consumer told of it: the payload by its hash."""

    shard: str
    position: Position
    key: str
    payload: str

    @staticmethod
    def of(line):
        position = Position(int(line["seq"]), int(line["sub"]))
        return Delivery(line["shard"], position, line["pk"], line["sha256"])


def digest(payload):
    return hashlib.sha256(payload).hexdigest()
