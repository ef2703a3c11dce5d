"""The example pipeline writes flights to a bucket, is killed twice, and each flight is there exactly once."""

import collections
import csv
import gzip
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

from expect import expect, wait_for
from local import CACHE, LOGS, PROGRAMS, client

BUCKET = "flights"
SUPPORT = pathlib.Path(__file__).parent.parent / "support"
DATA = pathlib.Path(__file__).parent.parent.parent / "examples/data/flights-2013-01.csv.gz"


def flights():
    """What the example makes of each line."""
    with gzip.open(DATA, "rt") as lines:
        rows = list(csv.reader(lines))[1:]
    delay = lambda text: int(text) if text.lstrip("-").isdigit() else None
    return collections.Counter((row[9], int(row[10]), row[12], row[13], delay(row[5])) for row in rows)


def keys(s3):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    return [found["Key"] for page in pages for found in page.get("Contents", [])]


def written(s3):
    """The flights in the objects, and what else there is."""
    found, others = collections.Counter(), []
    for key in keys(s3):
        if not key.startswith("flights/"):
            others.append(key)
            continue
        for line in s3.get_object(Bucket=BUCKET, Key=key)["Body"].read().splitlines():
            flight = json.loads(line)
            names = ("airline", "number", "origin", "destination", "departure_delay_minutes")
            found[tuple(flight[name] for name in names)] += 1
    return found, others


def check():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    children = []
    log = open(LOGS / "pipeline.log", "ab")

    def start(command, **options):
        children.append(subprocess.Popen(command, stderr=log, **options))
        return children[-1]

    try:
        server = start([CACHE / "moto/bin/python", SUPPORT / "s3_server.py"], stdout=subprocess.PIPE, text=True)
        url = server.stdout.readline().strip()
        expect(url.startswith("http://127.0.0.1:"), "the S3 server did not start")
        s3 = client("s3", url)
        s3.create_bucket(Bucket=BUCKET)
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                **os.environ,
                "AWS_ENDPOINT": url,
                "AWS_ALLOW_HTTP": "true",
                "AWS_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
            }
            run = lambda: start([PROGRAMS / "pipeline", folder, BUCKET], stdout=log, env=environment)
            for objects in (3, 12):
                pipeline = run()
                wait_for("objects", lambda: len(keys(s3)) >= objects or pipeline.poll() is not None, 60)
                expect(pipeline.poll() is None, f"the pipeline ended by itself, with {pipeline.poll()}")
                pipeline.kill()
                pipeline.wait()
                print(f"killed with {len(keys(s3))} objects")
            expect(run().wait(timeout=90) == 0, "the pipeline did not end in good order")
        found, others = written(s3)
        wanted = flights()
        lost, twice = wanted - found, found - wanted
        expect(not lost and not twice, f"{lost.total()} flights are missing, {twice.total()} too many")
        expect(not others, f"objects that hold no flights: {others[:3]}")
        print(f"{found.total()} flights in {len(keys(s3))} objects")
    finally:
        for child in children:
            child.kill()
            child.wait()


check()
