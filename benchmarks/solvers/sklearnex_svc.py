"""scikit-learn-intelex: kernel machines on oneDAL."""

from typing import ClassVar

from benchmark_utils.peer import Answer, Peer
from benchmark_utils.svc_face import CACHE_MEGABYTES, PREDICT_TOL, Prediction, fit_svc, refusal_of_svc


class Solver(Peer):
    """``sklearnex.svm.SVC`` and its relatives, computing in float64 or float32; the cast of the data is timed.

    Its ``max_iter=-1`` means 10000 rounds of its working set, which is why an explicit limit is set.
    """

    name = "sklearnex SVC"
    distribution = "scikit-learn-intelex"
    parameters: ClassVar = {"dtype": ["float32", "float64"]}
    gap_follows_tol = True

    def refusal(self, task):
        return refusal_of_svc(task)

    def prepare(self, X, y, task):
        from sklearnex import svm

        self.prediction = Prediction(svm, self._cast(X), y, task, tol=PREDICT_TOL, cache_size=CACHE_MEGABYTES)

    def fit(self, X, y, task, tol) -> Answer:
        from sklearnex import svm

        if task.family == "predict":
            return self.prediction(self._cast(X))
        return fit_svc(svm, self._cast(X), y, task, tol=tol, cache_size=CACHE_MEGABYTES, max_iter=10**9)[1]

    def _cast(self, X):
        return X.astype(self.dtype, copy=False)
