"""Cyanure, variance-reduced and quasi-Newton first-order methods."""

from typing import ClassVar

import numpy as np

from benchmark_utils.peer import Answer, Peer


class Solver(Peer):
    """``cyanure.estimators.Classifier``, whose objective is ours divided by ``C n``; float64 or float32."""

    name = "cyanure"
    distribution = "cyanure"
    parameters: ClassVar = {"dtype": ["float64", "float32"]}

    def refusal(self, task):
        if task.family != "linear" or task.loss != "squared_hinge":
            return "cyanure has the linear squared hinge only"
        if task.intercept == "penalised":
            return "cyanure leaves the intercept unpenalised"
        return None

    def fit(self, X, y, task, tol):
        from cyanure.estimators import Classifier

        model = Classifier(
            loss="sqhinge",
            penalty="l2",
            lambda_1=1.0 / (2.0 * task.C * len(y)),
            fit_intercept=task.intercept is not None,
            tol=tol,
            max_iter=1_000_000,
            n_threads=self.threads,
            verbose=False,
            random_state=0,
        ).fit(X.astype(self.dtype, copy=False), y)
        b = float(np.ravel(model.intercept_)[0]) if task.intercept is not None else 0.0
        return Answer(np.ravel(model.coef_), b)
