"""LIBLINEAR's multi-core edition: another distribution of the same package, which needs a folder of its own."""

import os

from benchmark_utils.peer import load_class


class Solver(load_class("liblinear")):
    """The same methods on several threads, which must not spin while they wait for a busy machine."""

    name = "LIBLINEAR multi-core"
    distribution = "liblinear-multicore"

    @property
    def more_options(self):
        return f"-m {self.threads}"

    def fit(self, X, y, task, tol):
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when the library is loaded, in this process only
        return super().fit(X, y, task, tol)
