"""Data that memory does not hold: algebra, sources, equal optima, bounded memory, and what is refused."""

import gc
import signal
import tracemalloc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC as TheirSVC

import maxmargin
import referee
from maxmargin import SVC, LinearSVC, LinearSVR, LogisticRegression, SGDClassifier, SGDRegressor, Status
from maxmargin.io import DataFileError, open_chunks, write_libsvm
from maxmargin.operators import ChunkedMatrix, Chunks, Columns, KernelGram, Rows
from maxmargin.parts.kernels import Linear
from maxmargin.parts.losses import Hinge, Squared, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Features
from maxmargin.solvers import SOLVERS

RNG = np.random.default_rng(0)
N, D = 600, 6
X = RNG.normal(size=(N, D)) * (RNG.random((N, D)) < 0.6)
Y = np.where(X @ RNG.normal(size=D) + 0.7 * RNG.normal(size=N) > 0.2, 1.0, -1.0)


def chunked(X, sizes, **options):
    """A matrix in chunks of given sizes."""
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    entries = X.nnz if sp.issparse(X) else X.size
    return ChunkedMatrix(lambda k: X[bounds[k] : bounds[k + 1]], sizes, X.shape[1], X.dtype, entries, **options)


def write_npy(folder):
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", Y)
    return open_chunks(folder / "X.npy", target=folder / "y.npy", memory=2**13)


def write_npy_parts(folder):
    (folder / "parts").mkdir()
    np.save(folder / "parts" / "0.npy", X[:100])
    np.save(folder / "parts" / "1.npy", np.asfortranarray(X[100:]))
    return open_chunks(folder / "parts", target=Y, memory=2**13)


def map_memory(folder):
    np.save(folder / "X.npy", X)
    return open_chunks(np.load(folder / "X.npy", mmap_mode="r"), target=Y, memory=2**13)


def write_npz(folder):
    for k, part in enumerate(np.array_split(X, 5)):
        sp.save_npz(folder / f"{k}.npz", sp.csr_array(part), compressed=k % 2 == 0)
    return open_chunks(sorted(folder.iterdir()), target=Y, memory=2**15)


def keep_sparse(folder):
    return open_chunks([sp.csr_array(X[:250]), sp.csr_matrix(X[250:251]), sp.coo_array(X[251:])], target=list(Y))


def write_text(folder):
    write_libsvm(folder / "data.svm", X, Y)
    return open_chunks(folder / "data.svm", memory=2**14, directory=folder)


def write_archive(folder):
    write_libsvm(folder / "data.txt.xz", X, Y)
    return open_chunks(str(folder / "data.txt.xz"), memory=2**14)


def write_parquet(folder):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"x{j}": X[:, j] for j in range(D)}
    parquet.write_table(pyarrow.table({"label": Y, **columns}), folder / "data.parquet", row_group_size=70)
    return open_chunks(folder / "data.parquet", target="label", memory=2**15)


SOURCES = [
    write_npy, write_npy_parts, map_memory, write_npz, keep_sparse, write_text, write_archive, write_parquet
]  # fmt: skip


# ---- algebra ---------------------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    seed=st.integers(0, 100),
    store=st.sampled_from([np.asarray, sp.csr_array]),
    dtype=st.sampled_from([np.float32, np.float64]),
    height=st.sampled_from([0.0, 1.0, 2.5]),
)
def test_chunks_do_what_rows_do(sizes, seed, store, dtype, height):
    rng, n = np.random.default_rng(seed), sum(sizes)
    dense = (rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.6)).astype(dtype)
    rows, chunks = Rows(store(dense)), Chunks(chunked(store(dense), sizes))
    w, alpha, h = rng.normal(size=4), rng.normal(size=n), np.maximum(rng.normal(size=n), 0.0)
    W, A = rng.normal(size=(3, 4)), rng.normal(size=(n, 3))
    some = rng.integers(0, n, size=n // 2 + 1)

    def close(name, *arguments):
        np.testing.assert_allclose(getattr(chunks, name)(*arguments), getattr(rows, name)(*arguments), atol=1e-12)

    for vector in (w, 0.0 * w):
        close("apply", vector)
        for ours, theirs in zip(chunks.products(vector, alpha), rows.products(vector, alpha), strict=True):
            np.testing.assert_allclose(ours, theirs, atol=1e-12)
    for vector in (alpha, 0.0 * alpha):
        close("adjoint", vector)
    close("squared_lengths")
    for weights in (h, np.full(n, 0.3)):
        close("column_squares", weights)
        close("weighted_gram", weights)
        close("weighted_gram", weights, height)
    ours, theirs = chunks.adjoint_and_gram(alpha, h, height), rows.adjoint_and_gram(alpha, h, height)
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-12)
    np.testing.assert_allclose(ours[1](), theirs[1](), atol=1e-12)
    close("apply_each", W)
    close("adjoint_each", A)
    close("squares_each", np.abs(A))
    np.testing.assert_array_equal(chunks.take(some).apply(w), rows.take(some).apply(w))
    np.testing.assert_allclose(chunks.matrix @ W.T, dense.astype(np.float64) @ W.T, atol=1e-12)
    assert chunks.entries == rows.entries


