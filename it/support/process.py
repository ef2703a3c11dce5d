"""A program that prints JSON lines, as a child process."""

import json
import os
import signal
import subprocess
import threading
import time


class Process:
    """A running program.

    `lines` grows as it prints. In a line, `at` is when it came, in seconds after the start, and `time` when it was
    printed, in seconds since 1970, as far as the program tells.
    """

    def __init__(self, name, command, log, env=None):
        self.name = name
        self.lines = []
        self.started = time.monotonic()
        self.killed_at = None
        self.pauses = []  # begin and end of each, in seconds since 1970
        self.is_leaving = False
        self._path = log
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
            line["time"] = line.get("unix_ms", time.time() * 1000) / 1000
            self.lines.append(line)

    def events(self, event):
        return [line for line in list(self.lines) if line["event"] == event]

    def running(self):
        return self._child.poll() is None

    def pause(self):
        self.pauses.append([time.time(), float("inf")])
        self._child.send_signal(signal.SIGSTOP)

    def resume(self):
        self._child.send_signal(signal.SIGCONT)
        self.pauses[-1][1] = time.time()

    def kill(self):
        """Ends it as kill -9 does."""
        self._child.send_signal(signal.SIGKILL)
        self.killed_at = time.time()
        self.wait()

    def terminate(self):
        """Asks it to stop, and returns its exit code."""
        self.ask_to_stop()
        return self.wait()

    def ask_to_stop(self):
        self.is_leaving = True
        if self.running():
            self._child.send_signal(signal.SIGTERM)

    def wait(self):
        """Waits for its end, and returns its exit code."""
        code = self._child.wait(timeout=60)
        self._reader.join(timeout=10)
        self._log.close()
        return code

    def resident(self):
        """Its resident memory in MiB."""
        with open(f"/proc/{self._child.pid}/status") as status:
            [line] = [line for line in status if line.startswith("VmRSS")]
        return int(line.split()[1]) // 1024

    def complaints(self):
        """What it has logged as an error, each with the line behind it, and panics."""
        with open(self._path, errors="replace") as log:
            told = [line.rstrip() for line in log if not line.startswith("{")]
        told = [f"{line} {behind}" for line, behind in zip(told, told[1:] + [""])]
        return [line for line in told if " ERROR " in line[:40] or "panicked at" in line]

    def discard(self):
        """Makes sure that it is gone."""
        if self.running():
            self._child.kill()
            self._child.wait()
