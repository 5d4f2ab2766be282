"""Coefficients for a whole list of penalties: `lasso_path` and `enet_path`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._jit import seconds_working
from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.paths import LEAST_ALPHA, Chain, coefficients, falling
from maxmargin.estimators._machinery.sparse_least_squares import refuse_wrong_gram
from maxmargin.estimators.elastic_net import ElasticNet
from maxmargin.estimators.multi_task_elastic_net import MultiTaskElasticNet
from maxmargin.loop.solution import Solution
from maxmargin.operators import MatrixLike
from maxmargin.problems.point import Certificate
from maxmargin.protocols import Float
from maxmargin.threads import one_blas_thread, workers_for

LEAST_TIME = 1e-3  # seconds for a fit when the time is over, so that every part of a path is defined


class RegularisationPath(tuple[Any, ...]):
    """What scikit-learn's path functions return, ``(alphas, coefs, dual_gaps)``, with a certificate for each strength.

    Attributes
    ----------
    solutions : list of Solution
        One for each strength.
    certificates : list of Certificate
        Theirs.

    """

    solutions: list[Solution]

    def __new__(cls, values: Sequence[Any], solutions: list[Solution]) -> RegularisationPath:
        """A tuple of some values, which remembers the solutions."""
        path = super().__new__(cls, values)
        path.solutions = solutions
        return path

    @property
    def certificates(self) -> list[Certificate]:
        """Primal and dual value for each strength."""
        return [solution.certificate for solution in self.solutions]

    @property
    def intercepts(self) -> Float:
        """The intercept for each strength."""
        return np.array([solution.point.b for solution in self.solutions])


def lasso_path(
    X: MatrixLike,
    y: ArrayLike,
    *,
    eps: float = 1e-3,
    alphas: int | ArrayLike | None = 100,
    precompute: bool | str | ArrayLike = "auto",
    Xy: ArrayLike | None = None,
    copy_X: bool = True,
    coef_init: ArrayLike | None = None,
    verbose: bool | int = 0,
    return_n_iter: bool = False,
    positive: bool = False,
    **options: Any,
) -> RegularisationPath:
    """Coefficients of the LASSO for a list of strengths: `enet_path` with ``l1_ratio=1``.

    Parameters
    ----------
    X, y, eps, alphas, precompute, Xy, copy_X, coef_init, verbose, return_n_iter, positive, **options
        As in `enet_path`.

    Returns
    -------
    RegularisationPath
        As `enet_path`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import lasso_path
    >>> path = lasso_path(*load_diabetes(return_X_y=True), tol=1e-8)
    >>> alphas, coefs, gaps = path
    >>> coefs.shape, max(certificate.relative_gap for certificate in path.certificates) <= 1e-8
    ((10, 100), True)

    """
    return enet_path(
        X,
        y,
        l1_ratio=1.0,
        eps=eps,
        alphas=alphas,
        precompute=precompute,
        Xy=Xy,
        copy_X=copy_X,
        coef_init=coef_init,
        verbose=verbose,
        return_n_iter=return_n_iter,
        positive=positive,
        **options,
    )


def enet_path(
    X: MatrixLike,
    y: ArrayLike,
    *,
    l1_ratio: float = 0.5,
    eps: float = 1e-3,
    alphas: int | ArrayLike | None = 100,
    precompute: bool | str | ArrayLike = "auto",
    Xy: ArrayLike | None = None,
    copy_X: bool = True,
    coef_init: ArrayLike | None = None,
    verbose: bool | int = 0,
    return_n_iter: bool = False,
    positive: bool = False,
    check_input: bool = True,
    n_alphas: int | None = None,
    tol: float = 1e-4,
    max_iter: int | None = None,
    selection: str = "cyclic",
    random_state: Any = None,
    fit_intercept: bool = False,
    sample_weight: ArrayLike | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    solver: str = "auto",
    max_time: float | None = None,
    n_jobs: int | None = None,
) -> RegularisationPath:
    """Coefficients of the elastic net for a list of strengths, each with a certificate.

    The problem of each strength is that of `ElasticNet`. Each fit starts where the one before it ended, and all share
    what they computed of the samples.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Samples. Columns in memory one after another (Fortran order, CSC) are not copied.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
        Targets. For several of them each problem is that of `MultiTaskElasticNet`, which has no limits and no
        weights here.
    l1_ratio : float, default=0.5
        Share of the L1 penalty; 1 is the LASSO.
    eps : float, default=1e-3
        Ratio of the smallest and the largest strength, if `alphas` is a number.
    alphas : int or array-like of shape (n_alphas,), default=100
        Strengths, which are tried in falling order, or how many; the largest of these makes all coefficients zero.
        None is 100.
    precompute, Xy, copy_X, selection, random_state, check_input
        As in scikit-learn, and without effect: products of columns are computed as they are needed, nothing is
        overwritten, the optimum does not depend on an order, and the samples are always checked. An array that cannot
        hold the products of the columns is refused.
    coef_init : array-like of shape (n_features,), default=None
        Where to start.
    verbose : int, default=0
        Whether to show a progress line of each fit on standard error.
    return_n_iter : bool, default=False
        Whether the number of iterations of each fit is returned too.
    positive : bool, default=False
        Whether coefficients must not be negative.
    n_alphas : int, default=None
        The number of strengths, as in earlier versions of scikit-learn.
    tol : float, default=1e-4
        Relative duality gap at which each fit stops.
    max_iter : int, default=None
        Limit on the iterations of each fit; None or -1 for none.
    fit_intercept : bool, default=False
        Whether there is an intercept.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each sample's error.
    bounds : pair of float or array-like of shape (n_features,), default=None
        Smallest and largest value of each coefficient, at most and at least 0.
    solver : str, default="auto"
        Name of a solver.
    max_time : float, default=None
        Limit in seconds for the whole path; the best points so far are kept.
    n_jobs : int, default=None
        Threads; None is as many as BLAS may use, -1 all processors. The result is the same bits for any number.

    Returns
    -------
    RegularisationPath
        A tuple as in scikit-learn: the strengths, coefficients of shape (n_features, n_alphas), with n_targets before
        if there are several, gaps, and the iterations if they are asked for. Its attributes ``solutions``,
        ``certificates`` and ``intercepts`` say more.

    """
    if n_alphas is not None:
        alphas = n_alphas
    shape = np.shape(y)
    if len(shape) == 2 and shape[1] > 1:
        _refuse_for_several(positive=positive or None, bounds=bounds, sample_weight=sample_weight, coef_init=coef_init)
        several = MultiTaskElasticNet(
            l1_ratio=l1_ratio, fit_intercept=fit_intercept, tol=tol, max_iter=max_iter, max_time=max_time,
            verbose=verbose, solver=solver, warm_start=True,
        )  # fmt: skip
        return _of_several_targets(several, X, y, 100 if alphas is None else alphas, eps, return_n_iter)
    model = ElasticNet(
        l1_ratio=l1_ratio, fit_intercept=fit_intercept, precompute=precompute, positive=positive, bounds=bounds,
        tol=tol, max_iter=max_iter, selection=selection, solver=solver, max_time=max_time, verbose=verbose,
        n_jobs=n_jobs,
    )  # fmt: skip
    with one_blas_thread:
        chain, weights, strengths = _checked(model, X, y, sample_weight, 100 if alphas is None else alphas, eps)
        start = None if coef_init is None else _start(coef_init, chain.X.shape[1])

        def unpenalised(alpha: float) -> Solution:
            found = model.set_params(alpha=alpha).fit(chain.X, chain.y, weights)
            return found.solution_

        few = chain.few(strengths)
        solutions = chain.solve(strengths, start, unpenalised) if few is None else few.solutions()
    gaps = np.array([solution.certificate.gap for solution in solutions])
    values: list[Any] = [strengths, coefficients(solutions), gaps]
    if return_n_iter:
        values.append([solution.iterations for solution in solutions])
    return RegularisationPath(values, solutions)


def _refuse_for_several(**options: object) -> None:
    """Refuse what a path of several targets does not have."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ValueError(
            f"y has several targets, and {' and '.join(given)} are for one of them; call enet_path for each target."
        )


