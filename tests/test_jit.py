"""Compilation: the disk cache, edits, the plain-Python fallback, lazy imports, threads.

What happens at the first use of a process can only be seen in a new process, so most of these tests start one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import clocks
import maxmargin
from maxmargin import SVC, LinearSVC, _jit
from maxmargin._jit import cache, compiled_methods
from maxmargin.parts import losses

PACKAGE = Path(maxmargin.__file__).parent

DATA = """
import json, sys
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(30, 3))
y = (X[:, 0] + 0.5 * rng.normal(size=30) > 0.0).astype(int)
"""

FIT = DATA + "from maxmargin import LinearSVC\nmodel = LinearSVC(loss='hinge', tol=1e-9).fit(X, y)\n"


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    return X, (X[:, 0] + 0.5 * rng.normal(size=30) > 0.0).astype(int)


def run(code, **environment):
    """Run code in a new process, warnings being errors; what it printed last, as JSON."""
    settings = {"PYTHONDONTWRITEBYTECODE": "1", **environment}
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "PYTHONPATH", "COVERAGE"))}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**inherited, **{key: str(value) for key, value in settings.items()}},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout.splitlines()[-1])


def copy_of_the_package(folder):
    shutil.copytree(PACKAGE, folder / "maxmargin", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


STATISTICS = """
from maxmargin._jit import Compiled
hits = misses = 0
for name, module in sorted(sys.modules.items()):
    if name.startswith("maxmargin"):
        for loop in vars(module).values():
            if isinstance(loop, Compiled) and loop._dispatcher is not None and loop.__module__ == name:
                hits += sum(loop.dispatcher.stats.cache_hits.values())
                misses += sum(loop.dispatcher.stats.cache_misses.values())
print(json.dumps([hits, misses, model.objective_]))
"""


def test_a_missing_cache_folder_is_made_and_a_second_process_compiles_nothing(tmp_path):
    folder = tmp_path / "not" / "there" / "yet"
    _, misses, first = run(FIT + STATISTICS, NUMBA_CACHE_DIR=folder)
    assert misses > 0
    assert list(folder.rglob("*.nbi"))
    hits, misses, second = run(FIT + STATISTICS, NUMBA_CACHE_DIR=folder)
    assert hits > 0
    assert misses == 0
    assert second == first


def test_compile_leaves_nothing_to_a_first_fit(tmp_path):
    """What `maxmargin compile` makes serves other samples, in another process."""
    made = (
        "import json\nfrom maxmargin.cli.compiling import common_fits\n"
        "dict(common_fits())['LinearSVC(), two classes']()\nprint(json.dumps(0))"
    )
    used = DATA + "from maxmargin import LinearSVC\nmodel = LinearSVC(tol=1e-6).fit(X, y)\nmodel.predict(X)\n"
    places = {"NUMBA_CACHE_DIR": tmp_path, "PYTHONPATH": PACKAGE.parent}
    run(made, **places)
    hits, misses, _ = run(used + STATISTICS, **places)
    assert hits > 0
    assert misses == 0


def test_code_beside_sources_that_cannot_be_written_to_is_read(tmp_path):
    """As in a container that another user built; root can write anywhere, so numba is told that it cannot."""
    source = copy_of_the_package(tmp_path / "package")
    places = {"PYTHONPATH": source, "XDG_CACHE_HOME": tmp_path / "cache", "HOME": tmp_path}
    _, misses, first = run(FIT + STATISTICS, **places)
    assert misses > 0
    blocked = (
        "from numba.core import caching\ncaching.InTreeCacheLocator.from_function = classmethod(lambda *_: None)\n"
    )
    hits, misses, second = run(blocked + FIT + STATISTICS, **places)
    assert hits > 0
    assert (misses, second) == (0, first)
    assert not list((tmp_path / "cache").rglob("*.nbi"))


def test_an_edited_loss_is_not_stale(tmp_path, data):
    """Doubling the margin of the hinge is the problem with half the C, times four."""
    source = copy_of_the_package(tmp_path)
    code = FIT + "import maxmargin\nprint(json.dumps([model.objective_, maxmargin.__file__]))"
    environment = {"NUMBA_CACHE_DIR": tmp_path / "cache", "PYTHONPATH": source}
    before, file = run(code, **environment)
    assert Path(file).parent == source / "maxmargin"
    losses = source / "maxmargin" / "parts" / "losses.py"
    losses.write_text(losses.read_text().replace("self.margin", "2.0 * self.margin"))
    after, _ = run(code, **environment)
    assert before == pytest.approx(LinearSVC(loss="hinge", tol=1e-9).fit(*data).objective_, rel=1e-8)
    assert after == pytest.approx(4.0 * LinearSVC(loss="hinge", tol=1e-9, C=0.5).fit(*data).objective_, rel=1e-8)


def test_compiling_is_not_taken_from_max_time(tmp_path):
    code = DATA + (
        "from maxmargin import LinearSVC\n"
        "fits = [LinearSVC(max_time=0.2).fit(X, y).solution_ for _ in range(2)]\n"
        "print(json.dumps([[s.status.name, s.seconds, s.compiling, s.message] for s in fits]))\n"
    )
    first, second = run(code, NUMBA_CACHE_DIR=tmp_path)
    assert first[0] == second[0] == "CONVERGED"
    assert first[2] > 0.2  # or this would show nothing
    assert f"not counting {first[2]:.1f} s of compiling" in first[3]
    assert second[2] == 0.0
    assert "compiling" not in second[3]
    again, _ = run(code, NUMBA_CACHE_DIR=tmp_path)
    assert again[0] == "CONVERGED"
    assert again[2] > 0.0  # loading takes time, too


def test_compiling_is_counted_once(monkeypatch):
    """However many loops are nested, and however many threads wait for each other."""
    clock = clocks.Ticking(0.0)
    monkeypatch.setattr("time.perf_counter", clock)
    meter = _jit._Meter()
    clock.now = 3.0
    assert (meter.inside(), meter.outside()) == (0.0, 3.0)
    with meter:
        clock.now = 4.0
        with meter:
            clock.now = 6.0
            assert (meter.inside(), meter.outside()) == (3.0, 3.0)
        thread = threading.Thread(target=meter.__enter__)
        thread.start()
        thread.join()
        clock.now = 7.0
    clock.now = 8.0
    assert (meter.inside(), meter.outside()) == (5.0, 3.0)
    meter.__exit__(None, None, None)  # of the thread
    clock.now = 10.0
    assert (meter.inside(), meter.outside()) == (5.0, 5.0)


OUTSIDE_LOSS = """
from typing import NamedTuple
from maxmargin import _jit
from maxmargin._jit import compiled_methods
from maxmargin.parts import losses
from maxmargin.protocols import LossTraits

