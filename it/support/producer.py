"""The program put, and what became of each of its lines."""

import json
import os
import subprocess

from expect import expect
from local import PROGRAMS
from records import Delivery, Position, digest

CONFIG = """
kinesis {{
  application-name = put
  aws {{ region = us-east-1, kinesis-endpoint = "{kinesis}", dynamodb-endpoint = "{kinesis}" }}
  orders {{
    stream-name = {stream}
    {settings}
  }}
}}
"""


def put(folder, kinesis_url, stream, events, settings=""):
    """Sends events of key, payload and explicit hash key (or None). Gives the outcome of each: there is exactly one."""
    config, lines, outcomes = folder / "put.conf", folder / "put.in", folder / "put.out"
    config.write_text(CONFIG.format(kinesis=kinesis_url, stream=stream, settings=settings))
    with open(lines, "wb") as file:
        for key, payload, hash_key in events:
            columns = [key.encode(), payload] + ([] if hash_key is None else [str(hash_key).encode()])
            file.write(b"\t".join(columns) + b"\n")
    env = os.environ | {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    command = [PROGRAMS / "put", "--config", config, "--producer", "orders"]
    with open(lines, "rb") as stdin, open(outcomes, "wb") as stdout, open(folder / "put.log", "wb") as log:
        code = subprocess.run(command, stdin=stdin, stdout=stdout, stderr=log, env=env).returncode
    expect(code == 0, f"put ended with {code}; see {folder / 'put.log'}")
    print((folder / "put.log").read_text().splitlines()[-1])
    with open(outcomes) as file:
        told = [json.loads(line) for line in file]
    told.sort(key=lambda outcome: outcome["message_id"])
    expect([it["message_id"] for it in told] == list(range(len(events))), "not each line has exactly one outcome")
    expect(all(it["ok"] for it in told), "some lines were not sent")
    return told


def deliveries(events, outcomes):
    """What a consumer has to deliver, in the order of the lines."""
    place = lambda outcome: Position(int(outcome["seq"]), outcome["sub"] or 0)
    return [
        Delivery(outcome["shard"], place(outcome), key, digest(payload))
        for (key, payload, _), outcome in zip(events, outcomes)
    ]
