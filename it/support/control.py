"""The control endpoint of kinesis-local: faults, and how often something was called."""

import json
import urllib.request


class Control:
    def __init__(self, kinesis_url):
        self._url = f"{kinesis_url}/_control"

    def add(self, faults):
        """Adds a fault, or several."""
        self._ask("POST", "faults", faults)

    def faults(self):
        """The faults with how often each was `seen` and `fired`."""
        return self._ask("GET", "faults")["faults"]

    def remove_faults(self):
        self._ask("DELETE", "faults")

    def calls(self, operation):
        return self._ask("GET", f"calls?on={operation}")["total"]

    def _ask(self, method, path, content=None):
        body = json.dumps(content).encode() if content else None
        request = urllib.request.Request(f"{self._url}/{path}", body, method=method)
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)
