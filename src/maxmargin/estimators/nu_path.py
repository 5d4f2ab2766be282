"""The nu-SVM classifiers of all values of nu at once: their variables are piecewise linear functions of nu."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin.estimators._machinery.check import ClassWeight
from maxmargin.estimators._machinery.drawing import new_axes
from maxmargin.estimators._machinery.exact_paths import ROOM, begin_path, between, scores_along
from maxmargin.estimators._machinery.names import Bandwidth, KernelName
from maxmargin.estimators._machinery.plan import Task
from maxmargin.estimators._machinery.problems import certificate_at, nu_classification
from maxmargin.estimators.nu_svc import NuSVC
from maxmargin.operators import Gram, MatrixLike
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Certificate
from maxmargin.protocols import Array, Float
from maxmargin.solvers.kernels.active_set import ActiveSetState, solved
from maxmargin.solvers.kernels.active_set.face import Program
from maxmargin.solvers.kernels.active_set.path import GOES_ON, REACHED
from maxmargin.solvers.kernels.active_set.sums_path import follow_nu
from maxmargin.threads import go_on, one_blas_thread

START = 0.999  # of the largest nu: there the partition is found, and followed to both sides
NARROW = 1e-7  # of the widest street: with a narrower one, the hulls of the classes have met
PLOTTED = 200  # values of nu


@dataclass(frozen=True, repr=False)
class NuPath:
    """All solutions of a nu-SVM classifier for ``nu_min <= nu <= nu_max``; made by `nu_path`.

    Between two breakpoints, the variables and the multipliers are linear in nu. As in `NuSVC`, functions are divided by
    their margin `rho`, so coefficients are quotients of linear functions.

    Attributes
    ----------
    breakpoints : ndarray of shape (n_breakpoints,)
        Ascending values of nu.
    variables : ndarray of shape (n_breakpoints, n_samples)
        The signed variable of every sample there: positive for the second class; those of a class sum to half of nu
        times the sum of the weights.
    multipliers : ndarray of shape (n_breakpoints, 2)
        ``b - rho`` and ``b + rho``, before the division.
    complete : bool
        Whether the path reaches from 0 to the largest nu. Else, below `nu_min`, the reduced hulls of the classes meet,
        so that there is no margin; or rounding or `max_memory` ended the path there.

    """

    breakpoints: Float
    variables: Float
    multipliers: Float
    complete: bool
    model: NuSVC  # whose support vectors are all samples
    task: Task
    gram: Gram

    @property
    def nu_min(self) -> float:
        """Where the path begins."""
        return float(self.breakpoints[0])

    @property
    def nu_max(self) -> float:
        """Where the path ends: no larger nu is feasible."""
        return float(self.breakpoints[-1])

    def at(self, nu: float | ArrayLike) -> tuple[Float, Any]:
        """The exact solution for a value of nu, or for several.

        Parameters
        ----------
        nu : float or array-like of shape (n_values,)
            Above `nu_min` (at 0 there is no function), up to `nu_max`.

        Returns
        -------
        coefficients : ndarray of shape (n_samples,) or (n_values, n_samples)
            Signed coefficients of all samples, as `NuSVC` has them in ``dual_coef_``.
        intercept : float or ndarray of shape (n_values,)
            Intercepts.

        """
        a, ends = self._undivided(nu)
        rho = 0.5 * (ends[:, 1] - ends[:, 0])
        coefficients, b = a / rho[:, None], 0.5 * (ends[:, 0] + ends[:, 1]) / rho
        return (coefficients[0], float(b[0])) if np.ndim(nu) == 0 else (coefficients, b)

    def rho(self, nu: float | ArrayLike) -> Any:
        """The margin for a value of nu, or for several."""
        ends = self._undivided(nu)[1]
        rho = 0.5 * (ends[:, 1] - ends[:, 0])
        return float(rho[0]) if np.ndim(nu) == 0 else rho

    def _undivided(self, nu: float | ArrayLike) -> tuple[Float, Float]:
        """Variables and multipliers, a row for each value."""
        values = np.atleast_1d(np.asarray(nu, dtype=np.float64))
        if not ((values > 0.0) & (values >= self.nu_min) & (values <= self.nu_max)).all():
            raise ValueError(
                f"nu={nu!r} is not on this path, which goes from {self.nu_min:g} to {self.nu_max:g}; the ends are "
                "where the hulls of the classes meet, or 0, and twice the share of the lighter class."
            )
        return between(self.breakpoints, self.variables, values), between(self.breakpoints, self.multipliers, values)

    def certificate(self, nu: float) -> Certificate:
        """Primal and dual value of the solution for a value of nu, recomputed from the samples."""
        (a,), (ends,) = self._undivided(nu)
        problem = nu_classification(self.gram, self.task.y, self.task.s, float(nu))
        assert isinstance(problem, BoxQP)  # of a kernel matrix
        return certificate_at(problem, a, ends, a)

    def decision_function(self, X: MatrixLike, nu: float | ArrayLike) -> Float:
        """Scores of samples by the model of a value of nu, or by each of several: a column for each."""
        return scores_along(self.model, X, *self.at(nu))

    def predict(self, X: MatrixLike, nu: float | ArrayLike) -> Array:
        """Labels of samples by the model of a value of nu, or by each of several: a column for each."""
        return np.asarray(self.model.classes_[(self.decision_function(X, nu) > 0.0).astype(int)])

    def plot(self, axes: Any = None) -> Any:
        """Variables, margin, and what nu is between: the shares of margin errors and of support vectors.

        Parameters
        ----------
        axes : three matplotlib axes, default=None
            Where to draw; a new figure if None.

        Returns
        -------
        ndarray of three axes

        """
        axes = np.ravel(new_axes(1, 3, figsize=(12.0, 4.0)) if axes is None else axes)
        nus = np.linspace(self.nu_min, self.nu_max, PLOTTED + 1)[1:]
        a, (coefficients, b) = self._undivided(nus)[0], self.at(nus)
        scores, weights = coefficients @ self.gram.whole + b[:, None], self.task.s / self.task.s.sum()
        axes[0].plot(nus, np.abs(a), linewidth=0.5)
        axes[0].set(title="variables", xlabel="nu")
        axes[1].plot(nus, self.rho(nus))
        axes[1].set(title="margin rho", xlabel="nu")
        axes[2].plot(nus, (a != 0.0) @ weights, label="support vectors")
        axes[2].plot(nus, nus, "k:", label="nu")
        axes[2].plot(nus, (scores * self.task.y < 1.0 - 1e-9) @ weights, label="margin errors")
        axes[2].set(title="shares of the weight", xlabel="nu")
        axes[2].legend()
        return axes

    def __repr__(self) -> str:
        n = self.breakpoints.size
        return f"NuPath: {n} breakpoints, {self.nu_min:g} <= nu <= {self.nu_max:g}, {self.task.y.size} samples"


def nu_path(
    X: MatrixLike,
    y: ArrayLike,
    *,
    kernel: KernelName | Callable[..., Array] = "rbf",
    degree: int = 3,
    gamma: Bandwidth | float = "scale",
    coef0: float = 0.0,
    class_weight: ClassWeight = None,
    sample_weight: ArrayLike | None = None,
    max_memory: float = 1000.0,
) -> NuPath:
    """The exact solutions of a nu-SVM classifier for all values of nu.

    The sums of the variables of both classes are in proportion to nu, and the box stays: so the variables are a
    piecewise linear function of nu. It is followed down from the largest nu, twice the share of the lighter class,
    until the reduced hulls of the classes meet, or to 0, the hard margin.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples, or for ``kernel="precomputed"`` the kernel matrix.
    y : array-like of shape (n_samples,)
        Labels of two classes.
    kernel, degree, gamma, coef0, class_weight
        As in `NuSVC`.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample.
    max_memory : float, default=1000.0
        Megabytes for the kernel matrix and the variables at all breakpoints. Where these need more, the path ends.

    Returns
    -------
    NuPath
        With ``breakpoints``, ``at(nu)``, ``rho(nu)``, ``certificate(nu)``, ``decision_function(X, nu)``, ``plot()``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import nu_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = nu_path(X / X.std(axis=0), y)
    >>> coefficients, intercept = path.at(0.1)
    >>> path.certificate(0.1).relative_gap < 1e-8
    True

    """
    model = NuSVC(
        kernel=kernel, degree=degree, gamma=gamma, coef0=coef0, class_weight=class_weight, cache_size=max_memory,
        nu=1e-9,
    )  # fmt: skip
    task, gram, most = begin_path(model, X, y, sample_weight, "nu_path")
    with one_blas_thread:
        nus, variables, multipliers, complete = _followed(gram, task, float(model.nu_max_), most)
    return NuPath(nus, variables, multipliers, complete, model, task, gram)


def _followed(gram: Gram, task: Task, nu_max: float, most: int) -> tuple[Float, Float, Float, bool]:
    """Ascending breakpoints, the variables and multipliers there, and whether both ends were reached."""
    nu = START * nu_max
    qp = nu_classification(gram, task.y, task.s, nu)
    assert isinstance(qp, BoxQP)
    state = solved(qp)
    b = qp.values(state.a, state.f[qp.sample])[2]
    if not b[1] > b[0]:
        raise ValueError("The reduced hulls of the classes meet for every nu, so there is no margin and no path.")
    program, least = state.program._replace(totals=qp.totals / nu), NARROW * float(b[1] - b[0])
    # Below this the sum of a class is less than any bound of its variables: a piece that ends in zero.
    lowest = float(np.min(task.s[task.s > 0.0]) / np.abs(program.totals).max())
    beginning = state.a.copy()
    upwards = _one_way(program, _again(state), b, nu, nu_max, -np.inf, most)
    downwards = _one_way(program, state, b, nu, min(lowest, nu), least, most)
    zero = int(downwards[3])  # one more breakpoint, at nu = 0
    nus = np.array([0.0] * zero + downwards[0][::-1] + [nu] + upwards[0])
    variables = np.array([np.zeros_like(beginning)] * zero + downwards[1][::-1] + [beginning] + upwards[1])
    multipliers = np.array([np.zeros_like(b)] * zero + downwards[2][::-1] + [b] + upwards[2])
    return nus, variables, multipliers, upwards[3] and downwards[3]


def _again(state: ActiveSetState) -> ActiveSetState:
    """A copy that can be followed elsewhere."""
    copied = replace(state, a=state.a.copy(), f=state.f.copy(), face=None, m=0)
    copied.status = state.status.copy()
    return copied


def _one_way(
    program: Program, state: ActiveSetState, b: Float, nu: float, end: float, least: float, most: int
) -> tuple[list[float], list[Float], list[Float], bool]:
    """Breakpoints in the order in which they are met, and whether the end was reached."""
    face = state.face_of_free()
    a, status, m, b = state.a, state.status, state.m, b.copy()
    e = program.q - state.f[program.sample] - program.D * a
    nus: list[float] = []
    variables: list[Float] = []
    multipliers: list[Float] = []
    verdict = GOES_ON
    while verdict == GOES_ON and len(nus) < most:
        some_nu, some_b, some_a = np.empty(ROOM), np.empty((ROOM, b.size)), np.empty((ROOM, a.size))
        m, nu, count, verdict = follow_nu(program, face, a, e, status, m, b, nu, end, least, some_nu, some_b, some_a)
        nus.extend(some_nu[:count].tolist())
        variables.extend(some_a[:count])
        multipliers.extend(some_b[:count])
        go_on()
    return nus, variables, multipliers, verdict == REACHED