def test_both_play_the_same_role_and_kernels_do_not():
    assert isinstance(Rows(X), Features)
    assert isinstance(Chunks(chunked(X, [N])), Features)
    assert not isinstance(Columns(X), Features)
    assert not isinstance(KernelGram(Linear(1.0), X), Features)


def test_each_product_reads_the_matrix_once_and_zero_costs_nothing():
    matrix = chunked(X, [100, 500])
    rows = Chunks(matrix)

    def sweeps(method, *arguments):
        before = matrix.sweeps
        method(*arguments)
        return matrix.sweeps - before

    w, alpha = np.ones(D), np.ones(N)
    assert sweeps(rows.products, w, alpha) == 1
    assert sweeps(rows.adjoint_and_gram, alpha, alpha, 1) == 1
    assert sweeps(rows.apply, w) == sweeps(rows.adjoint, alpha) == sweeps(rows.take, np.arange(9)) == 1
    assert sweeps(rows.apply, 0.0 * w) == sweeps(rows.adjoint, 0.0 * alpha) == 0
    assert sweeps(rows.column_squares, alpha) == 1
    assert sweeps(rows.column_squares, alpha) == 0  # known


def test_the_damped_hessian_of_newton_leaves_the_gram_alone():
    rows = Chunks(chunked(X, [N]))
    _, gram = rows.adjoint_and_gram(np.ones(N), np.ones(N), 1)
    first = gram()
    first += 1.0
    np.testing.assert_array_equal(gram(), first - 1.0)


# ---- sources and optima ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", SOURCES, ids=lambda write: write.__name__)
def test_every_source_gives_the_optimum_of_the_fit_in_memory(write, tmp_path):
    with write(tmp_path) as data:
        assert data.X.shape == (N, D)
        assert len(data.X.stretches) >= 3
        np.testing.assert_array_equal(data.y, Y)
        np.testing.assert_array_equal(data.X @ np.eye(D), X)
        model = LinearSVC(tol=1e-9).fit(data.X, data.y)
        in_memory = LinearSVC(tol=1e-9).fit(X, Y)
        assert model.status_ is Status.CONVERGED
        assert model.objective_ == pytest.approx(in_memory.objective_, rel=2e-9)
        case = referee.Machine(Y, np.ones(N), ("squared hinge", 1.0), ("l2", 1.0, 0.0), X=X, intercept="penalised")
        alpha = np.zeros(N)
        alpha[model.support_] = model.dual_coef_[0]
        verdict = referee.judge(case, model.coef_[0], model.intercept_[0], alpha)
        assert verdict.primal == pytest.approx(model.objective_, rel=1e-12)
        assert verdict.dual == pytest.approx(model.dual_objective_, rel=1e-12)
        assert -1e-12 <= verdict.relative_gap <= 1e-9
        ours = maxmargin.certify(model, data.X, data.y)
        assert ours.relative_gap == pytest.approx(verdict.relative_gap, abs=1e-12)
        np.testing.assert_allclose(
            model.decision_function(data.X), model.decision_function(as_frame(model)), atol=1e-12
        )
        assert (model.predict(data.X) == model.predict(as_frame(model))).all()


def as_frame(model):
    """The samples as an array, or with the names that the model knows."""
    if not hasattr(model, "feature_names_in_"):
        return X
    return pytest.importorskip("pandas").DataFrame(X, columns=model.feature_names_in_)


