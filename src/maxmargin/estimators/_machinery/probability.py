"""Probabilities of classes, from scores of samples that the model had not seen.

The scores of a fitted machine on its own samples are too good. So the samples are split into folds, each is scored by a
machine that was fitted without it, and the curves from scores to probabilities (`curves.py`) are those under which the
labels are most likely. Folds are solved roughly: those of small fits by one compiled call each, as these are, and
others from the solution for all samples.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from maxmargin._jit import seconds_working
from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.at_once import is_wanted
from maxmargin.estimators._machinery.callbacks import Listeners
from maxmargin.estimators._machinery.curves import SMALLEST_PROBABILITY, best_curves, probabilities
from maxmargin.estimators._machinery.fit import STOPPED_BY_THE_USER, choose_solver, solve_in_turn
from maxmargin.estimators._machinery.kernels import training_operator
from maxmargin.estimators._machinery.plan import ColumnsView, Plan, RowsView, Task
from maxmargin.estimators._machinery.results import Solved
from maxmargin.estimators._machinery.typed import available_if
from maxmargin.loop.solution import Solution
from maxmargin.numerics.sampling import hashes
from maxmargin.operators import MatrixLike, SharedRows
from maxmargin.operators.rows import TILE_ROWS, is_sparse
from maxmargin.problems.point import Point
from maxmargin.protocols import Array, Float, Index, Operator
from maxmargin.solvers.recentred import Recentred
from maxmargin.threads import NO_OTHERS

FOLDS = 3
FEW_SAMPLES = 1000  # whose scores are used if there was no time for any fold
FOLD_TOL = 1e-2  # relative gap of a fold: its scores are needed for a curve only
MANY_COPIES = 10  # so many equal samples are values of discrete features, which every fold should see


# --- Prediction ------------------------------------------------------------------------------------------------------


def _wants_probabilities(estimator: Any) -> bool:
    return estimator.probability not in (False, "deprecated")


def _has_probabilities(estimator: Any) -> bool:
    fitted = estimator.__sklearn_is_fitted__()
    if hasattr(estimator, "probability_curves_") if fitted else _wants_probabilities(estimator):
        return True
    raise AttributeError(
        f"{type(estimator).__name__} has probabilities only if it is fitted with probability=True, and this one "
        f"{'was fitted without' if fitted else 'has probability=False'}; set it and call fit."
    )


class Probabilities:
    """A classifier that can tell how sure it is."""

    @available_if(_has_probabilities)
    def predict_proba(self: Any, X: MatrixLike) -> Float:
        """Probabilities of the classes; needs a fit with ``probability=True``.

        Each binary problem has a curve ``1 / (1 + exp(-z))`` with ``z = A min(f, 0) + B max(f, 0) + C`` at the score
        ``f``. The slopes and the shift, a row of `probability_curves_`, are those of the largest likelihood on scores
        of samples that the model of a fold had not seen, with Platt's smoothed targets. Sample weights count in it,
        class weights do not. The probabilities of several classes follow from those of all pairs by Wu, Lin and Weng's
        coupling, as in LIBSVM, or are those of each class against the rest, divided by their sum.

        Unlike scikit-learn's, they never contradict `predict`: the class that it names has the largest one. Where the
        curve says otherwise (a class may win most pairs and yet score less), the nearest probabilities for which that
        holds are taken.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Probabilities in the order of `classes_`, never zero.

        """
        check_is_fitted(self)
        scores = self._scores(check.check_prediction_data(self, X))
        pairs = self.multi_class == "ovo"
        p = probabilities(self.probability_curves_, scores, self.classes_.size, pairs)
        return led_by(p, self._codes(scores))

    @available_if(_has_probabilities)
    def predict_log_proba(self: Any, X: MatrixLike) -> Float:
        """Logarithms of the probabilities of `predict_proba`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Logarithms, never infinite, in the order of `classes_`.

        """
        return np.asarray(np.log(self.predict_proba(X)))


def led_by(p: Float, codes: Index) -> Float:
    """The nearest probabilities in which the class of each code is the first of the largest ones."""
    p = np.maximum(p, SMALLEST_PROBABILITY)
    wrong = np.flatnonzero(p.argmax(axis=1) != codes)
    if not wrong.size:
        return p
    rows, leaders = p[wrong], codes[wrong]
    every = np.arange(wrong.size)
    leader = rows[every, leaders]
    rows[every, leaders] = -np.inf
    others = -np.sort(-rows, axis=1)[:, :-1]
    sums = np.cumsum(np.c_[leader, others], axis=1)
    level = (sums / np.arange(1, p.shape[1] + 1)).max(axis=1)  # the mean of the leader and those above it
    rows = np.minimum(rows, level[:, None])
    rows[every, leaders] = level
    behind = np.flatnonzero(rows.argmax(axis=1) != leaders)  # a tie with an earlier class
    rows[behind, leaders[behind]] = np.nextafter(rows[behind].max(axis=1), 2.0)
    p[wrong] = rows
    return p


# --- Curves -----------------------------------------------------------------------------------------------------------


def calibrate(estimator: Any, plan: Plan, solved: Sequence[Solved]) -> None:
    """Sets: ``probability_curves_``, or removes them if the estimator is not to have probabilities."""
    vars(estimator).pop("probability_curves_", None)
    if not _wants_probabilities(estimator):
        return
    fold = folds(plan.X, plan.codes, plan.weights, estimator._seed())
    scores, scored = unseen_scores(estimator, plan, solved, fold)
    seen = plan.weights > 0.0
    if scored.any():
        seen &= fold < 0  # no fold could do without them
    else:  # there was no time for any fold, nor is there for the scores of all samples
        seen &= thinned(plan.codes, seen)
    if seen.any():
        scores[seen] = estimator._scores(plan.X[seen])
    used = scored | seen
    pairs = estimator.multi_class == "ovo"
    estimator.probability_curves_ = best_curves(
        scores[used], plan.codes[used], plan.weights[used], estimator.classes_.size, pairs
    )


# --- Folds -----------------------------------------------------------------------------------------------------------


def folds(X: Any, all_codes: Array, weights: Float, seed: int) -> Index:
    """The fold of each sample; -1 if its weight is zero or no sample of its class would be left for the others.

    They are stratified, and decided by a hash of the sample's values: neither the order of the samples matters nor
    whether a sample of weight 2 or two copies are given, because copies share a fold (unless there are many of them).
    """
    used = np.flatnonzero(weights > 0.0)
    key, codes = row_keys(X, seed)[used], all_codes[used]
    _, group, copies = np.unique(key, return_inverse=True, return_counts=True)
    alone = copies[group] >= MANY_COPIES
    stratum = np.full(copies.size, codes.max())
    np.minimum.at(stratum, group, codes)
    stratum = np.where(alone, codes, stratum[group])
    order = np.lexsort((group, stratum))
    begins = np.diff(group[order], prepend=-1) != 0
    fold = np.full(weights.size, -1)
    fold[used[order]] = (np.cumsum(begins | alone[order]) - 1) % FOLDS
    for code in range(codes.max() + 1):
        members = used[codes == code]
        if (fold[members] == fold[members[:1]]).all():  # also of a class without any
            fold[members] = -1
    return fold


def row_keys(X: Any, seed: int) -> Array:
    """A hash of each row's values; the same for dense and sparse rows, and for float32 and float64."""
    if is_sparse(X):
        keys = hashes(X.data, X.indices, seed)
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(keys, dtype=np.uint64)])
        return np.asarray(sums[X.indptr[1:]] - sums[X.indptr[:-1]])
    columns, out = np.arange(X.shape[1]), np.empty(X.shape[0], dtype=np.uint64)
    for start in range(0, X.shape[0], TILE_ROWS):
        tile = X[start : start + TILE_ROWS]
        out[start : start + TILE_ROWS] = hashes(tile, columns, seed).sum(axis=1, dtype=np.uint64)
    return out


