"""scikit-learn's stochastic gradient descent, averaged."""

from typing import ClassVar

from benchmark_utils.peer import Answer, Peer


class Solver(Peer):
    """``sklearn.linear_model.SGDClassifier``, which leaves the intercept unpenalised."""

    name = "SGDClassifier"
    distribution = "scikit-learn"
    parameters: ClassVar = {"average": [False, True]}

    def refusal(self, task):
        if task.family != "linear":
            return "SGDClassifier has no kernels"
        if task.intercept == "penalised":
            return "SGDClassifier has no penalised intercept"
        return None

    def fit(self, X, y, task, tol):
        from sklearn.linear_model import SGDClassifier

        model = SGDClassifier(
            loss=task.loss,
            alpha=1.0 / (task.C * X.shape[0]),
            fit_intercept=task.intercept is not None,
            average=self.average,
            tol=tol,
            max_iter=1_000,
            n_iter_no_change=3,
            random_state=0,
        ).fit(X, y)
        return Answer(model.coef_[0], float(model.intercept_[0]))