@pytest.mark.parametrize(
    "model",
    [
        LinearSVC(loss="hinge", tol=1e-7),
        LinearSVC(loss="hinge", tol=1e-7, intercept="free", class_weight="balanced"),
        LinearSVC(loss="hinge", tol=1e-7, intercept=None),
        LinearSVR(epsilon=0.3, tol=1e-7),
        LogisticRegression(tol=1e-9),
        SGDClassifier(solver="smoothed", tol=1e-4, penalty="elasticnet", alpha=0.01),
        SGDRegressor(solver="newton", tol=1e-7),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_linear_estimator_is_the_same_in_chunks(model):
    weights = RNG.random(N) + 0.1
    fitted = model.fit(chunked(sp.csr_array(X), [100, 1, 200, 299]), Y, sample_weight=weights)
    value, coef = fitted.objective_, fitted.coef_.copy()
    assert maxmargin.certify(fitted, chunked(X, [400, 200]), Y, weights).relative_gap <= 1.01 * model.tol
    in_memory = model.fit(X, Y, sample_weight=weights)
    assert value == pytest.approx(in_memory.objective_, rel=2.0 * model.tol)
    np.testing.assert_allclose(coef, in_memory.coef_, rtol=0.0, atol=1e-3 if model.tol < 1e-6 else 0.05)


@pytest.mark.parametrize("name", sorted(name for name, solver in SOLVERS.items() if solver.needs.samples == "sweeps"))
def test_every_solver_that_sweeps_is_certified_in_chunks(name):
    posed = (
        (Problem(Chunks(chunked(X, [100, 500])), Y, loss, L2(1.0), np.full(N, 0.1), "free"), formula)
        for loss, formula in ((Hinge(), "hinge"), (SquaredHinge(), "squared hinge"), (Squared(), "squared"))
    )
    problem, formula = next(pair for pair in posed if SOLVERS[name]().supports(pair[0]) is None)
    solution = maxmargin.minimize(problem, SOLVERS[name](), tol=1e-3 if name != "subgradient" else 0.05, max_iter=2000)
    case = referee.Machine(Y, np.full(N, 0.1), (formula, 1.0), ("l2", 1.0, 0.0), X=X, intercept="free")
    verdict = referee.judge(case, solution.point.w, solution.point.b, referee.repaired(case, solution.point.alpha))
    assert solution.status is Status.CONVERGED
    assert verdict.relative_gap == pytest.approx(solution.certificate.relative_gap, abs=1e-10)


def test_several_classes_at_once_and_against_the_rest():
    codes = RNG.integers(0, 3, size=N)
    matrix = chunked(X, [100, 500])
    for options in ({}, {"multi_class": "ovr"}):
        model = LogisticRegression(tol=1e-8, **options)
        value, p = model.fit(matrix, codes).objective_, model.predict_proba(matrix)
        assert value == pytest.approx(model.fit(X, codes).objective_, rel=1e-8)
        np.testing.assert_allclose(p, model.predict_proba(X), atol=1e-4)
    assert LinearSVC().fit(matrix, codes).duality_gap_ <= 1e-4


def test_newton_begins_with_fewer_rows_that_fit_into_memory():
    rng = np.random.default_rng(1)
    big = rng.normal(size=(300_000, 8)).astype(np.float32)
    y = np.where(big @ rng.normal(size=8) + rng.normal(size=300_000) > 0.0, 1.0, -1.0)
    data = open_chunks(big, target=y, memory=2**20)
    model = LinearSVC(tol=1e-6).fit(data.X, data.y)
    taken = model.solution_.history[1].counters["rows"]
    assert taken <= max(some.stop - some.start for some in data.X.stretches) < 300_000 // 12
    assert model.objective_ == pytest.approx(LinearSVC(tol=1e-6).fit(big, y).objective_, rel=2e-6)
    assert data.X.sweeps <= 14
    # What the solver and its certificates count is what was read, but for the first look and the sample of the rows.
    assert model.solution_.history[-1].counters["passes"] == pytest.approx(data.X.sweeps - 4, abs=1.5)


def test_auto_takes_a_solver_that_sweeps():
    wide = sp.random_array((200, 1500), density=0.02, format="csr", rng=2)
    y = np.where(wide @ RNG.normal(size=1500) > 0.0, "a", "b")
    model = LinearSVC(tol=1e-4).fit(chunked(wide, [150, 50]), y)
    assert model.solution_.solver == "smoothed"
    assert model.duality_gap_ <= 1e-4


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_never_more_than_two_chunks_are_held():
    loaded, most = [], [0]

    class Chunk(np.ndarray):
        """An array that can be referred to weakly."""

    def load(k):
        chunk = np.array(X[60 * k : 60 * k + 60]).view(Chunk)
        loaded.append(weakref.ref(chunk))
        most[0] = max(most[0], sum(reference() is not None for reference in loaded))
        return chunk

    matrix = ChunkedMatrix(load, [60] * 10, D, X.dtype, X.size)
    model = LinearSVC(tol=1e-6).fit(matrix, Y)
    model.predict(matrix)
    maxmargin.certify(model, matrix, Y)
    assert most[0] == 2
    assert all(reference() is None for reference in loaded)


def test_a_fit_from_files_allocates_less_than_the_files(tmp_path):
    rng = np.random.default_rng(3)
    n, d = 10_000, 60
    for k in range(20):
        sp.save_npz(tmp_path / f"{k:02}.npz", sp.csr_array(rng.normal(size=(n // 20, d))))
    y = np.where(rng.random(n) < 0.5, 1, -1)
    whole = n * d * 12
    data = open_chunks(tmp_path, target=y, memory=whole // 8)
    LinearSVC(max_iter=1, tol=1.0).fit(data.X, y)  # compile
    tracemalloc.start()
    try:
        LinearSVC(tol=1e-3, n_jobs=1).fit(data.X, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < whole // 8 + 40 * 8 * n < whole


def test_a_memory_map_is_used_without_copies(tmp_path):
    rng = np.random.default_rng(4)
    np.save(tmp_path / "X.npy", rng.normal(size=(100_000, 30)).astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    y = np.where(mapped[:, 0] > rng.normal(size=100_000), 1, -1)
    assert np.shares_memory(Rows(mapped).vectors.X, mapped)
    assert np.shares_memory(next(open_chunks(mapped).X.chunks()), mapped)
    model = LinearSVC(tol=1e-3).fit(mapped, y)  # compile
    tracemalloc.start()
    try:
        with pytest.warns(ConvergenceWarning):
            model.set_params(tol=1e-15, max_iter=2).fit(mapped, y)
        model.decision_function(mapped)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < mapped.nbytes  # scores, dual variables and the like; abs(X) alone would be as large as X


def test_temporary_files_go_when_the_data_do(tmp_path):
    data = write_text(tmp_path)
    before = set(tmp_path.iterdir())
    matrix = data.X
    data.close()
    with pytest.raises(ValueError, match="closed file"):
        matrix @ np.ones((D, 1))
    data = write_text(tmp_path)
    matrix = data.X
    del data
    gc.collect()
    assert (matrix @ np.ones((D, 1))).shape == (N, 1)  # the matrix alone keeps them
    del matrix
    gc.collect()
    assert set(tmp_path.iterdir()) == before  # where files without names are known, there never was one


# ---- stopping --------------------------------------------------------------------------------------------------------


def ten_chunks():
    return ChunkedMatrix(lambda k: X[60 * k : 60 * k + 60], [60] * 10, D, X.dtype, X.size)


def test_max_time_keeps_the_best_point():
    with pytest.warns(ConvergenceWarning, match="time"):
        model = LinearSVC(loss="hinge", tol=1e-12, max_time=1e-9).fit(ten_chunks(), Y)
    assert model.status_ is Status.MAX_TIME
    assert maxmargin.certify(model, X, Y).relative_gap == pytest.approx(model.duality_gap_, rel=1e-6)


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="needs signals")
def test_ctrl_c_keeps_the_best_point():
    def press(record):
        if record.iterations == 2:
            signal.raise_signal(signal.SIGINT)

    own = signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores Ctrl-C
    try:
        with pytest.warns(ConvergenceWarning, match="Ctrl-C"):
            model = LinearSVC(loss="hinge", tol=1e-12, callback=press).fit(ten_chunks(), Y)
    finally:
        signal.signal(signal.SIGINT, own)
    assert model.status_ is Status.INTERRUPTED
    assert model.duality_gap_ < 1.0


# ---- streams ---------------------------------------------------------------------------------------------------------


def test_partial_fit_over_chunks_learns():
    data = open_chunks(X, target=Y, memory=2**13)
    model = SGDClassifier(alpha=1e-3)
    for _ in range(20):
        for part, labels in data.chunks():
            model.partial_fit(part, labels, classes=[-1, 1])
    best = SGDClassifier(alpha=1e-3, tol=1e-6, solver="smoothed").fit(X, Y).objective_
    assert maxmargin.certify(model, X, Y).primal <= 1.1 * best


# ---- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (1e101, r"1.0e\+101")])
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_a_wrong_value_is_named_with_its_row_and_column(value, word, store):
    wrong = X.copy()
    wrong[431, 2] = value
    matrix = chunked(store(wrong), [100, 250, 250])
    with pytest.raises(ValueError, match=f"X has {word} in row 431, column 2"):
        LinearSVC().fit(matrix, Y)
    model = LinearSVC().fit(X, Y)
    with pytest.raises(ValueError, match=f"{word} in row 431"):
        model.predict(matrix)
    with pytest.raises(ValueError, match=f"{word} in row 431"):
        maxmargin.certify(model, matrix, Y)


def test_columns_must_be_those_of_the_fit():
    names = [f"x{j}" for j in range(D)]
    model = LinearSVC().fit(chunked(X, [N], feature_names=names), Y)
    assert list(model.feature_names_in_) == names
    with pytest.raises(ValueError, match=r"columns .* are not those of the fit"):
        model.predict(chunked(X, [N], feature_names=names[::-1]))
    with pytest.raises(ValueError, match="5 features"):
        model.predict(chunked(X[:, :5], [N]))


def test_a_chunk_that_has_changed_is_refused():
    matrix = ChunkedMatrix(lambda k: X[:300, : D - k], [300, 300], D, X.dtype, X.size)
    with pytest.raises(ValueError, match="Chunk 1 has 300 rows and 5 columns, but it had 300 and 6"):
        LinearSVC().fit(matrix, Y)


def test_a_solver_that_follows_from_another_parameter_is_named():
    with pytest.raises(ValueError, match=r"solver='dual_coordinate' .* not in chunks; 'cutting_plane', .*'newton'"):
        LinearSVC(dual=True).fit(chunked(X, [N]), Y)


@pytest.mark.parametrize("name", ["dual_coordinate", "pegasos", "sgd"])
def test_solvers_that_visit_single_rows_name_those_that_sweep(name):
    with pytest.raises(
        ValueError, match=f"solver='{name}' .* in memory, not in chunks.*'newton'.*'smoothed'.*partial_fit"
    ):
        LinearSVC(solver=name).fit(chunked(X, [N]), Y)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda matrix: SVC().fit(matrix, Y), "SVC needs its samples in memory.*LinearSVC"),
        (lambda matrix: LinearSVC(probability=True).fit(matrix, Y), "probability=True needs the samples in memory"),
        (lambda matrix: LinearSVC(multi_class="ovo").fit(matrix, Y), "'ovo' needs the samples in memory"),
        (lambda matrix: maxmargin.certify(TheirSVC().fit(X, Y), matrix, Y), "certificate .* the samples in memory"),
        (lambda matrix: LinearSVC().fit(matrix, None), "needs targets y"),
        (lambda matrix: LinearSVC().fit(matrix, Y[:-1]), "inconsistent numbers of samples"),
        (lambda matrix: SGDClassifier().partial_fit(matrix, Y, classes=[-1, 1]), "partial_fit needs the samples"),
    ],
)
def test_what_needs_single_rows_is_refused(fit, message):
    with pytest.raises(ValueError, match=message):
        fit(chunked(X, [100, 500]))


def test_dual_coordinate_wants_its_rows_in_memory():
    problem = Problem(Chunks(chunked(X, [N])), Y, Hinge(), L2(1.0), np.ones(N))
    with pytest.raises(ValueError, match="in memory, not in chunks"):
        maxmargin.minimize(problem, SOLVERS["dual_coordinate"]())


def test_a_chunked_matrix_is_no_array():
    with pytest.raises(TypeError, match="read chunk by chunk"):
        np.asarray(chunked(X, [N]))


def refusal(match, *arguments, **options):
    with pytest.raises((DataFileError, ValueError), match=match) as error:
        open_chunks(*arguments, **options)
    return error.value


def test_wrong_arguments(tmp_path):
    refusal("no such file", tmp_path / "none.npy")
    refusal("directory is empty", tmp_path)
    refusal("must be a path", 3)
    refusal("must be a path", [])
    refusal("memory=0 must be", X, memory=0)
    refusal("for LIBSVM files", X, n_features=3)
    refusal("target has shape", X, target=Y[1:])
    refusal("pieces of one kind", [X, sp.csr_array(X)])
    refusal("shape .* but samples are a matrix", Y)
    refusal("not numbers", np.array([["a"]]))
    refusal("5 columns, but 6 in the first", [X, X[:, :5]])
    refusal("piece 1.*5 columns, but 6 in the first", [sp.csr_array(X), sp.csr_array(X[:, :5])])
    (tmp_path / "a.csv").write_text("1,2\n")
    refusal("convert it to Parquet", tmp_path / "a.csv")


def test_a_truncated_npy_file(tmp_path):
    np.save(tmp_path / "X.npy", X)
    whole = (tmp_path / "X.npy").read_bytes()
    for length in (0, 20, len(whole) - 8):
        (tmp_path / "X.npy").write_bytes(whole[:length])
        refusal("not a whole .npy file", tmp_path / "X.npy")
    np.save(tmp_path / "o.npy", np.array([[{}]]), allow_pickle=True)
    refusal("not a whole .npy file", tmp_path / "o.npy")


def test_wrong_npz_files(tmp_path):
    path = tmp_path / "X.npz"
    sp.save_npz(path, sp.csr_array(X))
    refusal("more than half of memory", path, memory=1000)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refusal("not a whole .npz file", path)
    sp.save_npz(path, sp.csc_array(X))
    refusal("its matrix is b'csc'", path)
    np.savez(path, X=X)
    refusal("not got the members", path)
    parts = {"format": np.array(b"csr"), "shape": [2, 3], "data": [1.0, 2.0], "indptr": [0, 1, 2]}
    np.savez(path, indices=[0, 7], **parts)
    with pytest.raises(DataFileError, match=r"not a whole .npz file"):
        LinearSVC().fit(open_chunks(path).X, [0, 1])


def test_text_is_parsed_strictly_and_mistakes_are_counted_from_the_start(tmp_path):
    path = tmp_path / "data.svm"
    lines = [f"{i % 2} 1:{i} 3:0.5" for i in range(1000)]
    path.write_text("\n".join(lines) + "\n")
    assert open_chunks(path, memory=2**12, n_features=7).X.shape == (1000, 7)
    path.write_text("# only\n\n" * 300 + "\n".join(lines))
    assert open_chunks(path, memory=2**12, directory=tmp_path).y.tolist() == [i % 2 for i in range(1000)]
    for number, wrong, sentence in ((901, "1 2:x", "not a decimal"), (444, "1 3:1 2:1", "ascend"), (7, "\0", "NUL")):
        path.write_text("\n".join([*lines[: number - 1], wrong, *lines[number:]]))
        error = refusal(sentence, path, memory=2**12, directory=tmp_path)
        assert error.line == number
    assert [item for item in tmp_path.iterdir() if item.is_dir()] == []  # a refused file leaves no copy
    path.write_text("\n# nothing\n")
    refusal("holds no rows", path)
    path.write_text("1\n2\n")
    refusal("number of columns is unknown", path)
    refusal("n_features=0", path, n_features=0)
    refusal("remove target", path, target=Y)
    refusal("concatenate", [path, path])


def test_a_truncated_archive(tmp_path):
    path = tmp_path / "data.svm.gz"
    write_libsvm(path, X, Y)
    path.write_bytes(path.read_bytes()[:-100])
    refusal("gzip archive is truncated", path, memory=2**12)


def test_wrong_parquet_files(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path, table = tmp_path / "a.parquet", {"x": [1.0, 2.0, None], "n": [1, 2, 3], "y": ["a", "b", "b"]}

    def write(**columns):
        parquet.write_table(pyarrow.table(columns), path)

    write(**table)
    data = open_chunks(path, target="y")
    assert (data.X.dtype, data.X.feature_names, data.y.tolist()) == (np.float64, ["x", "n"], ["a", "b", "b"])
    with pytest.raises(ValueError, match=r"NaN in row 2, column 0 \(x\)"):
        LinearSVC().fit(data.X, data.y)
    refusal("no column 'z'", path, target="z")
    refusal("'y' holds string, not numbers", path)
    refusal("more than a quarter of memory", path, target="y", memory=100)
    write(y=[1, None], x=[1, 2])
    refusal("1 missing values", path, target="y")
    write(y=[1, 2])
    refusal("no column beside", path, target="y")
    other = tmp_path / "b.parquet"
    parquet.write_table(pyarrow.table({"x": [1.0], "z": [1.0]}), other)
    refusal("columns are", [path, other], target="y")
    other.write_bytes(path.read_bytes()[:-3])
    refusal("not a whole Parquet file", other)


def test_without_pyarrow_the_message_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match=r"maxmargin\[parquet\]"):
        open_chunks(tmp_path / "a.parquet")