@compiled_methods
class Parabola(NamedTuple):
    unused: float = 0.0
    @property
    def traits(self) -> LossTraits:
        return LossTraits()
    def value(self, z: float, y: float) -> float:
        return CURVATURE / 2 * (z - y) ** 2
    def slope(self, z: float, y: float) -> float:
        return CURVATURE * (z - y)
    def conjugate(self, u: float, y: float) -> float:
        return u * y + u * u / (2 * CURVATURE)
    def dual_range(self, y: float) -> tuple[float, float]:
        return -float("inf"), float("inf")
    def dual_step(self, a: float, y: float, s: float, z: float, q: float) -> float:
        return (y - z + q * a) / (q + 1.0 / (CURVATURE * s))
"""


def test_an_edited_loss_of_another_package_is_not_stale(tmp_path, data):
    code = DATA + (
        "from outside import Parabola\n"
        "from maxmargin import Problem, minimize\n"
        "from maxmargin.operators import Rows\n"
        "from maxmargin.parts.penalties import L2\n"
        "from maxmargin.solvers import DualCoordinate\n"
        "problem = Problem(Rows(X), 2.0 * y - 1.0, Parabola(), L2(1.0), np.ones(30), None)\n"
        "print(json.dumps(minimize(problem, DualCoordinate(), tol=1e-9).certificate.primal))\n"
    )
    X, y = data[0], 2.0 * data[1] - 1.0
    for curvature in (1.0, 3.0):
        (tmp_path / "outside.py").write_text(OUTSIDE_LOSS.replace("CURVATURE", str(curvature)))
        w = np.linalg.solve(curvature * X.T @ X + np.eye(3), curvature * X.T @ y)
        expected = 0.5 * curvature * ((X @ w - y) ** 2).sum() + 0.5 * w @ w
        found = run(code, NUMBA_CACHE_DIR=tmp_path / "cache", PYTHONPATH=tmp_path)
        assert found == pytest.approx(expected, rel=1e-8)


def every_estimator():
    return {
        "rbf": SVC(tol=1e-8),
        "poly": SVC(kernel="poly", tol=1e-8),
        "linear": SVC(kernel="linear", tol=1e-8),
        "hinge": LinearSVC(loss="hinge", intercept="free", tol=1e-8),
        "squared hinge": LinearSVC(tol=1e-8),
    }


def test_plain_python_gives_the_same_answers_without_numba(data):
    code = DATA + (
        "from maxmargin import SVC, LinearSVC\n"
        "models = {'rbf': SVC(tol=1e-8), 'poly': SVC(kernel='poly', tol=1e-8),"
        " 'linear': SVC(kernel='linear', tol=1e-8), 'squared hinge': LinearSVC(tol=1e-8),"
        " 'hinge': LinearSVC(loss='hinge', intercept='free', tol=1e-8)}\n"
        "out = {k: [m.fit(X, y).objective_, m.duality_gap_, *m.decision_function(X)] for k, m in models.items()}\n"
        "print(json.dumps([out, 'numba' in sys.modules]))\n"
    )
    plain, numba_was_imported = run(code, NUMBA_DISABLE_JIT=1)
    assert not numba_was_imported
    X, y = data
    for name, model in every_estimator().items():
        objective, gap, *scores = plain[name]
        model.fit(X, y)
        assert gap <= 1e-8
        assert objective == pytest.approx(model.objective_, rel=1e-9)
        np.testing.assert_allclose(scores, model.decision_function(X), atol=1e-4)


def test_import_is_lazy():
    """scikit-learn 1.9 imports rich by itself; what counts is what comes on top of it."""
    heavy = {"numba", "llvmlite", "rich", "pandas", "polars"}
    code = (
        "import json, sys, sklearn.svm; before = set(sys.modules); import maxmargin.estimators\n"
        f"print(json.dumps(sorted({heavy} & (set(sys.modules) - before))))"
    )
    assert run(code) == []


def test_works_where_nothing_can_be_written(tmp_path, data):
    """A file where each candidate folder of the cache would be: not even root can write there."""
    source = copy_of_the_package(tmp_path)
    for folder in [source / "maxmargin", *(p for p in (source / "maxmargin").rglob("*") if p.is_dir())]:
        (folder / "__pycache__").write_text("")
    blocked = tmp_path / "file"
    blocked.write_text("")
    objective, file = run(
        FIT + "import maxmargin\nprint(json.dumps([model.objective_, maxmargin.__file__]))",
        PYTHONPATH=source,
        NUMBA_CACHE_DIR=blocked / "cache",
        XDG_CACHE_HOME=blocked / "cache",
        HOME=blocked,
    )
    assert Path(file).parent == source / "maxmargin"
    assert objective == pytest.approx(LinearSVC(loss="hinge", tol=1e-9).fit(*data).objective_, rel=1e-8)
    assert not list(tmp_path.rglob("*.nbi"))


def test_first_use_from_eight_threads(tmp_path, data):
    code = DATA + (
        "import threading\n"
        "from maxmargin import SVC, LinearSVC\n"
        "start, out = threading.Barrier(8), [None] * 8\n"
        "def work(k):\n"
        "    model = SVC(tol=1e-8) if k % 2 else LinearSVC(tol=1e-8)\n"
        "    start.wait()\n"
        "    out[k] = model.fit(X, y).decision_function(X).tolist()\n"
        "threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]\n"
        "[t.start() for t in threads]\n"
        "[t.join() for t in threads]\n"
        "print(json.dumps(out))\n"
    )
    found = run(code, NUMBA_CACHE_DIR=tmp_path)
    X, y = data
    for k, scores in enumerate(found):
        model = SVC(tol=1e-8) if k % 2 else LinearSVC(tol=1e-8)
        assert scores == model.fit(X, y).decision_function(X).tolist()


def test_a_class_without_fields_is_refused():
    with pytest.raises(TypeError, match="Empty must be a NamedTuple with at least one field"):

        @compiled_methods
        class Empty(NamedTuple):
            pass


def test_a_class_that_is_no_named_tuple_is_refused():
    with pytest.raises(TypeError, match="must be a NamedTuple"):

        @compiled_methods
        class Plain:
            x = 1.0


def test_a_method_name_with_other_parameters_is_refused():
    message = "Odd.value takes (self, z), but compiled methods called 'value' take (self, z, y) everywhere"
    with pytest.raises(TypeError, match=re.escape(message)):

        @compiled_methods
        class Odd(NamedTuple):
            x: float = 1.0

            def value(self, z: float) -> float:
                return self.x


def test_processes_that_compile_at_once_never_run_each_others_code(tmp_path, monkeypatch):
    """One process compiles while another, which read the index before, is about to write its code.

    Numba itself would give both files the number 1, and the code that is written last would serve for both.
    """
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path))
    one, other = (cache.cache_class()(losses._sigmoid.function)._cache_file for _ in range(2))
    stale, write = other._load_index(), one._save_data

    def write_late(name, data):
        other.save("huber hinge", "code of the huber hinge")
        write(name, data)

    monkeypatch.setattr(other, "_load_index", lambda: dict(stale))
    monkeypatch.setattr(one, "_save_data", write_late)
    one.save("hinge", "code of the hinge")
    assert one.load("huber hinge") in (None, "code of the huber hinge")
    assert one.load("hinge") in (None, "code of the hinge")


def test_a_loop_is_compiled_again_after_edits_of_what_it_can_reach_only():
    def reached(module):
        files = set()
        cache._reach(f"maxmargin.{module}", files)
        return {file.stem for file in files if file.parent.name != "_jit"}

    assert reached("operators.vectors") == {"vectors", "protocols"}
    assert {"block_smo", "block_loops", "box_qp", "losses", "kernels", "gram"} <= reached("solvers.kernels.block_smo")
    assert reached("solvers.kernels.block_smo").isdisjoint({"pegasos", "saddle", "minimize", "svc"})
