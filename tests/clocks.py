"""A clock for tests of time limits: it moves when it is read, so that nothing depends on how busy the machine is."""

import time


class Ticking:
    """Every reading is so many seconds later than the last one."""

    def __init__(self, seconds):
        self.seconds, self.now = seconds, 0.0

    def __call__(self):
        self.now += self.seconds
        return self.now


def put(monkeypatch, seconds):
    """Such a clock instead of ``time.perf_counter``."""
    clock = Ticking(seconds)
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock
