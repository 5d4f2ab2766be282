"""Ours."""

import inspect

from benchmark_utils.peer import Answer, Peer
from benchmark_utils.svc_face import CLASSES, Prediction, fit_svc


class Solver(Peer):
    """``SVC``, its relatives and ``LinearSVC`` at their defaults; their tolerance is the relative duality gap."""

    name = "maxmargin"
    distribution = "maxmargin"
    tol_is_the_gap = True

    def refusal(self, task):
        import maxmargin

        needed = "LinearSVC" if task.family == "linear" else CLASSES[task.family]
        return None if hasattr(maxmargin, needed) else f"maxmargin has no {needed} yet"

    def prepare(self, X, y, task):
        import maxmargin

        self.prediction = Prediction(maxmargin, X, y, task, **self._options(maxmargin.SVC, 1e-5))

    def fit(self, X, y, task, tol):
        import maxmargin

        if task.family == "predict":
            return self.prediction(X)
        if task.family == "linear":
            return self._fit_linear(X, y, task, tol)
        estimator = getattr(maxmargin, CLASSES[task.family])
        model, answer = fit_svc(maxmargin, X, y, task, **self._options(estimator, tol))
        return answer._replace(info=_report(model))

    def _fit_linear(self, X, y, task, tol):
        from maxmargin import LinearSVC

        model = LinearSVC(
            loss=task.loss,
            C=task.C,
            fit_intercept=task.intercept is not None,
            intercept=task.intercept,
            **self._options(LinearSVC, tol),
        ).fit(X, y)
        return Answer(model.coef_[0], model.intercept_[0], model.solution_.point.alpha)

    def _options(self, estimator, tol):
        """What every estimator takes; ``n_jobs`` where it has one."""
        options = {"tol": tol, "max_time": self.time_limit, "n_jobs": self.threads}
        known = inspect.signature(estimator).parameters
        return {key: value for key, value in options.items() if key in known}


def _report(model):
    """What a fit says of itself, for the reports; the judge does not use it."""
    solutions = getattr(model, "solutions_", [model.solution_])
    counters = [solution.history[-1].counters for solution in solutions if solution.history]
    return {
        "status": str(getattr(model, "status_", model.solution_.status)),
        "iterations": int(sum(solution.iterations for solution in solutions)),
        "kernel_evaluations": float(sum(counter.get("kernel_evaluations", 0.0) for counter in counters)),
    }
