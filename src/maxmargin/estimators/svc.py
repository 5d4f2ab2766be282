"""The support vector classifier with kernels."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators import _check, _multiclass
from maxmargin.estimators._callbacks import FitTasks, with_callbacks
from maxmargin.estimators._classifier import COMMON_CONSTRAINTS, POSITIVE, Classifier
from maxmargin.estimators._fit import all_or_nothing, certified_attributes, iteration_counts, solve_tasks
from maxmargin.estimators._kernels import KERNEL_NAMES, bandwidth, hinge_problem, kernel_scores
from maxmargin.estimators._multiclass import BinaryTask
from maxmargin.problem import Problem
from maxmargin.protocols import Array, Float
from maxmargin.solution import Solution
from maxmargin.solvers import LINEAR, automatic, make_solver


class SVC(Classifier):
    """Support vector classifier with kernels.

    Minimises, for every pair of classes (or every class against the rest),

    ``1/2 |f|^2 + C sum_i c_i max(0, 1 - y_i (f(x_i) + b))``

    over functions ``f`` of the kernel's space and the intercept ``b``, where ``c_i`` is the class weight times the
    sample weight, and proves how close it came: `duality_gap_`.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the losses against the norm.
    kernel : {"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable, default="rbf"
        A callable receives two arrays of samples and returns their kernel values.
    degree : int, default=3
        Of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        "scale" is ``1 / (n_features * X.var())`` with the samples counted by their weights, "auto" is
        ``1 / n_features``.
    coef0 : float, default=0.0
        Of the polynomial and the sigmoid kernel.
    shrinking : bool, default=True
        Whether to leave out variables that are sure to stay at a bound. The result is checked on all of them.
    probability : bool, default=False
        Not available; use ``CalibratedClassifierCV(SVC(), ensemble=False)``.
    tol : float, default=1e-3
        Relative duality gap at which to stop.
    cache_size : float, default=200
        Megabytes for kernel rows.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    verbose : bool or int, default=False
        Whether to show a progress line on standard error.
    max_iter : int, default=-1
        Limit on the solver's iterations; -1 for none.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        For more than two classes: scores per class, or per pair.
    break_ties : bool, default=False
        Whether equal votes are decided by the scores (needs ``decision_function_shape="ovr"``).
    random_state : int, RandomState or None, default=None
        Seed of solvers that draw random numbers; None is a fixed seed.
    multi_class : {"ovo", "ovr"}, default="ovo"
        Which binary problems are solved for more than two classes.
    intercept : {"auto", "free", "penalised"} or None, default="auto"
        "auto" is "free", as in LIBSVM.
    solver : str, default="auto"
        Name of a solver; "auto" is "smo", or for the linear kernel "newton" (up to 256 features) or
        "dual_coordinate".
    max_time : float, default=None
        Limit in seconds; the best point so far is kept.
    warm_start : bool, default=False
        Whether to start from the last fit.
    callback : callable, default=None
        Called with a `Record` after every round; a true value stops the fit.

    Attributes
    ----------
    classes_, class_weight_, support_, support_vectors_, n_support_, dual_coef_, intercept_, n_iter_, fit_status_, \
shape_fit_, n_features_in_, feature_names_in_
        As in scikit-learn. With ``multi_class="ovr"`` and more than two classes, `dual_coef_` has one row per class.
    coef_ : ndarray
        Coefficients, for the linear kernel only.
    solution_ : Solution
        Of the binary problem with the largest gap; `solutions_` is the list of all.
    duality_gap_ : float
        Relative duality gap, recomputed from scratch at the end.
    objective_, dual_objective_ : float
        Primal and dual value.
    status_ : Status
        Why the fit stopped, as a sentence.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import SVC
    >>> model = SVC(C=1.0, tol=1e-6).fit(*load_iris(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6
    True
    >>> print(model.status_)
    Converged: the certified relative duality gap is within the tolerance

    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON_CONSTRAINTS,
        "kernel": [StrOptions(set(KERNEL_NAMES)), callable],
        "degree": [Interval(Integral, 0, None, closed="left")],
        "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="neither")],
        "coef0": [Interval(Real, None, None, closed="neither")],
        "shrinking": ["boolean"],
        "probability": ["boolean"],
        "cache_size": [POSITIVE],
        "decision_function_shape": [StrOptions({"ovo", "ovr"})],
        "break_ties": ["boolean"],
        "multi_class": [StrOptions({"ovo", "ovr"})],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: bool = False,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: Any = None,
        verbose: Any = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        multi_class: str = "ovo",
        intercept: Any = "auto",
        solver: str = "auto",
        max_time: float | None = None,
        warm_start: bool = False,
        callback: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.shrinking = shrinking
        self.probability = probability
        self.tol = tol
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.verbose = verbose
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.random_state = random_state
        self.multi_class = multi_class
        self.intercept = intercept
        self.solver = solver
        self.max_time = max_time
        self.warm_start = warm_start
        self.callback = callback

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SVC:
        """Fit the model and certify it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` the kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's loss: weight 2 is the same as the sample twice.

        Returns
        -------
        self : SVC
            The fitted estimator.

        """
        with all_or_nothing(self):
            X = self._fit(X, y, sample_weight)
        _check.warn_unless_converged(self, X)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Fit, and return the samples as they were used. Sets: the fitted attributes."""
        self._validate_params()
        self._refuse_contradictions()
        X, y = _check.check_training_data(self, X, y)
        if self.kernel == "precomputed":
            _check.check_kernel_matrix(self, X)
        self.classes_, codes = _check.check_classes(self, y)
        weights, self.class_weight_, s = _check.check_weights(self, X, self.classes_, codes, sample_weight)
        self._gamma = bandwidth(self, X, weights)
        name = (
            automatic(kernelised=self.kernel != "linear", n_features=X.shape[1])
            if self.solver == "auto"
            else self.solver
        )
        solver = make_solver(name, shrinking=self.shrinking, cache_size=self.cache_size, seed=self._seed())
        intercept = _check.check_intercept(self, "free")
        tasks = _multiclass.binary_tasks(codes, self.classes_, self.multi_class)
        listeners = FitTasks(self, X, y, len(tasks))

        as_rows = self.kernel == "linear" and name in LINEAR

        def pose(task: BinaryTask) -> Problem:
            return hinge_problem(self, X, task, s, intercept, as_rows=as_rows)

        solutions = solve_tasks(self, tasks, pose, solver, listeners)
        self._keep(X, codes, tasks, solutions, as_rows=as_rows)
        listeners.end(dict(vars(self)))
        return X

    def decision_function(self, X: Any) -> Float:
        """Scores of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` their kernel values with the training samples.

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)
            Positive for the second class of two. For more classes one score per class, unless
            ``decision_function_shape="ovo"``.

        """
        check_is_fitted(self)
        scores = self._scores(_check.check_prediction_data(self, X))
        if self.classes_.size == 2:
            return scores[:, 0]
        if self.multi_class == "ovo" and self.decision_function_shape == "ovr":
            return _multiclass.votes(scores, self.classes_.size)
        return scores

    def predict(self, X: Any) -> Array:
        """Class labels of samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
            Labels.

        """
        check_is_fitted(self)
        scores = self._scores(_check.check_prediction_data(self, X))
        if self.classes_.size == 2:
            return np.asarray(self.classes_[(scores[:, 0] > 0.0).astype(int)])
        if self.multi_class == "ovr":
            return np.asarray(self.classes_[scores.argmax(axis=1)])
        if self.break_ties:
            return np.asarray(self.classes_[_multiclass.votes(scores, self.classes_.size).argmax(axis=1)])
        return np.asarray(self.classes_[_multiclass.most_votes(scores, self.classes_.size)])

    @property
    def coef_(self) -> Float:
        """Coefficients of the features, one row per binary problem; for the linear kernel only."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available with the linear kernel; the others have dual_coef_.")
        check_is_fitted(self)
        return self._coef

    @property
    def n_support_(self) -> Array:
        """Number of support vectors of each class."""
        check_is_fitted(self)
        return self._n_support

    def _refuse_contradictions(self) -> None:
        if self.probability:
            raise ValueError(
                "probability=True is not available; fit CalibratedClassifierCV(SVC(...), ensemble=False) instead, "
                "which is also what scikit-learn recommends since 1.9."
            )
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'.")

    def _keep(self, X: Any, codes: Array, tasks: list[BinaryTask], solutions: list[Solution], *, as_rows: bool) -> None:
        """Sets: the fitted attributes."""
        expansions = np.zeros((len(tasks), X.shape[0]))
        for k, (task, solution) in enumerate(zip(tasks, solutions, strict=True)):
            expansions[k, task.members] = solution.point.alpha
        used = np.flatnonzero(expansions.any(axis=0))
        self.support_ = used[np.argsort(codes[used], kind="stable")].astype(np.int32)
        self._support_codes = codes[self.support_]
        self._n_support = np.bincount(self._support_codes, minlength=self.classes_.size).astype(np.int32)
        empty = np.empty((0, 0), dtype=X.dtype)
        self.support_vectors_ = empty if self.kernel == "precomputed" else X[self.support_]
        expansions = expansions[:, self.support_]
        pairwise = self.multi_class == "ovo" and self.classes_.size > 2
        self.dual_coef_ = (
            _multiclass.by_other_class(expansions, self._support_codes, self.classes_.size) if pairwise else expansions
        )
        self.intercept_ = np.array([solution.point.b for solution in solutions])
        if self.kernel == "linear":  # what was certified: before the optimum that is not the sum over support vectors
            w = [solution.point.w for solution in solutions]
            if not as_rows:  # expansions over the samples of each task
                w = [np.asarray(beta @ X[task.members]) for beta, task in zip(w, tasks, strict=True)]
            self._coef = np.array(w)
        self.shape_fit_ = X.shape
        self.n_iter_ = iteration_counts(solutions)
        for name, value in certified_attributes(solutions).items():
            setattr(self, name, value)
        self.fit_status_ = int(not all(s.certificate.relative_gap <= self.tol for s in solutions))

    def _expansions(self) -> Float:
        """Coefficients of the support vectors in each binary problem."""
        if self.multi_class == "ovo" and self.classes_.size > 2:
            return _multiclass.by_pair(self.dual_coef_, self._support_codes, self.classes_.size)
        return self.dual_coef_

    def _scores(self, X: Any) -> Float:
        if self.kernel == "linear":
            scores = X @ self._coef.T
        else:
            scores = kernel_scores(self, X, self._expansions())
        return np.asarray(scores, dtype=np.float64) + self.intercept_
