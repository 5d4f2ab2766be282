"""Distributed classifiers: the optimum of all rows, however these are spread, and on every engine the same."""

import json
import os
import subprocess
import sys
import threading
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning

import referee
from maxmargin import DistributedNuSVC, DistributedSVC, LinearSVC, NuSVC, Status, certify
from maxmargin.communicators import ClientLost, run_in_process
from maxmargin.communicators.agreement import Refused, allgather_texts, refused_together
from maxmargin.estimators._machinery.clients import Client
from maxmargin.io import DataFileError, load_model, open_shards, save_model, write_libsvm

IRIS, CODES = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[CODES]
clients = pytest.mark.parametrize("n_clients", [1, 2, 5])


def clouds(n=120, d=4, apart=1.5, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return rng.standard_normal((n, d)) + apart * rng.standard_normal((classes, d))[y], y


def machine(model, X, y, k, s):
    """The problem of class ``k`` against the rest, for the referee."""
    loss = ("hinge" if model.loss == "hinge" else "squared hinge", 1.0)
    kind = {"auto": "penalised"}.get(model.intercept, model.intercept)
    signs = np.where(y == model.classes_[k], 1.0, -1.0)
    return referee.Machine(signs, s, loss, ("l2", 1.0), X=X, intercept=kind, scale=float(model.intercept_scaling))


# The problem


@clients
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("intercept", ["auto", "free", None])
def test_it_is_the_optimum_of_all_rows(n_clients, loss, intercept):
    weights = np.random.default_rng(0).uniform(0.0, 2.0, CODES.size)
    model = DistributedSVC(loss, C=0.7, intercept=intercept, class_weight={1: 2.0}, tol=1e-7, n_clients=n_clients)
    model.fit(IRIS, CODES, sample_weight=weights)
    assert model.status_ is Status.CONVERGED
    s = 0.7 * weights * np.where(CODES == 1, 2.0, 1.0)
    for k in range(3):
        case = machine(model, IRIS, CODES, k, s)
        value, best = referee.primal(case, model.coef_[k], model.intercept_[k]), referee.reference_optimum(case)
        certificate = model.solutions_[k].certificate
        assert certificate.primal == pytest.approx(value, rel=1e-9)
        assert certificate.dual <= best * (1.0 + 1e-6)
        assert best * (1.0 - 1e-6) <= value <= best * (1.0 + 1e-6)


@clients
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array, np.float32])
@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
def test_it_is_the_model_of_linear_svc(n_clients, store, multi_class):
    X = store(IRIS)
    model = DistributedSVC(multi_class=multi_class, tol=1e-9, n_clients=n_clients).fit(X, NAMES)
    serial = LinearSVC(multi_class=multi_class, tol=1e-9).fit(X, NAMES)
    np.testing.assert_allclose(model.coef_, serial.coef_, atol=1e-8)
    np.testing.assert_allclose(model.decision_function(X), serial.decision_function(X), atol=1e-7)
    np.testing.assert_array_equal(model.predict(X), serial.predict(X))


@pytest.mark.parametrize("kind", [DistributedNuSVC(nu=0.4), DistributedSVC(C=np.inf)])
def test_a_client_of_saddle_needs_a_fifth_more_than_its_rows(kind):
    """2-28: all that two clients allocate at a time, beside the rows, of which some are left out on the way."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(400)
    X = rng.standard_normal((4000, 400))
    y = np.sign(X @ w)
    X += np.outer(y, w / np.linalg.norm(w))
    model = clone(kind).set_params(n_clients=2)
    model.fit(X, y)  # compiles
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert model.status_ is Status.CONVERGED
    assert peak <= 0.2 * X.nbytes
    with pytest.raises(ValueError, match=r"copied=2\.0 is a share of the rows"):
        kind.set_params(solver="saddle", solver_options={"copied": 2.0}).fit(X[:50], y[:50])


def test_a_star_finds_the_same_for_what_the_server_hears_and_says():
    """2-06: bit for bit; on a client's way there are as many numbers as it sends, and not three times as many."""
    for kind in (DistributedSVC, DistributedNuSVC):
        gathered, star = (kind(n_clients=3, topology=way).fit(IRIS, CODES) for way in ("gather", "star"))
        np.testing.assert_array_equal(star.coef_, gathered.coef_)
        assert star.solution_.certificate == gathered.solution_.certificate
        np.testing.assert_array_equal(star.traffic_["scalars"][1:], gathered.traffic_["scalars"][1:])
        assert (star.traffic_["received"][1:] < 0.6 * gathered.traffic_["received"][1:]).all()
        assert star.traffic_["received"][0] > 2.5 * star.traffic_["scalars"][1]