def _of_several_targets(
    model: MultiTaskElasticNet, X: Any, y: Any, alphas: Any, eps: float, return_n_iter: bool
) -> RegularisationPath:
    """The path of the problem for all targets at once, each fit from where the last one ended."""
    began, deadline = seconds_working(), model.max_time
    model._validate_params()
    rows, given = check.check_training_data(model, X, y)
    rows = check.refuse_chunks(rows, "A path", "fit MultiTaskElasticNet for each strength")
    Y = check.check_targets(model, given)
    several = isinstance(alphas, Integral)
    strengths = _grid_of_targets(model, rows, Y, int(alphas), eps) if several else falling(alphas)
    solutions, coefs = [], []
    for alpha in strengths.tolist():
        left = None if deadline is None else max(deadline - (seconds_working() - began), LEAST_TIME)
        model.set_params(alpha=alpha, max_time=left).fit(rows, Y)
        solutions.append(model.solution_)
        coefs.append(model.coef_)
    gaps = np.array([solution.certificate.gap for solution in solutions])
    values: list[Any] = [strengths, np.stack(coefs, axis=-1), gaps]
    if return_n_iter:
        values.append([solution.iterations for solution in solutions])
    return RegularisationPath(values, solutions)


def _grid_of_targets(model: MultiTaskElasticNet, X: Any, Y: Float, count: int, eps: float) -> Float:
    """So many strengths in falling order, from the largest that makes sense."""
    if count < 1 or not 0.0 < eps < math.inf or model.l1_ratio == 0.0:
        raise ValueError(
            f"The number of alphas must be at least 1, and eps and l1_ratio positive; got {count}, {eps} and "
            f"{model.l1_ratio}."
        )
    centred = Y - Y.mean(axis=0) if model.fit_intercept else Y
    top = float(np.linalg.norm(np.asarray(X.T @ centred), axis=1).max()) / (len(Y) * model.l1_ratio)
    return np.geomspace(top, top * eps, num=count) if top > LEAST_ALPHA else np.full(count, LEAST_ALPHA)


