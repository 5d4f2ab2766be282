"""lightning, scikit-learn-contrib's linear models."""

import numpy as np

from benchmark_utils.peer import Answer, Peer


class Solver(Peer):
    """``lightning.classification.LinearSVC``: dual coordinate descent with shrinking."""

    name = "lightning"
    distribution = "sklearn-contrib-lightning"

    def refusal(self, task):
        if task.family != "linear":
            return "lightning has no kernels in this class"
        if task.intercept is not None:
            return "lightning has no intercept in this class"
        return None

    def fit(self, X, y, task, tol):
        from lightning.classification import LinearSVC

        model = LinearSVC(loss=task.loss, C=task.C, tol=tol, max_iter=1_000_000, random_state=0).fit(X, y)
        return Answer(np.ravel(model.coef_), 0.0)
