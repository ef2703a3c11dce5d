"""The two consumers of a shared lease table: the probe and a Java KCL worker."""

import json
import os
import pathlib

from local import CACHE, PROGRAMS
from process import Process
from records import Delivery

FAILOVER_SECONDS = 3

HERE = pathlib.Path(__file__).parent.parent

PROBE_CONFIG = """
kinesis {{
  application-name = probe
  aws {{ region = us-east-1, kinesis-endpoint = "{kinesis}", dynamodb-endpoint = "{dynamodb}" }}
  orders {{
    stream-name = {stream}
    {settings}
  }}
}}
"""

QUICK = f"""
    lease {{ failover-time = {FAILOVER_SECONDS}s, shard-sync-interval = 2s }}
    checkpointer {{ interval = 100ms }}
    polling {{ idle-time = 250ms }}
"""

PATIENT = f"""{QUICK}
    worker {{ batch-timeout = 300s, shutdown-timeout = 601s }}
"""

JVM = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


class Reader(Process):
    """A consumer as a process."""

    def deliveries(self):
        return [Delivery.of(line) for line in self.events("delivery")]

    def shards_started(self):
        return {line["shard"]: line["at"] for line in self.events("shard-started")}


def start_probe(world, number, hold_after=None, settings=PATIENT):
    """A probe with these settings of its consumer, besides the stream's name."""
    name = f"probe-{number}"
    files = world.folder / name
    files.mkdir()
    config, policy = files / "application.conf", files / "policy.json"
    config.write_text(
        PROBE_CONFIG.format(
            kinesis=world.kinesis_url,
            dynamodb=world.dynamodb_url,
            stream=world.stream,
            settings=settings,
        )
    )
    policy.write_text(json.dumps({"hold_after": hold_after}))
    command = [PROGRAMS / "probe", "--config", config, "--consumer", "orders", "--worker-id", name]
    env = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    return Reader(name, [*command, "--policy", policy], files / "log", env)


def start_java(world, number, hold_after=None, cbor=False, fan_out=False):
    name = f"java-{number}"
    kcl, client_version = os.environ["IT_KCL"], os.environ.get("IT_CLIENT_VERSION")
    settings = {
        "logback.configurationFile": HERE / "java/logback.xml",
        "logLevel": os.environ.get("IT_LOG", "WARN"),
        "stream": world.stream,
        "table": world.table,
        "worker": name,
        "failoverMillis": FAILOVER_SECONDS * 1000,
        "kinesis": world.kinesis_url,
        "dynamodb": world.dynamodb_url,
        "aws.cborEnabled": str(cbor).lower(),
        "fanOut": str(fan_out).lower(),
    }
    if client_version:
        settings["clientVersion"] = client_version
    if hold_after is not None:
        settings["holdAfter"] = hold_after
    command = ["java", *JVM, *(f"-D{key}={value}" for key, value in settings.items())]
    classes = f"{CACHE}/{kcl}/classes:{CACHE}/{kcl}/jars/*"
    return Reader(name, [*command, "-cp", classes, "Reader"], world.folder / f"{name}.log")
