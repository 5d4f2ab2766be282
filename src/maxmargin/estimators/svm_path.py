"""The support vector classifiers of all values of C at once, as one piecewise linear function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.estimators._machinery.check import ClassWeight
from maxmargin.estimators._machinery.drawing import new_axes
from maxmargin.estimators._machinery.exact_paths import ROOM, begin_path, between, scores_along
from maxmargin.estimators._machinery.extremes import LARGEST_WEIGHT
from maxmargin.estimators._machinery.names import Bandwidth, InterceptName, KernelName
from maxmargin.estimators._machinery.plan import Task
from maxmargin.estimators._machinery.problems import hinge_problem
from maxmargin.estimators.svc import SVC
from maxmargin.loop.certificate import certify_point
from maxmargin.operators import Gram, MatrixLike
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Certificate, Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Intercept
from maxmargin.solvers.kernels.active_set import solved
from maxmargin.solvers.kernels.active_set.path import REACHED, STUCK, follow, multiplier_at
from maxmargin.threads import go_on, one_blas_thread

SHARE_OF_FIRST = 0.25  # of the smallest C at which a sample of the rarer class can leave its bound
PLOTTED = 200  # values of C
UNLIMITED = 2**62


@dataclass(frozen=True, repr=False)
class SVMPath:
    """All solutions of a support vector classifier for ``0 <= C <= C_max``; made by `svm_path`.

    Between two breakpoints, coefficients and intercept are linear in C.

    Attributes
    ----------
    breakpoints : ndarray of shape (n_breakpoints,)
        Ascending values of C, from 0 to `C_max`.
    coefficients : ndarray of shape (n_breakpoints, n_samples)
        The signed coefficient of every sample there: positive for the second class.
    intercepts : ndarray of shape (n_breakpoints,)
        The intercept there.
    complete : bool
        Whether the path reached `C_max`; otherwise rounding or `max_memory` ended it at the last breakpoint.

    """

    breakpoints: Float
    coefficients: Float
    intercepts: Float
    complete: bool
    model: SVC  # whose support vectors are all samples
    task: Task
    gram: Gram
    intercept: Intercept

    @property
    def C_max(self) -> float:
        """Where the path ends."""
        return float(self.breakpoints[-1])

    def at(self, C: float | ArrayLike) -> tuple[Float, Any]:
        """The exact solution for a value of C, or for several.

        Parameters
        ----------
        C : float or array-like of shape (n_values,)
            Between 0 and `C_max`.

        Returns
        -------
        coefficients : ndarray of shape (n_samples,) or (n_values, n_samples)
            Signed coefficients of all samples.
        intercept : float or ndarray of shape (n_values,)
            Intercepts.

        """
        values = np.atleast_1d(np.asarray(C, dtype=np.float64))
        if not ((values >= 0.0) & (values <= self.C_max)).all():
            raise ValueError(f"C={C!r} is not on this path, which goes from 0 to {self.C_max:g}; pass a larger C_max.")
        reach = values[:, None] * self.task.s
        a = np.clip(between(self.breakpoints, self.coefficients, values), -reach, reach)
        b = between(self.breakpoints, self.intercepts, values)
        return (a[0], float(b[0])) if np.ndim(C) == 0 else (a, b)

    def certificate(self, C: float) -> Certificate:
        """Primal and dual value of the solution for a value of C, recomputed from the samples."""
        a, b = self.at(C)
        return certify_point(self._problem(float(C)), Point(a, b, a))

    @cached_property
    def certificates(self) -> list[Certificate]:
        """Of all breakpoints."""
        return [self.certificate(C) for C in self.breakpoints.tolist()]

    def decision_function(self, X: MatrixLike, C: float | ArrayLike) -> Float:
        """Scores of samples by the model of a value of C, or by each of several: a column for each."""
        return scores_along(self.model, X, *self.at(C))

    def predict(self, X: MatrixLike, C: float | ArrayLike) -> Array:
        """Labels of samples by the model of a value of C, or by each of several: a column for each."""
        return np.asarray(self.model.classes_[(self.decision_function(X, C) > 0.0).astype(int)])

    def plot(self, axes: Array | None = None) -> Array:
        """Coefficients, margin, training error and support vectors along C; needs matplotlib.

        Parameters
        ----------
        axes : four matplotlib axes, default=None
            Where to draw; a new figure if None.

        Returns
        -------
        ndarray of four axes

        """
        axes = np.ravel(new_axes(2, 2, figsize=(10.0, 7.0), sharex=True) if axes is None else axes)
        first = self.breakpoints[1]
        Cs = np.geomspace(first, self.C_max, PLOTTED) if self.C_max > first else np.array([first])
        a, b = self.at(np.minimum(Cs, self.C_max))
        f = a @ self.gram.whole
        axes[0].plot(Cs, np.abs(a), linewidth=0.5)
        axes[0].set(title="coefficients", xscale="log", yscale="symlog")
        axes[1].plot(Cs, 1.0 / np.sqrt(np.maximum((a * f).sum(axis=1), 1e-300)))
        axes[1].set(title="margin", xscale="log", yscale="log")
        axes[2].plot(Cs, ((f + b[:, None]) * self.task.y <= 0.0).mean(axis=1))
        axes[2].set(title="training error", xlabel="C", xscale="log")
        axes[3].plot(Cs, np.count_nonzero(a, axis=1))
        axes[3].set(title="support vectors", xlabel="C", xscale="log")
        return axes

    def _problem(self, C: float) -> Problem:
        return hinge_problem(self.gram, self.task.y, C * self.task.s, "hinge", self.intercept)

    def __repr__(self) -> str:
        return f"SVMPath: {self.breakpoints.size} breakpoints, 0 <= C <= {self.C_max:g}, {self.task.y.size} samples"


def svm_path(
    X: MatrixLike,
    y: ArrayLike,
    C_max: float = 100.0,
    *,
    kernel: KernelName | Callable[..., Array] = "rbf",
    degree: int = 3,
    gamma: Bandwidth | float = "scale",
    coef0: float = 0.0,
    class_weight: ClassWeight = None,
    sample_weight: ArrayLike | None = None,
    intercept: InterceptName | None = "auto",
    max_memory: float = 1000.0,
) -> SVMPath:
    """The exact solutions of a support vector classifier for all values of C up to a largest one.

    They are a piecewise linear function of C. It is followed from one change of the support vectors to the next, in
    about the time of a few fits.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples, or for ``kernel="precomputed"`` the kernel matrix.
    y : array-like of shape (n_samples,)
        Labels of two classes.
    C_max : float, default=100.0
        Where the path ends.
    kernel, degree, gamma, coef0, class_weight, intercept
        As in `SVC`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's loss.
    max_memory : float, default=1000.0
        Megabytes for the kernel matrix and the coefficients at all breakpoints. Where these need more, the path ends.

    Returns
    -------
    SVMPath
        With ``breakpoints``, ``at(C)``, ``certificate(C)``, ``decision_function(X, C)`` and ``plot()``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import svm_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = svm_path(X / X.std(axis=0), y, C_max=10.0)
    >>> coefficients, intercept = path.at(1.0)
    >>> path.certificate(1.0).relative_gap < 1e-8
    True

    """
    model = SVC(
        kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, class_weight=class_weight, intercept=intercept,
        cache_size=max_memory,
    )  # fmt: skip
    if not (np.isfinite(C_max) and C_max > 0.0):
        raise ValueError(f"C_max={C_max!r} is not a positive number.")
    task, gram, most = begin_path(model, X, y, sample_weight, "svm_path")
    heaviest = C_max * float(task.s.max(initial=0.0))
    if heaviest > LARGEST_WEIGHT:
        raise ValueError(
            f"C_max={C_max:g} times the largest weight of a sample is {heaviest:.1e}, and sums can be held up to "
            f"{LARGEST_WEIGHT:.0e}; lower C_max or the weights."
        )
    problem = hinge_problem(gram, task.y, task.s, "hinge", "free" if intercept == "auto" else intercept)
    with one_blas_thread:
        Cs, coefficients, bs, complete = _followed(BoxQP.of(problem), float(C_max), most)
    if problem.penalised_column:
        bs = problem.penalised_column**2 / problem.lam * coefficients.sum(axis=1)
    return SVMPath(Cs, coefficients, bs, complete, model, task, gram, problem.intercept)


def _followed(qp: BoxQP, C_max: float, most: int) -> tuple[Float, Float, Float, bool]:
    """Breakpoints, the variables and the multiplier there, and whether the end was reached; ``qp`` is for ``C = 1``.

    Near ``C = 0`` all scores are, and the rarer class is at its bound altogether: then the sum of the others is known,
    and the variables are in proportion to ``C``.
    """
    largest = float(np.abs(qp.gram.diagonal()).max(initial=0.0)) / qp.lam + abs(qp.shift)
    weight = float(qp.high.sum() - qp.low.sum())
    C = min(C_max, SHARE_OF_FIRST / (weight * largest)) if weight * largest > 0.0 else C_max
    state = solved(replace(qp, low=C * qp.low, high=C * qp.high))
    program = state.program._replace(low=qp.low, high=qp.high)
    face, a = state.face_of_free(), state.a.copy()
    e = program.q - state.f[program.sample]
    b = multiplier_at(program, face, state.status, state.m, e)
    start = multiplier_at(program, face, state.status, state.m, program.q)  # where all scores are zero
    Cs, bs, variables, complete = [0.0, C], [start, b], [np.zeros(a.size), a.copy()], C_max <= C
    m, verdict = state.m, 0
    while not complete and len(Cs) < most:
        some_C, some_b, some_a = np.empty(ROOM), np.empty(ROOM), np.empty((ROOM, a.size))
        m, b, C, count, verdict = follow(program, face, a, e, state.status, m, b, C, C_max, some_C, some_b, some_a)
        Cs.extend(some_C[:count].tolist())
        bs.extend(some_b[:count].tolist())
        variables.extend(some_a[:count])
        complete = verdict == REACHED
        if verdict == STUCK:
            break
        go_on()
    if complete and Cs[-1] < C_max:
        Cs.append(C_max)
        bs.append(b)
        variables.append(a.copy())
    return np.array(Cs), np.array(variables), np.array(bs), complete


def solutions_along(qp: BoxQP, Cs: Float) -> tuple[Float, Float]:
    """The variables and multipliers for ascending values of C; ``qp`` is for ``C = 1``."""
    ends, variables, b, _ = _followed(qp, float(Cs[-1]), UNLIMITED)
    Cs = np.minimum(Cs, ends[-1])
    return between(ends, variables, Cs), between(ends, b, Cs)
