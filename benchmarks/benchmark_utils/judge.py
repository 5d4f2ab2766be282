"""The judges of every solver's answer: maxmargin's certificates, recomputed in float64 from the data."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np

from benchmark_utils.peer import Answer
from benchmark_utils.workloads import Task
from maxmargin import BoxQP, Certificate, Point, Problem
from maxmargin.loop.certificate import certify_point as certify
from maxmargin.operators import KernelGram, Rows
from maxmargin.parts.kernels import RBF, Linear, Polynomial
from maxmargin.parts.losses import EpsilonInsensitive, Hinge, SquaredHinge
from maxmargin.parts.penalties import L2

NOTHING = Certificate(math.inf, -math.inf)


class Judge:
    """Certifies answers to one task on one set of data: the primal and the dual value of its problem.

    An answer with dual variables is certified by itself. An answer without is compared with ``dual_bound``, the best
    dual value known, which is generous: it is charged for its primal only.
    """

    def __init__(self, X: Any, y: Any, task: Task) -> None:
        self.problem = problem_of(X, y, task)
        self.dual_bound = -math.inf

    def certificate(self, answer: Answer) -> Certificate:
        """Primal value of an answer, and its own dual value or the best known."""
        alpha = None if answer.alpha is None else np.asarray(answer.alpha, dtype=np.float64)
        w = alpha if self.problem.kernelised else np.asarray(answer.w, dtype=np.float64)
        if not np.isfinite(w).all() or not math.isfinite(answer.b):
            return NOTHING
        own = certify(self.problem, Point(w, float(answer.b), alpha))
        return own if alpha is not None else Certificate(own.primal, max(own.dual, self.dual_bound))

    def relative_gap(self, answer: Answer) -> float:
        """Certified relative duality gap of an answer."""
        return self.certificate(answer).relative_gap


class PairsJudge(Judge):
    """One-vs-one: the certificate of the pair with the largest gap. In the pair ``i < j``, class ``i`` is positive."""

    def __init__(self, X: Any, y: Any, task: Task) -> None:
        self.codes = np.unique(y, return_inverse=True)[1]
        self.pairs = list(combinations(range(self.codes.max() + 1), 2))
        self.judges = []
        for i, j in self.pairs:
            members = np.isin(self.codes, (i, j))
            self.judges.append(Judge(X[members], np.where(self.codes[members] == i, 1.0, -1.0), task))

    def certificate(self, answer: Answer) -> Certificate:
        certificates = []
        for judge, (i, j), b in zip(self.judges, self.pairs, answer.b, strict=True):
            # For a sample of class c, row k belongs to its pair with class k, rows from c on to the next class.
            alpha = np.where(self.codes == i, answer.alpha[j - 1], answer.alpha[i])
            certificates.append(judge.certificate(Answer(None, b, alpha[np.isin(self.codes, (i, j))])))
        return max(certificates, key=lambda certificate: certificate.relative_gap)


class NuJudge(Judge):
    """nu-SVC and nu-SVR: box-constrained programs with two fixed sums; intercept and margin are the best for them."""

    def __init__(self, X: Any, y: Any, task: Task) -> None:
        self.task, n = task, len(y)
        if task.family == "nu-svc":
            samples, q, top, total = np.arange(n), np.zeros(n), 1.0 / n, 0.5 * task.nu
            positive = y > 0.0
        else:
            samples, q, top, total = np.tile(np.arange(n), 2), np.tile(y, 2), task.C, 0.5 * task.C * task.nu * n
            positive = np.arange(2 * n) < n
        self.qp = BoxQP(
            gram=gram_of(X, task),
            q=q,
            low=np.where(positive, 0.0, -top),
            high=np.where(positive, top, 0.0),
            D=np.zeros(q.size),
            sample=samples,
            group=np.where(positive, 0, 1),
            totals=np.array([total, -total]),
        )

    def certificate(self, answer: Answer) -> Certificate:
        alpha = np.asarray(answer.alpha, dtype=np.float64)
        if not np.isfinite(alpha).all() or not alpha.any():
            return NOTHING
        variables = self._both_sides(alpha) if self.task.family == "nu-svr" else self._unscaled(alpha)
        return certify(self.qp, Point(alpha, 0.0, variables))

    def _unscaled(self, alpha: Any) -> Any:
        """LIBSVM divides the variables by the margin at the end; their sums tell what it divided by."""
        return np.where(alpha > 0.0, alpha / alpha[alpha > 0.0].sum(), alpha / -alpha[alpha < 0.0].sum()) * (
            0.5 * self.task.nu
        )

    def _both_sides(self, alpha: Any) -> Any:
        """A positive and a negative part with the right sums; what both sides share of a sample changes nothing."""
        up, down = np.maximum(alpha, 0.0), np.minimum(alpha, 0.0)
        room = np.minimum(self.task.C - up, self.task.C + down)
        missing = self.qp.totals[0] - 0.5 * np.abs(alpha).sum()
        shared = room * max(0.0, missing / room.sum())
        return np.concatenate([up + shared, down - shared])


class PredictionJudge(Judge):
    """Predictions: not a gap but the largest error of a score, against float64 from the same dual variables.

    The error is relative to the largest score. A label that contradicts its score counts as an infinite error.
    """

    def __init__(self, X: Any, y: Any, task: Task) -> None:
        self.gram = gram_of(X, task)

    def relative_gap(self, answer: Answer) -> float:
        untrained = self.gram.n_samples - answer.alpha.size
        scores = self.gram.apply(np.pad(answer.alpha, (0, untrained))) + answer.b
        size = float(np.abs(scores).max())
        clear = np.abs(scores) > 1e-3 * size
        if (np.sign(scores) != np.sign(answer.info["labels"]))[clear].any():
            return math.inf
        return float(np.abs(np.ravel(answer.w) - scores).max()) / size


JUDGES = {"ovo": PairsJudge, "nu-svc": NuJudge, "nu-svr": NuJudge, "predict": PredictionJudge}


def judge_of(X: Any, y: Any, task: Task) -> Judge:
    """The judge of a task."""
    return JUDGES.get(task.family, Judge)(X, y, task)


def problem_of(X: Any, y: Any, task: Task) -> Problem:
    """The problem of a task, but for the nu family."""
    operator = Rows(X) if task.family == "linear" else gram_of(X, task)
    losses = {"hinge": Hinge(), "squared_hinge": SquaredHinge()}
    loss = EpsilonInsensitive(task.epsilon) if task.family == "svr" else losses[task.loss]
    return Problem(operator, y, loss, L2(1.0), np.full(y.size, task.C), task.intercept)


def gram_of(X: Any, task: Task) -> KernelGram:
    """The kernel matrix of a task."""
    return KernelGram(kernel_of(task), X)


def kernel_of(task: Task) -> Any:
    """The kernel of a task."""
    if task.kernel == "poly":
        return Polynomial(task.degree, task.gamma, task.coef0)
    return Linear() if task.kernel == "linear" else RBF(task.gamma)
