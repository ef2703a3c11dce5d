"""The program kinesis-local, and clients of it."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from dataclasses import dataclass

import boto3
from botocore.config import Config

CACHE = pathlib.Path(os.environ["IT_CACHE"])
PROGRAMS = pathlib.Path(os.environ["IT_PROGRAMS"])
LOGS = pathlib.Path(os.environ["IT_LOGS"])

# The client lets pass what is wrong in a request, so that the service can refuse it.
CONFIG = Config(retries={"max_attempts": 1}, connect_timeout=5, read_timeout=10, parameter_validation=False)


@dataclass(frozen=True)
class Addresses:
    """Where the services are."""

    kinesis: str
    dynamodb: str
    tls: str = None  # both, if there is TLS


@contextlib.contextmanager
def kinesis_local(*options):
    """Runs the program with these options, and gives the addresses that it prints."""
    # So that a check that takes too long ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    child = subprocess.Popen(
        [PROGRAMS / "kinesis-local", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        told = {}
        for line in child.stdout:
            name, _, value = line.partition(":")
            told[name] = value.strip()
            if name == "AWS CLI":
                break
        tls = told.get("TLS", "").removesuffix(" for both")
        yield Addresses(told["Kinesis"], told["DynamoDB"], tls or None)
    finally:
        child.terminate()
        child.wait()


def client(service, url, **options):
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    return boto3.client(service, endpoint_url=url, config=CONFIG, **keys, **options)
