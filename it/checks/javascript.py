"""A check in JavaScript against kinesis-local, in clear or under TLS."""

import os
import subprocess
import sys

from expect import expect
from local import CACHE, LOGS, kinesis_local


def check(script, way):
    certificate = LOGS / "certificate.pem"
    with kinesis_local("--tls-port", "0", "--tls-cert-out", certificate) as local:
        secured = {"IT_KINESIS": local.tls, "IT_DYNAMODB": local.tls, "NODE_EXTRA_CA_CERTS": str(certificate)}
        clear = {"IT_KINESIS": local.kinesis, "IT_DYNAMODB": local.dynamodb}
        env = os.environ | {"NODE_PATH": str(CACHE / "javascript/node_modules")}
        env |= {"clear": clear, "tls": secured}[way]
        ended = subprocess.run(["node", f"it/javascript/{script}.js"], env=env, stderr=subprocess.PIPE, text=True)
        print(ended.stderr)
        lines = ended.stderr.splitlines() or [f"node ended with {ended.returncode}"]
        expect(ended.returncode == 0, lines[-1])


check(*sys.argv[1:])
