"""Linear regression with an L1 penalty of several machines."""

from __future__ import annotations

from maxmargin.estimators._machinery.distributed_regressor import DistributedRegressor
from maxmargin.parts.penalties import L1
from maxmargin.protocols import Float, Penalty


class DistributedLasso(DistributedRegressor):
    """Linear regression with an L1 penalty for rows that are spread over several processes or machines.

    The problem is that of scikit-learn's `Lasso`: minimise

    ``sum_i s_i (y_i - w.x_i - b)^2 / (2 sum_i s_i) + alpha |w|_1``

    where ``s_i`` is the sample weight. Every client keeps its rows and sends ``d`` numbers in each step, which is a
    proximal one. The result does not depend on how the rows are spread, up to rounding.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, positive; above some largest value all coefficients are exactly zero.
    fit_intercept : bool, default=True
        Whether there is an intercept, which has no penalty.
    tol, solver, max_time, verbose, callback, engine, topology, n_clients, round_timeout
        As in `DistributedSVC`.
    checkpoint, checkpoint_every, on_failure
        As in `DistributedSVC`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients.
    intercept_ : float
        Intercept.
    n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_, traffic_
        As in `DistributedSVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import DistributedLasso
    >>> model = DistributedLasso(0.1, tol=1e-6, n_clients=3).fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6, int((model.coef_ != 0.0).sum())
    (True, 7)

    """

    def _weights_of_errors(self, weights: Float, total: float) -> Float:
        return weights / total

    def _penalty(self) -> Penalty:
        return L1(float(self.alpha))
