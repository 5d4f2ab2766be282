"""scikit-learn's kernel machines: LIBSVM inside."""

from benchmark_utils.peer import Answer, Peer
from benchmark_utils.svc_face import CACHE_MEGABYTES, PREDICT_TOL, Prediction, fit_svc, refusal_of_svc


class Solver(Peer):
    """``sklearn.svm.SVC`` and its relatives, for linear tasks with the linear kernel."""

    name = "sklearn SVC"
    distribution = "scikit-learn"
    gap_follows_tol = True

    def refusal(self, task):
        return refusal_of_svc(task)

    def prepare(self, X, y, task):
        from sklearn import svm

        self.prediction = Prediction(svm, X, y, task, tol=PREDICT_TOL, cache_size=CACHE_MEGABYTES)

    def fit(self, X, y, task, tol) -> Answer:
        from sklearn import svm

        if task.family == "predict":
            return self.prediction(X)
        return fit_svc(svm, X, y, task, tol=tol, cache_size=CACHE_MEGABYTES)[1]
