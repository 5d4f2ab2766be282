"""``maxmargin train --cv``: how good a model would be on samples that it has not seen, fold by fold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import clone, is_classifier
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

from maxmargin import Status
from maxmargin.cli.kinds import Model
from maxmargin.cli.output import CommandError
from maxmargin.protocols import Array, Float


@dataclass(frozen=True)
class Scores:
    """The score of each fold, and whether every model of them is certified."""

    name: str
    values: Float
    gaps: Float
    converged: bool

    def report(self) -> dict[str, object]:
        """As plain values."""
        return {
            "score": self.name,
            "scores": self.values.tolist(),
            "mean": float(self.values.mean()),
            "spread": float(self.values.std(ddof=1)),
            "relative_gap": float(self.gaps.max()),
            "converged": self.converged,
        }

    def text(self) -> str:
        """For people."""
        folds = ", ".join(f"{value:.4f}" for value in self.values)
        return (
            f"{self.name} of {self.values.size} folds: {self.values.mean():.4f}, spread {self.values.std(ddof=1):.4f} "
            f"({folds})\nWorst relative gap of a fold: {self.gaps.max():.2e}\n"
        )


def cross_validate(
    model: Model, X: Float | sparse.csr_array[np.float64], y: Array, weights: Float | None, folds: int, scaled: bool
) -> Scores:
    """Fit to all folds but one, and score that one, for each."""
    if folds > y.size:
        raise CommandError(f"--cv {folds} needs as many samples, but there are {y.size}; pass a smaller number.")
    if getattr(model, "kernel", "") == "precomputed":
        raise CommandError("--cv takes rows of features, not --kernel precomputed; leave one of them away.")
    classes = is_classifier(model)
    divide = (StratifiedKFold if classes else KFold)(folds, shuffle=True, random_state=model.random_state or 0)
    values, gaps, converged = [], [], True
    try:
        parts = list(divide.split(X, y))
    except ValueError as error:
        raise CommandError(f"--cv {folds}: {error}") from error
    for seen, unseen in parts:
        A, B = X[seen], X[unseen]
        if scaled:
            scaler = StandardScaler(with_mean=not isinstance(X, sparse.csr_array)).fit(A)
            A, B = scaler.transform(A), scaler.transform(B)
        fitted = clone(model).fit(A, y[seen], sample_weight=None if weights is None else weights[seen])
        values.append(fitted.score(B, y[unseen], sample_weight=None if weights is None else weights[unseen]))
        gaps.append(fitted.duality_gap_)
        converged &= all(solution.status is Status.CONVERGED for solution in fitted.solutions_)
    return Scores("accuracy" if classes else "R2", np.array(values), np.array(gaps), converged)
