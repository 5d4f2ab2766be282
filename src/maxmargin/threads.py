"""Threads: a few workers for the pieces of one computation, and BLAS kept to one thread beside them.

What the pieces are must not depend on the number of threads. Then neither do the results.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

import threadpoolctl

Piece = TypeVar("Piece")


class GivenUp(Exception):
    """A computation was given up between two of its pieces, because there was no more time for it."""


class _Patience(threading.local):
    """When what this thread computes is to be given up."""

    late: Callable[[], bool] | None = None


_patience = _Patience()


class given_up_if:
    """Let `GivenUp` end whatever this thread computes in pieces, between two of them, once it is too late.

    What it was about to change may be half done then: this is for what is thrown away. ``late`` must be thread-safe.
    """

    def __init__(self, late: Callable[[], bool]) -> None:
        self._late = late

    def __enter__(self) -> None:
        self._outer, _patience.late = _patience.late, self._late

    def __exit__(self, *_: object) -> None:
        _patience.late = self._outer


def go_on() -> None:
    """Between two pieces of something long that knows no `Workers`: raise `GivenUp` if it is too late for the next."""
    if _patience.late is not None and _patience.late():
        raise GivenUp


class Workers:
    """Up to ``count`` threads, the caller's own among them; they end with the last reference to this object.

    A piece may itself run pieces: threads that are idle help, and nobody waits for those that are not. A process that
    was forked has no threads but one, so it gets new ones.
    """

    def __init__(self, count: int | Callable[[], int] = 1) -> None:
        self._count = count
        self._pool: ThreadPoolExecutor | None = None
        self._process = 0  # to which the threads belong

    @property
    def count(self) -> int:
        """Threads, which may be counted when they are needed first."""
        if not isinstance(self._count, int):
            self._count = self._count()
        return self._count

    def run(self, work: Callable[[Iterator[Piece]], None], pieces: Sequence[Piece]) -> None:
        """Call ``work`` in every thread with an iterator over the pieces that nobody has taken yet.

        Raises
        ------
        GivenUp
            If it became too late before all pieces were taken, and the caller is inside of `given_up_if`.

        """
        helpers = min(self.count, len(pieces)) - 1 if len(pieces) > 1 else 0  # nobody counts threads for one piece
        with one_blas_thread:
            if helpers <= 0 and _patience.late is None:
                work(iter(pieces))
                return
            shared = _Shared(pieces, _patience.late)
            self._share(work, shared, helpers)
            if shared.given_up:
                raise GivenUp

    def _share(self, work: Callable[[Iterator[Piece]], None], shared: _Shared[Piece], helpers: int) -> None:
        """Call ``work`` in this thread and in some others."""
        if helpers <= 0:
            work(shared)
        else:
            if self._pool is None or self._process != os.getpid():
                self._process = os.getpid()
                self._pool = ThreadPoolExecutor(self.count - 1, thread_name_prefix="maxmargin")
            futures = [self._pool.submit(work, shared) for _ in range(helpers)]
            try:
                work(shared)
            finally:
                shared.close()
                for future in futures:
                    if not future.cancel():  # one that has not begun is not needed: its thread may be busy above us
                        future.result()


NO_OTHERS = Workers(1)  # the caller's own thread: there is nothing that those who share it could disturb


class _Shared(Generic[Piece]):
    """An iterator over a sequence that several threads may use at once; it ends early if it becomes too late."""

    def __init__(self, pieces: Sequence[Piece], late: Callable[[], bool] | None = None) -> None:
        self._pieces, self._next, self._lock = pieces, 0, threading.Lock()
        self._late, self.given_up = late, False

    def __iter__(self) -> Iterator[Piece]:
        return self

    def __next__(self) -> Piece:
        with self._lock:
            if self._next >= len(self._pieces):
                raise StopIteration
            if self._late is not None and self._late():
                self._next, self.given_up = len(self._pieces), True
                raise StopIteration
            self._next += 1
            return self._pieces[self._next - 1]

    def close(self) -> None:
        """Hand out nothing more: after an exception the others should stop too."""
        with self._lock:
            self._next = len(self._pieces)


def available_threads() -> int:
    """As many threads as BLAS may use: it already knows the user's limits and those of joblib's workers."""
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        processors = os.cpu_count() or 1
    return max(1, min(processors, one_blas_thread.threads_of_blas()))


def workers_for(n_jobs: int | None) -> Workers:
    """Workers for scikit-learn's ``n_jobs``: ``None`` is as many as BLAS may use, -1 is all processors."""
    if n_jobs is None:
        return Workers(available_threads)
    if n_jobs < 0:
        return Workers(lambda: max(1, (os.cpu_count() or 1) + 1 + n_jobs))
    return Workers(max(1, n_jobs))


class _BlasLimit:
    """The only state that fits share: how many of them want BLAS to be quiet, and what to restore."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._before = [library.threads() for library in _libraries()]
                if max(self._before, default=1) > 1:
                    _limit([1] * len(self._before))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and max(self._before, default=1) > 1:
                _limit(self._before)

    def after_fork(self) -> None:
        """Another thread may have held the lock, and it does not exist in the child of a fork."""
        self._lock = threading.Lock()

    def threads_of_blas(self) -> int:
        """Threads that BLAS may use when nobody is inside."""
        with self._lock:
            now = self._before if self._inside else [library.threads() for library in _libraries()]
        return max(now, default=os.cpu_count() or 1)


class _Library(NamedTuple):
    """How many threads a BLAS may use, and what changes that."""

    threads: Callable[[], int]
    limit: Callable[[int], object]


@cache
def _libraries() -> list[_Library]:
    """The BLAS libraries of this process. Looking for them takes milliseconds, so it is done once."""
    import scipy.linalg  # noqa: F401  (brings a BLAS of its own)

    return [_library(one) for one in threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers]


def _library(controller: Any) -> _Library:
    """The functions of a library themselves, where we know them: around them threadpoolctl takes longer than a fit."""
    symbol: Any = getattr(controller, "_get_symbol", None)
    if symbol is not None and getattr(controller, "threading_layer", None) == "pthreads":
        threads, limit = symbol("openblas_get_num_threads"), symbol("openblas_set_num_threads")
        if threads is not None and limit is not None:
            return _Library(threads, limit)
    # Since version 3.8, threadpoolctl ignores limits on OpenBLAS from all threads but the first that set one. This
    # thread need not be that one, nor will the next.
    clear: Any = getattr(type(controller), "clear_controlling_thread", None)
    if clear is None:
        return _Library(controller.get_num_threads, controller.set_num_threads)

    def limit_and_clear(count: int) -> None:
        clear(force=True)
        controller.set_num_threads(count)
        clear(force=True)

    return _Library(controller.get_num_threads, limit_and_clear)


def _limit(counts: Sequence[int]) -> None:
    """Set the number of threads of each library."""
    for library, count in zip(_libraries(), counts, strict=True):
        library.limit(count)


# Keeps BLAS to one thread while any fit is inside: its own threads would compete with ours. The limit belongs to the
# process, so the first to enter sets it and the last to leave restores it.
one_blas_thread = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.after_fork)
