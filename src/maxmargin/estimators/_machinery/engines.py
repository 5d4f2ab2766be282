"""Which engine runs a distributed fit, and how each of them is started."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.communicators import group_by_worker, run_in_process, run_on_dask, run_on_mpi, supervise
from maxmargin.communicators.agreement import Refused
from maxmargin.communicators.launcher import under_mpirun
from maxmargin.estimators._machinery.clients import Block, Client, Outcome, Shard
from maxmargin.loop.interrupts import Interrupts
from maxmargin.operators import MatrixLike
from maxmargin.protocols import Array
from maxmargin.threads import available_threads

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.distributed import DistributedMachine

ATTEMPTS = 4  # with on_failure="restart"

Shards = Callable[[int, int], Shard]  # the shard of a rank, given its number and how many there are


def is_dask(X: object) -> bool:
    """Whether ``X`` is a collection of Dask."""
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def engine_for(estimator: DistributedMachine, X: object) -> str:
    """The engine that a fit runs on."""
    if is_dask(X) and estimator.engine not in {"auto", "dask"}:
        raise ValueError(
            f"engine={estimator.engine!r} cannot read collections of Dask, whose chunks lie in its workers; leave "
            f"engine at its default, or pass arrays."
        )
    if estimator.engine != "auto":
        return str(estimator.engine)
    if is_dask(X):
        return "dask"
    return "mpi" if under_mpirun() else "in_process"


def run(estimator: DistributedMachine, engine: str, shard_of: Shards) -> Outcome:
    """What the clients of an engine find for shards that this process can hand out."""
    ways: dict[str, Callable[[DistributedMachine, Client, Shards], Outcome | Refused]] = {
        "in_process": _in_threads,
        "mpi": _on_ranks,
        "dask": _on_workers,
    }
    return _outcome(estimator, lambda program: ways[engine](estimator, program, shard_of))


def run_on_chunks(estimator: DistributedMachine, X: Any, y: Any, sample_weight: Any) -> Outcome:
    """The same for the chunks of a Dask collection, which stay in their workers."""

    def on_chunks(program: Client) -> Outcome | Refused:
        from distributed import get_client

        client = get_client()
        groups = group_by_worker(client, client.compute(_blocks(X, y, sample_weight)))
        workers, shards = list(groups), list(groups.values())
        return run_on_dask(client, program, shards, workers=workers, timeout=estimator.round_timeout)[0]

    return _outcome(estimator, on_chunks)


def _outcome(estimator: DistributedMachine, run: Callable[[Client], Outcome | Refused]) -> Outcome:
    numbers = count(1)
    attempts = ATTEMPTS if estimator.on_failure == "restart" else 1
    outcome = supervise(lambda: run(Client(estimator, next(numbers))), attempts=attempts)
    if isinstance(outcome, Refused):
        raise ValueError(*outcome.args) from None
    return outcome


def number_of_clients(estimator: DistributedMachine) -> int:
    """As far as it is known without an engine."""
    return int(estimator.n_clients or available_threads())


def _in_threads(estimator: DistributedMachine, program: Client, shard_of: Shards) -> Outcome | Refused:
    size = number_of_clients(estimator)
    shards = [shard_of(rank, size) for rank in range(size)]
    with Interrupts() as program.interrupts:  # signals reach the main thread, which is not one of the clients
        return run_in_process(program, shards, timeout=estimator.round_timeout)[0]


def _on_ranks(estimator: DistributedMachine, program: Client, shard_of: Shards) -> Outcome | Refused:
    return run_on_mpi(program, shard_of, timeout=estimator.round_timeout)


def _on_workers(estimator: DistributedMachine, program: Client, shard_of: Shards) -> Outcome | Refused:
    """Clients on the current cluster, or on one of this machine for the time of the fit."""
    client = current_client()
    size = number_of_clients(estimator) if client is None else estimator.n_clients or len(client.nthreads())
    shards = [shard_of(rank, size) for rank in range(size)]
    return run_on_dask(client, program, shards, timeout=estimator.round_timeout)[0]


def current_client() -> Any:
    """The Dask client that was made last, if there is one."""
    try:
        from distributed import get_client
    except ImportError:  # whoever needs it says so
        return None
    try:
        return get_client()
    except ValueError:
        return None


def by_chunks(method: Callable[[MatrixLike], Array], X: Any, empty: Array) -> Any:
    """What a method gives for the rows of each chunk, as a Dask array; ``empty`` is what it gives for no rows."""
    if not hasattr(X, "map_blocks"):
        return X.map_partitions(method, meta=empty)
    X = X.rechunk({1: -1})
    if empty.ndim == 1:
        return X.map_blocks(method, dtype=empty.dtype, drop_axis=1, meta=empty)
    return X.map_blocks(method, dtype=empty.dtype, chunks=(X.chunks[0], (empty.shape[1],)), meta=empty)


def _blocks(X: Any, y: Any, sample_weight: Any) -> list[Any]:
    """Rows, targets and weights of each chunk, as tasks."""
    from dask import delayed

    if hasattr(X, "rechunk") and X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    parts = [_parts(X), _parts(y), _parts(sample_weight)]
    parts[2] = parts[2] or [None] * len(parts[0])
    if len({len(part) for part in parts}) > 1:
        counts = ", ".join(str(len(part)) for part in parts)
        raise ValueError(f"X, y and sample_weight have {counts} chunks of rows; rechunk them to the same rows.")
    return [delayed(block)(*three) for three in zip(*parts, strict=True)]


def _parts(collection: Any) -> list[Any]:
    return [] if collection is None else np.ravel(np.asarray(collection.to_delayed(), dtype=object)).tolist()


def block(X: MatrixLike, y: ArrayLike, weights: ArrayLike | None) -> Block:
    """One chunk of rows with what belongs to it; called by a worker."""
    return (X.to_numpy() if hasattr(X, "to_numpy") else X), np.asarray(y), weights