@pytest.mark.parametrize("order", [np.argsort(CODES, kind="stable"), np.argsort(IRIS[:, 2]), np.arange(150)[::-1]])
def test_rows_may_be_spread_in_any_way(order):
    model = DistributedSVC(class_weight="balanced", tol=1e-9, n_clients=4).fit(IRIS[order], CODES[order])
    serial = LinearSVC(class_weight="balanced", tol=1e-9).fit(IRIS, CODES)
    np.testing.assert_allclose(model.coef_, serial.coef_, atol=1e-8)


def test_there_may_be_more_clients_than_samples():
    X, y = np.array([[0.0], [1.0], [3.0]]), np.array([0, 0, 1])
    model = DistributedSVC(tol=1e-9, n_clients=5).fit(X, y)
    np.testing.assert_allclose(model.coef_, LinearSVC(tol=1e-9).fit(X, y).coef_, atol=1e-8)


@clients
@pytest.mark.parametrize("parameters", [{"nu": 0.3}, {"cap": 0.05}, {"nu": 0.4, "multi_class": "ovr"}])
def test_nu_svc(n_clients, parameters):
    X, y = clouds(n=60, classes=3)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, y.size)
    model = DistributedNuSVC(tol=1e-4, n_clients=n_clients, **parameters).fit(X, y, sample_weight=weights)
    serial = NuSVC(kernel="linear", tol=1e-8, **parameters).fit(X, y, sample_weight=weights)
    assert model.status_ is Status.CONVERGED
    np.testing.assert_allclose(model.nu_, serial.nu_, rtol=1e-12)
    assert model.nu_max_ == pytest.approx(serial.nu_max_, rel=1e-12)
    for ours, theirs in zip(model.solutions_, serial.solutions_, strict=True):
        assert ours.certificate.primal == pytest.approx(theirs.certificate.primal, rel=1.1e-4)
        assert ours.certificate.dual <= theirs.certificate.primal + 1e-9 * abs(theirs.certificate.primal)
    np.testing.assert_allclose(model.decision_function(X), serial.decision_function(X), atol=0.1)
    assert certify(model, X, y, weights).relative_gap <= 1.1e-4


@clients
def test_hard_margin(n_clients):
    X, y = clouds(apart=6.0, seed=2)
    model = DistributedSVC(C=np.inf, tol=1e-5, n_clients=n_clients).fit(X, y)
    margins = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
    assert margins.min() == pytest.approx(1.0, abs=1e-6)
    wide = LinearSVC(loss="hinge", intercept="free", C=1e5, tol=1e-6).fit(X, y)
    assert np.linalg.norm(model.coef_) == pytest.approx(np.linalg.norm(wide.coef_), rel=2e-5)
    assert certify(model, X, y).relative_gap <= 2e-5


@clients
def test_no_margin_is_proven(n_clients):
    X, y = clouds(apart=0.3)
    with pytest.warns(ConvergenceWarning, match="no margin between them.*Use a finite C"):
        model = DistributedSVC(C=np.inf, n_clients=n_clients).fit(X, y)
    assert model.status_ is Status.NOT_SEPARABLE


# What is sent