def unseen_scores(estimator: Any, plan: Plan, solved: Sequence[Solved], fold: Index) -> tuple[Float, Array]:
    """Scores of each fold's samples by a model without them, and which samples have one: time may run out."""
    scores, scored = np.zeros((fold.size, len(solved))), np.zeros(fold.size, dtype=bool)
    waiting = [k for k in range(FOLDS) if (fold == k).any()]
    wanted, done, stopped = len(waiting), 0, _was_stopped(solved)
    machine: _RowMachine | None = None
    while waiting and not stopped:
        left = None
        if estimator.max_time is not None:
            left = (plan.began + estimator.max_time - seconds_working()) / len(waiting)
            if left <= 0.0:
                break
        held_out = fold == waiting.pop()
        own = _scores_at_once(estimator, plan, held_out) if machine is None else None
        if own is None:
            machine = machine or _machine(estimator, plan, solved)
            found = machine.solve(held_out, left)
            stopped = _was_stopped(found)
            if stopped:  # nobody should have to wait for the scores
                break
            own = machine.scores(found, np.flatnonzero(held_out))
        scores[held_out], scored[held_out] = own, True
        done += 1
    if done < wanted:
        plan.notes.append(_note_on_missing_folds(estimator, done, wanted, stopped))
    return scores, scored


