"""Prediction intervals from one fit: the jackknife by exact leave-one-out.

    python examples/conformal.py

The jackknife, of which Barber, Candes, Ramdas and Tibshirani, "Predictive inference with the jackknife+", 2021, tell
what it is worth: the errors of all samples when they are left out have the spread of the error of a new one. They come
from one solution.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from maxmargin import SVRCV, leave_one_out

LEVEL = 0.9

if __name__ == "__main__":
    X, y = load_diabetes(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    rows = np.random.default_rng(0).permutation(y.size)
    train, test = rows[:342], rows[342:]
    search = SVRCV(Cs=8, gammas=4, epsilon=5.0, tol=1e-6).fit(X[train], y[train])
    errors = np.abs(y[train] - leave_one_out(search.best_estimator_, X[train], y[train]))
    half = np.quantile(errors, min(1.0, np.ceil(LEVEL * (errors.size + 1)) / errors.size))
    covered = np.abs(y[test] - search.predict(X[test])) <= half
    print(f"C = {search.C_:.3g}, gamma = {search.gamma_:.3g}, certified relative gap {search.duality_gap_:.1e}")
    print(f"leave-one-out error {errors.mean():.1f}, intervals of width {2.0 * half:.0f} at level {LEVEL:.0%}")
    print(f"of {test.size} new samples {covered.mean():.1%} are inside")
