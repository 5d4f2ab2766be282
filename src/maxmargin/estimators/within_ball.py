"""The smallest mean loss over a ball, exactly and by projected stochastic steps, with certificates of both."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from maxmargin.bounds import step_in_ball
from maxmargin.estimators._machinery.systems import check_number, check_system
from maxmargin.loop.minimize import minimize
from maxmargin.numerics.rounding import growth
from maxmargin.operators import Rows
from maxmargin.operators.rows import is_sparse
from maxmargin.parts.losses import Hinge, HuberHinge, Logistic, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Loss
from maxmargin.solvers.choice import choose
from maxmargin.solvers.rows.projected_steps import projected_steps

LOSSES: dict[str, Loss] = {
    "hinge": Hinge(), "squared_hinge": SquaredHinge(), "huber_hinge": HuberHinge(1.0), "logistic": Logistic(1.0),
}  # fmt: skip
LIPSCHITZ = ("hinge", "huber_hinge", "logistic")  # those whose slopes are at most 1
MOST_STRENGTHS = 60  # that are tried
INNER = 0.1  # tolerance of each fit, as a share of what is asked for
LARGEST_RADIUS = 1e100
ORDERS = ("fresh", "independent")


@dataclass(frozen=True, eq=False)
class InBall:
    """Coefficients of a norm that is bounded, with their proof.

    Attributes
    ----------
    w : ndarray of shape (n_features,)
        Coefficients, with ``|w| <= radius``.
    radius : float
        Of the ball.
    certificate : Certificate
        The mean loss of the samples at ``w``, and a lower bound on its minimum over the ball. Its gap is the excess
        over the ball at most.
    lam : float
        The strength for which ``lam/2 |w|^2`` and the mean loss have about this solution: the multiplier of the ball.
    steps : int
        Steps of the stochastic method, or strengths that were tried.

    """

    w: Float
    radius: float
    certificate: Certificate
    lam: float
    steps: int

    @property
    def excess(self) -> float:
        """How far the mean loss is above its minimum over the ball, at most."""
        return self.certificate.gap

    def __repr__(self) -> str:
        return (
            f"InBall(|w| = {np.linalg.norm(self.w):.6g} of {self.radius:.6g}, mean loss {self.certificate.primal:.6g}, "
            f"at most {max(self.excess, 0.0):.2g} above the smallest one, after {self.steps} steps)"
        )


def minimise_in_ball(
    X: Any, y: ArrayLike, radius: float, *, loss: str = "hinge", tol: float = 1e-6, max_time: float | None = None
) -> InBall:
    """The smallest mean loss with ``|w| <= radius``: empirical risk minimisation over a ball.

    The solution of ``lam/2 |w|^2 + 1/n sum_i loss_i`` is that for the ball of its own norm, so the strength is sought
    for which this is the radius. Each fit is certified for the ball as well: for any dual variables ``alpha``,

    ``min over the ball >= -conjugates(alpha) - radius |X^T alpha|``.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples. There is no intercept; a column of ones makes one that counts in the norm.
    y : array-like of shape (n_samples,)
        Labels, -1 and 1.
    radius : float
        The largest norm that is allowed.
    loss : {"hinge", "squared_hinge", "huber_hinge", "logistic"}
        Loss of a margin.
    tol : float
        Gap at which to stop, as a share of the mean loss at zero.
    max_time : float, optional
        Limit in seconds for each strength that is tried.

    Returns
    -------
    InBall
        Coefficients and certificate.

    Examples
    --------
    >>> from maxmargin import minimise_in_ball
    >>> found = minimise_in_ball([[1.0, 0.0], [0.0, 2.0]], [1.0, -1.0], 0.5)
    >>> found.w.round(4), bool(found.excess < 1e-6)
    (array([ 0.2236, -0.4472]), True)

    """
    problem, n = _posed(X, y, radius, loss)
    at_zero = problem.losses(np.zeros(n))
    if radius == 0.0:
        return _judged(problem, radius, np.zeros(problem.features.n_features), problem.slopes(np.zeros(n)), 0)
    low, high = 0.0, 2.0 * at_zero / radius**2  # the norm for `high` is at most the radius
    lam, best, solution, inner = high, None, None, INNER * tol
    for count in range(1, MOST_STRENGTHS + 1):
        posed = replace(problem, penalty=L2(lam))
        solution = minimize(posed, choose(posed).make(), tol=inner, max_time=max_time, warm=solution)
        if solution.iterations == 0:  # good enough for this strength too, so the tolerance says too little of the norm
            inner *= INNER
        assert solution.point.alpha is not None
        w, length = solution.point.w, float(np.linalg.norm(solution.point.w))
        found = replace(_judged(problem, radius, _into(w, radius), solution.point.alpha, count), lam=lam)
        if best is None or found.excess < best.excess:
            best = found
        if best.excess + best.certificate.error <= tol * at_zero:
            break
        low, high = (lam, high) if length > radius else (low, lam)
        # The norm falls with the strength, like its inverse where all losses are at their steepest.
        lam = lam * length / radius
        if not low < lam < high:
            lam = math.sqrt(low * high) if low > 0.0 else 0.1 * high
    assert best is not None
    return best


def projected_sgd(
    X: Any,
    y: ArrayLike,
    radius: float,
    *,
    steps: int | None = None,
    step: float | None = None,
    order: str = "independent",
    loss: str = "hinge",
    seed: int = 0,
) -> InBall:
    """Stochastic subgradient steps over a ball, and the mean of the points they pass.

    ``w <- project(w - step slope_i x_i)`` from zero, and back into the ball where a step leads out of it. With the step
    ``B / (X sqrt(k))`` the mean of ``k`` points is within ``X B / sqrt(k)`` of the smallest loss over the ball, in
    expectation (`maxmargin.bounds.error_in_ball`): on the samples if they are drawn independently, and on all that
    there could be if each is looked at once.

    Parameters
    ----------
    X, y, radius
        As for `minimise_in_ball`.
    steps : int, optional
        How many, ``k``; as many as there are samples by default.
    step : float, optional
        Length of a step, times the slope and the sample; ``B / (X sqrt(k))`` by default, with the largest row for X.
    order : {"independent", "fresh"}
        "independent" draws each sample anew: approximation of the sample average. "fresh" takes the samples one after
        the other, as they come from a stream, and no more than once: stochastic approximation of the mean over all
        that there could be.
    loss : {"hinge", "huber_hinge", "logistic"}
        Loss of a margin, with slopes of at most 1.
    seed : int
        Of the draws.

    Returns
    -------
    InBall
        The mean of the points, certified on the samples.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import projected_sgd
    >>> from maxmargin.bounds import error_in_ball
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = np.sign(X[:, 0] + 0.1)
    >>> found = projected_sgd(X, y, 2.0, steps=4000)
    >>> bool(found.excess < error_in_ball(4000, np.linalg.norm(X, axis=1).max(), 2.0))
    True

    """
    if order not in ORDERS:
        raise ValueError(f"order={order!r} is unknown; choose one of {', '.join(map(repr, ORDERS))}.")
    if loss not in LIPSCHITZ:
        raise ValueError(f"loss={loss!r} has no bound on its slopes; choose one of {', '.join(map(repr, LIPSCHITZ))}.")
    problem, n = _posed(X, y, radius, loss)
    k = n if steps is None else steps
    if k < 1 or (order == "fresh" and k > n):
        raise ValueError(f"steps={k} must be at least 1{f', and at most the {n} fresh samples' if k > n else ''}.")
    longest = math.sqrt(float(problem.rows.squared_lengths().max(initial=0.0)))
    if step is None:
        step = step_in_ball(k, longest, radius) if longest > 0.0 else 0.0
    visited = np.arange(k) if order == "fresh" else np.random.default_rng(seed).integers(n, size=k)
    mean, slopes, visits = projected_steps(
        problem.rows.vectors, problem.loss, problem.y, visited, float(step), float(radius), problem.rows.n_features
    )
    w = _into(mean, radius)
    at_mean = problem.slopes(problem.operator.apply(w))
    alpha = np.where(visits > 0.0, -problem.s * slopes / np.maximum(visits, 1.0), at_mean)
    found = [_judged(problem, radius, w, variables, k) for variables in (alpha, at_mean)]
    return max(found, key=lambda one: one.certificate.dual)


def _posed(X: Any, y: ArrayLike, radius: float, loss: str) -> tuple[Problem, int]:
    """The mean loss as a problem whose penalty is to be chosen, and the number of samples."""
    matrix, labels = check_system(X, y, ("X", "y"))
    if check_number("radius", radius) > LARGEST_RADIUS or 0.0 < radius < 1.0 / LARGEST_RADIUS:
        raise ValueError(
            f"radius={radius:g} must be 0, or from {1.0 / LARGEST_RADIUS:.0e} to {LARGEST_RADIUS:.0e}, or its square "
            f"could not be held; scale X by a factor, and the radius by its inverse."
        )
    if not np.isin(labels, (-1.0, 1.0)).all():
        raise ValueError("y must hold the labels -1 and 1 only.")
    if loss not in LOSSES:
        raise ValueError(f"loss={loss!r} is unknown; choose one of {', '.join(map(repr, LOSSES))}.")
    n = labels.size
    matrix = sp.csr_array(matrix) if is_sparse(matrix) else np.ascontiguousarray(matrix)
    return Problem(Rows(matrix), labels, LOSSES[loss], L2(1.0), np.full(n, 1.0 / n), None), n


def _into(w: Float, radius: float) -> Float:
    """The nearest point of the ball, or one that certainly is in it whatever rounding does."""
    length = float(np.linalg.norm(w))
    return w if length <= radius * (1.0 - growth(w.size)) else w * (radius * (1.0 - 2.0 * growth(w.size + 4)) / length)


def _judged(problem: Problem, radius: float, w: Float, alpha: Float, steps: int) -> InBall:
    """The certificate of a point of the ball, from that of an L2 penalty.

    ``radius |v|`` is the smallest ``|v|^2 / (2 lam) + lam radius^2 / 2``, so a dual value with any penalty is one of
    the ball, less ``lam radius^2 / 2``, and ``lam = |v| / radius`` loses nothing. Where ``v`` is zero the ball does not
    count, and any small strength is as good.
    """
    alpha = problem.feasible(alpha)
    lam = float(np.linalg.norm(problem.operator.adjoint(alpha))) / radius if radius > 0.0 else 1.0
    lam = max(lam, 1e-12)
    certified = replace(problem, penalty=L2(lam)).certify(Point(w, 0.0, alpha))
    half, outside = 0.5 * lam * float(w @ w), 0.5 * lam * radius**2
    if radius == 0.0:  # the only point, and losses at zero are their own bound
        certified = replace(certified, dual=certified.primal, dual_error=certified.primal_error)
        half = outside = 0.0
    certificate = replace(
        certified,
        primal=certified.primal - half,
        dual=certified.dual - outside,
        primal_error=certified.primal_error + growth(w.size + 4) * half,
        dual_error=certified.dual_error + growth(8) * outside,
    )
    return InBall(w, float(radius), certificate, lam, steps)
