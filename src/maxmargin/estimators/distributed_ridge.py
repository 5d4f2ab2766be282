"""Ridge regression of several machines."""

from __future__ import annotations

from maxmargin.estimators._machinery.distributed_regressor import DistributedRegressor
from maxmargin.parts.penalties import L2
from maxmargin.protocols import Float, Penalty


class DistributedRidge(DistributedRegressor):
    """Ridge regression for rows that are spread over several processes or machines.

    The problem is that of `Ridge`: minimise

    ``sum_i s_i (y_i - w.x_i - b)^2 + alpha |w|^2``

    where ``s_i`` is the sample weight. Every client keeps its rows. With few features they add up the matrix of their
    products, once; with many they send ``d`` numbers in each step of conjugate gradients. The result does not depend on
    how the rows are spread, up to rounding.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty, positive.
    tol, solver, max_time, verbose, callback, engine, topology, n_clients, round_timeout
        As in `DistributedSVC`.
    checkpoint, checkpoint_every, on_failure
        As in `DistributedSVC`.
    fit_intercept
        As in `DistributedLasso`.

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
    >>> from maxmargin import DistributedRidge
    >>> model = DistributedRidge(0.1, tol=1e-8, n_clients=3).fit(*load_diabetes(return_X_y=True))
    >>> model.duality_gap_ <= 1e-8, model.traffic_["rounds"].size
    (True, 3)

    """

    def _weights_of_errors(self, weights: Float, total: float) -> Float:
        return 2.0 * weights

    def _penalty(self) -> Penalty:
        return L2(2.0 * float(self.alpha))
