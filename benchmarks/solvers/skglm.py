"""skglm, working sets and coordinate descent in Numba."""

import numpy as np

from benchmark_utils.peer import Answer, Peer


class Solver(Peer):
    """``skglm.LinearSVC`` with its iteration limits lifted: at its defaults it stops far from the optimum."""

    name = "skglm"
    distribution = "skglm"

    def refusal(self, task):
        if task.family != "linear" or task.loss != "hinge":
            return "skglm has the linear hinge only"
        if task.intercept is not None:
            return "skglm solves the dual of the problem without intercept"
        return None

    def fit(self, X, y, task, tol):
        from skglm import LinearSVC

        model = LinearSVC(C=task.C, tol=tol, max_iter=10_000, max_epochs=1_000_000, fit_intercept=False).fit(X, y)
        return Answer(np.ravel(model.coef_), 0.0)