def test_every_client_sends_the_same_few_numbers():
    X, y = clouds(n=500, d=10)
    model = DistributedSVC(n_clients=4).fit(X, y)
    traffic = model.traffic_
    assert set(traffic["rounds"]) == {traffic["rounds"][0]}
    assert traffic["bytes"].max() <= 10_000 * model.n_iter_
    assert traffic["scalars"].max() < X.size / 2
    assert all(solution.point.alpha is None for solution in model.solutions_)


def test_threads_end():
    before = threading.active_count()
    DistributedSVC(n_clients=3).fit(IRIS, CODES)
    assert threading.active_count() == before


# What stops a fit


def test_limits_and_callbacks_keep_the_best_point():
    records = []
    model = DistributedSVC(tol=1e-12, callback=lambda record: records.append(record) or len(records) == 2, n_clients=3)
    with pytest.warns(ConvergenceWarning, match="Stopped by a callback"):
        model.fit(IRIS, CODES)
    assert model.status_ is Status.CALLBACK
    assert len(records) == 2
    assert np.isfinite(model.solution_.certificate.primal)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        assert DistributedSVC(tol=1e-12, max_iter=1, n_clients=2).fit(IRIS, CODES).status_ is Status.MAX_ITER


class OwnClocks:
    """A clock for each thread: they start far apart, and some run a thousand times as fast as others."""

    def __init__(self):
        self.threads, self.now = [], {}

    def __call__(self):
        name = threading.current_thread().name
        number = int(name.removeprefix("client ")) if name.startswith("client ") else 5
        self.now[name] = self.now.get(name, 1000.0 * number) + 1e-4 * 10.0 ** (number - 1)
        return self.now[name]


@pytest.mark.parametrize("parameters", [{}, {"loss": "hinge", "multi_class": "ovo"}, {"solver": "cocoa"}], ids=str)
def test_clients_whose_clocks_differ_stop_together(parameters, monkeypatch):
    X, y = clouds(n=150, classes=4, apart=1.0)
    outcomes = []

    def run(program, shards, timeout):
        outcomes.append(run_in_process(program, shards, timeout))
        return outcomes[-1]

    monkeypatch.setattr("maxmargin.estimators._machinery.engines.run_in_process", run)
    monkeypatch.setattr("time.perf_counter", OwnClocks())
    statuses = set()
    for max_time in (1e-9, 1e-4, 5e-4, 2e-3, 5e-3):
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            DistributedSVC(tol=1e-12, max_time=max_time, n_clients=5, **parameters).fit(X, y)
        said = {tuple((s.status, s.iterations, s.certificate) for s in one.solutions) for one in outcomes[-1]}
        assert len(said) == 1
        statuses |= {status for status, _, _ in said.pop()}
    assert Status.MAX_TIME in statuses


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"C": np.inf, "intercept": None}, "the hard margin, has a free intercept"),
        ({"C": -1.0}, "The 'C' parameter of DistributedSVC must be"),
        ({"engine": "ray"}, "The 'engine' parameter of DistributedSVC must be a str among"),
        ({"n_clients": 0}, "The 'n_clients' parameter"),
        ({"solver": "nonsense"}, "solver='nonsense' is unknown"),
        ({"class_weight": {0: -1.0}}, "class_weight must be finite and at least 0"),
    ],
)
def test_wrong_parameters_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        DistributedSVC(**({"n_clients": 2} | settings)).fit(IRIS, CODES)


def test_infeasible_nu_is_refused_with_its_bound():
    with pytest.raises(ValueError, match=r"nu must be at most 0\.6666666667"):
        DistributedNuSVC(nu=0.9, multi_class="ovr", n_clients=2).fit(IRIS, CODES)


def test_a_refused_fit_leaves_nothing_behind():
    model = DistributedSVC(n_clients=2)
    with pytest.raises(ValueError, match="class"):
        model.fit(IRIS, np.zeros(150))
    assert not hasattr(model, "classes_")


