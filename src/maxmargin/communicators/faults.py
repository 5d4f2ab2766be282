"""What happens when a client is lost: an error that says so, and a new start if one is wanted."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class ClientLost(RuntimeError):
    """A client of a distributed fit has died, or has left while the others were waiting for it."""


def supervise(run: Callable[[], T], *, attempts: int) -> T:
    """Run a distributed fit, and run it again if a client was lost or came too late.

    What is not lost is up to ``run``: a fit that writes checkpoints goes on from the last one. Any other error is
    raised at once, because a new attempt would meet it again.

    Parameters
    ----------
    run : callable
        Starts the clients, waits for them, and returns the result.
    attempts : int
        How often it is tried altogether.

    Returns
    -------
    object
        What ``run`` returned.

    Raises
    ------
    ClientLost, TimeoutError
        That of the last attempt.

    Warns
    -----
    RuntimeWarning
        For each attempt that failed before the last.

    """
    if attempts < 1:
        raise ValueError(f"attempts is {attempts}; it must be at least 1.")
    for attempt in range(1, attempts):
        try:
            return run()
        except (ClientLost, TimeoutError) as error:
            message = f"Attempt {attempt} of {attempts} failed, and the next one starts: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
    return run()
