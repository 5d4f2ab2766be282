"""What to say of fits that did not converge: how far from the optimum they ended, why, and what may help."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from maxmargin.estimators._machinery.check import largest_of_columns
from maxmargin.estimators._machinery.kernels import training_operator
from maxmargin.operators import ChunkedMatrix, Matrix
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.point import Certificate, Status
from maxmargin.wording import Wording

if TYPE_CHECKING:
    from maxmargin.estimators._machinery.estimator import CertifiedEstimator

AS_ASKED = (Status.CONVERGED, Status.LOW_RANK, Status.SETTLED, Status.PASSED)
# scikit-learn's words, which people filter warnings by.
NOT_SETTLED = "Maximum number of iteration reached before convergence. Consider increasing max_iter to improve the fit"
FAR = 1e3  # times half of its width from zero
PROVABLE = 0.1  # a relative gap: a larger one is no tolerance to ask for
NOT_CENTRED = ("linear", "poly", "sigmoid")  # kernels that see where the origin is


def notes_on_convergence(estimator: CertifiedEstimator, X: Matrix | ChunkedMatrix) -> list[Wording]:
    """How far from the optimum a fit ended, why, and what may help; nothing if it ended as it was asked to."""
    unfinished = [s for s in estimator.solutions_ if s.status not in AS_ASKED]
    if not unfinished:
        return []
    solution = max(unfinished, key=lambda s: s.certificate.relative_gap)
    advice = {
        Status.MAX_ITER: "Raise {max_iter} or {tol}" if solution.tol > 0.0 else NOT_SETTLED,
        Status.MAX_TIME: "Raise {max_time} or {tol}, or resume with {warm_start:True}",
        Status.INTERRUPTED: "Resume with {warm_start:True}",
        Status.CALLBACK: "Resume with {warm_start:True}",
        Status.STALLED: _advice_on_stalling(estimator, solution.certificate),
        Status.NOT_SEPARABLE: "Use a finite {C}"
        if hasattr(estimator, "C")
        else "Raise {nu}: reduced hulls become smaller",
        Status.NOT_CONVEX: "Use a kernel that is positive semi-definite, such as 'rbf', to get a certificate",
    }[solution.status]
    if solution.status is Status.NOT_CONVEX:
        advice = _flaw(estimator, X) + advice
    hint = _scaling_advice(X)
    if solution.status is Status.STALLED and getattr(estimator, "kernel", "linear") in NOT_CENTRED:
        hint = _centring_advice(X) or hint
    words = {"who": type(estimator).__name__, "what": solution.message, "hint": hint}
    return [Wording(f"{{who}}: {{what}} {advice}{{hint}}.", **words)]


def _flaw(estimator: CertifiedEstimator, X: Matrix | ChunkedMatrix) -> str:
    """Why a kernel matrix is not positive, as a sentence; nothing if the samples that are tested do not show it."""
    from maxmargin.estimators._machinery.kernel_machine import KernelMachine  # which imports this module

    if not isinstance(estimator, KernelMachine) or isinstance(X, ChunkedMatrix):
        return ""
    flaw = training_operator(estimator, X).flaw
    return "" if flaw is None else f"The kernel matrix is not positive: {flaw}. "


def _advice_on_stalling(estimator: object, certificate: Certificate) -> str:
    """What makes a problem easier; where only rounding is left of the gap, which tolerance can be proven."""
    tol = "{tol}"
    if certificate.lost_in_rounding and certificate.relative_gap < PROVABLE:
        sure = _rounded_up(2.0 * certificate.relative_gap)  # a gap as large as its error is all that can be hoped for
        tol = f"{{tol}} to {sure}, below which rounding hides the optimum,"
    if hasattr(estimator, "alpha") or hasattr(estimator, "alphas"):
        return f"Raise {tol} or {{alpha}}"
    return f"Raise {tol} or lower {{C}}" if hasattr(estimator, "C") else f"Raise {{nu}} or {tol}".removesuffix(",")


def _rounded_up(value: float) -> str:
    """A number with one digit that is not smaller, but not much larger either."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0.0 else 1.0
    return f"{math.ceil(1.0001 * value / power) * power:.0e}"


def _centring_advice(X: Matrix | ChunkedMatrix) -> str:
    """A hint at columns that are far from zero: products of such rows lose digits by cancellation."""
    if isinstance(X, ChunkedMatrix) or min(X.shape) == 0:
        return ""
    low, high = (np.asarray(ends.toarray() if is_sparse(ends) else ends).ravel() for ends in (X.min(0), X.max(0)))
    middle, width = np.abs(0.5 * low + 0.5 * high), 0.5 * high - 0.5 * low
    ratio = np.divide(middle, width, out=np.zeros(middle.size), where=width > 0.0)
    farthest = int(np.argmax(ratio))
    if ratio[farthest] < FAR:
        return ""
    return (
        f"; column {farthest} is {ratio[farthest]:.0e} times as far from zero as it is wide, so subtracting the means "
        f"of the columns (for example with StandardScaler) will probably help"
    )


def _scaling_advice(X: Matrix | ChunkedMatrix) -> str:
    """A hint at the columns if their sizes are far apart: the commonest reason for slow convergence."""
    if X.shape[0] == 0 or X.shape[1] < 2:
        return ""
    sizes = np.sqrt(X.column_squares) if isinstance(X, ChunkedMatrix) else largest_of_columns(X)
    used = np.flatnonzero(sizes > 0.0)
    if used.size < 2:
        return ""
    largest, median = used[np.argmax(sizes[used])], float(np.median(sizes[used]))
    ratio = float(sizes[largest]) / median
    if not math.isfinite(ratio) or ratio < 100.0:
        return ""
    return (
        f"; column {largest} is {ratio:.0f} times as large as the typical column, so scaling the columns (for "
        f"example with StandardScaler) will probably help"
    )
