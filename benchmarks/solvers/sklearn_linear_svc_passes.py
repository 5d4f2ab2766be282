"""scikit-learn's LinearSVC, stopped after a number of passes: how soon it is roughly right."""

from typing import ClassVar

from benchmark_utils.peer import load_class


class Solver(load_class("sklearn_linear_svc")):
    """``max_iter`` in the place of ``tol``, which is one over the number of passes.

    A penalised intercept stands for a free one without a scale: that is close enough for an answer that is roughly
    right, and much faster.
    """

    name = "LinearSVC by passes"
    parameters: ClassVar = {"method": ["dual"]}
    ladder = tuple(1.0 / round(10.0 * 1.5**k) for k in range(12))
    scale_of_free_intercept = 1.0

    def stopping(self, tol):
        return {"tol": 1e-12, "max_iter": round(1.0 / tol)}
