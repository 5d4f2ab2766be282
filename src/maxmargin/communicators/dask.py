"""Clients that are long tasks on the workers of a Dask cluster (``pip install maxmargin[dask]``)."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Literal, TypeVar

import numpy as np

from maxmargin.communicators.faults import ClientLost
from maxmargin.communicators.gathering import Gathering
from maxmargin.communicators.ordered import ordered_sum
from maxmargin.protocols import Communicator, Float

if TYPE_CHECKING:
    from distributed import Client, Future, Worker

S = TypeVar("S")
T = TypeVar("T")
Collective = Literal["allgather", "gather", "allreduce", "broadcast"]
Answer = dict[Literal["array", "error"], Float | Exception]

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h
LARGEST_KEPT = 2**25  # bytes, the most that the C library allows
GLANCE = 0.5  # seconds after which the watchdog looks again whether all workers are there
GRACE = 5.0  # seconds for a message on its way, and for the others to end after an error


class Meeting:
    """Where the clients meet: an object in the event loop of the worker of rank 0, which occupies no thread.

    A client brings its array and waits until the last one has come, or until the timeout breaks the meeting for all,
    including those who come later. It is reached as Dask's own services are, through a handler of that worker: a Dask
    actor would do the same, but a client that waits for an actor of a lost worker waits for ever.

    Parameters
    ----------
    size : int
        Number of clients.
    timeout : float
        Seconds that the first of them waits for the last in one round.

    """

    def __init__(self, size: int, timeout: float) -> None:
        self._size, self._timeout = size, timeout
        self._round = 0
        self._brought: dict[int, Float | None] = {}
        self._outcome: asyncio.Future[Float] | None = None
        self._broken: Exception | None = None

    async def exchange(self, rank: int, number: int, collective: Collective, x: Float | None) -> Answer:
        """What the collective gives for the arrays that all clients bring in round ``number``, or an error."""
        try:
            outcome = await self._outcome_of(rank, number, collective, x)
            return {"array": outcome[:0] if collective == "gather" and rank > 0 else outcome}
        except Exception as error:  # raised by the one who asked
            return {"error": error}

    async def answer(self, rank: int, number: int, collective: Collective, x: Float | None) -> dict[str, object]:
        """:meth:`exchange` for a client on another worker."""
        from distributed.protocol import to_serialize

        reply = await self.exchange(rank, number, collective, x)
        return {kind: to_serialize(content) for kind, content in reply.items()}

    def stop(self, reason: Exception) -> None:
        """Break the meeting: this round and all later ones raise ``reason``."""
        if self._broken is None:
            self._broken = reason
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_exception(self._broken)

    async def _outcome_of(self, rank: int, number: int, collective: Collective, x: Float | None) -> Float:
        if number != self._round:
            # Dask may start a task again on a worker that has come back under its old address.
            self.stop(ClientLost(f"Client {rank} was lost and started again while the others were at work."))
        if self._broken is not None:
            raise self._broken
        if self._outcome is None:
            loop = asyncio.get_running_loop()
            self._outcome = loop.create_future()
            self._alarm = loop.call_later(self._timeout, self._too_late)
        outcome = self._outcome
        self._brought[rank] = x
        if len(self._brought) == self._size:
            self._conclude(collective)
        return await asyncio.shield(outcome)

    def _conclude(self, collective: Collective) -> None:
        brought = [self._brought[rank] for rank in range(self._size)]
        parts = [part for part in brought if part is not None]  # only rank 0 brings something to a broadcast
        outcome, self._outcome = self._outcome, None
        self._brought = {}
        self._round += 1
        self._alarm.cancel()
        assert outcome is not None
        try:
            if collective in ("allgather", "gather"):
                outcome.set_result(np.stack(parts))
            else:
                outcome.set_result(ordered_sum(parts) if collective == "allreduce" else parts[0])
        except Exception as error:  # arrays that do not fit are everybody's error
            outcome.set_exception(error)

    def _too_late(self) -> None:
        missing = ", ".join(str(rank) for rank in range(self._size) if rank not in self._brought)
        self.stop(
            TimeoutError(
                f"Of {self._size} clients, number {missing} did not come to round {self._round} within "
                f"{self._timeout:g} seconds: it hangs, or needs a longer timeout."
            )
        )


class DaskCommunicator(Gathering):
    """One of several clients that are tasks of a Dask cluster; made by :func:`run_on_dask`."""

    sums_elsewhere = True  # where the clients meet

    def __init__(self, rank: int, size: int, place: str, name: str, timeout: float) -> None:
        from distributed import get_worker

        self.rank, self.size, self.timeout = rank, size, timeout
        self._worker = get_worker()
        self._place, self._name = place, name
        self._round = 0

    def allgather(self, x: Float) -> Float:
        """The arrays of all clients, stacked."""
        return self._meet("allgather", x)

    def gather(self, x: Float) -> Float | None:
        """The same for rank 0 only."""
        everything = self._meet("gather", x)
        return everything if self.rank == 0 else None

    def allreduce(self, x: Float) -> Float:
        """Their sum, in the order of the ranks."""
        return self._meet("allreduce", x)

    def broadcast(self, x: Float) -> Float:
        """The array of rank 0, who alone sends something."""
        return self._meet("broadcast", x if self.rank == 0 else None)

    def _meet(self, collective: Collective, x: Float | None) -> Float:
        from distributed.utils import sync

        try:
            # The meeting keeps the time itself; this limit is for the case that its worker is frozen.
            answer = sync(self._worker.loop, self._ask, collective, x, callback_timeout=self.timeout + GRACE)
        except TimeoutError as error:
            raise TimeoutError(
                f"Client {self.rank} gave up: the worker of client 0, where the clients meet, did not answer within "
                f"{self.timeout + GRACE:g} seconds."
            ) from error
        except OSError as error:
            raise ClientLost("The worker of client 0, where the clients meet, cannot be reached.") from error
        if answer is None:  # the worker knows of no such meeting any more
            raise ClientLost(f"Client {self.rank} was stopped, because another one has failed.")
        if isinstance(reason := answer.get("error"), Exception):
            raise reason
        return np.array(answer["array"])  # one's own: clients of one process would share it

    async def _ask(self, collective: Collective, x: Float | None) -> Answer | None:
        from distributed.protocol import to_serialize

        message = {"rank": self.rank, "number": self._round, "collective": collective}
        self._round += 1
        if self._worker.address != self._place:
            return await getattr(self._worker.rpc(self._place), self._name)(**message, x=to_serialize(x))
        here = self._worker.handlers.get(self._name)
        return here and await here.__self__.exchange(**message, x=x)


def run_on_dask(
    client: Client | None,
    program: Callable[[Communicator, S], T],
    shards: Sequence[S | Future | list[Future]],
    *,
    workers: Sequence[str] | None = None,
    timeout: float = 60.0,
) -> list[T]:
    """Run ``program(communicator, shard)`` as one long task for each shard, and return what they return.

    A client runs where its shard is: data that lie on the cluster do not move, unless their worker has no thread left
    for it. While the clients run, a watchdog looks after them, because Dask itself would start the task of a killed
    worker again and let the others wait for ever.

    Parameters
    ----------
    client : distributed.Client or None
        The cluster. None takes the current client if there is one, and otherwise a cluster of processes on this machine
        for the time of the call, one process for each shard.
    program : callable
        What every client does. The workers must be able to import it.
    shards : sequence
        One for each client: a future, a list of futures that lie on one worker (see :func:`group_by_worker`), or an
        object that is sent.
    workers : sequence of str, optional
        Addresses of the workers, one for each shard; where the shards are by default, or where there is room.
    timeout : float, default=60.0
        Seconds that a client waits for the others in one round.

    Returns
    -------
    list
        What the clients returned, in the order of the shards.

    Raises
    ------
    ClientLost
        If a worker was lost while its client was running.
    TimeoutError
        If clients waited for one that did not come.
    Exception
        One that a client raised itself; the others are stopped.

    """
    with _cluster(client, len(shards)) as cluster:
        places = _places(cluster, shards, timeout) if workers is None else list(workers)
        _check_room(cluster, places)
        size = len(shards)
        pin = {"allow_other_workers": False, "pure": False, "retries": 0}
        name = f"maxmargin_{uuid.uuid4().hex}"
        cluster.run(_open, name, size, timeout, workers=places[:1])
        tasks: list[Future] = []
        try:
            with ThreadPoolExecutor(size) as senders:  # workers to whom the package is new import it side by side
                sent = list(senders.map(lambda shard, worker: _sent(cluster, shard, worker), shards, places))
            for rank, (shard, worker) in enumerate(zip(sent, places, strict=True)):
                who = (rank, size, places[0], name, timeout)
                tasks.append(cluster.submit(_task, program, who, shard, workers=[worker], **pin))
            return _watch(cluster, tasks, places)
        finally:
            _end(cluster, tasks, places, name, timeout)


def group_by_worker(client: Client, chunks: Sequence[Future]) -> dict[str, list[Future]]:
    """The chunks of each worker, as far as they lie on the cluster already: none of them has to move.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    chunks : sequence of distributed.Future
        What was persisted or computed there; it is waited for.

    Returns
    -------
    dict
        From the address of a worker to its chunks, in their order: ``run_on_dask(client, program,
        list(groups.values()))`` gives each worker all of its chunks as one shard. Group once, before the first attempt:
        the clients of a later one must have the same rows to go on from a checkpoint, wherever Dask has put them.

    """
    with client.as_current():
        homes = _homes(client, chunks)
    groups: dict[str, list[Future]] = {}
    for chunk, worker in zip(chunks, homes, strict=True):
        groups.setdefault(worker, []).append(chunk)
    return groups


def _task(program: Callable[[Communicator, S], T], who: tuple[int, int, str, str, float], shard: S) -> T:
    with _memory_kept():
        return program(DaskCommunicator(*who), shard)


@contextmanager
def _memory_kept() -> Iterator[None]:
    """Keep freed memory for the next array while a client works.

    Dask has its workers give memory back at once, by a variable of the C library. For methods that make a few arrays in
    every step this doubles the time, most of which is spent on pages that have just been given back.
    """
    trim = os.environ.get("MALLOC_TRIM_THRESHOLD_", "")
    library = ctypes.CDLL(None) if trim.isdigit() and sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt"):  # another C library, or nothing to be undone
        yield
        return
    library.mallopt(M_TRIM_THRESHOLD, 2**30)
    library.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
    try:
        yield
    finally:
        library.mallopt(M_MMAP_THRESHOLD, 2**17)  # its default
        library.mallopt(M_TRIM_THRESHOLD, int(trim))
        library.malloc_trim(0)


def _open(name: str, size: int, timeout: float, dask_worker: Worker) -> None:
    dask_worker.handlers[name] = Meeting(size, timeout).answer


async def _close(name: str, timeout: float, dask_worker: Worker) -> None:
    dask_worker.handlers[name].__self__.stop(ClientLost("This client was stopped, because another one has failed."))
    asyncio.get_running_loop().call_later(timeout, dask_worker.handlers.pop, name)  # those who come late learn why


def _watch(client: Client, tasks: list[Future], places: list[str]) -> list[T]:
    """Wait for the results, and notice when one of them will not come."""
    from distributed import wait

    results: dict[int, T] = {}
    while len(results) < len(tasks):
        waiting = [task for rank, task in enumerate(tasks) if rank not in results]
        with suppress(TimeoutError, CancelledError):
            wait(waiting, timeout=GLANCE, return_when="FIRST_COMPLETED")
        _check_nobody_is_lost(client, places)
        errors = [task.exception() for task in waiting if task.status == "error"]
        if errors:
            raise _reason(errors)
        if any(task.status in ("cancelled", "lost") for task in waiting):
            raise ClientLost("The Dask scheduler has cancelled a client, as it does if it loses the client's data.")
        for rank, task in enumerate(tasks):
            if rank not in results and task.status == "finished":
                with suppress(TimeoutError):  # its worker may be lost at this moment, which the next turn will see
                    results[rank] = task.result(timeout=GRACE)
    return [results[rank] for rank in range(len(tasks))]


def _reason(errors: list[BaseException]) -> BaseException:
    """An error that a client made itself before one that it met because of another."""
    own = [error for error in errors if not isinstance(error, ClientLost | TimeoutError)]
    return own[0] if own else errors[0]


def _check_nobody_is_lost(client: Client, places: list[str]) -> None:
    there = client.nthreads()
    lost = [rank for rank, place in enumerate(places) if place not in there]
    if lost:
        raise ClientLost(
            f"Of {len(places)} clients, number {', '.join(map(str, lost))} was lost: the Dask worker {places[lost[0]]} "
            "is no longer there. Its log tells why; often its memory was exhausted."
        )


def _end(client: Client, tasks: list[Future], places: list[str], name: str, timeout: float) -> None:
    """Let clients that still run meet an error in their next round, wait a little for that, and forget the tasks."""
    from distributed import wait

    there = client.nthreads()
    if places[0] in there:
        with suppress(TimeoutError):  # it may be frozen
            client.run(_close, name, timeout, workers=places[:1], on_error="return", callback_timeout=GRACE)
    with suppress(TimeoutError, CancelledError):
        wait([task for task, place in zip(tasks, places, strict=True) if place in there], timeout=GRACE)
    client.cancel(tasks, force=True)


def _places(client: Client, shards: Sequence[object], timeout: float) -> list[str]:
    """The worker of each shard: the one that holds it if there is room, which is so unless one was lost, or another."""
    held = [rank for rank, shard in enumerate(shards) if _futures_of(shard)]
    homes = _homes(client, [_futures_of(shards[rank])[0] for rank in held])
    _wait_for_room(client, len(shards), timeout)
    room = Counter(client.nthreads())
    places: dict[int, str] = {}
    for rank, home in zip(held, homes, strict=True):
        if room[home] > 0:
            places[rank] = home
            room[home] -= 1
    for rank in range(len(shards)):
        if rank not in places:
            places[rank] = max(sorted(room), key=lambda worker: room[worker])
            room[places[rank]] -= 1
    return [places[rank] for rank in range(len(shards))]


def _homes(client: Client, futures: Sequence[Future]) -> list[str]:
    """The worker of each future; of several that hold it, the one with the fewest so far."""
    from distributed import wait

    if not futures:
        return []
    wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()  # raises
    holders = client.who_has(futures)
    load: Counter[str] = Counter()
    homes = []
    for future in futures:
        if not holders.get(future.key):
            raise ClientLost(f"The data {future.key!r} are no longer on the cluster.")
        homes.append(min(sorted(holders[future.key]), key=lambda worker: load[worker]))
        load[homes[-1]] += 1
    return homes


def _futures_of(shard: object) -> list[Future]:
    from distributed import Future

    return [part for part in (shard if isinstance(shard, list | tuple) else [shard]) if isinstance(part, Future)]


def _sent(client: Client, shard: object, worker: str) -> object:
    """A shard that is on the cluster as it is, and any other one sent to its worker."""
    return shard if _futures_of(shard) else client.scatter([shard], workers=[worker], hash=False)[0]


def _wait_for_room(client: Client, size: int, timeout: float) -> None:
    """Give a cluster that grows, or replaces a lost worker, some time."""
    began = time.monotonic()
    while sum(client.nthreads().values()) < size and time.monotonic() - began < timeout:
        time.sleep(0.1)


def _check_room(client: Client, places: list[str]) -> None:
    _check_nobody_is_lost(client, places)
    threads = client.nthreads()
    for worker, clients in Counter(places).items():
        if clients > threads[worker]:
            raise ValueError(
                f"{clients} clients are to run on the Dask worker {worker}, which has {threads[worker]} threads, and "
                "would wait for each other for ever. Join the shards of one worker, or start more workers."
            )


@contextmanager
def _cluster(client: Client | None, size: int) -> Iterator[Client]:
    """The given cluster, the current one, or one for the time being."""
    try:
        from distributed import Client, LocalCluster, get_client
    except ImportError as error:
        raise ImportError(
            "The clients are to run on Dask, but distributed cannot be imported; "
            "install it with: pip install maxmargin[dask]."
        ) from error
    if client is None:
        with suppress(ValueError):
            client = get_client()
    if client is not None:
        with client.as_current():
            yield client
        return
    with (
        LocalCluster(n_workers=size, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as own,
    ):
        yield own
