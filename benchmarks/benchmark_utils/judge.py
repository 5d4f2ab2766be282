"""The judge of every solver's answer: maxmargin's certificate, recomputed in float64 from the data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmark_utils.peer import Answer
from benchmark_utils.workloads import Task
from maxmargin import Certificate, Point, Problem
from maxmargin.certificate import certify
from maxmargin.kernels import RBF
from maxmargin.losses import Hinge, SquaredHinge
from maxmargin.operators import KernelGram, Rows
from maxmargin.penalties import L2


class Judge:
    """Certifies answers to one task on one set of data.

    An answer with dual variables is certified by itself. An answer without is compared with ``dual_bound``, the best
    dual value known, which is generous: it is charged for its primal only.
    """

    def __init__(self, X: Any, y: Any, task: Task) -> None:
        operator = KernelGram(RBF(task.gamma), X) if task.family == "kernel" else Rows(X)
        loss = Hinge() if task.loss == "hinge" else SquaredHinge()
        self.problem = Problem(operator, y, loss, L2(1.0), np.full(y.size, task.C), task.intercept)
        self.dual_bound = -math.inf

    def certificate(self, answer: Answer) -> Certificate:
        """Primal value of an answer, and its own dual value or the best known."""
        alpha = None if answer.alpha is None else np.asarray(answer.alpha, dtype=np.float64)
        w = alpha if self.problem.kernelised else np.asarray(answer.w, dtype=np.float64)
        if not np.isfinite(w).all() or not math.isfinite(answer.b):
            return Certificate(math.inf, -math.inf)
        own = certify(self.problem, Point(w, float(answer.b), alpha))
        return own if alpha is not None else Certificate(own.primal, max(own.dual, self.dual_bound))

    def relative_gap(self, answer: Answer) -> float:
        """Certified relative duality gap of an answer."""
        return self.certificate(answer).relative_gap
