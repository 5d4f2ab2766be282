"""Selection of C and gamma for kernel machines: distances once, a kernel matrix for each gamma, all C at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import numpy as np

from maxmargin._jit import compiled
from maxmargin.estimators._machinery.check import check_polynomial
from maxmargin.estimators._machinery.kernels import bandwidth, training_operator
from maxmargin.estimators._machinery.plan import Task
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.selection import (
    NARROWEST,
    SELECTION_CONSTRAINTS,
    WIDEST,
    Folds,
    Grid,
    Scorer,
    Selection,
    positive_values,
    strengths,
)
from maxmargin.estimators.leave_one_out import scores_without
from maxmargin.estimators.svm_path import solutions_along
from maxmargin.operators import Matrix, PrecomputedGram
from maxmargin.operators.products import Products
from maxmargin.parts.kernels import kernel_of
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index, Kernel
from maxmargin.solvers.kernels.active_set import solved
from maxmargin.solvers.kernels.strengths import along_strengths, expansions
from maxmargin.threads import go_on, workers_for

ENOUGH = 1e-3  # violation at which the fits of the folds stop, as LIBSVM's by default: margins are 1
MANY_STRENGTHS = 100  # values of C for which the exact path takes no longer than so many fits
MATRICES = 3.0  # of kernel values that a thread has in memory at a time
WITH_GAMMA = ("rbf", "poly", "sigmoid", "laplacian")


@dataclass(eq=False, repr=False)
class KernelSelection(Selection):
    """What `SVCCV` and `SVRCV` share."""

    gammas: Any = None
    _: KW_ONLY
    kernel: Any = "rbf"
    degree: int = 3
    coef0: float = 0.0
    cache_size: float = 1000

    _exact_path = True  # whether the solutions begin at C = 0 as those of a classifier do

    @abstractmethod
    def _tasks(self, y: Array, weights: Float) -> Sequence[Task]:
        """The problems for ``C = 1``, with all samples."""

    @abstractmethod
    def _task_problem(self, gram: PrecomputedGram, y: Float, s: Float) -> Problem:
        """What one of them minimises, over some samples."""

    @abstractmethod
    def _score(self, score: Scorer, values: Float, rows: Index) -> float:
        """Of the values of the functions of all tasks, a column for each."""

    def _refuse_contradictions(self) -> None:
        super()._refuse_contradictions()
        if self.gammas is not None and self.kernel not in WITH_GAMMA:
            raise ValueError(f"gammas has no meaning for kernel={self.kernel!r}; leave it at None.")

    def _candidates(self, X: Matrix, weights: Float) -> Grid:
        n = X.shape[0]
        megabytes = MATRICES * 8.0 * n * n / 2.0**20 * workers_for(self.n_jobs).count
        if megabytes > self.cache_size:
            raise ValueError(
                f"{type(self).__name__} stores kernel matrices, {megabytes:.0f} megabytes for {n} samples, and "
                f"cache_size is {self.cache_size:g}; raise it, or use GridSearchCV."
            )
        grid = {"C": strengths(self.Cs)}
        if self.kernel in WITH_GAMMA:
            if self.gammas is None or isinstance(self.gammas, int):
                scale = bandwidth(cast("Any", self._model()), X, weights)
                count = 6 if self.gammas is None else self.gammas
                grid["gamma"] = positive_values("gammas", scale * np.geomspace(NARROWEST, WIDEST, max(1, count)))
            else:
                grid["gamma"] = positive_values("gammas", self.gammas)
        if self.kernel == "poly":
            model = self._model(C=1.0)
            check_polynomial(model.degree, float(grid["gamma"].max()), model.coef0, X)
        return grid

    def _scored(self, X: Matrix, y: Array, weights: Float, grid: Grid, folds: Folds, score: Scorer) -> Float:
        gammas = grid.get("gamma", np.array([np.nan]))
        tasks, products = self._tasks(y, weights), Products(X, workers_for(self.n_jobs))
        scores = np.empty((grid["C"].size, gammas.size, max(1, len(folds))))
        if self._own_kernel:
            products.prepare(self._kernel(gammas[0]))

        def work(pieces: Iterator[int]) -> None:
            for g in pieces:
                K = self._matrix(X, products, float(gammas[g]))
                if folds:
                    self._score_folds(K, tasks, grid["C"], folds, score, scores[:, g], products)
                else:
                    values = self._left_out(K, tasks, grid["C"])
                    scores[:, g, 0] = self._score_all(score, values, np.arange(K.shape[0]))

        products.workers.run(work, range(gammas.size))
        return scores.reshape(-1, scores.shape[2])

    @property
    def _own_kernel(self) -> bool:
        """Whether it is one of ours, of vectors."""
        return self.kernel in WITH_GAMMA or self.kernel == "linear"

    def _kernel(self, gamma: float) -> Kernel:
        model = self._model(C=1.0)
        return kernel_of(self.kernel, degree=model.degree, gamma=float(gamma), coef0=model.coef0)

    def _matrix(self, X: Matrix, products: Products, gamma: float) -> Float:
        if self._own_kernel:
            return products.matrix(self._kernel(gamma))
        return training_operator(self._model(C=1.0), X, products.workers).whole

    def _score_folds(
        self, K: Float, tasks: Sequence[Task], Cs: Float, folds: Folds, score: Scorer, out: Float, products: Products
    ) -> None:
        """Sets: ``out``, a row for each C and a column for each fold."""
        values = [np.empty((Cs.size, test.size, len(tasks))) for _, test in folds]

        def work(pieces: Iterator[tuple[int, int]]) -> None:
            for k, t in pieces:
                train, test = folds[k]
                values[k][:, :, t] = self._along(K, tasks[t], Cs, train, test)

        products.workers.run(work, [(k, t) for k in range(len(folds)) for t in range(len(tasks))])
        for k, (_, test) in enumerate(folds):
            out[:, k] = self._score_all(score, values[k], test)

    def _score_all(self, score: Scorer, values: Float, rows: Index) -> Float:
        """For all C."""
        return np.array([self._score(score, one, rows) for one in values])

    def _along(self, K: Float, task: Task, Cs: Float, train: Index, test: Index) -> Float:
        """Scores of the rows of a fold by the fits to the others, for all C."""
        place = np.full(K.shape[0], -1)
        place[task.members] = np.arange(task.members.size)
        own = place[train]
        own = own[own >= 0]
        members = task.members[own]
        part = np.empty((members.size, members.size))
        take(K, members, members, part)
        qp = BoxQP.of(self._task_problem(PrecomputedGram(part), task.y[own], task.s[own]))
        if self._exact_path and Cs.size >= MANY_STRENGTHS:
            variables, b = solutions_along(qp, Cs)
            alpha = expansions(qp, variables)
        else:
            alpha, b = along_strengths(qp, part, Cs, ENOUGH)
        others = np.empty((members.size, test.size))
        take(K, members, test, others)
        return alpha @ others + b[:, None]

    def _left_out(self, K: Float, tasks: Sequence[Task], Cs: Float) -> Float:
        """Scores of all samples by exact fits without them, for all C: values of C, samples, tasks."""
        values = np.empty((Cs.size, K.shape[0], len(tasks)))
        for t, task in enumerate(tasks):
            part = np.ascontiguousarray(K[np.ix_(task.members, task.members)])
            gram, warm = PrecomputedGram(part), None
            for c, C in enumerate(Cs.tolist()):
                go_on()
                qp = BoxQP.of(self._task_problem(gram, task.y, C * task.s))
                state = solved(qp, warm)
                state.face_of_free()
                beta, f = qp.expansion(state.a), state.f[qp.sample]
                b = qp.values(state.a, f)[2]
                values[c, :, t] = beta @ K[task.members] + (b[0] if b.size else 0.0)
                values[c, task.members, t] = scores_without(qp, state)
                warm = Point(beta, 0.0, state.a)
        return values


KERNEL_SELECTION_CONSTRAINTS: Constraints = {**SELECTION_CONSTRAINTS, "gammas": ["array-like", int, None]}


@compiled
def take(K: Float, rows: Index, columns: Index, out: Float) -> None:
    """``K[rows, columns]``. Sets: ``out``."""
    for i in range(rows.shape[0]):
        source, target = K[rows[i]], out[i]
        for j in range(columns.shape[0]):
            target[j] = source[columns[j]]
