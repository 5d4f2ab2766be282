"""MPI: the laws of communication under mpirun, and what happens to a job whose ranks die, fail, or dawdle."""

import subprocess
import sys
from pathlib import Path

import pytest

from maxmargin.communicators import ClientLost, MpiCommunicator, launch_on_mpi
from maxmargin.communicators.mpi import TRY_AGAIN, mpirun

pytest.importorskip("mpi4py")
try:
    mpirun()
except FileNotFoundError as error:
    pytest.skip(str(error), allow_module_level=True)

CLIENT = str(Path(__file__).with_name("mpi_client.py"))
OPTIONS = ["--oversubscribe"]  # more ranks than cores, as everywhere in continuous integration


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Let mpirun work in a container, whose user is root."""
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def job(ranks, *arguments):
    command = [mpirun(), "-n", str(ranks), *OPTIONS, sys.executable, CLIENT, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=120)


def test_laws():
    done = job(4, "laws_twice")
    assert done.returncode == 0, done.stderr
    assert sorted(map(float, done.stdout.split())) == [600.0, 601.0, 602.0, 603.0]


def test_an_error_of_one_rank_ends_the_job():
    done = job(2, "failing")
    assert done.returncode == 1
    assert "ArithmeticError: one fails" in done.stderr


def test_a_late_rank_ends_the_job():
    done = job(2, "late")
    assert done.returncode == TRY_AGAIN
    assert "TimeoutError: Rank" in done.stderr
    assert "waited for the others for more than 0.5 seconds in one round" in done.stderr


def test_a_job_whose_rank_is_killed_ends_and_starts_again(tmp_path):
    path = tmp_path / "numbers"
    command = [sys.executable, CLIENT, "counting", str(path)]
    with pytest.warns(RuntimeWarning, match=r"Attempt 1 of 3 failed, .* ended with exit code 137"):  # not a timeout
        assert launch_on_mpi(command, 2, attempts=3, options=OPTIONS) == 0
    assert [int(number) for number in path.read_text().split()] == list(range(1, 21))


@pytest.mark.parametrize(("code", "lost"), [(0, False), (1, False), (3, False), (130, False), (75, True), (137, True)])
def test_which_exit_codes_mean_that_a_rank_was_lost(code, lost, monkeypatch):
    monkeypatch.setattr(subprocess, "call", lambda command: code)
    if lost:
        with pytest.raises(ClientLost, match=f"exit code {code}"):
            launch_on_mpi(["anything"], 2)
    else:
        assert launch_on_mpi(["anything"], 2) == code


def test_the_error_without_mpi4py_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match=r"pip install maxmargin\[mpi\]"):
        MpiCommunicator()
