"""A program that prints JSON lines, as a child process."""

import json
import os
import signal
import subprocess
import threading
import time


class Process:
    """A running program. `lines` grows as it prints; `at` in a line is when it came, in seconds after the start."""

    def __init__(self, name, command, log, env=None):
        self.name = name
        self.lines = []
        self.started = time.monotonic()
        self._log = open(log, "ab")
        environment = {**os.environ, **(env or {})}
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log, env=environment)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for text in self._child.stdout:
            self._log.write(text)
            self._log.flush()
            try:
                line = json.loads(text)
            except ValueError:
                continue  # killed in the middle of a line
            line["at"] = time.monotonic() - self.started
            self.lines.append(line)

    def events(self, event):
        return [line for line in list(self.lines) if line["event"] == event]

    def running(self):
        return self._child.poll() is None

    def pause(self):
        self._child.send_signal(signal.SIGSTOP)

    def resume(self):
        self._child.send_signal(signal.SIGCONT)

    def kill(self):
        """Ends it as kill -9 does."""
        self._end(signal.SIGKILL)

    def terminate(self):
        """Asks it to stop, and returns its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, sign):
        if self.running():
            self._child.send_signal(sign)
        code = self._child.wait(timeout=60)
        self._reader.join(timeout=10)
        self._log.close()
        return code

    def discard(self):
        """Makes sure that it is gone."""
        if self.running():
            self._child.kill()
            self._child.wait()
