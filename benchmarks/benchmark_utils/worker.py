"""A child process that runs one solver at one setting on one set of data, and can be killed in the middle of a fit."""

from __future__ import annotations

import gc
import multiprocessing
import os
import re
import sys
import time
import warnings
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmark_utils import data
from benchmark_utils.peer import Answer, folder_of, make
from benchmark_utils.workloads import Task

START_LIMIT = 300.0  # seconds for imports, compilation and a fit of a few rows
WARM_UP_SECONDS = 30.0  # for libraries that can stop themselves
REST = 0.2  # seconds before a fit: idle threads of the solver before it spin for up to 0.1 s (OpenBLAS)
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "DAAL_NUM_THREADS",
)


@dataclass(frozen=True)
class Job:
    """What a child runs."""

    stem: str  # of the solver's file
    parameters: dict[str, Any]
    directory: Path  # of the arrays
    task: Task
    threads: int
    tame: bool = False  # whether to warm up on harmless data instead of some of the rows


@dataclass(frozen=True)
class Trial:
    """One fit: its wall and processor seconds and its answer, or why there is none."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    answer: Answer | None = None
    failure: str = ""
    memory: float = 0.0  # peak of the child's memory in bytes, with the data and the libraries


class Worker:
    """A handle on the child; starts it when it is needed, also after it was killed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.compile_seconds = 0.0  # of the first child
        self._process: Any = None
        self._connection: Any = None

    def fit(self, tol: float, timeout: float, time_limit: float | None = None) -> Trial:
        """A fresh fit, killed after ``timeout`` seconds."""
        failure = self._start()
        if failure:
            return Trial(failure=failure)
        time.sleep(REST)
        self._connection.send((tol, time_limit))
        return self._receive(timeout)

    def stop(self) -> None:
        """End the child, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def _start(self) -> str:
        if self._process is not None:
            return ""
        context = multiprocessing.get_context("spawn")
        self._connection, other_end = context.Pipe()
        self._process = context.Process(target=_serve, args=(other_end, self.job), daemon=True)
        self._process.start()
        other_end.close()
        ready = self._receive(START_LIMIT)
        self.compile_seconds = self.compile_seconds or ready.seconds
        return ready.failure

    def _receive(self, timeout: float) -> Trial:
        try:
            if self._connection.poll(timeout):
                return self._connection.recv()
            self.stop()
            return Trial(seconds=timeout, failure="timeout")
        except (EOFError, ConnectionError):
            self._process.join()
            code = self._process.exitcode
            self.stop()
            return Trial(failure=f"the process died with exit code {code}")


def fix_threads(threads: int) -> None:
    """Sets: the environment of this process, which children inherit before they load any library."""
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))


def _serve(connection: Connection, job: Job) -> None:
    _silence()
    _restrict(job.threads)
    try:
        peer = make(job.stem, job.parameters)
        peer.threads, peer.time_limit = job.threads, WARM_UP_SECONDS
        sys.path.insert(0, str(folder_of(peer.distribution)))
        X, y = data.load(job.directory)
        few = data.tame_rows(X, y) if job.tame else data.few_rows(X, y)
        easy = replace(job.task, C=1.0) if job.tame else job.task
        if job.task.family == "predict":
            peer.prepare(*few, job.task)
        first, second = (_timed(peer, *few, easy, 1e-3) for _ in range(2))
        if job.task.family == "predict":
            peer.prepare(X, y, job.task)
        connection.send(Trial(seconds=max(0.0, first.seconds - second.seconds), failure=second.failure))
        while True:
            tol, peer.time_limit = connection.recv()
            connection.send(_timed(peer, X, y, job.task, tol))
    except EOFError:  # the parent is gone
        return
    except Exception as error:
        connection.send(Trial(failure=f"{type(error).__name__}: {error}"))


def _timed(peer: Any, X: Any, y: Any, task: Task, tol: float) -> Trial:
    gc.collect()
    began, cpu_began = time.perf_counter(), time.process_time()
    try:
        answer = peer.fit(X, y, task, tol)
    except Exception as error:
        return Trial(failure=f"{type(error).__name__}: {error}")
    return Trial(time.perf_counter() - began, time.process_time() - cpu_began, answer, memory=_peak_memory())


def _peak_memory() -> float:
    """Bytes. Linux counts the parent's memory into a child's ``ru_maxrss``, hence its own file first."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text()) if status.exists() else None
    if found:
        return 1024.0 * int(found.group(1))
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak if sys.platform == "darwin" else 1024 * peak)


def _silence() -> None:
    """Peers print from C as well, which only the file descriptors can stop."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    warnings.simplefilter("ignore")


def _restrict(threads: int) -> None:
    """Some runtimes (oneTBB) read no environment variable but respect the processors that they may use."""
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:threads])
