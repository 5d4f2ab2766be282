"""NuSVC, SVR, NuSVR, OneClassSVM and the kernel SVC with squared hinge: scikit-learn, the referee and theory agree."""

import warnings

import numpy as np
import pytest
import sklearn.svm
from scipy.sparse import csr_array, csr_matrix
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise
from sklearn.preprocessing import StandardScaler, scale

import maxmargin
import referee
from maxmargin import SVC, SVR, NuSVC, NuSVR, OneClassSVM, Status, certify

TOL = 1e-9
GAMMA = 0.05


def gram(kernel, A, B):
    return {
        "rbf": lambda: pairwise.rbf_kernel(A, B, gamma=GAMMA),
        "linear": lambda: pairwise.linear_kernel(A, B),
        "poly": lambda: pairwise.polynomial_kernel(A, B, degree=2, gamma=GAMMA, coef0=1.0),
    }[kernel]()


KERNELS = {
    "rbf": {"kernel": "rbf", "gamma": GAMMA},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "gamma": GAMMA, "coef0": 1.0},
}


@pytest.fixture(scope="module")
def binary():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:150], y[:150]


@pytest.fixture(scope="module")
def three():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def curve():
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X)[:120], y[:120] / 50.0


def scores(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def targets_of(model, binary, curve):
    return curve if isinstance(model, (SVR, NuSVR)) else binary


FAMILY = {
    "nu-svc": NuSVC(nu=0.3),
    "nu-svc, small nu": NuSVC(nu=0.05),
    "svr": SVR(C=3.0, epsilon=0.2),
    "svr, no tube": SVR(C=0.5, epsilon=0.0),
    "nu-svr": NuSVR(C=2.0, nu=0.4),
    "nu-svr, nu=1": NuSVR(C=2.0, nu=1.0),
    "one-class": OneClassSVM(nu=0.21),  # of 150 samples no whole number, so that the threshold is unique
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", FAMILY)
def test_agrees_with_scikit_learn(name, kernel, binary, curve):
    model = FAMILY[name].set_params(tol=TOL, **KERNELS[kernel])
    X, y = targets_of(model, binary, curve)
    if name == "one-class" and kernel == "linear":
        X = X + 3.0  # away from the origin; around it, the value is zero
    theirs_type = getattr(sklearn.svm, type(model).__name__)
    shared = theirs_type().get_params().keys() & model.get_params().keys() - {"tol", "probability"}
    theirs = theirs_type(tol=1e-10, **{key: getattr(model, key) for key in shared}).fit(X, y)
    model.fit(X, y)
    assert model.status_ is Status.CONVERGED
    size = max(1.0, float(np.abs(scores(theirs, X)).max()))
    if name != "nu-svr, nu=1":  # where the intercept is any median
        np.testing.assert_allclose(scores(model, X), scores(theirs, X), atol=2e-5 * size)
        np.testing.assert_allclose(model.intercept_, theirs.intercept_, atol=2e-5 * size)
    assert model.n_support_.shape == theirs.n_support_.shape
    assert model.n_support_.dtype == theirs.n_support_.dtype
    assert model.dual_coef_.shape[0] == theirs.dual_coef_.shape[0]
    assert type(model.n_iter_) is type(theirs.n_iter_)
    assert model.shape_fit_ == theirs.shape_fit_
    if kernel == "linear":
        np.testing.assert_allclose(model.coef_, theirs.coef_, atol=2e-5 * size)
    ours, other = certify(model, X, y), certify(theirs, X, y)
    assert ours.relative_gap <= 2 * TOL
    assert other.primal >= ours.dual - 1e-12 * abs(ours.dual)
    assert other.relative_gap <= 1e-4
    assert ours.primal == pytest.approx(model.objective_, rel=1e-9)
    assert ours.dual == pytest.approx(model.dual_objective_, rel=1e-9)


@pytest.mark.parametrize("strategy", ["ovo", "ovr"])
def test_nu_svc_of_three_classes(strategy, three):
    X, y = three
    model = NuSVC(nu=0.1, gamma=GAMMA, tol=TOL, multi_class=strategy).fit(X, y)
    assert model.dual_coef_.shape[0] == (2 if strategy == "ovo" else 3)
    assert model.nu_.shape == model.rho_.shape == (3,)
    assert model.nu_max_ == pytest.approx(1.0 if strategy == "ovo" else 2 / 3)
    assert certify(model, X, y).relative_gap <= 2 * TOL
    for shape in ("ovo", "ovr"):
        model.set_params(decision_function_shape=shape)
        theirs = sklearn.svm.NuSVC(nu=0.1, gamma=GAMMA, tol=1e-10, decision_function_shape=shape).fit(X, y)
        if strategy == "ovo":
            np.testing.assert_allclose(model.decision_function(X), theirs.decision_function(X), atol=2e-4)
            np.testing.assert_array_equal(model.predict(X), theirs.predict(X))
    assert model.score(X, y) > 0.9


# ---- the referee -----------------------------------------------------------------------------------------------------


def expansion(model, n, row=0):
    alpha = np.zeros(n)
    alpha[model.support_] = model.dual_coef_[row]
    return alpha


def agree(model, verdict, case, scale=1.0):
    """The referee's values are the reported ones, and the optimum of somebody else's solver lies between them."""
    assert verdict.infeasibility <= 1e-9 * scale
    assert model.objective_ == pytest.approx(verdict.primal, rel=1e-8)
    assert model.dual_objective_ == pytest.approx(verdict.dual, rel=1e-8)
    assert model.duality_gap_ <= model.tol
    assert referee.reference_optimum(case) == pytest.approx(verdict.primal, rel=1e-6)


@pytest.mark.parametrize("nu", [0.02, 0.3, 0.7])
def test_referee_of_nu_svc(nu, binary):
    X, y = binary
    weights = np.random.default_rng(0).integers(0, 4, y.size).astype(float)
    model = NuSVC(nu=nu, gamma=GAMMA, tol=TOL, class_weight={0: 0.7}).fit(X, y, sample_weight=weights)
    K, s, sign = gram("rbf", X, X), weights * np.where(y == 0, 0.7, 1.0), 2.0 * y - 1.0
    T, rho = nu * s.sum() / 2, model.rho_[0]
    groups = (np.flatnonzero(y == 1), T), (np.flatnonzero(y == 0), -T)
    low, high = np.where(y == 1, 0.0, -s), np.where(y == 1, s, 0.0)
    case = referee.Box(Q=K, q=np.zeros(y.size), low=low, high=high, D=np.zeros(y.size), groups=groups)
    a = rho * expansion(model, y.size)
    agree(model, referee.judge_box(case, a), case, T)
    # The formula of the docstring, at what the model predicts.
    f, b = rho * (model.decision_function(X) - model.intercept_[0]), rho * model.intercept_[0]
    primal = a @ f / 2 - nu * s.sum() * rho + s @ np.maximum(0.0, rho - sign * (f + b))
    assert model.objective_ == pytest.approx(primal, rel=1e-8)
    # It solves the problem of SVC with C = 1 / rho.
    same = SVC(C=1 / rho, gamma=GAMMA, tol=TOL, class_weight={0: 0.7}).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(same.decision_function(X), model.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("intercept", ["free", "penalised", None])
@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
def test_referee_of_svr(loss, intercept, curve):
    X, y = curve
    weights = np.random.default_rng(1).integers(0, 4, y.size).astype(float)
    model = SVR(C=2.0, epsilon=0.3, loss=loss, gamma=GAMMA, tol=TOL, intercept=intercept).fit(X, y, weights)
    name = "epsilon" if loss == "epsilon_insensitive" else "squared epsilon"
    case = referee.Machine(
        y=y, s=2.0 * weights, loss=(name, 0.3), penalty=("l2", 1.0), K=gram("rbf", X, X), intercept=intercept
    )
    alpha = expansion(model, y.size)
    agree(model, referee.judge(case, alpha, model.intercept_[0], alpha), case, 100.0)
    np.testing.assert_allclose(model.predict(X), case.K @ alpha + model.intercept_[0], atol=1e-9)
    assert certify(model, X, y, sample_weight=weights).relative_gap <= 2 * TOL


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("intercept", ["free", "penalised", None])
def test_referee_of_squared_hinge_svc(kernel, intercept, binary):
    X, y = binary
    model = SVC(C=0.5, loss="squared_hinge", gamma=GAMMA, tol=TOL, kernel=kernel, intercept=intercept, solver="smo")
    model.fit(X, y)
    case = referee.Machine(
        y=2.0 * y - 1.0,
        s=np.full(y.size, 0.5),
        loss=("squared hinge", 1.0),
        penalty=("l2", 1.0),
        K=gram(kernel, X, X),
        intercept=intercept,
    )
    alpha = expansion(model, y.size)
    agree(model, referee.judge(case, alpha, model.intercept_[0], alpha), case, 100.0)
    verdict = certify(model, X, y)
    assert verdict.relative_gap <= 2 * TOL
    assert verdict.problem.endswith("^2")


@pytest.mark.parametrize("nu", [0.1, 0.6])
def test_referee_of_nu_svr(nu, curve):
    X, y = curve
    weights = np.random.default_rng(2).integers(0, 4, y.size).astype(float)
    model = NuSVR(C=2.0, nu=nu, gamma=GAMMA, tol=TOL).fit(X, y, sample_weight=weights)
    K, s, n = gram("rbf", X, X), 2.0 * weights, y.size
    T = nu * s.sum() / 2
    case = referee.Box(
        Q=np.tile(K, (2, 2)),
        q=np.tile(y, 2),
        low=np.concatenate([np.zeros(n), -s]),
        high=np.concatenate([s, np.zeros(n)]),
        D=np.zeros(2 * n),
        groups=((np.arange(n), T), (np.arange(n, 2 * n), -T)),
    )
    alpha = expansion(model, n)
    sides = np.concatenate([np.maximum(alpha, 0), np.minimum(alpha, 0)])
    agree(model, referee.judge_box(case, sides), case, T)
    error = np.abs(y - K @ alpha - model.intercept_[0])
    primal = alpha @ K @ alpha / 2 + nu * s.sum() * model.epsilon_ + s @ np.maximum(0, error - model.epsilon_)
    assert model.objective_ == pytest.approx(primal, rel=1e-8)
    same = SVR(C=2.0, epsilon=model.epsilon_, gamma=GAMMA, tol=TOL).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(same.predict(X), model.predict(X), atol=1e-4)


@pytest.mark.parametrize("nu", [0.05, 0.5])
def test_referee_of_one_class(nu, binary):
    X = binary[0]
    weights = np.random.default_rng(3).integers(0, 4, len(X)).astype(float)
    model = OneClassSVM(nu=nu, gamma=GAMMA, tol=TOL).fit(X, sample_weight=weights)
    K, T, n = gram("rbf", X, X), nu * weights.sum(), len(X)
    case = referee.Box(Q=K, q=np.zeros(n), low=np.zeros(n), high=weights, D=np.zeros(n), groups=((np.arange(n), T),))
    a = expansion(model, n)
    agree(model, referee.judge_box(case, a), case, T)
    rho = model.offset_[0]
    primal = a @ K @ a / 2 - T * rho + weights @ np.maximum(0, rho - K @ a)
    assert model.objective_ == pytest.approx(primal, rel=1e-8)
    np.testing.assert_allclose(model.score_samples(X), K @ a, atol=1e-9)
    np.testing.assert_allclose(model.score_samples(X) - rho, model.decision_function(X), atol=1e-9)
    assert set(model.predict(X)) == {-1, 1}
    assert certify(model, X, sample_weight=weights).relative_gap <= 2 * TOL


# ---- weights ---------------------------------------------------------------------------------------------------------


WEIGHTED = {
    "svc": SVC(),
    "svc, squared": SVC(loss="squared_hinge"),
    "nu-svc": NuSVC(nu=0.2),
    "nu-svc, cap": NuSVC(cap=0.05),
    "svr": SVR(),
    "svr, squared": SVR(loss="squared_epsilon_insensitive"),
    "nu-svr": NuSVR(),
    "one-class": OneClassSVM(),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_weight_two_is_two_copies(name, binary, curve):
    model = WEIGHTED[name].set_params(tol=1e-12)
    X, y = targets_of(model, binary, curve)
    X, y = X[:70], y[:70]
    times = np.random.default_rng(0).integers(0, 4, y.size)
    weighted = scores(model.fit(X, y, sample_weight=times), X)
    copied = scores(model.fit(X.repeat(times, axis=0), y.repeat(times)), X)
    plain = scores(model.fit(X, y), X)
    np.testing.assert_allclose(weighted, copied, rtol=1e-5, atol=1e-6)
    assert np.abs(plain - weighted).max() > 1e-3, "weights must have an effect"


def test_class_weight_two_is_two_copies_of_the_class(binary):
    X, y = binary
    times = np.where(y == 1, 3, 1)
    model = NuSVC(nu=0.2, gamma=GAMMA, tol=1e-10)
    copied = model.fit(X.repeat(times, axis=0), y.repeat(times)).decision_function(X)
    weighted = model.set_params(class_weight={1: 3}).fit(X, y).decision_function(X)
    np.testing.assert_allclose(weighted, copied, rtol=1e-5, atol=1e-6)
    balanced = model.set_params(class_weight="balanced").fit(X, y)
    assert balanced.nu_max_ == pytest.approx(1.0)
    assert np.abs(balanced.decision_function(X) - weighted).max() > 1e-3


@pytest.mark.parametrize("name", WEIGHTED)
def test_all_weights_zero_are_refused(name, binary, curve):
    model = WEIGHTED[name]
    X, y = targets_of(model, binary, curve)
    with pytest.raises(ValueError, match="weight"):
        model.fit(X, y, sample_weight=np.zeros(y.size))


# ---- nu --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.5, 0.7])
def test_nu_lies_between_margin_errors_and_support_vectors(nu, binary, curve):
    X, y = binary
    slack = 1e-6
    model = NuSVC(nu=nu, gamma=GAMMA, tol=TOL).fit(X, y)
    errors = ((2 * y - 1) * model.decision_function(X) < 1 - slack).mean()
    assert errors <= nu <= model.support_.size / y.size
    model = OneClassSVM(nu=nu, gamma=GAMMA, tol=TOL).fit(X)
    errors = (model.decision_function(X) < -slack * model.offset_).mean()
    assert errors <= nu <= model.support_.size / y.size
    X, y = curve
    model = NuSVR(nu=nu, gamma=GAMMA, tol=TOL).fit(X, y)
    errors = (np.abs(y - model.predict(X)) > model.epsilon_ + slack).mean()
    assert errors <= nu <= model.support_.size / y.size


def never(A, B):
    raise AssertionError("a kernel value was computed")


def test_infeasible_nu_is_refused_before_any_work(binary):
    X, y = binary
    labels = np.array(["a", "b"])[y]
    share = min((y == 0).mean(), (y == 1).mean())
    with pytest.raises(ValueError, match=r"specified nu is infeasible for b against a: nu=0\.99 needs") as caught:
        NuSVC(nu=0.99, kernel=never).fit(X, labels)
    assert f"nu must be at most {2 * share:.10g}" in str(caught.value)
    NuSVC(nu=2 * share, gamma=GAMMA).fit(X, y)  # the bound itself is feasible
    weights = np.where(y == 1, 1.0, 100.0)
    bound = 2 * (y == 1).sum() / weights.sum()
    for model, w in ((NuSVC(kernel=never), weights), (NuSVC(kernel=never, class_weight={0: 100}), None)):
        with pytest.raises(ValueError, match=f"specified nu is infeasible.*at most {bound:.10g}"):
            model.fit(X, y, sample_weight=w)
        assert not hasattr(model, "nu_max_")
    assert NuSVC(nu=0.01, class_weight={0: 100}).fit(X, y).nu_max_ == pytest.approx(bound)


def test_infeasible_pair_of_many_classes_is_named(three):
    X, y = three
    keep = np.flatnonzero(y != 2).tolist() + np.flatnonzero(y == 2)[:5].tolist()
    with pytest.raises(ValueError, match=r"infeasible for 0 against 2: .*at most 0.1818181818\. "):
        NuSVC(nu=0.5).fit(X[keep], y[keep])


def test_cap_is_the_other_parametrisation(binary):
    X, y = binary
    nu = 0.2
    cap = 2 / (nu * y.size)
    one, other = NuSVC(nu=nu, gamma=GAMMA, tol=TOL).fit(X, y), NuSVC(cap=cap, gamma=GAMMA, tol=TOL).fit(X, y)
    assert other.nu_ == pytest.approx([nu])
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-6)
    share = np.abs(other.dual_coef_[0]) * other.rho_[0] * cap  # of the convex combination of each class
    assert share.sum() == pytest.approx(2.0)
    assert share.max() <= cap * (1 + 1e-9)
    hard = SVC(C=1e6, gamma=GAMMA, tol=1e-4).fit(X, y).decision_function(X)
    np.testing.assert_allclose(
        NuSVC(cap=1.0, gamma=GAMMA, tol=1e-8).fit(X, y).decision_function(X), hard, atol=1e-2 * np.abs(hard).max()
    )
    least = 1 / min((y == 0).sum(), (y == 1).sum())
    with pytest.raises(ValueError, match=f"specified nu is infeasible.*cap must be at least {least:.10g}"):
        NuSVC(cap=0.9 * least).fit(X, y)
    with pytest.raises(ValueError, match=r"cap=0.5 contradicts nu=0.3"):
        NuSVC(cap=0.5, nu=0.3).fit(X, y)


def test_the_largest_nu_has_a_finite_model(binary):
    X, y = binary
    model = NuSVC(nu=1.0, class_weight="balanced", gamma=GAMMA, tol=TOL).fit(X, y)
    assert np.isfinite(model.decision_function(X)).all()
    assert model.rho_[0] > 0.0
    assert certify(model, X, y).relative_gap <= 1e-9
    model = OneClassSVM(nu=1.0, gamma=GAMMA, tol=TOL).fit(X)
    assert model.support_.size == len(X)
    assert model.decision_function(X).max() == pytest.approx(0.0, abs=1e-9)  # everything is an outlier or at the edge
    assert certify(model, X).relative_gap <= 1e-9


def test_hulls_that_overlap_end_quickly_and_honestly():
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 3)), np.arange(60) % 2
    model = NuSVC(nu=0.3, kernel="linear", max_time=20)
    with pytest.warns(ConvergenceWarning, match="Raise nu or tol"):
        model.fit(X, y)
    assert model.status_ is Status.STALLED
    assert abs(model.objective_) < 1e-9
    assert np.isfinite(model.decision_function(X)).all()
    with pytest.warns(ConvergenceWarning, match="rounding errors"):
        OneClassSVM(nu=0.5, kernel="linear", max_time=20).fit(np.concatenate([X, -X]))


# ---- fits that hang elsewhere ----------------------------------------------------------------------------------------


def finished(model, X, y):
    """Fit, and check that the end is a certificate or an honest status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.set_params(max_time=20).fit(X, y)
    assert (model.duality_gap_ <= model.tol) == (model.status_ is Status.CONVERGED)
    again = certify(model, X, y)  # whose bound on rounding may be another one
    assert again.relative_gap == pytest.approx(model.duality_gap_, rel=0.3, abs=1e-6)
    return model


def test_six_samples_of_nu_svc():
    """The data of scikit-learn #13075: two of the samples are almost equal, and LIBSVM may not return."""
    columns = [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]
    X = np.zeros((6, 13))
    X[:, columns] = [
        [0, 0.3, 0, 0, 1, 0.625, 0, 0, 0.31865753, 0, 0],
        [0, 0, 0, 0, 1 / 3, 0.61538462, 0, 0, 0.59230137, 1, 1],
        [0, 0, 0, 0, 0, 0, 0, 0, 0.31778082, 1, 0],
        [2 / 3, 0, 0.5, 1, 0.8, 0, 1, 0.5625, 0.36430137, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 0, 0.33638356, 1, 0],
        [0, 0.3, 0, 0, 1, 0.625, 0, 0, 0.31843836, 0, 0],
    ]
    y = np.array([False, True, True, False, True, False])
    for nu in (2 / 7, 0.01, 0.9):
        model = finished(NuSVC(nu=nu, kernel="poly", gamma="auto", coef0=10.0), X, y)
        assert model.status_ is Status.CONVERGED
        np.testing.assert_array_equal(model.predict(X), y)


def test_polynomial_svc_on_one_unscaled_feature():
    """The parameters of scikit-learn #30353, on noise: its data are not public here."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0, 100, (300, 1)), rng.integers(0, 2, 300)
    weights = {0: 1.04884106, 1: 0.95550528}
    finished(SVC(C=100, kernel="poly", degree=4, gamma=0.96, tol=0.01, class_weight=weights), X, y)


def test_nu_svr_on_unscaled_noise():
    """The shape of scikit-learn #11079, a linear NuSVR that took hours: columns of all sizes."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((547, 22)) * 10.0 ** rng.uniform(-3, 4, 22)
    finished(NuSVR(kernel="linear"), X, rng.standard_normal(547) * 100)
    finished(NuSVR(C=100.0), X, rng.standard_normal(547) * 100)


# ---- everything that SVC can do --------------------------------------------------------------------------------------


EVERY = [NuSVC(nu=0.2), SVR(), NuSVR(), OneClassSVM(nu=0.2), SVC(loss="squared_hinge")]


@pytest.mark.parametrize("model", EVERY, ids=lambda model: type(model).__name__)
def test_kinds_of_kernels_and_matrices_agree(model, binary, curve):
    X, y = targets_of(model, binary, curve)
    X = np.where(np.abs(X) > 0.3, X, 0.0)
    K = gram("rbf", X, X)
    model.set_params(tol=1e-9, gamma=GAMMA, kernel="rbf")
    expected = scores(model.fit(X, y), X)
    for matrix in (csr_array(X), csr_matrix(X)):
        np.testing.assert_allclose(scores(model.fit(matrix, y), matrix), expected, atol=1e-4)
        assert type(model.support_vectors_) is type(matrix)
    single = X.astype(np.float32)
    np.testing.assert_allclose(scores(model.fit(single, y), single), expected, atol=1e-2)
    model.set_params(kernel="precomputed")
    np.testing.assert_allclose(scores(model.fit(K, y), K), expected, atol=1e-4)
    assert certify(model, K, y).relative_gap <= 1e-8
    model.set_params(kernel=lambda A, B: gram("rbf", A, B))
    np.testing.assert_allclose(scores(model.fit(X, y), X), expected, atol=1e-4)
    assert certify(model, X, y).relative_gap <= 1e-8
    X = X + 3.0  # away from the origin, around which a linear one-class machine has the value zero
    model.set_params(kernel="linear").fit(csr_array(X), y)
    np.testing.assert_allclose(scores(model, X), (X @ model.coef_.T + model.intercept_)[:, 0], atol=1e-8)
    model.set_params(kernel="rbf", gamma="scale")


@pytest.mark.parametrize("model", EVERY, ids=lambda model: type(model).__name__)
def test_degenerate_data(model):
    regression = isinstance(model, (SVR, NuSVR))
    model.set_params(max_time=20, tol=1e-6)
    cases = {
        "one sample per class": (np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([0, 1])),
        "constant features": (np.ones((6, 2)), np.array([0, 1, 0, 1, 0, 1])),
        "constant column": (np.column_stack([np.arange(8.0), np.ones(8)]), np.array([0, 1] * 4)),
        "duplicates": (np.repeat([[0.0], [1.0], [2.0]], 4, axis=0), np.repeat([0, 1, 0], 4)),
    }
    for name, (X, y) in cases.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y.astype(float) if regression else y)
        assert np.isfinite(scores(model, X)).all(), name
        assert model.status_ in (Status.CONVERGED, Status.STALLED), name
    if regression:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # relative to an optimum of zero, rounding is large
            model.fit(np.arange(6.0)[:, None], np.full(6, 5.0))
        np.testing.assert_allclose(model.predict([[2.5]]), [5.0], atol=0.11)
    model.set_params(max_time=None, tol=1e-3)


