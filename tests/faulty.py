"""Communicators that misbehave, and programs that tell how an engine takes it."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from maxmargin.communicators import Star
from test_communicators import laws


@dataclass
class Faulty:
    """A communicator with a fault before one of its rounds, or before each."""

    inner: object
    fault: Callable[[], None]
    at: int | None = None
    rounds: int = 0

    @property
    def rank(self):
        return self.inner.rank

    @property
    def size(self):
        return self.inner.size

    def allgather(self, x):
        return self._disturbed().allgather(x)

    def allreduce(self, x):
        return self._disturbed().allreduce(x)

    def broadcast(self, x):
        return self._disturbed().broadcast(x)

    def combined(self, x, rule, size):
        return self._disturbed().combined(x, rule, size)

    def gather(self, x):
        return self._disturbed().gather(x)

    def _disturbed(self):
        if self.at in (None, self.rounds):
            self.fault()
        self.rounds += 1
        return self.inner


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    raise ArithmeticError("one fails")


def laws_twice(communicator, shard):
    """The laws hold, over a star too, and also if every message of one client comes late, but in time."""
    shard = laws(Star(communicator), laws(communicator, shard))
    return laws(Faulty(communicator, lambda: time.sleep(0.01)) if communicator.rank == 1 else communicator, shard)


def killed(communicator, shard):
    return laws(Faulty(communicator, die, at=5) if communicator.rank == shard else communicator, 0)


def failing(communicator, shard):
    return laws(Faulty(communicator, fail, at=5) if communicator.rank == 1 else communicator, 0)


def late(communicator, shard):
    """One client comes to round 5 long after the timeout, which is short only once all are there."""
    communicator.allreduce(np.zeros(1))
    communicator.timeout = 0.5
    return laws(Faulty(communicator, lambda: time.sleep(3.5), at=5) if communicator.rank == 1 else communicator, 0)


def counting(communicator, path):
    """Count to 20 and write each number down; in the first attempt, one client dies on the way."""
    path = Path(path)
    numbers = [int(number) for number in path.read_text().split()] if path.exists() else []
    first_attempt = not numbers
    number = float(communicator.broadcast(np.array([len(numbers)]))[0])
    while number < 20.0:
        if first_attempt and number == 8.0 and communicator.rank == 1:
            die()
        number += float(communicator.allreduce(np.ones(1))[0]) / communicator.size
        if communicator.rank == 0:
            with path.open("a") as file:
                file.write(f"{number:g}\n")
    return first_attempt


PROGRAMS = {f.__name__: f for f in (laws_twice, failing, late, counting)}
