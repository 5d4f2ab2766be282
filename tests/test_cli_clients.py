"""``maxmargin train`` by several clients: the same command line, the same certified model, on every engine."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris

from maxmargin import DistributedSVC
from maxmargin.cli import main
from maxmargin.communicators import launcher
from maxmargin.io import load_model, write_libsvm

IRIS, CODES = load_iris(return_X_y=True)
OPTIONS = ["--linear", "--tol", "1e-10"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in a directory with data."""
    monkeypatch.chdir(tmp_path)
    write_libsvm("iris.svm", IRIS, np.where(CODES == 1, 1, -1))

    def run_command(*words):
        capsys.readouterr()
        code = main(list(map(str, words)))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run_command


@pytest.fixture
def serial(run):
    code, _, _ = run("train", "iris.svm", "serial.mm", *OPTIONS)
    assert code == 0
    return load_model("serial.mm")


def assert_same(path, serial):
    model = load_model(path)
    assert isinstance(model, DistributedSVC)
    assert model.duality_gap_ <= 1e-10
    assert model.classes_.tolist() == [-1, 1]
    assert model.classes_.dtype == np.int64
    np.testing.assert_allclose(model.coef_, serial.coef_, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, serial.intercept_, atol=1e-9)


def test_threads(run, serial):
    code, out, _ = run("train", "iris.svm", "model.mm", *OPTIONS, "--engine", "in_process", "--clients", 3)
    assert code == 0
    assert "DistributedSVC: 150 samples, 4 features, 2 classes" in out
    assert "3 clients: " in out
    assert "support" not in out
    assert_same("model.mm", serial)
    assert run("certify", "iris.svm", "model.mm")[0] == 0
    code, out, err = run("predict", "iris.svm", "model.mm")
    assert (code, len(out.splitlines())) == (0, 150)
    assert "Accuracy" in err


def test_report_for_machines(run):
    code, out, _ = run("train", "iris.svm", "--json", *OPTIONS, "--clients", 2)
    report = json.loads(out)
    assert (code, report["class"], report["clients"], report["n_samples"]) == (0, "DistributedSVC", 2, 150)
    assert report["traffic"]["rounds"] > 0
    assert "support_vectors" not in report


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--engine", "in_process"], "--engine is for linear scores, since kernels need all samples at hand"),
        (["--linear", "--clients", "2", "--stream"], "--stream has no effect with --clients"),
        (
            ["--linear", "--scheduler", "tcp://here:1"],
            "--scheduler is the address of a Dask cluster; add --engine dask",
        ),
        (["--linear", "--clients", "2", "--format", "csv"], "Clients do not read CSV files"),
        (["--linear", "--clients", "0"], "parameter of DistributedSVC must be an int"),
        (["--linear", "--clients", "2", "--features", "2"], "the last for --features 2; pass a larger --features."),
        (["--linear", "--clients", "2", "--target", "y"], "whose labels come first in each line; remove --target"),
    ],
)
def test_wrong_usage(run, words, message):
    code, _, err = run("train", "iris.svm", *words)
    assert code == 2
    assert message in err


def test_not_converged_still_writes_the_model(run):
    code, _, err = run("train", "iris.svm", "model.mm", *OPTIONS, "--max-iter", 1, "--clients", 2)
    assert code == 1
    assert "Stopped at the iteration limit" in err
    assert load_model("model.mm").n_iter_ == 1


def test_what_launchers_tell(monkeypatch):
    for name in (*launcher.NUMBERS_OF_RANKS, *launcher.RANKS):
        monkeypatch.delenv(name, raising=False)
    assert not launcher.under_mpirun()
    assert launcher.launched_rank() == 0
    monkeypatch.setenv("PMIX_RANK", "3")
    assert launcher.under_mpirun()
    assert launcher.launched_rank() == 3
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    assert not launcher.under_mpirun()


@pytest.fixture
def mpirun(monkeypatch):
    """The command that starts ranks, more of them than cores and in a container whose user is root."""
    pytest.importorskip("mpi4py")
    from maxmargin.communicators.mpi import mpirun

    try:
        command = mpirun()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMP_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    return [command, "--oversubscribe", "-n", "2", sys.executable, "-m", "maxmargin"]


def test_the_ranks_of_mpirun_write_one_model_and_one_report(run, serial, mpirun):
    done = subprocess.run(
        [*mpirun, "train", "iris.svm", "model.mm", *OPTIONS],
        capture_output=True,
        text=True,
        timeout=200,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Model written to model.mm") == 1
    assert "2 clients: " in done.stdout
    assert_same("model.mm", serial)


def test_an_error_of_all_ranks_is_said_once(run, mpirun):
    done = subprocess.run([*mpirun, "train", "none.svm", "--linear"], capture_output=True, text=True, timeout=200)
    assert done.returncode == 2
    assert done.stderr.count("maxmargin: error: none.svm: There is no such file; check the path.") == 1


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster(run, serial):
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster:
        address = cluster.scheduler_address
        code, out, err = run(
            "train", "iris.svm", "model.mm", *OPTIONS, "--engine", "dask", "--scheduler", address, "--clients", 2
        )
    assert code == 0, err
    assert "2 clients: " in out
    assert_same("model.mm", serial)
