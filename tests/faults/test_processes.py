"""What other processes and threads do to a fit: forks, kills, damaged caches of compiled loops."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from maxmargin import SVC, LinearSVC
from maxmargin._jit import PLAIN
from maxmargin.io import open_chunks, write_libsvm
from maxmargin.threads import Workers

ON_FORK = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
PATIENCE = 120.0  # seconds: nothing waits so long that does not hang


def child_ends_well(work):
    """Run ``work`` in a forked child, and tell whether it came to its end without an error."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        threading.Event().wait(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


@ON_FORK
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_workers_work_in_a_child():
    """The threads of the parent do not exist there, and waiting for them hung."""
    workers, done = Workers(3), []
    workers.run(lambda pieces: done.extend(pieces), range(50))

    def work():
        again = []
        workers.run(lambda pieces: again.extend(pieces), range(50))
        assert sorted(again) == list(range(50))

    assert child_ends_well(work)


@ON_FORK
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_of_a_threaded_fit_can_fit():
    """Forked by a callback, in the middle, and by another thread."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + 0.3 * rng.normal(size=300) > 0.0
    LinearSVC().fit(X, y)  # compiles
    ends = []

    def fork(record):
        if not ends:
            ends.append(child_ends_well(lambda: LinearSVC(n_jobs=2).fit(X, y).predict(X)))

    model = SVC(n_jobs=2, callback=fork, solver="decomposition").fit(X, y)
    assert ends == [True]
    assert model.duality_gap_ <= model.tol

    stop = threading.Event()

    def fits():
        while not stop.is_set():
            LinearSVC(n_jobs=2, solver="newton").fit(X, y)

    thread = threading.Thread(target=fits)
    thread.start()
    try:
        assert all(child_ends_well(lambda: LinearSVC(n_jobs=2).fit(X, y)) for _ in range(3))
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(sys.platform == "win32", reason="files in use have names there")
def test_the_binary_copy_of_a_stream_has_no_name(tmp_path):
    """It was left behind by a process that got SIGTERM."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    write_libsvm(tmp_path / "data.svm", X, np.sign(X[:, 0]))
    copies = tmp_path / "copies"
    copies.mkdir()
    with open_chunks(tmp_path / "data.svm", memory=4000, directory=copies) as data:
        assert not list(copies.iterdir())
        rows = np.vstack([chunk.toarray() for chunk in data.X.chunks()])
        np.testing.assert_array_equal(rows, X)


LOOP = """
import numpy as np, warnings
from maxmargin._jit import compiled

@compiled
def total(x):
    s = 0.0
    for value in x:
        s += value
    return s

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print(total(np.arange(5.0)), sum("cache of compiled loops" in str(w.message) for w in caught))
"""


@pytest.mark.skipif(PLAIN, reason="nothing is compiled")
def test_any_fault_of_the_cache_costs_a_compilation_and_one_warning(tmp_path):
    """An empty index, which a power failure leaves, was an EOFError at the next fit."""
    script, cache = tmp_path / "script.py", tmp_path / "cache"
    script.write_text(LOOP)

    def run():
        environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
        end = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=200
        )
        assert end.returncode == 0, end.stderr
        return end.stdout.split()

    def files(suffix):
        return [path for path in cache.rglob(f"*{suffix}") if "total" in path.name]

    assert run() == ["10.0", "0"]
    (index,), (code,) = files(".nbi"), files(".nbc")
    whole = code.read_bytes()
    for path, content in (
        (index, b""),
        (index, index.read_bytes()[:30]),
        (code, b""),
        (code, whole[: len(whole) // 2]),
        (code, whole[:200] + bytes([whole[200] ^ 64]) + whole[201:]),
    ):
        path.write_bytes(content)
        assert run() == ["10.0", "1"]  # compiled anew
        assert run() == ["10.0", "0"]  # and mended


@pytest.mark.skipif(PLAIN, reason="nothing is compiled")
def test_a_cache_without_room_costs_one_warning(tmp_path):
    script = tmp_path / "script.py"
    full = """
import os, numba.core.caching as caching
def full(self, name, data):
    raise OSError(28, "No space left on device")
caching.IndexDataCacheFile._save_index = lambda self, overloads: full(self, None, None)
"""
    script.write_text(full + LOOP)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    end = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=200)
    assert end.stdout.split() == ["10.0", "1"], end.stderr
    assert not list(Path(tmp_path).rglob("*.tmp*"))
