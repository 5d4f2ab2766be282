"""The judges of every solver's answer: primal and dual values in plain NumPy, float64, from the data.

They share no code with maxmargin, so that it is judged like everybody else. Kernel matrices are seen in blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from benchmark_utils.peer import Answer
from benchmark_utils.workloads import Task

BLOCK = 4_000_000  # entries of the data at a time
SQUARE = 2000  # rows and columns of a kernel matrix at a time, at most
ROUNDING = 1e-9  # relative: a dual value that is above the primal one by more is a mistake, and proves nothing


class Verdict(NamedTuple):
    """Primal and dual value of an answer. The optimum lies between them."""

    primal: float
    dual: float

    @property
    def relative_gap(self) -> float:
        """Duality gap divided by the larger of the two absolute values."""
        gap, size = self.primal - self.dual, max(abs(self.primal), abs(self.dual))
        if not math.isfinite(gap) or gap < -ROUNDING * size:
            return math.inf
        return max(gap, 0.0) / size if size > 0.0 else 0.0


NOTHING = Verdict(math.inf, -math.inf)


class Judge:
    """Judges answers to one task on one set of data: the primal and the dual value of its problem.

    An answer with dual variables is judged by itself. An answer without is compared with ``dual_bound``, the best
    dual value known, which is generous: it is charged for its primal only.
    """

    def __init__(self, X: Any, y: Any, task: Task) -> None:
        self.X, self.y, self.task = X, np.asarray(y, dtype=np.float64), task
        self.dual_bound = -math.inf

    def certificate(self, answer: Answer) -> Verdict:
        """Primal value of an answer, and its own dual value or the best known."""
        alpha = None if answer.alpha is None else np.asarray(answer.alpha, dtype=np.float64)
        w = alpha if self.task.family != "linear" else np.asarray(answer.w, dtype=np.float64)
        if not np.isfinite(w).all() or not math.isfinite(answer.b):
            return NOTHING
        if self.task.family != "linear":
            feasible = self._feasible(alpha)
            z, of_feasible = Kernel(self.task, self.X).sums(np.stack([alpha, feasible]))
            own = self._primal(z, answer.b, alpha @ z), self._dual(feasible, feasible @ of_feasible)
            return Verdict(*own)
        z = rows_times(self.X, w)
        primal = self._primal(z, answer.b, w @ w)
        feasible = self._feasible(self._suggested(z + answer.b) if alpha is None else alpha)
        v = rows_adjoint(self.X, feasible)
        dual = self._dual(feasible, v @ v)
        return Verdict(primal, dual if alpha is not None else max(dual, self.dual_bound))

    def relative_gap(self, answer: Answer) -> float:
        """Relative duality gap of an answer."""
        return self.certificate(answer).relative_gap

    def _primal(self, z: Any, b: float, squared_norm: float) -> float:
        """Of scores ``z`` without the intercept, and the squared norm of their function."""
        task, scores = self.task, z + b
        if task.family == "svr":
            losses = np.maximum(np.abs(self.y - scores) - task.epsilon, 0.0)
        else:
            losses = np.maximum(1.0 - self.y * scores, 0.0) ** (2 if task.loss == "squared_hinge" else 1)
        penalty = squared_norm + (b**2 if task.intercept == "penalised" else 0.0)
        return float(task.C * losses.sum() + 0.5 * penalty)

    def _dual(self, alpha: Any, squared_norm: float) -> float:
        """Of signed and feasible dual variables, and the squared norm of ``sum_i alpha_i x_i``."""
        task = self.task
        value = float(self.y @ alpha)
        if task.family == "svr":
            value -= task.epsilon * float(np.abs(alpha).sum())
        elif task.loss == "squared_hinge":
            value -= float(alpha @ alpha) / (4.0 * task.C)
        shift = float(alpha.sum()) ** 2 if task.intercept == "penalised" else 0.0
        return value - 0.5 * (float(squared_norm) + shift)

    def _suggested(self, scores: Any) -> Any:
        """Minus the slopes of a hinge at the scores: dual variables for an answer that has none."""
        slack = np.maximum(1.0 - self.y * scores, 0.0)
        size = 2.0 * slack if self.task.loss == "squared_hinge" else (slack > 0.0).astype(float)
        return self.task.C * self.y * size

    def _feasible(self, alpha: Any) -> Any:
        """Clipped to the box; for a free intercept, the heavier of both signs is scaled down until the sum is zero."""
        C, task = self.task.C, self.task
        if task.family == "svr":
            alpha = np.clip(alpha, -C, C)
        else:
            alpha = self.y * np.clip(self.y * alpha, 0.0, math.inf if task.loss == "squared_hinge" else C)
        if task.intercept != "free":
            return alpha
        up, down = np.maximum(alpha, 0.0), np.maximum(-alpha, 0.0)
        lighter = min(up.sum(), down.sum())
        return up * (lighter / up.sum()) - down * (lighter / down.sum()) if lighter > 0.0 else np.zeros_like(alpha)


class PairsJudge(Judge):
    """One-vs-one: the verdict on the pair with the largest gap. In the pair ``i < j``, class ``i`` is positive."""

    def __init__(self, X: Any, y: Any, task: Task) -> None:
        self.codes = np.unique(y, return_inverse=True)[1]
        self.pairs = list(combinations(range(self.codes.max() + 1), 2))
        self.judges = []
        for i, j in self.pairs:
            members = np.isin(self.codes, (i, j))
            self.judges.append(Judge(X[members], np.where(self.codes[members] == i, 1.0, -1.0), task))

    def certificate(self, answer: Answer) -> Verdict:
        verdicts = []
        for judge, (i, j), b in zip(self.judges, self.pairs, answer.b, strict=True):
            # For a sample of class c, row k belongs to its pair with class k, rows from c on to the next class.
            alpha = np.where(self.codes == i, answer.alpha[j - 1], answer.alpha[i])
            verdicts.append(judge.certificate(Answer(None, b, alpha[np.isin(self.codes, (i, j))])))
        return max(verdicts, key=lambda verdict: verdict.relative_gap)


class NuJudge(Judge):
    """nu-SVC and nu-SVR: variables ``0 <= p <= cap``, with one sum for those of each sign.

    Intercept and margin are the best for them. By the duality of linear programs the primal value is then
    ``|f|^2 / 2`` and, for each sign, the largest ``r.p`` with that sum, where ``r`` are the residuals of the scores.
    """

    def __init__(self, X: Any, y: Any, task: Task) -> None:
        super().__init__(X, y, task)
        n = self.y.size
        if task.family == "nu-svc":
            self.cap, self.total, self.targets = 1.0 / n, 0.5 * task.nu, np.zeros(n)
            self.members = {1.0: self.y > 0.0, -1.0: self.y < 0.0}
        else:
            self.cap, self.total, self.targets = task.C, 0.5 * task.C * task.nu * n, self.y
            self.members = dict.fromkeys((1.0, -1.0), np.ones(n, dtype=bool))

    def certificate(self, answer: Answer) -> Verdict:
        alpha = np.asarray(answer.alpha, dtype=np.float64)
        if not np.isfinite(alpha).all() or not alpha.any():
            return NOTHING
        parts = {sign: np.maximum(sign * alpha, 0.0)[some] for sign, some in self.members.items()}
        if self.task.family == "nu-svr":  # what both sides of a sample have in common changes nothing
            room = self.cap - np.maximum(parts[1.0], parts[-1.0])
            shared = room * max(0.0, (self.total - 0.5 * np.abs(alpha).sum()) / max(room.sum(), 1e-300))
            parts = {sign: p + shared for sign, p in parts.items()}
        else:  # LIBSVM divides the variables by the margin at the end; their sums tell what it divided by
            parts = {sign: p * (self.total / max(p.sum(), 1e-300)) for sign, p in parts.items()}
        feasible = np.zeros_like(alpha)
        for sign, p in parts.items():
            feasible[self.members[sign]] += sign * self._with_total(p)
        f = Kernel(self.task, self.X).sums(feasible[None])[0]
        squared_norm, r = float(feasible @ f), self.targets - f
        primal = 0.5 * squared_norm + sum(self._largest(sign * r[some]) for sign, some in self.members.items())
        return Verdict(primal, float(self.targets @ feasible) - 0.5 * squared_norm)

    def _with_total(self, p: Any) -> Any:
        """Moved into the box and to the sum: scaled down, or all by the same share of their way to the cap."""
        p = np.clip(p, 0.0, self.cap)
        if p.sum() >= self.total:
            return p * (self.total / p.sum())
        for moving in (p > 0.0, np.ones(p.size, dtype=bool)):
            room = np.where(moving, self.cap - p, 0.0)
            if p.sum() + room.sum() >= self.total:
                return p + room * ((self.total - p.sum()) / room.sum())
        return np.full(p.size, self.cap)

    def _largest(self, r: Any) -> float:
        """The largest ``r.p``: the largest residuals get the cap, the next one what is left of the sum."""
        whole = int(self.total / self.cap * (1.0 + 1e-14))
        r = np.sort(r)[::-1]
        rest = max(0.0, self.total - whole * self.cap) * r[whole] if whole < r.size else 0.0
        return float(self.cap * r[:whole].sum() + rest)


class PredictionJudge(Judge):
    """Predictions: not a gap but the largest error of a score, against float64 from the same dual variables.

    The error is relative to the largest score. A label that contradicts its score counts as an infinite error.
    """

    def relative_gap(self, answer: Answer) -> float:
        untrained = self.X.shape[0] - answer.alpha.size
        scores = Kernel(self.task, self.X).sums(np.pad(answer.alpha, (0, untrained))[None])[0] + answer.b
        size = float(np.abs(scores).max())
        clear = np.abs(scores) > 1e-3 * size
        if (np.sign(scores) != np.sign(answer.info["labels"]))[clear].any():
            return math.inf
        return float(np.abs(np.ravel(answer.w) - scores).max()) / size


JUDGES = {"ovo": PairsJudge, "nu-svc": NuJudge, "nu-svr": NuJudge, "predict": PredictionJudge}


def judge_of(X: Any, y: Any, task: Task) -> Judge:
    """The judge of a task."""
    return JUDGES.get(task.family, Judge)(X, y, task)


class Kernel:
    """The kernel matrix of the rows of ``X``, never whole."""

    def __init__(self, task: Task, X: Any) -> None:
        self.task, self.X = task, X
        # Moving all points together changes no distance, but it makes the squared lengths cancel less.
        self.centre = X.mean(axis=0, dtype=np.float64) if task.kernel == "rbf" and not hasattr(X, "tocsr") else None

    def sums(self, alphas: Any) -> Any:
        """``K @ alpha`` for each row of ``alphas``."""
        support = np.flatnonzero(alphas.any(axis=0))
        out = np.zeros(alphas.shape)
        for some in _stretches(support.size, max(SQUARE, _width(self.X))):
            Z, weights = self._points(support[some]), alphas[:, support[some]]
            for rows in _stretches(self.X.shape[0], max(SQUARE, _width(self.X))):
                out[:, rows] += weights @ self._values(Z, self._points(rows))
        return out

    def _points(self, rows: Any) -> Any:
        points = self.X[rows].astype(np.float64)
        return points if self.centre is None else points - self.centre

    def _values(self, Z: Any, points: Any) -> Any:
        """``K(Z, points)``."""
        products = Z @ points.T
        products = products.toarray() if hasattr(products, "toarray") else products
        if self.task.kernel == "linear":
            return products
        if self.task.kernel == "poly":
            return (self.task.gamma * products + self.task.coef0) ** self.task.degree
        squares = _squares(Z)[:, None] + _squares(points) - 2.0 * products
        return np.exp(-self.task.gamma * np.maximum(squares, 0.0))


def rows_times(X: Any, w: Any) -> Any:
    """``X w`` in float64."""
    parts = _stretches(X.shape[0], _width(X))
    return np.concatenate([X[rows].astype(np.float64) @ w for rows in parts] or [np.zeros(0)])


def rows_adjoint(X: Any, alpha: Any) -> Any:
    """``X^T alpha`` in float64."""
    out = np.zeros(X.shape[1])
    for rows in _stretches(X.shape[0], _width(X)):
        out += X[rows].astype(np.float64).T @ alpha[rows]
    return out


def _squares(points: Any) -> Any:
    """Squared lengths of some rows."""
    if hasattr(points, "multiply"):
        return np.asarray(points.multiply(points).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", points, points)


def _width(X: Any) -> int:
    """Entries that a row has in memory, on average."""
    return -(-X.nnz // max(1, X.shape[0])) if hasattr(X, "nnz") else int(X.shape[1])


def _stretches(n: int, width: int) -> Iterator[slice]:
    """Stretches of rows that have at most ``BLOCK`` entries, if each has so many."""
    step = max(1, BLOCK // max(1, width))
    return (slice(start, min(n, start + step)) for start in range(0, n, step))
