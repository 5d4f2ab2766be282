"""Snap ML, IBM's accelerated linear models."""

import numpy as np

from benchmark_utils.peer import Answer, Peer


class Solver(Peer):
    """``snapml.SupportVectorMachine``: parallel dual coordinate descent."""

    name = "snapml"
    distribution = "snapml"
    ladder = tuple(10.0**-k for k in range(1, 13))  # it watches changes of the coefficients, which are small early

    def refusal(self, task):
        if task.family != "linear":
            return "its kernels are approximations"
        if task.intercept == "free":
            return "its intercept is penalised"
        return None

    def fit(self, X, y, task, tol):
        from snapml import SupportVectorMachine

        model = SupportVectorMachine(
            loss=task.loss,
            regularizer=1.0 / task.C,
            fit_intercept=task.intercept is not None,
            n_jobs=self.threads,
            tol=tol,
            max_iter=1_000_000,
            random_state=0,
        ).fit(X, y)
        return Answer(np.ravel(model.coef_), float(np.ravel(model.intercept_)[0]) if task.intercept else 0.0)
