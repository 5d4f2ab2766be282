"""A neutral referee: how well did a fitted model, ours or scikit-learn's, solve the problem it claims to solve?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator as Model
from sklearn.base import is_outlier_detector
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted

from maxmargin.estimators._machinery.check import QUIETLY, check_chunks
from maxmargin.estimators._machinery.plan import Task
from maxmargin.estimators.certification.claims import Claim
from maxmargin.estimators.certification.fitted import Samples, check_fitted_size
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.operators.rows import is_sparse
from maxmargin.problems.point import Certificate


@dataclass(frozen=True)
class Verdict:
    """The certificates of a model, one per problem that it solved."""

    problem: str
    names: tuple[str, ...]
    certificates: tuple[Certificate, ...]
    claims: tuple[Callable[[], Claim], ...] = field(default=(), repr=False, compare=False)  # of margins and tubes

    @property
    def worst(self) -> Certificate:
        """The certificate with the largest relative gap."""
        return max(self.certificates, key=lambda certificate: certificate.relative_gap)

    @property
    def primal(self) -> float:
        """Primal value of the worst certificate."""
        return self.worst.primal

    @property
    def dual(self) -> float:
        """Dual value of the worst certificate."""
        return self.worst.dual

    @property
    def gap(self) -> float:
        """Duality gap of the worst certificate."""
        return self.worst.gap

    @property
    def relative_gap(self) -> float:
        """Relative duality gap of the worst certificate."""
        return self.worst.relative_gap

    def __str__(self) -> str:
        worst = self.worst
        return (
            f"{self.problem}: primal {worst.primal:.10g}, dual {worst.dual:.10g}, relative gap {worst.relative_gap:.2e}"
            + (f" (the worst of {len(self.certificates)} problems)" if len(self.certificates) > 1 else "")
        )


def certify(model: Model, X: MatrixLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Verdict:
    """Judge a fitted model: primal value, dual value and gap of the problem that it claims to have solved.

    Everything is recomputed from coefficients, dual variables and the data of the fit; no report of the model is used.

    Parameters
    ----------
    model : estimator
        A fitted estimator of maxmargin, or the one of scikit-learn that has the same name; also celer's and skglm's
        Lasso and ElasticNet. Of a search, its best model is judged; of a pipeline, its last step on the rows that the
        steps before make.
    X, y : array-like
        The training data, in the same order as in the fit; a one-class model has no ``y``.
    sample_weight : array-like, optional
        The weights of the fit, if there were any.

    Returns
    -------
    Verdict
        One certificate per binary problem (or target), and the worst of them.

    Notes
    -----
    scikit-learn's ``LinearSVC``, ``LinearSVR``, ``SGDClassifier`` and ``SGDRegressor`` keep no dual variables, and our
    distributed models leave them with the clients. With smooth losses and the L2 penalty they follow from the scores.
    With the others they do not, so the dual bound is computed by `DualCoordinate` or, for an L1 norm or limits, by
    `Smoothed`, which is generous to the model; of hulls, by `Saddle`. That of scikit-learn's ``LogisticRegression`` is
    computed by solving, too: far from the optimum, variables that follow from the scores prove little. Its ``NuSVR``
    does not tell the width of its tube; the best one is taken.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.svm import SVC
    >>> import maxmargin
    >>> X, y = load_iris(return_X_y=True)
    >>> verdict = maxmargin.certify(SVC().fit(X, y), X, y)
    >>> bool(verdict.relative_gap < 1e-2)
    True

    """
    check_is_fitted(model)
    model = getattr(model, "best_estimator_", model)  # of a search
    if isinstance(model, Pipeline):
        return certify(model[-1], model[:-1].transform(X) if len(model) > 1 else X, y, sample_weight)
    if is_sparse(getattr(model, "coef_", None)) and hasattr(model, "densify"):
        model = copy(model).densify()
    rows: Matrix | ChunkedMatrix
    if isinstance(X, ChunkedMatrix):
        check_chunks(model, rows := X)
    else:
        rows = QUIETLY(check_array)(X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
    if is_outlier_detector(model):
        y = np.ones(rows.shape[0])
    elif y is None:
        raise ValueError(f"certify needs the targets y that {type(model).__name__} was fitted on.")
    y = np.asarray(y)
    check_consistent_length(rows, y)
    check_fitted_size(model, rows.shape[0])
    return judge(model, Samples(rows, y, _check_sample_weight(sample_weight, rows, dtype=np.float64)))


Judge = Callable[[Model, Samples], Verdict]
NAMED: dict[str, Judge] = {}


@singledispatch
def judge(model: Model, data: Samples) -> Verdict:
    """The verdict on a model: the files beside this one register what they know."""
    for kind in type(model).__mro__:
        if (own := NAMED.get(f"{kind.__module__}.{kind.__qualname__}")) is not None:
            return own(model, data)
    known = sorted({kind.__name__ for kind in judge.registry if kind is not object})
    raise TypeError(
        f"certify does not know the problem that {type(model).__name__} solves; it judges these of "
        f"maxmargin and, if they exist there, of scikit-learn: {', '.join(known)}."
    )


def judge_named(name: str) -> Callable[[Judge], Judge]:
    """Register a judge of a class of a package that need not be installed, by its full name."""

    def register(judge_of_it: Judge) -> Judge:
        NAMED[name] = judge_of_it
        return judge_of_it

    return register


def verdict_of(
    problem: str, tasks: Sequence[Task], certificates: list[Certificate], claims: Sequence[Callable[[], Claim]] = ()
) -> Verdict:
    """A verdict on a model that solved a problem for each task."""
    return Verdict(problem, tuple(task.name for task in tasks), tuple(certificates), tuple(claims))


def by_target(problem: str, certificates: list[Certificate]) -> Verdict:
    """A verdict on a model that solved a problem for each target."""
    return Verdict(problem, tuple(f"target {k}" for k in range(len(certificates))), tuple(certificates))
