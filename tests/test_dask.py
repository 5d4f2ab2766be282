"""Dask: the laws of communication on a cluster of processes, and what happens when workers die, fail, or dawdle."""

import asyncio
import sys

import numpy as np
import pytest

from faulty import Faulty, counting, failing, killed, late, laws_twice
from maxmargin.communicators import ClientLost, group_by_worker, run_on_dask, supervise
from maxmargin.communicators import dask as dask_engine
from maxmargin.communicators.dask import Meeting

distributed = pytest.importorskip("distributed")

WORKERS = 3


@pytest.fixture(scope="module")
def cluster():
    options = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "preload": ["bare"]}
    with (
        distributed.LocalCluster(n_workers=WORKERS, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def client(cluster):
    """The cluster with all its workers, which know the library: one that was killed comes back without it."""
    cluster.wait_for_workers(WORKERS, timeout=60)
    cluster.run(Faulty, None, None)
    return cluster


def address(communicator, shard):
    communicator.allreduce(np.zeros(1))
    return distributed.get_worker().address, shard


def test_laws(client):
    assert run_on_dask(client, laws_twice, [0, 1, 2]) == [450.0, 451.0, 452.0]


def test_data_stay_where_they_are(client):
    there = sorted(client.nthreads())
    chunks = [client.scatter(np.full(5, i), workers=[there[i % 2]], hash=False) for i in range(4)]
    groups = group_by_worker(client, chunks)
    assert {worker: [chunk.key for chunk in group] for worker, group in groups.items()} == {
        there[0]: [chunks[0].key, chunks[2].key],
        there[1]: [chunks[1].key, chunks[3].key],
    }
    for workers in (None, list(groups)):
        results = run_on_dask(client, address, list(groups.values()), workers=workers)
        assert [place for place, _ in results] == list(groups)
        assert [[chunk[0] for chunk in shard] for _, shard in results] == [[0, 2], [1, 3]]
    assert run_on_dask(client, address, [chunks[1], chunks[0]])[0][0] == there[1]
    assert all(len(holders) == 1 for holders in client.who_has(chunks).values())


def test_two_clients_do_not_share_a_thread(client):
    worker = sorted(client.nthreads())[:1]
    chunks = [client.scatter(np.full(5, i), workers=worker, hash=False) for i in range(WORKERS + 1)]
    places = [place for place, _ in run_on_dask(client, address, chunks[:WORKERS])]
    assert places[0] == worker[0]
    assert len(set(places)) == WORKERS
    with pytest.raises(ValueError, match=r"2 clients are to run on the Dask worker .*, which has 1 threads"):
        run_on_dask(client, address, chunks, timeout=0.1)


def test_an_error_of_one_client_stops_all(client):
    with pytest.raises(ArithmeticError, match="one fails"):
        run_on_dask(client, failing, [None] * WORKERS)
    assert not any(client.processing().values())  # the workers are free again
    assert [shard for _, shard in run_on_dask(client, address, ["a", "b"])] == ["a", "b"]


def test_arrays_that_do_not_fit_are_an_error(client):
    with pytest.raises(ValueError, match="shape"):
        run_on_dask(client, lambda communicator, shard: communicator.allgather(np.zeros(shard)), [1, 2])


def test_all_learn_of_a_late_client_itself_included(client, tmp_path):
    def program(communicator, folder):
        try:
            late(communicator, None)
        except TimeoutError as error:
            (folder / str(communicator.rank)).write_text(str(error))
            raise

    message = "Of 3 clients, number 1 did not come to round 6 within 2 seconds"
    with pytest.raises(TimeoutError, match=message):
        run_on_dask(client, program, [tmp_path] * WORKERS, timeout=2.0)
    assert [(tmp_path / str(rank)).read_text()[: len(message)] for rank in range(WORKERS)] == [message] * WORKERS


def test_the_loss_of_the_worker_where_the_clients_meet_is_noticed(client):
    with pytest.raises(ClientLost, match=r"Of 3 clients, number 0 was lost|where the clients meet"):
        run_on_dask(client, killed, [0] * WORKERS)


def test_a_run_whose_worker_is_killed_ends_and_starts_again(client, tmp_path):
    path = tmp_path / "numbers"
    with pytest.warns(RuntimeWarning, match="Attempt 1 of 3 failed, and the next one starts: Of 3 clients, number 1"):
        results = supervise(lambda: run_on_dask(client, counting, [path] * WORKERS), attempts=3)
    assert results == [False] * WORKERS
    assert [int(number) for number in path.read_text().split()] == list(range(1, 21))


def test_a_client_that_dask_starts_again_stops_all():
    async def meet():
        meeting = Meeting(2, timeout=10.0)
        first = await asyncio.gather(*(meeting.exchange(rank, 0, "allreduce", np.ones(1)) for rank in range(2)))
        second = await asyncio.gather(*(meeting.exchange(rank, 1 - rank, "allreduce", np.ones(1)) for rank in range(2)))
        return first, second

    first, second = asyncio.run(meet())
    assert [list(answer) for answer in first] == [["array"]] * 2
    assert [str(answer["error"]) for answer in second] == [
        "Client 1 was lost and started again while the others were at work."
    ] * 2


def test_without_a_cluster_there_is_one_for_the_time_being():
    ((place, shard),) = run_on_dask(None, address, ["a"])
    assert place.startswith("tcp://")
    assert shard == "a"


def test_the_error_without_dask_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install maxmargin\[dask\]"):
        run_on_dask(None, address, [0])


def test_memory_is_kept_for_the_next_array_while_a_client_works(monkeypatch):
    calls = []

    class Library:
        def __getattr__(self, name):
            return lambda *arguments: calls.append((name, *arguments))

    monkeypatch.setattr(dask_engine.ctypes, "CDLL", lambda name: Library())
    monkeypatch.setattr(dask_engine.sys, "platform", "linux")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    with dask_engine._memory_kept():
        pass
    assert calls == []  # nothing to be undone
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "65536")
    with dask_engine._memory_kept():
        assert [call[:2] for call in calls] == [("mallopt", -1), ("mallopt", -3)]
    assert calls[-2:] == [("mallopt", -1, 65536), ("malloc_trim", 0)]
