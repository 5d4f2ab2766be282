"""Our solver for benchopt's public benchmark of ridge regression, https://github.com/benchopt/benchmark_ridge.

Copy this file into ``solvers/`` of a clone, as ``maxmargin.py``; then

    benchopt run . -s maxmargin -s sklearn -d simulated

compares it with the others, at the values of the benchmark's own objective.
"""

from typing import ClassVar

import numpy as np
from benchopt import BaseSolver


class Solver(BaseSolver):
    """``Ridge``, whose tolerance is the relative duality gap that it proves."""

    name = "maxmargin"
    sampling_strategy = "tolerance"
    requirements: ClassVar = ["pip::maxmargin"]

    def set_objective(self, X, y, lmbd, fit_intercept):
        from maxmargin import Ridge

        self.X, self.y, self.fit_intercept = X, y, fit_intercept
        self.coef = np.zeros(X.shape[1] + fit_intercept)
        self.ridge = Ridge(alpha=lmbd, fit_intercept=fit_intercept)

    def warm_up(self):
        """Compiles what is used for the first time."""
        self.run(1e-3)

    def run(self, tol):
        if tol >= 1.0:  # where benchopt begins: nothing has to be done
            self.coef = np.zeros_like(self.coef)
            return
        model = self.ridge.set_params(tol=max(tol, 1e-14)).fit(self.X, self.y)
        self.coef = np.append(model.coef_, model.intercept_) if self.fit_intercept else model.coef_

    def get_result(self):
        return {"beta": self.coef}
