"""Paths over the folds of cross-validation, for estimators that choose the strength of an L1 penalty by it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import check_cv
from sklearn.utils import Tags
from sklearn.utils._metadata_requests import MetadataRouter, MethodMapping, _raise_for_params
from sklearn.utils._param_validation import Interval
from sklearn.utils.metadata_routing import _routing_enabled, process_routing

from maxmargin._jit import seconds_working
from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.callbacks import with_callbacks
from maxmargin.estimators._machinery.paths import Chain, coefficients, falling
from maxmargin.estimators._machinery.plan import Plan
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.sparse_least_squares import SPARSE_CONSTRAINTS, SparseLeastSquaresRegressor
from maxmargin.loop.solution import Solution
from maxmargin.operators import ChunkedMatrix, Matrix, MatrixLike
from maxmargin.operators.rows import scores_of
from maxmargin.protocols import Array, Float, Index

if TYPE_CHECKING:
    from maxmargin.estimators.elastic_net import ElasticNet

CV_CONSTRAINTS: Constraints = {
    **{name: rule for name, rule in SPARSE_CONSTRAINTS.items() if name not in ("warm_start", "callback")},
    "eps": [Interval(Real, 0, None, closed="neither")],
    "alphas": [Interval(Integral, 1, None, closed="left"), "array-like"],
    "cv": ["cv_object"],
}


@dataclass(frozen=True)
class Fold:
    """One path: a share of the L1 norm, its strengths, and which samples are fitted and which are predicted."""

    ratio: float
    alphas: Float
    train: Index
    test: Index


@dataclass(frozen=True)
class Walked:
    """What a path says: the error of each strength on the samples that were left out, and what was proven."""

    errors: Float
    proofs: Float  # relative gap, primal and dual value of each fit


@dataclass(kw_only=True, eq=False, repr=False)
class CrossValidatedSparseRegressor(SparseLeastSquaresRegressor):
    """Chooses ``alpha``, and perhaps the share of the L1 norm, by the error on samples that are left out."""

    eps: float = 1e-3
    alphas: int | ArrayLike = 100
    cv: object = None
    precompute: bool | str | ArrayLike = "auto"
    warm_start: bool = field(default=False, init=False)
    callback: None = field(default=None, init=False)

    _reads_chunks = False
    _several_targets = False
    debias = False

    @with_callbacks
    def fit(
        self, X: MatrixLike, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> CrossValidatedSparseRegressor:
        """Choose the strength by cross-validation, fit the model to all samples and certify it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weight of each sample's error, in fits and in the errors of samples that are left out.
        **params : dict
            For the splitter, if scikit-learn's metadata routing is enabled.

        Returns
        -------
        self : estimator
            The fitted estimator.

        """
        _raise_for_params(params, self, "fit")
        self._split_by = params
        try:
            return self._fit(X, y, sample_weight)
        finally:
            del self._split_by

    def get_metadata_routing(self) -> MetadataRouter:
        """What is passed on to the splitter."""
        mapping = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(splitter=check_cv(self.cv), method_mapping=mapping)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def _few_terms(self, n: int, d: int) -> tuple[float, float, tuple[Float, Float] | None, float] | None:
        return None

    def _ratios(self) -> list[float]:
        """The shares of the L1 norm to try."""
        raise NotImplementedError

    def _without_l1(self) -> ElasticNet:
        """An estimator for strengths without an L1 part."""
        raise NotImplementedError

    @property
    def _strengths(self) -> tuple[float, float]:
        return float(self.alpha_), float(self._chosen_ratio)

    def _divide(self, X: Matrix | ChunkedMatrix, y: Array, sample_weight: ArrayLike | None) -> Plan:
        """One task, whose strength cross-validation chooses. Sets: what is known of the paths."""
        self._deadline = math.inf if self.max_time is None else seconds_working() + self.max_time
        plan = super()._divide(X, y.reshape(-1) if y.ndim == 2 and y.shape[1] == 1 else y, sample_weight)
        whole = check.refuse_chunks(plan.X, "Cross-validation", "fit Lasso or ElasticNet for each strength")
        weights = None if sample_weight is None or isinstance(sample_weight, Real) else plan.weights
        ratios = self._ratios()
        grids = [self._grid(whole, plan, ratio) for ratio in ratios]
        splits = [(np.asarray(train), np.asarray(test)) for train, test in self._splits(X, plan.y, sample_weight)]
        folds = [Fold(r, a, train, test) for r, a in zip(ratios, grids, strict=True) for train, test in splits]
        walked: dict[int, Walked] = {}

        def work(numbers: Iterator[int]) -> None:
            for k in numbers:
                walked[k] = self._walk(whole, plan.tasks[0].y, plan.weights, folds[k], weights is not None)

        plan.workers.run(work, range(len(folds)))
        self._choose(ratios, grids, [walked[k] for k in range(len(folds))])
        return plan

    def _splits(self, X: Any, y: Array, sample_weight: ArrayLike | None) -> Any:
        """Which samples are fitted, and which are left out."""
        given: dict[str, Any] = {}
        if _routing_enabled():
            given = process_routing(self, "fit", sample_weight=sample_weight, **self._split_by).splitter.split
        return check_cv(self.cv).split(X, y, **given)

    def _grid(self, X: Matrix, plan: Plan, ratio: float) -> Float:
        """The strengths of a path, in falling order."""
        if isinstance(self.alphas, Integral):
            return self._chain(X, plan.tasks[0].y, plan.tasks[0].s, ratio).grid(int(self.alphas), float(self.eps))
        return falling(self.alphas)

    def _chain(self, X: Matrix, y: Float, s: Float, ratio: float) -> Chain:
        return Chain(
            X=X,
            y=y,
            s=s,
            ratio=ratio,
            intercept="free" if self.fit_intercept else None,
            limits=self._limits(X.shape[1]),
            tol=float(self.tol),
            solver=self.solver,
            options=self.solver_options or {},
            max_iter=None if self.max_iter in (None, -1) else int(self.max_iter),
            deadline=self._deadline,
        )

    def _walk(self, X: Matrix, y: Float, weights: Float, fold: Fold, weighted: bool) -> Walked:
        """Fit some samples with each strength, and predict the others."""
        kept = weights[fold.train]
        if not kept.any():
            raise ValueError("Every sample_weight of a fold's training samples is zero, so there is nothing to fit.")
        chain = self._chain(X[fold.train], y[fold.train], kept / kept.sum(), fold.ratio)
        few = chain.few(fold.alphas)
        if few is not None:
            return self._walked(X, y, weights, fold, weighted, few.W, few.b, few.proofs)

        def unpenalised(alpha: float) -> Solution:
            model = self._without_l1().set_params(alpha=alpha, l1_ratio=fold.ratio)
            return model.fit(chain.X, chain.y, kept).solution_

        solutions = chain.solve(fold.alphas, None, unpenalised)
        W = np.ascontiguousarray(coefficients(solutions).T)
        certificates = [solution.certificate for solution in solutions]
        proofs = np.array([(one.relative_gap, one.primal, one.dual) for one in certificates])
        biases = np.array([solution.point.b for solution in solutions])
        return self._walked(X, y, weights, fold, weighted, W, biases, proofs)

    def _walked(
        self, X: Matrix, y: Float, weights: Float, fold: Fold, weighted: bool, W: Float, biases: Float,
        proofs: Float,
    ) -> Walked:  # fmt: skip
        """What the coefficients of a path predict for samples that were left out."""
        squares = (scores_of(X[fold.test], W) + biases - y[fold.test][:, None]) ** 2
        errors = np.average(squares, axis=0, weights=weights[fold.test]) if weighted else squares.mean(axis=0)
        return Walked(errors, proofs)

    def _choose(self, ratios: list[float], grids: list[Float], walked: Sequence[Walked]) -> None:
        """Sets: ``alpha_, alphas_, mse_path_`` and the certificates of all paths."""
        shape = len(ratios), len(walked) // len(ratios), grids[0].size
        errors = np.reshape([path.errors for path in walked], shape)
        means = errors.mean(axis=1)
        first, best = np.unravel_index(int(np.argmin(means)), means.shape)
        self.alpha_, self._chosen_ratio = float(grids[first][best]), ratios[first]
        self.mse_path_ = np.squeeze(np.moveaxis(errors, 2, 1))
        automatic = isinstance(self.alphas, Integral) and len(ratios) > 1
        self.alphas_ = np.asarray(grids) if automatic else grids[0]
        proofs = np.reshape([path.proofs for path in walked], (*shape, 3))
        for k, name in enumerate(PROOFS):
            setattr(self, name, np.squeeze(np.moveaxis(proofs[..., k], 2, 1)))


PROOFS = "duality_gap_path_", "objective_path_", "dual_objective_path_"  # attributes, in the order of `Walked`
