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
from maxmargin._jit import PLAIN, compiled
from maxmargin._jit.interrupts import between_steps, held_back
from maxmargin.io import open_chunks, write_libsvm
from maxmargin.threads import GivenUp, Workers

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


INTERRUPTED = """
import signal, sys
from maxmargin.cli import main

class PressCtrlC:
    def find_spec(self, name, *_):
        if name == pressed_at:
            signal.raise_signal(signal.SIGINT)

pressed_at = sys.argv.pop(1)
sys.meta_path.insert(0, PressCtrlC())
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["numpy.linalg", "maxmargin.cli.compiling"])
def test_ctrl_c_while_modules_are_imported(module, tmp_path):
    """It was a traceback, and the exit code -2."""
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    end = subprocess.run(
        [sys.executable, str(script), module, "train", "x"], capture_output=True, text=True, cwd=tmp_path
    )
    assert (end.returncode, end.stdout) == (130, "")
    assert end.stderr == "maxmargin: interrupted; nothing was written.\n"


def test_ctrl_c_waits_for_the_end_of_a_step_of_the_compiler():
    """LLVM calls functions of Python, which print exceptions and forget them: the fit went on for a minute."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with held_back:
            with held_back:
                signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                held_back.look()
            held_back.look()  # once is enough
        with pytest.raises(KeyboardInterrupt), held_back:
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with held_back:
            signal.raise_signal(signal.SIGINT)
            held_back.look()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, handler)


@pytest.mark.skipif(PLAIN, reason="nothing is compiled")
def test_a_compilation_that_is_given_up_can_be_made_again():
    @compiled
    def add(x, y):
        return x + y

    for problem in (GivenUp, KeyboardInterrupt):

        def end(problem=problem):
            raise problem

        between_steps.append(end)
        try:
            with pytest.raises(problem):
                add(1.0, 2.0)
        finally:
            between_steps.remove(end)
    assert add(1.0, 2.0) == 3.0
