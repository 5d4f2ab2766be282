"""Ridge regression and least squares by a Cholesky factor in the smaller dimension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import ClassVar, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

from maxmargin.numerics.cholesky import factorise, solved
from maxmargin.operators import Rows
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Float, Index, Operator
from maxmargin.solvers.rows.normal_equations import DirectSolver, Factor, NormalEquations
from maxmargin.solvers.solver import Needs
from maxmargin.threads import Workers

LARGEST = 10_000  # matrix that is factorised: 800 MB
TILED = 1000  # from here on several threads factorise together
LEAST_PIVOT = 1e-7  # of the factor of a matrix with a unit diagonal: then refinement still gains a digit each time
LEAST_PIVOT_OF_RANK = 1e-5  # without a penalty: rounding alone leaves pivots of 1e-7 of dependent columns


@dataclass(frozen=True)
class Cholesky(DirectSolver):
    """The normal equations of least squares, by a Cholesky factor of the size of the features or of the samples.

    Problem: ``min 1/2 sum_i s_i (x_i.w + b - y_i)^2 + lam |w|^2 / 2`` with any intercept, or without a penalty
    (`Unpenalised`) if the centred columns, or rows if these are fewer, do not depend on each other.

    Method: with centred rows ``A``, ``(A^T S A + lam I) w = A^T S t``, or ``w = A^T alpha`` where
    ``(A A^T + lam S^-1) alpha = t`` if there are fewer samples than features. The diagonal is scaled to one. Columns
    (rows) that depend on each other but for rounding are refused, which lets another solver take over. If the
    certificate is not good enough, the residuals are computed from the data and the same factor corrects the solution,
    as long as corrections get smaller. Problems of the same samples and weights share the factor.

    Cost: one iteration with ``n d min(n, d) + min(n, d)^3 / 3`` operations, and two passes for each correction; memory
    ``O(min(n, d)^2)``. Clients send one symmetric matrix of the size of the features each; chunks are read twice.

    Reference: Hoerl, Kennard, "Ridge regression", 1970; Saunders, Gammerman, Vovk, "Ridge regression learning algorithm
    in dual variables", 1998; Higham, "Accuracy and stability of numerical algorithms", 2002, chapters 10 and 12.
    """

    name: ClassVar[str] = "cholesky"
    needs: ClassVar[Needs] = Needs("sweeps", clients=True, linear=True)

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        if (size := smaller_dimension(problem)) > LARGEST:
            return f"it factorises a matrix of size {size} here, and takes up to {LARGEST}"
        return None

    def factor(self, equations: NormalEquations) -> Factor | None:
        """The factor, which is remembered as long as the samples are."""
        problem = equations.problem
        with _lock:
            known = _known.get(problem.operator)
        if known is not None and known.serves(problem):
            return known.side.of(equations)
        side = (_Samples if by_samples(problem) else _Features).factorised(equations)
        if side is None:
            return None
        with _lock:
            _known[problem.operator] = _Known(problem.s, problem.lam, problem.column, problem.free_intercept, side)
        return side.of(equations)


def by_samples(problem: Problem) -> bool:
    """Whether there are fewer samples than features, and all of them in memory."""
    rows = problem.operator
    return isinstance(rows, Rows) and rows.n_samples < problem.penalised.size


def smaller_dimension(problem: Problem) -> int:
    """The size of the matrix."""
    return problem.features.n_samples if by_samples(problem) else problem.penalised.size


class _Features:
    """A factor of ``A^T S A + lam I``."""

    def __init__(self, solve: Callable[[Float], Float], L: Float, roots: Float, moments: Float | None = None) -> None:
        self.solve, self.L, self.roots, self.moments = solve, L, roots, moments

    @classmethod
    def factorised(cls, equations: NormalEquations) -> _Features | None:
        """The factor of a problem, and what of its right hand side was found with it."""
        G, moments = equations.gram_and_moments()
        np.einsum("ii->i", G)[:] += equations.lam
        found = _inverse(G, equations)
        return None if found is None else cls(*found, moments)

    def of(self, equations: NormalEquations) -> _Features:
        """The same for targets, which may be others than those that it was made for."""
        side = _Features(self.solve, self.L, self.roots)
        side.equations = equations
        moments, self.moments = self.moments, None
        if moments is None:
            moments = equations.adjoint(equations.s * equations.t)
        side.first = self.solve(moments)
        return side

    equations: NormalEquations
    first: Float

    def correction(self, residual: Float, theta: Float) -> Float:
        """The factor's answer to the gradient."""
        e = self.equations
        return self.solve(e.adjoint(e.s * residual) - e.lam * theta)


