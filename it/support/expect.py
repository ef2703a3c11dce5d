"""What a check says when something is not as it should be."""

import time


class Failed(AssertionError):
    """The check failed; the text says how."""


def expect(condition, text):
    if not condition:
        raise Failed(text)


def wait_for(what, condition, seconds=60):
    """Waits until the condition holds, and returns its value."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.05)
    raise Failed(f"not within {seconds} s: {what}")
