"""scikit-learn-intelex: SVC on oneDAL."""

from typing import ClassVar

from benchmark_utils.peer import Answer, Peer
from benchmark_utils.svc_face import fit_svc, refusal_of_svc


class Solver(Peer):
    """``sklearnex.svm.SVC``, computing in float64 or float32; the cast of the data is timed."""

    name = "sklearnex SVC"
    distribution = "scikit-learn-intelex"
    parameters: ClassVar = {"dtype": ["float64", "float32"]}

    def refusal(self, task):
        return refusal_of_svc(task)

    def fit(self, X, y, task, tol) -> Answer:
        from sklearnex.svm import SVC

        return fit_svc(SVC, X.astype(self.dtype, copy=False), y, task, tol)
