"""What every estimator of the library shares, whatever it predicts: its parameters, and the straight line of a fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.advice import notes_on_convergence
from maxmargin.estimators._machinery.callbacks import CallbackSupportMixin, FitTasks, with_callbacks
from maxmargin.estimators._machinery.extremes import are_plain, refuse_extreme_weights
from maxmargin.estimators._machinery.fit import all_or_nothing, solve
from maxmargin.estimators._machinery.foreign import like
from maxmargin.estimators._machinery.parameters import Parameters
from maxmargin.estimators._machinery.plan import Function, Plan, Task, View
from maxmargin.estimators._machinery.recognise import Constraints, validate_parameters
from maxmargin.estimators._machinery.results import DELAYED, AtOnce, Delayed, Results, Solved, realise, worst
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.problems.point import Status
from maxmargin.protocols import Array, Float, Operator
from maxmargin.solvers import refuse_wrong_options
from maxmargin.solvers.choice import AnyProblem, Choice, asked_for, choose

STORED_RECORDS = 10  # of the history of each solution in a pickle
POSITIVE = Interval(Real, 0, None, closed="neither")
NU_CONSTRAINT: list[object] = [Interval(Real, 0.0, 1.0, closed="right")]
CLASS_WEIGHT_CONSTRAINT: list[object] = [StrOptions({"balanced"}), dict, None]
INTERCEPT_CONSTRAINT: list[object] = [StrOptions({"auto", "free", "penalised"}), None]
FIT_CONSTRAINTS: Constraints = {
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": [Interval(Integral, -1, None, closed="left")],
    "max_time": [POSITIVE, None],
    "verbose": ["verbose"],
    "solver": [str],
    "solver_options": [dict, None],
    "warm_start": ["boolean"],
    "callback": [callable, None],
}


class CertifiedEstimator(CallbackSupportMixin, Parameters, BaseEstimator):
    """An estimator whose fit ends with a list of certified solutions."""

    _doc_link_module = "maxmargin"
    _doc_link_template = "https://github.com/maxmargin/maxmargin"
    _reads_chunks = False
    _several_targets = False  # whether y may have a column for each of several targets
    _by_columns = False  # whether samples are taken in the order of their columns too

    solutions_: list[Solution] = Delayed()  # type: ignore[assignment]
    solution_: Solution = Delayed()  # type: ignore[assignment]
    duality_gap_: float
    objective_: float
    dual_objective_: float
    n_iter_: Any

    @with_callbacks
    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to all samples and certify it.

        Parameters
        ----------
        X : array-like, sparse matrix or ChunkedMatrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` the kernel matrix. Linear models read those of
            `maxmargin.io.open_chunks`, which need not fit into memory.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Class labels or targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's loss: weight 2 is the same as the sample twice.

        Returns
        -------
        self : estimator
            The fitted estimator.

        """
        return self._fit(X, y, sample_weight)

    def predict(self, X: MatrixLike) -> Array:
        """Labels or targets of samples.

        Parameters
        ----------
        X : array-like, sparse matrix or ChunkedMatrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` their kernel values with the training samples.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_targets)
            Class labels, or targets; of `OneClassSVM` 1 for samples inside and -1 for outliers.

        """
        check_is_fitted(self)
        return like(X, self._decoded(self._scores_to_decode(check.check_prediction_data(self, X))))

    def _scores(self, X: Matrix | ChunkedMatrix) -> Float:
        """One column per problem."""
        raise NotImplementedError

    def _scores_to_decode(self, X: Matrix | ChunkedMatrix) -> Float:
        """The same, as precise as predictions need them."""
        return self._scores(X)

    def _decoded(self, scores: Float) -> Array:
        """What is predicted by scores: unless there are classes, they are it."""
        return scores[:, 0]

    def _fit(self, X: MatrixLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> Self:
        """Check and plan, pose and choose, minimise and read, keep, warn. Sets: the fitted attributes."""
        with all_or_nothing(self):
            plan = self._plan(X, y, sample_weight)
            if self.callback is not None or hasattr(self, "_skl_callbacks") or hasattr(self, "_parent_callback_ctx"):
                plan.listeners = FitTasks(self, plan.X, plan.y, len(plan.tasks))
            self._keep(plan, solve(self, plan) if plan.shortcut is None else plan.shortcut(plan))
            plan.listeners.end(dict(vars(self)))
        notes = () if DELAYED in vars(self) else notes_on_convergence(self, plan.X)
        for note in (*notes, *plan.notes):
            warnings.warn(note, ConvergenceWarning, stacklevel=4)
        return self

    def _plan(self, X: MatrixLike, y: ArrayLike | None, sample_weight: ArrayLike | None) -> Plan:
        """Check parameters and samples, and say what is to be solved."""
        validate_parameters(self)
        self._refuse_contradictions()
        X, y = check.check_training_data(self, X, y)
        plan = self._divide(X, y, sample_weight)
        if sample_weight is not None or not are_plain(self):
            refuse_extreme_weights(self, plan.weights_of_losses)
        plan.views, plan.hints = self._views(plan), self._options()
        return plan

    def _validate_params(self) -> None:
        """As scikit-learn does, and the options of the solver by their names."""
        super()._validate_params()
        if self.solver_options:
            refuse_wrong_options(self.solver, self.solver_options)

    def _refuse_contradictions(self) -> None:
        """Refuse parameters that exclude each other."""

    def _refuse_empty_classes(self, totals: Array) -> None:
        """Refuse the sums of the weights of the samples of each class if some that must not are zero."""

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """Checked samples, divided into tasks."""
        raise NotImplementedError

    def _views(self, plan: Plan) -> Sequence[View]:
        """The ways to see the samples, the preferred one first."""
        raise NotImplementedError

    def _hints(self) -> Mapping[str, object]:
        """Options for whichever solver has them."""
        return {"shrinking": getattr(self, "shrinking", True), "seed": self._seed()}

    def _options(self) -> Mapping[str, object]:
        """The hints, and what the user says of the named solver, which counts more."""
        return {**self._hints(), **(self.solver_options or {})}

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> AnyProblem:
        """What one task minimises."""
        raise NotImplementedError

    def _choice(self, problem: AnyProblem, clients: int = 0) -> Choice:
        """The solver for a problem: the one that was asked for, or what the table of "auto" says."""
        if self.solver != "auto":
            return asked_for(str(self.solver), problem)
        return self._automatic_choice(problem, clients)

    def _automatic_choice(self, problem: AnyProblem, clients: int = 0) -> Choice:
        """What the table of "auto" says."""
        return choose(problem, self.max_time, clients)

    def _at_once(self, plan: Plan) -> Callable[[], AtOnce | None] | None:
        """What solves all tasks in one compiled call, or finds that it does not get there; ``None`` if nothing does."""
        return None

    def _proven(self, problem: AnyProblem, solution: Solution) -> Solution:
        """A solution as one of the problem that users asked for, if another one was solved."""
        return solution

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        """What a solution stands for."""
        return Function(solution.point.w, solution.point.b, solution.point.alpha)

    def _keep(self, plan: Plan, solved: Results) -> None:
        """Sets: the fitted attributes."""
        raise NotImplementedError

    def _keep_certificates(self, solutions: list[Solution]) -> None:
        """Sets: what is known about the quality of the fit, and ``n_iter_``."""
        nothing = Function(np.empty(0), 0.0, None)
        Results([Solved(solution, nothing) for solution in solutions]).keep(self)

    def _earlier_solutions(self, plan: Plan) -> Sequence[Solution | None]:
        """Solutions of the last fit to start from, if there are as many as there will be."""
        earlier = getattr(self, "solutions_", None) if getattr(self, "warm_start", False) else None
        count = len(plan.tasks)
        return earlier if earlier is not None and len(earlier) == count else [None] * count

    def _seed(self) -> int:
        """A seed for the solver: fixed unless the user asks for randomness, so that equal fits give equal bits."""
        random_state = getattr(self, "random_state", None)
        if random_state is None:
            return 0
        if isinstance(random_state, Integral):
            return int(random_state)
        return int(random_state.randint(2**31 - 1))

    @property
    def status_(self) -> Status:
        """Why the fit stopped; of several problems, that of the worst one that did not converge."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no status_ before it is fitted.")
        if DELAYED in vars(self):
            return Status.CONVERGED
        unfinished = [solution for solution in self.solutions_ if solution.status is not Status.CONVERGED]
        return worst(unfinished).status if unfinished else Status.CONVERGED

    def __sklearn_is_fitted__(self) -> bool:
        # Validation sets n_features_in_, which alone would count as fitted.
        return "solutions_" in vars(self) or DELAYED in vars(self)

    def __copy__(self) -> Self:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        return copied

    def __getstate__(self) -> dict[str, object]:
        realise(self)
        state = dict(super().__getstate__())
        state.pop("_training", None)  # what it remembers of its samples while it lives
        if "solutions_" in state:  # of their course, the end
            short = [replace(one, history=one.history[-STORED_RECORDS:]) for one in self.solutions_]
            state.update(solutions_=short, solution_=worst(short))
        return state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = getattr(self, "kernel", None) == "precomputed"
        return tags
