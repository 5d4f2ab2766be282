"""What clients have to agree on before they can work together: texts, and whether somebody has to give up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from maxmargin.protocols import Communicator
from maxmargin.wording import Wording, template_of


class Refused(ValueError):
    """What all clients were refused, for the same reason: the engine need not stop them."""


def allgather_texts(communicator: Communicator, text: str) -> list[str]:
    """The texts of all clients in the order of their ranks; in two rounds, or in one if nobody has anything to say."""
    own = np.frombuffer(text.encode(), np.uint8)
    lengths = communicator.allgather(np.array([float(own.size)]))[:, 0].astype(int)
    if not lengths.any():
        return [""] * communicator.size
    padded = np.zeros(lengths.max())
    padded[: own.size] = own
    everything = communicator.allgather(padded).astype(np.uint8)
    return [bytes(row[:length]).decode() for row, length in zip(everything, lengths, strict=True)]


@contextmanager
def refused_together(communicator: Communicator) -> Iterator[None]:
    """If one client fails in the block, all raise `Refused` at its end: nobody waits for a client that has gone.

    The block must not communicate.
    """
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    words = "" if failure is None else template_of(failure) or type(failure).__name__
    first = next(filter(None, allgather_texts(communicator, words)), None)
    if first is not None:
        raise Refused(Wording(first)) from failure
