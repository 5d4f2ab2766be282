"""LIBSVM through its own Python interface."""

import os

import numpy as np
import scipy.sparse as sp

from benchmark_utils.peer import Answer, Peer
from benchmark_utils.svc_face import CACHE_MEGABYTES, PREDICT_TOL

KINDS = {"kernel": 0, "ovo": 0, "predict": 0, "nu-svc": 1, "svr": 3, "nu-svr": 4}
KERNELS = {"linear": 0, "poly": 1, "rbf": 2}


class Solver(Peer):
    """``svm_train`` and ``svm_predict``, with the conversion of the data that its interface needs.

    By way of CSR that takes a tenth of the time. Its OpenMP threads must not spin while they wait: on a busy machine
    that makes it twenty times slower.
    """

    name = "LIBSVM"
    distribution = "libsvm-official"
    gap_follows_tol = True

    def refusal(self, task):
        return None if task.family in KINDS else "scikit-learn's SVC stands for it on linear tasks"

    def prepare(self, X, y, task):
        self.model = _train(X[: task.train], y[: task.train], task, PREDICT_TOL)
        _, scores = _predict(self.model, X)
        self.answer = _binary(self.model, task.train)._replace(w=self.model.get_labels()[0] * np.ravel(scores))

    def fit(self, X, y, task, tol):
        if task.family == "predict":
            return self.answer._replace(info={"labels": np.array(_predict(self.model, X)[0])})
        model = _train(X, y, task, tol)
        if task.family == "ovo":
            return _pairs(model, y)
        if task.family in ("svr", "nu-svr"):
            return Answer(None, -model.rho[0], _coefficients(model, len(y))[0])
        return _binary(model, len(y))


def _predict(model, X):
    from libsvm.svmutil import svm_predict

    labels, _, scores = svm_predict([], X, model, "-q")
    return labels, scores


def _train(X, y, task, tol):
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when the library is loaded, in this process only
    from libsvm.svmutil import svm_parameter, svm_problem, svm_train

    options = f"-s {KINDS[task.family]} -t {KERNELS[task.kernel]} -g {task.gamma!r} -d {task.degree} -r {task.coef0!r} "
    options += f"-c {task.C!r} -n {task.nu!r} -p {task.epsilon!r} -e {tol!r} -m {CACHE_MEGABYTES} -q"
    return svm_train(svm_problem(y, sp.csr_matrix(X)), svm_parameter(options))


def _coefficients(model, n):
    """The coefficients of all samples, one row per other class."""
    coefficients = np.array(model.get_sv_coef())
    alpha = np.zeros((coefficients.shape[1], n))
    alpha[:, np.array(model.get_sv_indices()) - 1] = coefficients.T
    return alpha


def _binary(model, n):
    sign = model.get_labels()[0]  # the class of positive scores is the one that came first
    return Answer(None, -sign * model.rho[0], sign * _coefficients(model, n)[0])


def _pairs(model, y):
    """One-vs-one in the layout of scikit-learn, whose classes are sorted; LIBSVM's are in order of appearance."""
    order = model.get_labels()
    ranks = np.argsort(np.argsort(order))  # of the classes in order of appearance
    theirs = _coefficients(model, len(y))
    alpha, b = np.zeros_like(theirs), np.zeros(len(order) * (len(order) - 1) // 2)
    sorted_pairs = {pair: k for k, pair in enumerate(zip(*np.triu_indices(len(order), 1), strict=True))}
    for k, (p, q) in enumerate(zip(*np.triu_indices(len(order), 1), strict=True)):
        i, j = ranks[p], ranks[q]
        sign = 1.0 if i < j else -1.0
        b[sorted_pairs[min(i, j), max(i, j)]] = -sign * model.rho[k]
        for mine, other, row in ((p, q, q - 1), (q, p, p)):
            c, o = ranks[mine], ranks[other]
            members = y == order[mine]
            alpha[o - 1 if o > c else o, members] = sign * theirs[row, members]
    return Answer(None, b, alpha)
