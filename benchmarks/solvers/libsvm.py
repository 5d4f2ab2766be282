"""LIBSVM through its own Python interface."""

import numpy as np

from benchmark_utils.peer import Answer, Peer
from benchmark_utils.svc_face import CACHE_MEGABYTES


class Solver(Peer):
    """``svm_train``, with the conversion of the data that its interface needs."""

    name = "LIBSVM"
    distribution = "libsvm-official"

    def refusal(self, task):
        return None if task.family == "kernel" else "scikit-learn's SVC stands for it on linear tasks"

    def fit(self, X, y, task, tol):
        from libsvm.svmutil import svm_parameter, svm_problem, svm_train

        options = f"-s 0 -t 2 -g {task.gamma!r} -c {task.C!r} -e {tol!r} -m {CACHE_MEGABYTES} -q"
        model = svm_train(svm_problem(y, X), svm_parameter(options))
        sign = model.get_labels()[0]  # the class of positive scores is the one that came first
        alpha = np.zeros(len(y))
        alpha[np.array(model.get_sv_indices()) - 1] = sign * np.ravel(model.get_sv_coef())
        return Answer(None, -sign * model.rho[0], alpha)