def thinned(codes: Array, among: Array) -> Array:
    """Which samples are left if of each class at most `FEW_SAMPLES` are kept, spread evenly."""
    kept = np.zeros(codes.size, dtype=bool)
    for code in range(codes.max() + 1):
        members = np.flatnonzero(among & (codes == code))
        kept[members[:: max(1, -(-members.size // FEW_SAMPLES))]] = True
    return kept


def _was_stopped(solved: Sequence[Solved]) -> bool:
    return any(one.solution.status in STOPPED_BY_THE_USER for one in solved)


def _note_on_missing_folds(estimator: Any, done: int, wanted: int, stopped: bool) -> str:
    rest = f"rest on {done} of {wanted} folds" if done else "rest on the scores of the training samples: too sure"
    reason, advice = ("the fit was stopped", "Let it finish") if stopped else ("max_time was used up", "Raise max_time")
    name = type(estimator).__name__
    return f"{name}: {reason} before all folds were solved, and the probabilities {rest}. {advice}."


def _machine(estimator: Any, plan: Plan, solved: Sequence[Solved]) -> _RowMachine:
    """What solves folds from the solution for all samples."""
    if not plan.is_posed:  # one compiled call was enough so far
        choose_solver(estimator, plan)
        plan.first = None
    kind = _RowMachine if isinstance(plan.view, (RowsView, ColumnsView)) else _KernelMachine
    return kind(estimator, plan, solved)


def _scores_at_once(estimator: Any, plan: Plan, held_out: Array) -> Float | None:
    """Scores of a fold's samples by a fit of its own without them, where that is one compiled call; else ``None``.

    Such a call takes less time for all problems than the loop needs to begin with each of them, from wherever.
    """
    if not is_wanted(estimator, plan) or hasattr(estimator, "nu"):
        return None
    rest = np.flatnonzero(~held_out & (plan.weights > 0.0))
    rough, X = copy.copy(estimator), plan.X[rest]
    rough.probability, rough.tol = False, max(estimator.tol, FOLD_TOL)
    if hasattr(estimator, "kernel"):
        rough.gamma = estimator._gamma or estimator.gamma  # as it is for all samples, if the kernel has one
        X = X[:, rest] if estimator.kernel == "precomputed" else X
    per_class = check.class_weights(estimator.class_weight, estimator.classes_, plan.codes, plan.weights)
    rough.class_weight = None
    part = rough._plan(X, plan.codes[rest], (per_class[plan.codes] * plan.weights)[rest])
    call = rough._at_once(part) if is_wanted(rough, part) else None
    found = call() if call is not None else None
    if found is None:
        return None
    rough._keep(part, found)
    new = plan.X[held_out]
    return np.asarray(rough._scores(new[:, rest] if getattr(estimator, "kernel", None) == "precomputed" else new))


class _RowMachine:
    """Solves and scores the folds of an estimator that sees samples as rows of features.

    A sample that is left out has weight zero, so that all folds share what was prepared for their tasks.
    """

    def __init__(self, estimator: Any, plan: Plan, solved: Sequence[Solved]) -> None:
        self.estimator, self.plan, self.solved = estimator, plan, solved
        self.operators: dict[int, Operator] = {}  # by the identity of the members
        self.rough = copy.copy(estimator)
        self.rough.warm_start, self.rough.verbose, self.rough.tol = True, 0, max(estimator.tol, FOLD_TOL)
        # Tasks that share rows take turns: who evaluates a row, and beside which others, decides its last bits.
        share = plan.tasks[0].members.size == plan.codes.size
        self.workers = NO_OTHERS if share else plan.workers
        solver = plan.choice.make({**plan.hints, "tol": self.rough.tol})
        self.solver = replace(plan.solver, inner=solver) if isinstance(plan.solver, Recentred) else solver

    def solve(self, held_out: Array, seconds: float | None) -> Sequence[Solved]:
        """Solutions without the samples of a fold, from those with them."""
        tasks = [replace(task, s=np.where(held_out[task.members], 0.0, task.s)) for task in self.plan.tasks]
        self.rough.max_time = seconds
        self.rough.solutions_ = [
            self._without(one.solution, held_out[task.members])
            for one, task in zip(self.solved, self.plan.tasks, strict=True)
        ]
        # The user's callbacks are about the problem for all samples: nobody listens to the folds.
        return solve_in_turn(
            self.rough,
            replace(self.plan, tasks=tasks, view=self, solver=self.solver, workers=self.workers, listeners=Listeners()),
        )

    def of(self, task: Task) -> Operator:
        """The samples of a task, those that are left out too."""
        if id(task.members) not in self.operators:
            self.operators[id(task.members)] = self._operator(task)
        return self.operators[id(task.members)]

    def scores(self, solved: Sequence[Solved], held_out: Index) -> Float:
        """Scores of the samples that are left out, one column per task."""
        W = np.array([one.function.w for one in solved])
        return np.asarray(self.plan.X[held_out] @ W.T + [one.function.b for one in solved])

    def _operator(self, task: Task) -> Operator:
        return self.plan.view.of(task)

    def _without(self, solution: Solution, held_out: Array) -> Solution:
        point = solution.point
        assert point.alpha is not None
        return replace(solution, point=Point(point.w, point.b, np.where(held_out, 0.0, point.alpha)), last=None)


class _KernelMachine(_RowMachine):
    """Solves and scores the folds of an estimator that sees samples through a kernel."""

    def __init__(self, estimator: Any, plan: Plan, solved: Sequence[Solved]) -> None:
        super().__init__(estimator, plan, solved)
        total = max(float(np.abs(one.solution.point.w).sum()) for one in solved)
        self.rows = SharedRows(training_operator(estimator, plan.X, self.workers), estimator.cache_size, total)

    def scores(self, solved: Sequence[Solved], held_out: Index) -> Float:
        """Scores of the samples that are left out, one column per task."""
        expansions, b = np.zeros((len(solved), self.rows.n_samples)), np.zeros(len(solved))
        for k, (task, one) in enumerate(zip(self.plan.tasks, solved, strict=True)):
            expansions[k, task.members], b[k] = one.function.alpha, one.function.b
        return np.asarray(self.rows.many_sums(expansions, held_out).T + b)

    def _operator(self, task: Task) -> Operator:
        return self.rows if task.members.size == self.rows.n_samples else super()._operator(task)

    def _without(self, solution: Solution, held_out: Array) -> Solution:
        solution = super()._without(solution, held_out)
        return replace(solution, point=replace(solution.point, w=np.where(held_out, 0.0, solution.point.w)))
