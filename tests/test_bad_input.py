"""What users get wrong: each mistake is refused with a sentence, and hard problems end with an honest status."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError

import clocks
from maxmargin import SVC, SVCCV, SVR, LinearSVC, LinearSVCCV, Ridge, SparseSelector, Status, certify

BOTH = pytest.mark.parametrize("make", [SVC, LinearSVC])

rng = np.random.default_rng(0)
X = rng.normal(size=(20, 3))
y = np.arange(20) % 2
ONES = np.ones(20)


def with_value(array, value):
    out = np.array(array, dtype=float)
    out[3, ...] = value
    return out


def refused(message, fit, kind=ValueError):
    with pytest.raises(kind, match=re.escape(message)):
        fit()


# Data


@BOTH
@pytest.mark.parametrize("store", [np.asarray, sp.csr_array])
def test_missing_and_infinite_values(make, store):
    refused("Input X contains NaN", lambda: make().fit(store(with_value(X, np.nan)), y))
    refused("Input X contains infinity", lambda: make().fit(store(with_value(X, np.inf)), y))
    model = make().fit(X, y)
    both = with_value(X, np.inf)
    both[4] = -np.inf  # their sum is not a number, which is no warning
    refused("Input X contains infinity", lambda: make().fit(store(both), y))
    refused("Input X contains infinity", lambda: model.predict(store(both)))
    refused("Input contains infinity", lambda: certify(model, store(both), y))
    refused("Input X contains NaN", lambda: model.predict(store(with_value(X, np.nan))))
    refused("Input X contains infinity", lambda: model.decision_function(store(with_value(X, -np.inf))))


@BOTH
def test_bad_targets(make):
    refused("Input y contains NaN", lambda: make().fit(X, np.where(y == 1, 1.0, np.nan)))
    refused("y has 1 class, 0. Pass samples of a second class.", lambda: make().fit(X, 0 * y))
    refused("y has 1 class, 'a'", lambda: make().fit(X, np.full(20, "a")))
    refused("y should be a 1d array, got an array of shape (20, 2)", lambda: make().fit(X, np.c_[y, y]))
    refused("inconsistent numbers of samples: [20, 7]", lambda: make().fit(X, y[:7]))
    refused("requires y to be passed, but the target y is None", lambda: make().fit(X, None))
    refused("Unknown label type: continuous", lambda: make().fit(X, X[:, 0]))
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        make().fit(X, y[:, None])


@BOTH
def test_bad_shapes(make):
    name = make.__name__
    refused("Found array with 0 sample(s) (shape=(0, 3)) while a minimum of 1", lambda: make().fit(X[:0], y[:0]))
    refused(
        f"Found array with 0 feature(s) (shape=(20, 0)) while a minimum of 1 is required by {name}",
        lambda: make().fit(X[:, :0], y),
    )
    refused("Expected 2D array, got 1D array instead", lambda: make().fit(X[:, 0], y))
    refused(f"Found array with dim 3, while dim <= 2 is required by {name}", lambda: make().fit(X[:, :, None], y))
    model = make().fit(X, y)
    refused(f"X has 2 features, but {name} is expecting 3 features", lambda: model.predict(X[:, :2]))
    refused("Expected 2D array, got 1D array instead", lambda: model.predict(X[0]))
    refused("Found array with 0 sample(s)", lambda: model.predict(X[:0]))


@BOTH
def test_bad_types(make):
    refused("Complex data not supported", lambda: make().fit(X * 1j, y))
    refused("could not convert string to float", lambda: make().fit(np.full((20, 3), "a"), y))
    model = make().fit(X.astype(object), y)
    np.testing.assert_array_equal(model.predict(X), make().fit(X, y).predict(X))


@BOTH
def test_bad_weights(make):
    def fit(weights):
        return lambda: make().fit(X, y, weights)

    refused("Input sample_weight contains NaN", fit(with_value(ONES, np.nan)))
    refused("Input sample_weight contains infinity", fit(with_value(ONES, np.inf)))
    refused("sample_weight.shape == (5,), expected (20,)", fit(ONES[:5]))
    refused("Sample weights must be 1D array or scalar, got 2D array", fit(np.ones((20, 2))))
    refused("Invalid input - all samples have zero or negative weights", fit(0.0 * ONES))


@BOTH
def test_predict_before_fit(make):
    for method in ("predict", "decision_function"):
        refused(
            f"This {make.__name__} instance is not fitted yet", lambda m=method: getattr(make(), m)(X), NotFittedError
        )
    refused("instance is not fitted yet", lambda: make().score(X, y), NotFittedError)
    for attribute in ("coef_", "n_support_"):
        assert not hasattr(make(), attribute)
    assert not hasattr(SVC(kernel="linear"), "coef_")


@BOTH
def test_a_refused_first_fit_leaves_an_unfitted_model(make):
    model = make(solver="no such solver")
    refused("is unknown", lambda: model.fit(X, y))
    refused("not fitted yet", lambda: model.predict(X), NotFittedError)


@BOTH
def test_a_refused_refit_leaves_the_old_model(make):
    three = np.arange(20) % 3
    model = make().fit(X, three)
    expected = model.predict(X)
    refused(
        "all samples have zero or negative weights" if make is SVC else "Negative values",
        lambda: model.fit(X[:, :2], y, -ONES),
    )
    np.testing.assert_array_equal(model.predict(X), expected)


# Parameters


@BOTH
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(({"C": value}, "must be a float in the range (0.0, inf") for value in (0, -1.0, np.nan)),
        *(({"tol": value}, f"must be a float in the range [0.0, inf). Got {value}") for value in (-1.0, np.nan)),
        *(({"max_time": v}, f"must be a float in the range (0.0, inf) or None. Got {v}") for v in (0, -1.0, np.nan)),
        ({"C": "1"}, "must be a float in the range (0.0, inf"),
        ({"max_iter": -2}, "must be an int in the range [-1, inf). Got -2"),
        ({"max_iter": 1.5}, "must be an int in the range [-1, inf). Got 1.5"),
        (
            {"solver": "no such"},
            "solver='no such' is unknown; choose one of 'auto', 'active_set', 'block_smo', 'blocks', ",
        ),
        ({"multi_class": "all"}, "The 'multi_class' parameter of"),
        ({"intercept": "maybe"}, "The 'intercept' parameter of"),
        ({"class_weight": "even"}, "must be a str among {'balanced'}, an instance of 'dict' or None. Got 'even'"),
        ({"class_weight": {0: 0.0, 1: 0.0}}, "class_weight must be positive for some class; got {0: 0.0"),
        ({"class_weight": {0: 1.0, 1: -1.0}}, "class_weight must be finite and at least 0 for each class; got {0: 1.0"),
        ({"class_weight": {0: 1.0, 1: np.nan}}, "class_weight must be finite and at least 0 for each class"),
        ({"class_weight": {5: 1.0}}, "The classes, [0, 1], are not in class_weight"),
        ({"random_state": -1}, "must be an int in the range [0, 4294967295]"),
        ({"callback": 3}, "The 'callback' parameter of"),
        ({"verbose": -1}, "must be an int in the range [0, inf)"),
        ({"warm_start": 2}, "The 'warm_start' parameter of"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_bad_parameters(make, settings, message):
    refused(message, lambda: make(**settings).fit(X, y))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "no such"}, "The 'kernel' parameter of SVC must be a str among"),
        ({"kernel": "no such"}, "or a callable. Got 'no such'"),
        *(({"gamma": v}, f"a float in the range [0.0, inf). Got {v}") for v in (-1.0, np.nan, np.inf)),
        ({"gamma": "wide"}, "The 'gamma' parameter of SVC must be a str among"),
        ({"degree": -1}, "must be an int in the range [0, inf). Got -1"),
        ({"coef0": np.nan}, "must be a float in the range (-inf, inf). Got nan"),
        ({"cache_size": 0.0}, "must be a float in the range (0.0, inf). Got 0.0"),
        ({"multi_class": "crammer_singer"}, "The 'multi_class' parameter of SVC must be a str among"),
        (
            {"solver": "dual_coordinate"},
            "solver='dual_coordinate' cannot solve this problem of SVC: it needs the samples as rows of features",
        ),
        (
            {"solver": "newton"},
            "solver='newton' cannot solve this problem of SVC: it needs the samples as rows",
        ),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_bad_parameters_of_svc(settings, message):
    refused(message, lambda: SVC(**settings).fit(X, y))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty": "l1", "dual": True}, "dual=True contradicts penalty='l1', which is minimised in the primal"),
        ({"penalty": "l0"}, "The 'penalty' parameter of LinearSVC must be a str among"),
        ({"loss": "logistic"}, "The 'loss' parameter of LinearSVC must be a str among"),
        ({"multi_class": "crammer_singer", "dual": False}, "for all classes; use 'ovr' or 'ovo'."),
        (
            {"dual": False, "solver": "dual_coordinate"},
            "dual=False contradicts solver='dual_coordinate'; leave one of them at its default.",
        ),
        ({"dual": True, "solver": "newton"}, "dual=True contradicts solver='newton'"),
        (
            {"fit_intercept": False, "intercept": "free"},
            "fit_intercept=False contradicts intercept='free'; leave one of them at its default.",
        ),
        ({"fit_intercept": False, "intercept": "penalised"}, "fit_intercept=False contradicts intercept='penalised'"),
        ({"intercept_scaling": 0.0}, "must be a float in the range (0.0, 1e+100]. Got 0.0"),
        ({"solver": "smo"}, "solver='smo' cannot solve this problem of LinearSVC: it needs a kernel matrix; this"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, dict) else "",
)
def test_bad_parameters_of_linear_svc(settings, message):
    refused(message, lambda: LinearSVC(**settings).fit(X, y))


def test_a_primal_solver_is_what_dual_false_asks_for():
    a, b = LinearSVC(dual=False, tol=1e-8).fit(X, y), LinearSVC(dual=True, tol=1e-8).fit(X, y)
    assert (a.solution_.solver, b.solution_.solver) == ("newton", "dual_coordinate")
    assert a.objective_ == pytest.approx(b.objective_, rel=1e-7)


# Kernels


def test_bad_callable_kernels():
    def fit(kernel):
        return lambda: SVC(kernel=kernel, max_time=5.0).fit(X, y)

    refused(
        "The callable kernel returned an array of shape (3,) for 20 and 20 samples; it must return one of shape (20",
        fit(lambda A, B: np.ones(3)),
    )
    refused("The callable kernel returned an array of shape () for 20 and 20", fit(lambda A, B: None))
    refused("The callable kernel returned NaN or infinity", fit(lambda A, B: A @ B.T * np.nan))
    refused("The callable kernel returned NaN or infinity", fit(lambda A, B: A @ B.T + np.inf))
    refused("division by zero", fit(lambda A, B: 1 / 0), ZeroDivisionError)
    fit(lambda A, B: sp.csr_array(A @ B.T))()  # a sparse matrix will do
    with pytest.raises(ValueError, match="callable kernel"):
        fit(lambda A, B: (A @ B.T) * 1j)()


def test_a_callable_kernel_that_is_not_symmetric_is_not_certified():
    """What it certifies and what it predicts with would not be the same function."""

    def kernel(A, B):
        return np.exp(-((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2)) + np.add.outer(A[:, 0], 3.0 * B[:, 0])

    try:
        model = SVC(kernel=kernel, max_time=5.0).fit(X, y)
    except (ValueError, ConvergenceWarning):
        return
    f = kernel(X, X[model.support_]) @ model.dual_coef_[0]
    expansion = np.zeros(20)
    expansion[model.support_] = model.dual_coef_[0]
    slack = np.maximum(0.0, 1.0 - (2.0 * y - 1.0) * (f + model.intercept_[0]))
    assert model.objective_ == pytest.approx(0.5 * expansion @ f + slack.sum(), rel=1e-6)


def test_bad_precomputed_kernels():
    def fit(K):
        return lambda: SVC(kernel="precomputed").fit(K, y)

    K = X @ X.T
    refused(
        "A precomputed kernel must be a square matrix of shape (n_samples, n_samples) when fitting; got 20 x 3", fit(X)
    )
    refused(
        "A precomputed kernel must be symmetric, but entries differ from their mirror images by up to", fit(np.triu(K))
    )
    refused("Use (K + K.T) / 2 if that is what you mean.", fit(np.tril(K)))
    refused("Input X contains NaN", fit(with_value(K, np.nan)))
    model = fit(K)()
    refused("X has 4 features, but SVC is expecting 20 features", lambda: model.predict(K[:, :4]))
    assert model.predict(K[:4]).shape == (4,)


# Hard problems


def assert_honest(model):
    assert 0.0 <= model.duality_gap_ <= 2.0
    assert model.dual_objective_ <= model.objective_ * (1.0 + 1e-12)
    assert (model.status_ is Status.CONVERGED) == (model.duality_gap_ <= model.tol)
    assert np.isfinite(model.decision_function(X)).all()


def warning_of(model, rows, labels):
    """Fit; the warning, if there was one."""
    try:
        model.fit(rows, labels)
    except ConvergenceWarning as warning:
        return str(warning)
    return None


UNSCALED = X * np.array([1.0, 1e8, 1.0])


@pytest.mark.parametrize(
    "model",
    [
        SVC(),
        SVC(kernel="linear"),
        SVC(kernel="linear", solver="smo"),
        SVC(kernel="poly"),
        LinearSVC(loss="hinge"),
        LinearSVC(),
    ],
    ids=str,
)
def test_unscaled_columns_end_in_time_with_an_honest_status(model, monkeypatch):
    model.set_params(max_time=2.0, tol=1e-6)
    clock = clocks.put(monkeypatch, 0.002)
    warned = warning_of(model, UNSCALED, y)
    assert clock.now - model.solution_.compiling < 2.2
    assert_honest(model)
    assert (warned is None) == (model.status_ is Status.CONVERGED)
    if warned is not None:
        assert "column 1 is" in warned
        assert "scaling the columns (for example with StandardScaler) will probably help" in warned


def test_the_warning_names_the_column_its_size_and_the_remedy():
    model = LinearSVC(solver="dual_coordinate", loss="hinge", tol=1e-9, max_iter=5)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(UNSCALED, y)
    message = str(caught[0].message)
    assert "LinearSVC: Stopped at the iteration limit before the tolerance was reached: relative gap" in message
    assert "(asked for 1e-09) after 5 iterations of dual_coordinate" in message
    assert "Raise max_iter or tol; column 1 is" in message
    assert "times as large as the typical column" in message
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or tol; column 1 is"):
        model.fit(sp.csr_array(UNSCALED), y)
    with pytest.warns(ConvergenceWarning, match="Raise max_iter or tol.$"):
        LinearSVC(solver="dual_coordinate", loss="hinge", tol=1e-9, max_iter=2).fit(X, y)


@pytest.mark.parametrize(
    "model",
    [SVC(), SVC(kernel="linear"), SVC(kernel="linear", solver="smo"), LinearSVC(loss="hinge"), LinearSVC()],
    ids=str,
)
@pytest.mark.parametrize("separable", [True, False])
def test_a_huge_C_ends_in_bounded_time_with_a_certificate(model, separable):
    """Nobody set a time limit: a fit must see by itself that it gets nowhere. 10,000 short rounds are plenty."""
    labels = (X[:, 0] > 0.0).astype(int) if separable else y
    rounds = []
    model.set_params(C=1e12, callback=lambda record: rounds.append(record) or len(rounds) > 10_000)
    warning_of(model, X, labels)
    assert model.status_ is not Status.CALLBACK
    assert_honest(model)


@pytest.mark.parametrize("model", [SVC(kernel="linear", solver="smo"), LinearSVC(solver="dual_coordinate")], ids=str)
def test_rounds_are_short_enough_for_time_limits_and_interrupts(model):
    """A round is some milliseconds of compiled work: steps of SMO, or epochs of all samples."""
    records = []
    model.set_params(C=1e9, tol=1e-12, callback=lambda record: records.append(record) or len(records) == 4)
    warning_of(model, X, y)
    steps = np.diff([record.iterations for record in records])
    assert len(steps) == 3
    assert steps.max() * (1 if isinstance(model, SVC) else len(X)) <= 1_000_000


@BOTH
def test_duplicates_with_opposite_labels(make):
    """Nothing can be learnt: the best function is zero, and half of the samples lie on each side."""
    model = make(tol=1e-8).fit(np.r_[X, X], np.r_[y, 1 - y])
    assert model.objective_ == pytest.approx(40.0, rel=1e-8)
    np.testing.assert_allclose(model.decision_function(X), 0.0, atol=1e-3)


@BOTH
def test_a_constant_and_an_empty_feature_do_not_matter(make):
    model = make(tol=1e-8, **({"gamma": 0.3} if make is SVC else {"intercept": "free"}))
    plain = model.fit(X, y).objective_
    assert model.fit(np.c_[X, np.zeros(20)], y).objective_ == pytest.approx(plain, rel=1e-7)
    assert model.fit(np.c_[X, np.ones(20)], y).objective_ == pytest.approx(plain, rel=1e-7)


@BOTH
@pytest.mark.parametrize("value", [0.0, 1.0])
def test_constant_data(make, value):
    model = make(tol=1e-8).fit(np.full((20, 2), value), np.r_[np.zeros(5), np.ones(15)])
    assert model.status_ is Status.CONVERGED
    assert (model.predict(np.full((3, 2), value)) == 1.0).all()


@pytest.mark.parametrize("model", [SVC(kernel="linear"), LinearSVC(loss="hinge", intercept="free")], ids=str)
def test_two_samples(model):
    """The widest street between two points is known: ``w = 2 (p - q) / |p - q|^2``."""
    p, q = np.array([1.0, 2.0]), np.array([-1.0, 0.5])
    model.set_params(C=100.0, tol=1e-8).fit([q, p], ["left", "right"])
    w = 2.0 * (p - q) / ((p - q) @ (p - q))
    np.testing.assert_allclose(model.coef_, [w], rtol=1e-6)
    np.testing.assert_allclose(model.intercept_, [-w @ (p + q) / 2.0], atol=1e-6)
    assert model.predict([p, q]).tolist() == ["right", "left"]


@BOTH
def test_one_sample_per_class(make):
    model = make().fit(np.eye(4), list("abcd"))
    assert model.status_ is Status.CONVERGED
    assert model.predict(np.eye(4)).tolist() == list("abcd")


@BOTH
def test_values_too_large_to_square_are_refused_with_a_remedy(make):
    with pytest.raises((ValueError, FloatingPointError), match=r"[Ss]cale the columns"):
        make(max_time=5.0).fit(1e200 * X, y)


def test_an_intercept_column_too_high_to_square_is_refused_with_a_remedy():
    with pytest.raises((ValueError, FloatingPointError), match="intercept_scaling"):
        LinearSVC(intercept_scaling=1e200, max_time=5.0).fit(X, y)


@pytest.mark.parametrize("model", [SVC(kernel="linear", tol=1e-12, C=1e3), LinearSVC(loss="hinge", tol=1e-13, C=1e6)])
def test_the_warning_of_a_fit_that_is_lost_in_rounding_says_what_helps(model):
    """Columns far from zero are to be centred, columns of different sizes scaled; else the problem is the constants."""
    rows = rng.normal(size=(60, 3))
    labels = (rows[:, 0] + rng.normal(size=60) > 0).astype(int)
    texts = {
        "far": (
            rows + np.array([0.0, 1e9, 10.0]),
            r"column 1 is \de\+0[89] times as far from zero as it is wide, so subtracting",
        ),
        "unequal": (rows * [1.0, 1e8, 1.0], r"column 1 is \d+ times as large as the typical column, so scaling"),
    }
    for samples, text in texts.values():
        remedy = r"rounding errors.*Raise tol( to \de-\d\d, below .*,)? or lower C; "
        with pytest.warns(ConvergenceWarning, match=remedy + text):
            model.fit(samples, labels)


@pytest.mark.parametrize("model", [LinearSVC(loss="hinge", tol=1e-15), SVR(tol=1e-16), Ridge(tol=1e-16)], ids=repr)
def test_the_tolerance_that_a_warning_names_is_reached(model):
    """Issue 27: where rounding is all that is left of the gap, the remedy is a tolerance that can be proven."""
    rows = rng.normal(size=(60, 3))
    values = rows[:, 0] + rng.normal(size=60)
    y = (values > 0).astype(int) if isinstance(model, LinearSVC) else values
    with pytest.warns(ConvergenceWarning, match=r"rounding errors.*Raise tol to \de-1\d, below which") as caught:
        model.fit(rows, y)
    tol = float(re.search(r"tol to (\S+),", str(caught[0].message))[1])
    assert model.set_params(tol=tol).fit(rows, y).status_ is Status.CONVERGED


def test_sparse_columns_far_from_zero_are_named_too():
    rows = sp.csr_matrix(rng.normal(size=(60, 3)) + np.array([0.0, 0.0, 1e10]))
    with pytest.warns(ConvergenceWarning, match=r"column 2 is \de\+\d\d times as far from zero as it is wide"):
        SVC(kernel="linear", tol=1e-12, C=1e3, intercept=None).fit(rows, np.arange(60) % 2)


@pytest.mark.parametrize("model", [SVCCV(cv=2), LinearSVCCV(cv=2), SparseSelector("log_loss"), SVC()], ids=repr)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
def test_infinities_of_both_signs_are_refused_without_a_warning(model, layout):
    """scikit-learn adds them up first, which NumPy would tell the user of."""
    rows = np.ones((9, 2), dtype=np.float32)
    rows[0, 0], rows[1, 0] = np.inf, -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="contains infinity"):
            model.fit(layout(rows), np.arange(9) % 2)
