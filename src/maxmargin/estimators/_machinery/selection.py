"""Cross-validation that fits once for each fold and goes along the strengths, instead of once for each candidate."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, is_classifier
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted, validate_data

from maxmargin.estimators._machinery.check import QUIETLY, check_sample_weight
from maxmargin.estimators._machinery.drawing import new_axes
from maxmargin.estimators._machinery.estimator import POSITIVE
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.typed import ClassifierMixin, RegressorMixin
from maxmargin.operators import Matrix, MatrixLike
from maxmargin.protocols import Array, Float, Index

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_FOLDS = 5  # by default; fewer if a class has fewer samples
WEAKEST, STRONGEST = 1e-2, 1e4  # of the values of C that a number of them stands for
NARROWEST, WIDEST = 1.0 / 64.0, 16.0  # of those of gamma, times that of "scale"
LEAVE_ONE_OUT = "loo"
COPIED = (
    "classes_", "class_weight_", "coef_", "intercept_", "dual_coef_", "support_", "support_vectors_", "n_support_",
    "solutions_", "solution_", "duality_gap_", "objective_", "dual_objective_", "status_", "n_iter_",
)  # fmt: skip
SELECTION_CONSTRAINTS: Constraints = {
    "Cs": ["array-like", int],
    "cv": ["cv_object", StrOptions({LEAVE_ONE_OUT})],
    "scoring": [StrOptions(set(get_scorer_names())), callable, None],
    "rule": [StrOptions({"best", "one_se"})],
    "tol": [POSITIVE],
    "n_jobs": [int, None],
}


@dataclass(eq=False, repr=False)
class Selection(BaseEstimator):
    """What the estimators that choose their own parameters share: folds, scores, the rule and the last fit."""

    Cs: int | ArrayLike = 12
    _: KW_ONLY
    cv: Any = None
    scoring: Any = None
    rule: str = "best"
    tol: float = 1e-4
    n_jobs: int | None = None

    _parameter_constraints: ClassVar[Constraints] = SELECTION_CONSTRAINTS
    best_estimator_: Any = field(init=False)

    @abstractmethod
    def _candidates(self, X: Matrix, weights: Float) -> Grid:
        """The values of each parameter, ascending."""

    @abstractmethod
    def _scored(self, X: Matrix, y: Array, weights: Float, grid: Grid, folds: Folds, score: Scorer) -> Float:
        """The score of every candidate, in the order of ``ParameterGrid``, on every fold."""

    @abstractmethod
    def _model(self, **chosen: Any) -> Any:
        """The estimator of some parameters, not fitted."""

    def fit(self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the parameters by cross-validation, and fit with them to all samples.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, or for ``kernel="precomputed"`` the kernel matrix.
        y : array-like of shape (n_samples,)
            Labels or targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each sample's loss, in every fit; scores do not count it.

        Returns
        -------
        self : estimator

        """
        validate_parameter_constraints(self._parameter_constraints, self.get_params(deep=False), type(self).__name__)
        self._refuse_contradictions()
        rows, targets = QUIETLY(validate_data)(
            self, X, y, accept_sparse="csr", dtype=np.float64, y_numeric=not is_classifier(self), ensure_min_samples=2
        )
        weights = check_sample_weight(self, rows, sample_weight)
        self._n_samples = rows.shape[0]
        grid = self._candidates(rows, weights)
        folds, score = self._folds(rows, targets), Scorer(self, rows, targets)
        began = time.perf_counter()
        scores = self._scored(rows, targets, weights, grid, folds, score)
        self._keep_scores(grid, scores, (time.perf_counter() - began) / scores.size)
        self.best_estimator_ = self._model(**self.best_params_).fit(X, y, sample_weight=sample_weight)
        self._copy_from_best()
        return self

    def predict(self, X: MatrixLike) -> Array:
        """Labels or targets of samples, by the chosen model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)

        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    def plot(self, axes: Axes | None = None) -> Axes:
        """The mean scores over the candidates, the chosen one marked; needs matplotlib. Returns the axes."""
        check_is_fitted(self)
        axes = new_axes() if axes is None else axes
        names = sorted(self.best_params_)
        mean = self.cv_results_["mean_test_score"]
        values = [np.unique(np.asarray(self.cv_results_[f"param_{name}"], dtype=np.float64)) for name in names]
        if len(names) == 1:
            deviation = self.cv_results_["std_test_score"]
            axes.errorbar(values[0], mean, deviation)
            axes.axvline(self.best_params_[names[0]], color="black", linestyle=":")
            axes.set(xscale="log", xlabel=names[0], ylabel="mean score")
            return axes
        surface = axes.pcolormesh(values[0], values[1], mean.reshape(values[0].size, -1).T, shading="nearest")
        axes.figure.colorbar(surface, ax=axes, label="mean score")
        axes.plot(*(self.best_params_[name] for name in names), "kx")
        axes.set(xscale="log", yscale="log", xlabel=names[0], ylabel=names[1])
        return axes

    def _refuse_contradictions(self) -> None:
        if isinstance(self.cv, str) and self.rule == "one_se" and self.scoring is not None:
            raise ValueError(
                'rule="one_se" needs the spread of scores, which with cv="loo" only scoring=None has; pass cv=5.'
            )

    def _folds(self, X: Matrix, y: Array) -> Folds:
        """Rows to fit to, and rows to score; none to leave out each once."""
        if isinstance(self.cv, str):
            return []
        cv = self.cv
        if cv is None:
            rarest = int(np.unique(y, return_counts=True)[1].min()) if is_classifier(self) else X.shape[0]
            cv = max(2, min(MOST_FOLDS, rarest))
        return list(check_cv(cv, y, classifier=is_classifier(self)).split(X, y))

    def _keep_scores(self, grid: Grid, scores: Float, seconds: float) -> None:
        """Sets: ``cv_results_, best_index_, best_params_, best_score_, C_`` and the other chosen values."""
        params = list(ParameterGrid({name: values.tolist() for name, values in grid.items()}))
        mean, deviation = scores.mean(axis=1), scores.std(axis=1)
        results: dict[str, Any] = {"params": params}
        for name in grid:
            results[f"param_{name}"] = np.ma.array([p[name] for p in params], mask=np.zeros(len(params), dtype=bool))
        results |= {f"split{k}_test_score": scores[:, k] for k in range(scores.shape[1])}
        results |= {
            "mean_test_score": mean, "std_test_score": deviation,
            "rank_test_score": rankdata(-mean, method="min").astype(np.int32),
            "mean_fit_time": np.full(mean.size, seconds), "std_fit_time": np.zeros(mean.size),
            "mean_score_time": np.zeros(mean.size), "std_score_time": np.zeros(mean.size),
        }  # fmt: skip
        best = int(np.argmax(mean))
        if self.rule == "one_se":
            k = scores.shape[1]
            error = deviation[best] / np.sqrt(k - 1) if k > 1 else self._error_of_one(mean[best])
            good = np.flatnonzero(mean >= mean[best] - error)
            best = int(min(good, key=lambda i: (*(params[i][name] for name in sorted(grid)), -mean[i])))
        self.cv_results_, self.best_index_, self.best_params_ = results, best, params[best]
        self.best_score_ = float(mean[best])
        for name, value in params[best].items():
            setattr(self, f"{name}_", value)

    def _error_of_one(self, score: float) -> float:
        """The standard error of an accuracy over all samples, each of which was left out once."""
        return float(np.sqrt(max(0.0, score * (1.0 - score)) / self._n_samples)) if is_classifier(self) else 0.0

    def _copy_from_best(self) -> None:
        """Sets: what the last fit knows, its certificate among it."""
        for name in COPIED:
            value = getattr(self.best_estimator_, name, None)
            if value is not None:
                setattr(self, name, value)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = getattr(self, "kernel", None) != "precomputed"
        tags.input_tags.pairwise = getattr(self, "kernel", None) == "precomputed"
        return tags


class SelectionOfClasses(ClassifierMixin):
    """What `SVCCV` and `LinearSVCCV` share."""

    classes_: Array
    best_estimator_: Any

    def decision_function(self, X: MatrixLike) -> Float:
        """Scores of samples, as those of the chosen model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,), (n_samples, n_classes) or (n_samples, n_pairs)

        """
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X))


Folds = Sequence[tuple[Index, Index]]
Grid = dict[str, Float]  # ascending values of each parameter


class Scorer:
    """What scores are to be, for predictions that are already known."""

    def __init__(self, estimator: Selection, X: Matrix, y: Array) -> None:
        self.X, self.y, self.classifies = X, y, is_classifier(estimator)
        self.chosen: Callable[..., float] | None = None
        if estimator.scoring is not None:
            known = KnownClassifier() if self.classifies else KnownRegressor()
            self.chosen = check_scoring(known, scoring=estimator.scoring)

    def __call__(self, classes: Array | None, codes: Array | None, values: Float, rows: Index) -> float:
        """The score of values of functions (of classifiers with the classes that they stand for) on some rows."""
        y = self.y[rows]
        if self.chosen is not None:
            known = KnownRegressor() if classes is None else KnownClassifier()
            known.classes_, known.codes, known.values = classes, codes, values
            return float(self.chosen(known, self.X[rows], y))
        if classes is not None:
            return float(np.mean(classes[codes] == y))
        spread = float(((y - y.mean()) ** 2).sum())
        return 1.0 - float(((y - values) ** 2).sum()) / spread if spread > 0.0 else 0.0


class _Known(BaseEstimator):
    """What has already been computed, for scorers."""

    classes_: Array | None
    codes: Array | None
    values: Float

    def fit(self, X: MatrixLike, y: ArrayLike) -> Self:
        """Nothing to learn."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True


class KnownClassifier(ClassifierMixin, _Known):
    """Of a classifier."""

    def predict(self, X: MatrixLike) -> Array:
        """The classes."""
        assert self.classes_ is not None
        return np.asarray(self.classes_[self.codes])

    def decision_function(self, X: MatrixLike) -> Float:
        """The scores."""
        return self.values


class KnownRegressor(RegressorMixin, _Known):
    """Of a regressor."""

    def predict(self, X: MatrixLike) -> Float:
        """The targets."""
        return self.values


def strengths(Cs: int | ArrayLike) -> Float:
    """Values of C, ascending; a number stands for so many from 1e-2 to 1e4."""
    if isinstance(Cs, int | np.integer):
        if Cs < 1:
            raise ValueError(f"Cs={Cs} is no number of values; pass at least 1.")
        return np.geomspace(WEAKEST, STRONGEST, int(Cs)) if Cs > 1 else np.array([1.0])
    return positive_values("Cs", Cs)


def positive_values(name: str, given: ArrayLike) -> Float:
    """Values of a parameter, ascending and each once."""
    values = np.unique(np.asarray(given, dtype=np.float64).ravel())
    if not values.size or not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError(f"{name} must hold positive numbers, at least one; got {given!r}.")
    return values
