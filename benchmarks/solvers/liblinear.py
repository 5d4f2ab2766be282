"""LIBLINEAR through its own Python interface."""

from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from benchmark_utils.peer import Answer, Peer


class Solver(Peer):
    """``train``, with the conversion of the data, which is fastest by way of CSR.

    Its dual method gives up after 300 passes; there is no option.
    """

    name = "LIBLINEAR"
    distribution = "liblinear-official"
    parameters: ClassVar = {"method": ["primal", "dual"]}
    more_options = ""

    def refusal(self, task):
        if task.family != "linear":
            return "LIBLINEAR has no kernels"
        if task.loss == "hinge" and self.method == "primal":
            return "LIBLINEAR solves the hinge in the dual only"
        if task.intercept == "free" and self.method == "dual":
            return "LIBLINEAR leaves the intercept unpenalised in its primal methods only"
        return None

    def fit(self, X, y, task, tol):
        from liblinear.liblinearutil import parameter, problem, train

        method = {("hinge", "dual"): 3, ("squared_hinge", "dual"): 1, ("squared_hinge", "primal"): 2}
        bias = {None: "-B -1", "penalised": "-B 1", "free": "-B 1 -R"}[task.intercept]
        options = f"-s {method[task.loss, self.method]} -c {task.C!r} -e {tol!r} {bias} {self.more_options} -q"
        # Handing over the bias separately avoids a copy: the interface appends the column itself.
        training = problem(y, sp.csr_matrix(X), bias=-1 if task.intercept is None else 1)
        model = train(training, parameter(options))
        w, b = model.get_decfun()
        sign = model.get_labels()[0]
        return Answer(sign * np.array(w[: X.shape[1]]), float(sign * b))
