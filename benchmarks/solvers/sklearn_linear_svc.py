"""scikit-learn's LinearSVC: LIBLINEAR inside, without its iteration limit."""

from typing import ClassVar

from benchmark_utils.peer import Answer, Peer


class Solver(Peer):
    """``sklearn.svm.LinearSVC``, dual coordinate descent or primal Newton.

    It has no free intercept. A penalised one with a large scale comes close, and the judge says how close.
    """

    name = "LinearSVC"
    distribution = "scikit-learn"
    parameters: ClassVar = {"method": ["primal", "dual"]}
    scale_of_free_intercept = 100.0

    def refusal(self, task):
        if task.family != "linear":
            return "LinearSVC has no kernels"
        if task.loss == "hinge" and self.method == "primal":
            return "LinearSVC solves the hinge in the dual only"
        return None

    def fit(self, X, y, task, tol):
        from sklearn.svm import LinearSVC

        model = LinearSVC(
            loss=task.loss,
            C=task.C,
            dual=self.method == "dual",
            fit_intercept=task.intercept is not None,
            intercept_scaling=self.scale_of_free_intercept if task.intercept == "free" else 1.0,
            random_state=0,
            **self.stopping(tol),
        ).fit(X, y)
        b = float(model.intercept_[0]) if task.intercept is not None else 0.0
        return Answer(model.coef_[0], b)

    def stopping(self, tol):
        return {"tol": tol, "max_iter": 1_000_000}
