"""scikit-learn's SVC: LIBSVM inside."""

from benchmark_utils.peer import Answer, Peer
from benchmark_utils.svc_face import fit_svc, refusal_of_svc


class Solver(Peer):
    """``sklearn.svm.SVC``, for linear tasks with its linear kernel."""

    name = "sklearn SVC"
    distribution = "scikit-learn"

    def refusal(self, task):
        return refusal_of_svc(task)

    def fit(self, X, y, task, tol) -> Answer:
        from sklearn.svm import SVC

        return fit_svc(SVC, X, y, task, tol)
