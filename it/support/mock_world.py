"""kinesis-mock, a Kinesis written by others, with the lease table in kinesis-local."""

import contextlib
import os
import subprocess

from botocore.exceptions import BotoCoreError

from expect import wait_for
from local import CACHE, LOGS, client, kinesis_local
from world import World, world_at

PORT = 14_567


@contextlib.contextmanager
def mock_world(shards):
    with kinesis_mock() as kinesis_url, kinesis_local() as local:
        kinesis = client("kinesis", kinesis_url)
        wait_for("kinesis-mock", lambda: answers(kinesis))
        kinesis.create_stream(StreamName=World.stream, ShardCount=shards)
        kinesis.get_waiter("stream_exists").wait(StreamName=World.stream, WaiterConfig={"Delay": 1})
        with world_at(kinesis_url, local.dynamodb) as world:
            yield world


@contextlib.contextmanager
def kinesis_mock():
    """The program. It listens on all interfaces, so that `run` gives this check a network of its own."""
    settings = {"KINESIS_MOCK_PLAIN_PORT": str(PORT), "KINESIS_MOCK_TLS_PORT": str(PORT + 1)}
    for change in ("CREATE_STREAM", "SPLIT_SHARD", "MERGE_SHARDS"):
        settings[f"{change}_DURATION"] = "200ms"
    with open(LOGS / "kinesis-mock.log", "wb") as log:
        child = subprocess.Popen(
            ["node", "main.js"],
            cwd=CACHE / "kinesis-mock/node_modules/kinesis-local",
            env={**os.environ, **settings},
            stdout=log,
            stderr=log,
        )
        try:
            yield f"http://127.0.0.1:{PORT}"
        finally:
            child.kill()  # asked to end, it would wait half a minute for its connections
            child.wait()


def answers(kinesis):
    try:
        return kinesis.list_streams() is not None
    except BotoCoreError:
        return False