@pytest.mark.parametrize("model", EVERY, ids=lambda model: type(model).__name__)
def test_limits_callbacks_and_warm_starts(model, binary, curve):
    X, y = targets_of(model, binary, curve)
    model.set_params(tol=1e-9, max_iter=3, warm_start=True, gamma=GAMMA)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        model.fit(X, y)
    assert model.status_ is Status.MAX_ITER
    assert model.fit_status_ == 1
    assert model.duality_gap_ > 1e-9
    before = model.dual_objective_
    model.set_params(max_iter=-1).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.fit_status_ == 0
    assert model.solution_.history[0].dual >= before - 1e-9 * abs(before)
    optimum = model.objective_
    model.fit(X, y)  # from the optimum
    assert model.solution_.iterations == 0
    assert model.objective_ == pytest.approx(optimum, rel=1e-8)
    records = []
    model.set_params(warm_start=False, callback=lambda record: records.append(record) or True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert records
    assert model.status_ in (Status.CALLBACK, Status.CONVERGED)
    model.set_params(callback=None, tol=1e-3, gamma="scale")


def test_contradictions_are_refused(binary):
    X, y = binary
    with pytest.raises(ValueError, match="needs the samples as rows of features"):
        NuSVC(kernel="linear", solver="newton").fit(X, y)
    with pytest.raises(ValueError, match="'nu' parameter"):
        OneClassSVM(nu=0.0).fit(X)
    with pytest.raises(ValueError, match="'epsilon' parameter"):
        SVR(epsilon=-1.0).fit(X, y)
    with pytest.raises(AttributeError, match="only available with the linear kernel"):
        SVR().fit(X, y).coef_  # noqa: B018
    with pytest.raises(AttributeError, match="before it is fitted"):
        OneClassSVM().offset_  # noqa: B018


def test_one_class_ignores_targets_and_predicts_like_scikit_learn():
    X = scale(load_breast_cancer().data)[:100]
    model, theirs = OneClassSVM(nu=0.3, tol=TOL), sklearn.svm.OneClassSVM(nu=0.3, tol=1e-10)
    inside = model.fit_predict(X, y=["anything"] * 100)
    free = np.abs(model.decision_function(X)) > 1e-6
    np.testing.assert_array_equal(inside[free], theirs.fit_predict(X)[free])
    np.testing.assert_allclose(model.offset_, theirs.offset_, rtol=1e-6)
    assert maxmargin.certify(theirs.fit(X), X).relative_gap <= 1e-6


def test_linear_svr_is_solved_by_features(curve):
    X, y = curve
    by_rows, by_matrix = SVR(kernel="linear", tol=TOL).fit(X, y), SVR(kernel="linear", tol=TOL, solver="smo").fit(X, y)
    assert by_rows.solution_.solver in ("newton", "block_smo")  # the latter over rows, in one compiled call
    assert by_matrix.solution_.solver == "smo"
    np.testing.assert_allclose(by_rows.coef_, by_matrix.coef_, atol=1e-5)
    assert by_rows.score(X, y) > 0.4


def test_a_spoiled_model_is_found_out(binary, curve):
    for model in (NuSVC(nu=0.2), OneClassSVM(nu=0.2), SVR(), NuSVR()):
        X, y = targets_of(model, binary, curve)
        model.set_params(tol=1e-6).fit(X, y)
        assert certify(model, X, y).relative_gap <= 2e-6
        model.intercept_ = model.intercept_ + 0.2 * np.abs(scores(model, X)).max()
        assert certify(model, X, y).relative_gap > 1e-4


def test_nu_svc_separates_many_samples():
    X, y = make_classification(800, 10, class_sep=0.8, random_state=0)
    model = NuSVC(nu=0.4, tol=1e-8).fit(X, y)
    assert model.status_ is Status.CONVERGED
    assert model.support_.size < 800
