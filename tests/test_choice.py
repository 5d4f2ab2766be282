"""What "auto" stands for: whatever it chooses can solve the problem, and says why."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from hypothesis import given
from hypothesis import strategies as st

import maxmargin
import zoo
from maxmargin.loop.minimize import best_parts, minimize
from maxmargin.loop.solution import Status
from maxmargin.operators import Rows
from maxmargin.parts.losses import Hinge, SquaredHinge
from maxmargin.parts.penalties import L1, L2
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.solvers import SOLVERS
from maxmargin.solvers.choice import Choice, Traits, table
from maxmargin.solvers.rows.newton import Newton

FLAGS = st.booleans()


@given(st.integers(1, 10**7), st.integers(1, 10**5), FLAGS, FLAGS, st.sampled_from([None, 1e-3, 1.0, 1e6]))
def test_the_choice_can_solve_what_it_is_chosen_for(n, d, l1, in_memory, max_time):
    choice = table(Traits(n, d, n * d, l1, in_memory=in_memory, max_time=max_time))
    few = Problem(
        Rows(np.ones((2, d))),
        np.array([1.0, -1.0]),
        SquaredHinge(),
        (L1 if l1 else L2)(1.0),
        np.ones(2),
    )
    assert choice.make().supports(few) is None
    assert in_memory or SOLVERS[choice.name].needs.samples == "sweeps"
    assert choice.name in str(choice)


@given(st.integers(100, 10**7), st.integers(1, 10**5), st.integers(2, 64), FLAGS)
def test_the_choice_of_several_clients_can_solve_what_it_is_chosen_for(n, d, clients, in_memory):
    traits = Traits(n, d, n * d, in_memory=in_memory, clients=clients)
    choice = table(traits)
    assert choice.name in ("newton", "cocoa")
    assert in_memory or choice.name == "newton"
    assert f"{clients} clients" in str(choice)
    assert "rounds" in str(choice)
    assert not choice.successors
    if in_memory:
        few = Problem(Rows(np.ones((2, d))), np.array([1.0, -1.0]), SquaredHinge(), L2(1.0), np.ones(2))
        assert choice.make().supports(few) is None


def test_several_clients_choose_by_the_problem_and_the_number_of_features():
    assert table(Traits(10**6, 100, 10**8, clients=4)).name == "newton"
    assert table(Traits(150, 4, 600, clients=4)).name == "newton"
    assert table(Traits(10**6, 5000, 10**8, clients=4)).name == "cocoa"
    assert table(Traits(10**6, 100, 10**8, clients=4, of_hulls=True)).name == "saddle"
    assert table(Traits(10**6, 100, 10**8, l1=True, clients=4)).name == "smoothed"


def test_short_rows_without_an_intercept_begin_with_epochs():
    rng = np.random.default_rng(0)
    X = sp.random_array((2000, 100), density=0.03, format="csr", rng=rng)
    y = np.where(X @ rng.normal(size=100) + 0.2 * rng.normal(size=2000) > 0.0, 1, -1)
    for loss, epochs in (("squared_hinge", 5), ("hinge", 60)):
        model = maxmargin.LinearSVC(loss=loss, fit_intercept=False, tol=1e-8)
        sentence = maxmargin.explain_solver(model, X, y)
        assert "uses 'dual_coordinate', because the rows are short" in sentence
        assert f"'newton' takes over after {epochs} iterations" in sentence
        model.set_params(C=100.0, max_time=60.0).fit(X, y)  # a clock asks for the loop
        assert model.duality_gap_ <= 1e-8
        assert "smoothing" in model.solution_.history[-1].counters  # newton's
    for other in (maxmargin.LinearSVC(), maxmargin.LinearSVC(intercept="free")):
        assert "uses 'newton'" in maxmargin.explain_solver(other, X, y)
    assert "uses 'newton'" in maxmargin.explain_solver(maxmargin.LinearSVC(intercept=None), X.toarray(), y)


def test_a_fit_makes_no_difference_to_the_explanation():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = np.arange(60) % 3
    model = maxmargin.LogisticRegression()
    before, of_three = maxmargin.explain_solver(model, X), maxmargin.explain_solver(model, X, y)
    model.fit(X, y)
    assert maxmargin.explain_solver(model, X) == before
    assert "uses 'newton'" in before
    assert "With more than two classes, which only y can tell, it uses 'softmax_newton'" in before
    assert maxmargin.explain_solver(model, X, y) == of_three
    assert "uses 'softmax_newton'" in of_three
    assert model.solution_.solver == "softmax_newton"


def test_an_explanation_draws_no_random_numbers():
    rng = np.random.RandomState(0)
    maxmargin.explain_solver(maxmargin.LinearSVC(random_state=rng), np.zeros((9, 2)))
    assert rng.randint(2**31) == np.random.RandomState(0).randint(2**31)


def test_hints_reach_every_solver_that_takes_over():
    relay = Choice("dual_coordinate", "", (("blocks", 3), ("pivoting", 5))).make({"seed": 7, "shrinking": False})
    assert (relay.first.seed, relay.second.first.seed) == (7, 7)
    assert not relay.first.shrinking


def test_a_wrong_option_is_refused_with_the_right_ones():
    with pytest.raises(ValueError, match=r"solver='saddle' has no option 'blok_size'; its options are .*'block_size'"):
        maxmargin.hull_distance([[0.0]], [[1.0]], blok_size=1)


def test_a_kernel_is_for_solvers_of_kernels():
    choice = table(Traits(10, 3, 30, kernelised=True))
    assert (
        SOLVERS[choice.name]().supports(next(c for c in zoo.cases() if c.name == "hinge, rbf, weighted").build())
        is None
    )


@pytest.mark.parametrize(
    ("estimator", "shape", "name"),
    [
        (maxmargin.LinearSVC(), (1000, 20), "newton"),
        (maxmargin.LinearSVC(loss="hinge"), (1000, 500), "newton"),
        (maxmargin.LinearSVC(), (50, 2000), "dual_coordinate"),
        (maxmargin.LinearSVC(dual=True), (1000, 20), "dual_coordinate"),
        (maxmargin.LinearSVC(solver="smoothed"), (1000, 20), "smoothed"),
        (maxmargin.LinearSVR(), (1000, 20), "newton"),
        (maxmargin.LogisticRegression(), (1000, 20), "newton"),
        (maxmargin.SVC(), (1000, 20), "block_smo"),
        (maxmargin.SVC(), (2001, 2), "decomposition"),
        (maxmargin.SVC(kernel="linear"), (1000, 20), "newton"),
        (maxmargin.NuSVC(kernel="linear"), (1000, 20), "block_smo"),
        (maxmargin.OneClassSVM(), (1000, 20), "block_smo"),
        (maxmargin.SGDClassifier(), (1000, 20), "sgd"),
    ],
    ids=str,
)
def test_the_explanation_names_the_solver_that_is_used(estimator, shape, name):
    X = np.random.default_rng(0).normal(size=shape)
    sentence = maxmargin.explain_solver(estimator, X)
    assert f"{shape[0]} x {shape[1]} uses '{name}', because " in sentence
    assert sentence.endswith(".")
    if shape[0] <= 50 and not isinstance(estimator, maxmargin.OneClassSVM):
        assert estimator.fit(X, X[:, 0] > 0.0).solution_.solver == name


def test_only_our_estimators_are_explained():
    with pytest.raises(TypeError, match="LinearSVC is no estimator of maxmargin"):
        maxmargin.explain_solver(sklearn.svm.LinearSVC(), np.zeros((3, 2)))


@pytest.mark.parametrize(
    ("estimator", "samples", "message"),
    [
        (maxmargin.LinearSVC(), np.zeros(3), r"X has the shape \(3,\), but samples are a matrix"),
        (maxmargin.LinearSVC(solver="nonsense"), np.zeros((3, 2)), "solver='nonsense' is unknown"),
    ],
)
def test_nothing_is_explained_that_no_fit_would_do(estimator, samples, message):
    with pytest.raises(ValueError, match=message):
        maxmargin.explain_solver(estimator, samples)


def test_large_linear_nu_machines_are_solved_as_hulls_in_one_place_too():
    """2-28: where it was measured to be faster; a hard margin, another kernel and few samples are not."""
    for estimator, n, name in (
        (maxmargin.NuSVC(kernel="linear"), 3000, "saddle"),
        (maxmargin.NuSVC(kernel="linear"), 1500, "block_smo"),
        (maxmargin.NuSVC(), 3000, "decomposition"),
        (maxmargin.SVC(C=np.inf, kernel="linear"), 3000, "decomposition"),
    ):
        rng = np.random.default_rng(0)
        X, y = rng.standard_normal((n, 3)), np.arange(n) % 2
        assert f"'{name}'" in str(maxmargin.explain_solver(estimator, X, y)), (estimator, n)
        if n == 3000 and name == "saddle":
            X[:, 0] += 3.0 * y
            model = estimator.set_params(nu=0.7).fit(X, y)
            decomposed = maxmargin.NuSVC(kernel="linear", nu=0.7, solver="decomposition").fit(X, y)
            assert model.objective_ == pytest.approx(decomposed.objective_, rel=3e-3)
            assert model.status_ is Status.CONVERGED


def test_the_better_part_of_each_point_is_kept():
    early = Point(np.array([1.0]), 1.0, np.array([1.0])), Certificate(5.0, 3.0)
    late = Point(np.array([2.0]), 2.0, np.array([2.0])), Certificate(4.0, 1.0)
    point, certificate = best_parts(early, late)
    assert (point.w[0], point.b, point.alpha[0]) == (2.0, 2.0, 1.0)
    assert (certificate.primal, certificate.dual) == (4.0, 3.0)


def test_a_fit_that_is_stopped_early_keeps_the_best_coefficients_and_the_best_bound():
    """Newton's first dual variables are worse than none, its first coefficients are not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5))
    y = np.where(X[:, 0] + rng.normal(size=3000) > 0.0, 1.0, -1.0)
    problem = Problem(Rows(X), y, Hinge(), L2(1.0), np.ones(3000))
    start = minimize(problem, Newton(), max_iter=0).certificate
    stopped = minimize(problem, Newton(), max_iter=2)
    assert stopped.status is Status.MAX_ITER
    assert stopped.certificate.primal < 0.7 * start.primal
    assert stopped.certificate.dual >= start.dual
    judged = problem.certify(stopped.point)
    assert (judged.primal, judged.dual) == (stopped.certificate.primal, stopped.certificate.dual)
