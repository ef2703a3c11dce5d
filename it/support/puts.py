"""Puts that never pause, so that every shard always has something new."""

import hashlib
import threading
import time

from sdk import LAST_KEY

PAUSE = 0.2
AGGREGATES = 4  # of the keys at each turn
USERS = 3  # in an aggregated record


class SteadyPuts:
    """Puts to each key five times a second, from a thread of its own: a record, or now and then an aggregated one."""

    def __init__(self, world, keys, random):
        self._world, self._keys, self._random = world, keys, random
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._putting, daemon=True)
        self._error = None
        self._thread.start()

    def _putting(self):
        try:
            while not self._stop.is_set():
                begin = time.monotonic()
                several = set(self._random.sample(self._keys, min(AGGREGATES, len(self._keys) // 4)))
                count = lambda key: USERS if key in several else 1
                payloads = lambda key: [self._world.next_payload(key) for _ in range(count(key))]
                self._world.put_users([(key, payloads(key)) for key in self._keys])
                self._stop.wait(max(0, begin + PAUSE - time.monotonic()))
        except Exception as error:
            self._error = error

    def stop(self):
        self._stop.set()
        self._thread.join()
        if self._error:
            raise self._error


def even_keys(count):
    """Keys whose hashes are spread evenly: one in each of so many parts."""
    keys, number = {}, 0
    while len(keys) < count:
        key = f"key-{number}"
        digest = int.from_bytes(hashlib.md5(key.encode()).digest(), "big")
        keys.setdefault(digest * count // (LAST_KEY + 1), key)
        number += 1
    return [keys[part] for part in sorted(keys)]