def _checked(
    model: ElasticNet, X: MatrixLike, y: ArrayLike | None, sample_weight: ArrayLike | None, alphas: Any, eps: float
) -> tuple[Chain, Float, Float]:
    """The chain of fits, the weights of the samples, and the strengths in falling order."""
    began = seconds_working()
    model._validate_params()
    rows, given = check.check_training_data(model, X, y)
    rows = check.refuse_chunks(rows, "A path", "fit ElasticNet for each strength")
    targets = check.check_targets(model, given)
    weights = check.check_sample_weight(model, rows, sample_weight)
    refuse_wrong_gram(model, rows, weights)
    chain = Chain(
        X=rows,
        y=np.ascontiguousarray(targets.ravel()),
        s=weights / weights.sum(),
        ratio=float(model.l1_ratio),
        intercept="free" if model.fit_intercept else None,
        limits=model._limits(rows.shape[1]),
        tol=model.tol,
        solver=model.solver,
        max_iter=None if model.max_iter in (None, -1) else int(model.max_iter),
        deadline=math.inf if model.max_time is None else began + model.max_time,
        verbose=int(model.verbose),
        workers=workers_for(model.n_jobs),
    )
    return chain, weights, _strengths(alphas, chain, eps)


def _strengths(alphas: Any, chain: Chain, eps: float) -> Float:
    """Strengths in falling order: those that were given, or so many as were asked for."""
    if isinstance(alphas, Integral):
        if alphas < 1 or not 0.0 < eps < math.inf:
            raise ValueError(f"The number of alphas must be at least 1 and eps positive; got {alphas} and {eps}.")
        return chain.grid(int(alphas), eps)
    return falling(alphas)


def _start(coef_init: ArrayLike, d: int) -> Float:
    """The coefficients that somebody wants to start from."""
    start = np.asarray(coef_init, dtype=np.float64)
    if start.shape != (d,) or not np.isfinite(start).all():
        raise ValueError(f"coef_init must hold a finite number for each of the {d} features; got shape {start.shape}.")
    return start.copy()
