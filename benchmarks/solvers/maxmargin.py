"""Ours."""

from benchmark_utils.peer import Answer, Peer


class Solver(Peer):
    """``SVC`` and ``LinearSVC`` at their defaults; their tolerance is the relative duality gap."""

    name = "maxmargin"
    distribution = "maxmargin"
    tol_is_the_gap = True

    def refusal(self, task):
        return None

    def fit(self, X, y, task, tol):
        from maxmargin import SVC, LinearSVC

        common = {"C": task.C, "intercept": task.intercept, "tol": tol, "max_time": self.time_limit}
        if task.family == "kernel":
            model = SVC(gamma=task.gamma, **common).fit(X, y)
            return Answer(None, model.intercept_[0], model.solution_.point.alpha)
        model = LinearSVC(loss=task.loss, fit_intercept=task.intercept is not None, **common).fit(X, y)
        return Answer(model.coef_[0], model.intercept_[0], model.solution_.point.alpha)