class _Samples:
    """A factor of ``A A^T + lam S^-1`` over the samples of positive weight.

    Without a penalty the centred rows have one dependency: their weighted sum is zero. A constant that is added to
    every entry removes it, and leaves the sum of ``alpha`` at zero.
    """

    def __init__(self, solve: Callable[[Float], Float], used: Index) -> None:
        self.solve, self.used = solve, used

    @classmethod
    def factorised(cls, equations: NormalEquations) -> _Samples | None:
        """The factor of a problem."""
        K, used = equations.row_gram(), np.flatnonzero(equations.s > 0.0)
        if used.size < equations.s.size:
            K = K[np.ix_(used, used)]
        if equations.lam > 0.0:
            np.einsum("ii->i", K)[:] += equations.lam / equations.s[used]
        elif equations.mean_x is not None:
            K += float(K.diagonal().mean()) / max(1, used.size)
        found = _inverse(K, equations)
        return None if found is None else cls(found[0], used)

    equations: NormalEquations
    alpha: Float
    first: Float

    def of(self, equations: NormalEquations) -> _Samples:
        """The same for targets, which may be others than those that it was made for."""
        side = _Samples(self.solve, self.used)
        side.equations, side.alpha = equations, np.zeros(equations.s.size)
        side.alpha[self.used] = self.solve(equations.t[self.used])
        side.first = equations.adjoint(side.alpha)
        return side

    def correction(self, residual: Float, theta: Float) -> Float:
        """What the factor's answer to the residuals of ``alpha`` adds up to."""
        e, missing = self.equations, residual[self.used]
        if e.lam > 0.0:
            missing = missing - e.lam * self.alpha[self.used] / e.s[self.used]
        step = np.zeros(self.alpha.size)
        step[self.used] = self.solve(missing)
        self.alpha += step
        return e.adjoint(step)


class _Known(NamedTuple):
    """A factor, and the weights, penalty and intercept that it is for."""

    s: Float
    lam: float
    column: float
    free: bool
    side: _Features | _Samples

    def serves(self, problem: Problem) -> bool:
        """Whether a problem over the same samples has the same matrix."""
        same = (self.lam, self.column, self.free) == (problem.lam, problem.column, problem.free_intercept)
        return same and self.s is problem.s


def triangle_of(operator: Operator) -> Float | None:
    """A matrix whose lower triangle has the singular values of ``S^(1/2) A``, if a problem was solved by features."""
    with _lock:
        known = _known.get(operator)
    if known is None or not isinstance(known.side, _Features) or known.lam != 0.0:
        return None
    return np.asarray(known.side.L * known.side.roots[:, None])


_known: WeakKeyDictionary[Operator, _Known] = WeakKeyDictionary()
_lock = Lock()


def _inverse(H: Float, equations: NormalEquations) -> tuple[Callable[[Float], Float], Float, Float] | None:
    """The map ``g -> H^-1 g``, or ``None`` if ``H`` is nearly singular. Sets: ``H``.

    And the lower factor of ``H`` after its diagonal was scaled to one, with the roots of the diagonal.
    """
    diagonal = H.diagonal()
    if not H.size:
        return (lambda g: g.copy()), H, diagonal
    if not (np.isfinite(diagonal).all() and float(diagonal.min()) > 0.0):
        return None
    scale = 1.0 / np.sqrt(diagonal)
    H *= scale
    H *= scale[:, None]
    least = LEAST_PIVOT if equations.lam > 0.0 else LEAST_PIVOT_OF_RANK
    workers: Workers = equations.problem.features.workers
    if len(H) > TILED and workers.count > 1:
        try:
            factorise(H, workers)
        except LinAlgError:
            return None
        L, solve = H, lambda g: scale * solved(H, scale * g)
    else:
        L, info = dpotrf(H.T, lower=1, overwrite_a=1, clean=0)
        if info != 0:
            return None
        solve = lambda g: cast("Float", scale * dpotrs(L, scale * g, lower=1)[0])  # noqa: E731
    if not float(L.diagonal().min()) > least:
        return None
    return solve, L, 1.0 / scale