# Checkpoints


@pytest.mark.parametrize("model", [DistributedSVC(), DistributedNuSVC(0.3), DistributedSVC(C=np.inf)], ids=str)
def test_a_fit_goes_on_from_its_checkpoint(tmp_path, model):
    X, y = clouds(apart=6.0, seed=2)
    parameters = {"checkpoint": str(tmp_path / "state"), "checkpoint_every": 0.0, "n_clients": 2, "tol": 1e-5}
    model = clone(model).set_params(**parameters, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        model.fit(X, y)
    assert {path.name for path in tmp_path.iterdir()} >= {"state.0", "state.1"}
    resumed = clone(model).set_params(max_iter=-1).fit(X, y)
    assert resumed.duality_gap_ <= 1e-5
    assert not list(tmp_path.iterdir())
    fresh = clone(model).set_params(max_iter=-1, checkpoint=None).fit(X, y)
    if resumed.solution_.solver == "saddle":
        assert resumed.solution_.history[0].iterations == 2  # with all that it knew
    else:
        assert resumed.n_iter_ < fresh.n_iter_  # from its last point
    assert resumed.objective_ == pytest.approx(fresh.objective_, rel=1.1e-5)


def test_a_checkpoint_of_another_fit_is_refused(tmp_path):
    parameters = {"checkpoint": str(tmp_path / "state"), "tol": 1e-9, "max_iter": 1}
    X, y = clouds()
    with pytest.warns(ConvergenceWarning):
        DistributedSVC(n_clients=2, **parameters).fit(X, y)
    with pytest.raises(ValueError, match="is a checkpoint of another fit"):
        DistributedSVC(n_clients=3, **parameters).fit(X, y)


def test_a_lost_client_leads_to_another_attempt(monkeypatch):
    attempts = []

    def losing(program, shards, timeout):
        attempts.append(program.attempt)
        if len(attempts) < 3:
            raise ClientLost("One is gone.")
        return run_in_process(program, shards, timeout)

    monkeypatch.setattr("maxmargin.estimators._machinery.engines.run_in_process", losing)
    with pytest.raises(ClientLost, match="One is gone"):
        DistributedSVC(n_clients=2).fit(IRIS, CODES)
    with pytest.warns(RuntimeWarning, match="Attempt 1 of 4 failed"):
        DistributedSVC(n_clients=2, on_failure="restart").fit(IRIS, CODES)
    assert attempts == [1, 1, 2]


# Agreement


def test_texts_of_all_clients():
    words = ["", "häßlich", "b" * 1000]
    assert run_in_process(allgather_texts, words) == [words] * 3
    assert run_in_process(allgather_texts, ["", ""]) == [["", ""]] * 2


def test_what_one_client_is_refused_all_are():
    def program(communicator, shard):
        try:
            with refused_together(communicator):
                if shard:
                    raise ArithmeticError(shard)
        except Refused as refusal:
            return str(refusal)
        return "accepted"

    assert run_in_process(program, ["", "one fails", ""]) == ["one fails"] * 3
    assert run_in_process(program, ["", ""]) == ["accepted"] * 2


# Files


@pytest.fixture
def files(tmp_path):
    write_libsvm(tmp_path / "iris.svm", IRIS, CODES)
    np.save(tmp_path / "X.npy", IRIS)
    np.save(tmp_path / "y.npy", CODES)
    return tmp_path


@clients
def test_files_are_read_by_the_clients(files, n_clients):
    serial = LinearSVC(tol=1e-9).fit(IRIS, CODES)
    for data in (open_shards(files / "iris.svm"), open_shards(files / "X.npy", target=files / "y.npy")):
        model = DistributedSVC(tol=1e-9, n_clients=n_clients).fit(data)
        np.testing.assert_allclose(model.coef_, serial.coef_, atol=1e-8)
        assert model.shape_fit_ == (150, 4)


def test_labels_may_be_texts_and_columns_have_names(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({**{f"x{j}": IRIS[:, j] for j in range(4)}, "species": NAMES})
    pq.write_table(table, tmp_path / "iris.parquet", row_group_size=40)
    model = DistributedSVC(tol=1e-9, n_clients=3).fit(open_shards(tmp_path / "iris.parquet", target="species"))
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert model.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    np.testing.assert_allclose(model.coef_, LinearSVC(tol=1e-9).fit(IRIS, NAMES).coef_, atol=1e-8)


def test_clients_may_see_different_columns(tmp_path):
    (tmp_path / "wide.svm").write_text("1 1:1\n1 1:2\n-1 2:1\n-1 3:1 4:2\n")
    model = DistributedSVC(tol=1e-9, n_clients=4).fit(open_shards(tmp_path / "wide.svm"))
    assert model.n_features_in_ == 4
    X = np.array([[1, 0, 0, 0], [2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 2.0]])
    np.testing.assert_allclose(model.coef_, LinearSVC(tol=1e-9).fit(X, [1, 1, -1, -1]).coef_, atol=1e-8)


def test_a_bad_line_of_one_client_is_everybodys_error(tmp_path):
    (tmp_path / "bad.svm").write_text("1 1:1\n" * 30 + "-1 1:x\n" + "-1 1:2\n" * 9)
    with pytest.raises(ValueError, match=r"bad\.svm:31:6: "):
        DistributedSVC(n_clients=3).fit(open_shards(tmp_path / "bad.svm"))


def test_values_that_are_not_finite_are_refused(files):
    X = IRIS.copy()
    X[140, 2] = np.nan
    np.save(files / "X.npy", X)
    with pytest.raises(ValueError, match="contains NaN"):
        DistributedSVC(n_clients=3).fit(open_shards(files / "X.npy", target=files / "y.npy"))
    with pytest.raises(ValueError, match="pass neither y nor sample_weight"):
        DistributedSVC(n_clients=3).fit(open_shards(files / "iris.svm"), CODES)
    with pytest.raises(ValueError, match="needs targets y"):
        DistributedSVC(n_clients=3).fit(open_shards(files / "X.npy"))
    with pytest.raises(DataFileError, match="no such file"):
        open_shards(files / "none.svm")


def test_labels_of_different_kinds_are_refused():
    def program(communicator, shard):
        return str(Client(DistributedSVC())(communicator, shard))

    shards = [[(IRIS, CODES, None)], [(IRIS, NAMES, None)]]
    assert "Some clients have numbers for labels and others have texts" in run_in_process(program, shards)[0]
    shards = [[(IRIS, CODES, None)], [(IRIS[:, :3], CODES, None)]]
    assert "The clients have rows of 4, 3 columns" in run_in_process(program, shards)[1]


# Models


@pytest.mark.parametrize("model", [DistributedSVC(n_clients=2), DistributedNuSVC(nu=0.2, n_clients=2)], ids=str)
def test_models_are_saved_and_restored(tmp_path, model):
    save_model(model.fit(IRIS, NAMES), tmp_path / "model.mm")
    same = load_model(tmp_path / "model.mm")
    np.testing.assert_array_equal(same.decision_function(IRIS), model.decision_function(IRIS))
    assert same.duality_gap_ == model.duality_gap_
    np.testing.assert_array_equal(same.traffic_["rounds"], model.traffic_["rounds"])


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_certify_recomputes_the_gap(loss):
    model = DistributedSVC(loss, tol=1e-6, n_clients=3).fit(IRIS, CODES)
    assert certify(model, IRIS, CODES).relative_gap <= 1.1e-6
    model.coef_[1] *= 1.1
    assert certify(model, IRIS, CODES).relative_gap > 1e-3
    with pytest.raises(ValueError, match="150 samples, not 149"):
        certify(model, IRIS[1:], CODES[1:])


# Engines: the same certified model on all of them

SCRIPT = """
import json, sys
import numpy as np
from sklearn.datasets import load_iris
from maxmargin import DistributedSVC
from maxmargin.communicators.launcher import launched_rank
from maxmargin.io import open_shards

X, y = load_iris(return_X_y=True)
y = (y == 1).astype(int)
for data in ((X, y), (open_shards(sys.argv[1]),)):
    model = DistributedSVC(tol=1e-10).fit(*data)
    out = [launched_rank(), model.traffic_["rounds"].size, model.duality_gap_, model.coef_.tolist()]
    sys.stdout.write(json.dumps(out) + "\\n")
"""


@pytest.fixture
def two_classes(files):
    """A file, and the coefficients that threads find for it."""
    write_libsvm(files / "two.svm", IRIS, CODES == 1)
    return files / "two.svm", DistributedSVC(tol=1e-10, n_clients=4).fit(open_shards(files / "two.svm")).coef_


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
    return [command, "--oversubscribe", "-n", "4"]


def test_ranks_of_mpi_find_the_model_of_threads(two_classes, mpirun):
    path, expected = two_classes
    command = [*mpirun, sys.executable, "-c", SCRIPT, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=os.environ)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(line[0] for line in lines) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {line[1] for line in lines} == {4}
    for _, _, gap, coef in lines:
        assert gap <= 1e-10
        np.testing.assert_allclose(coef, expected, atol=1e-9)
    assert len({json.dumps(line[3]) for line in lines}) <= 2  # the same bits for all ranks, of each kind of data


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.mark.filterwarnings("default")
def test_workers_of_dask_find_the_model_of_threads(two_classes, cluster):
    da = pytest.importorskip("dask.array")
    path, expected = two_classes
    X, y = da.from_array(IRIS, chunks=(40, 2)), da.from_array((CODES == 1).astype(int), chunks=40)
    model = DistributedSVC(tol=1e-10).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected, atol=1e-9)
    assert model.traffic_["rounds"].size == 2
    np.testing.assert_array_equal(model.predict(X).compute(), model.predict(IRIS))
    np.testing.assert_array_equal(model.decision_function(X).compute(), model.decision_function(IRIS))
    weights = da.from_array(1.0 + CODES, chunks=40)
    weighted = DistributedSVC(tol=1e-10).fit(X, y, sample_weight=weights)
    serial = LinearSVC(tol=1e-10).fit(IRIS, CODES == 1, sample_weight=1.0 + CODES)
    np.testing.assert_allclose(weighted.coef_, serial.coef_, atol=1e-8)
    for data in ((IRIS, CODES == 1), (open_shards(path),)):
        sent = DistributedSVC(tol=1e-10, engine="dask").fit(*data)
        np.testing.assert_allclose(sent.coef_, expected, atol=1e-9)
    with pytest.raises(ValueError, match="4, 1, 4 chunks of rows; rechunk"):
        DistributedSVC().fit(X, y[:30])
    with pytest.raises(ValueError, match="y has 1 class"):
        DistributedSVC().fit(X, da.zeros(150, chunks=40))
    with pytest.raises(ValueError, match="engine='mpi' cannot read collections of Dask"):
        DistributedSVC(engine="mpi").fit(X, y)


@pytest.mark.filterwarnings("default")
def test_dask_dataframes(cluster):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    table = pd.DataFrame(IRIS, columns=list("pqrs")).assign(species=NAMES.astype(object))
    frame = dd.from_pandas(table, npartitions=3)
    model = DistributedSVC(tol=1e-10).fit(frame[list("pqrs")], frame["species"])
    assert model.feature_names_in_.tolist() == list("pqrs")
    np.testing.assert_allclose(model.coef_, LinearSVC(tol=1e-10).fit(IRIS, NAMES).coef_, atol=1e-8)
    np.testing.assert_array_equal(model.predict(frame[list("pqrs")]).compute(), model.predict(table[list("pqrs")]))
