"""Support vector regression that chooses C and gamma itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from maxmargin.estimators._machinery.kernel_machine import KERNEL_CONSTRAINTS
from maxmargin.estimators._machinery.kernel_selection import KERNEL_SELECTION_CONSTRAINTS, KernelSelection
from maxmargin.estimators._machinery.plan import Task, regression_task
from maxmargin.estimators._machinery.problems import tube_problem
from maxmargin.estimators._machinery.recognise import Constraints
from maxmargin.estimators._machinery.selection import Scorer
from maxmargin.estimators._machinery.typed import RegressorMixin
from maxmargin.estimators.svr import SVR
from maxmargin.operators import PrecomputedGram
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index


@dataclass(kw_only=True, eq=False, repr=False)
class SVRCV(RegressorMixin, KernelSelection):
    """Support vector regression whose C and gamma are chosen by cross-validation.

    As `SVCCV`, with the model of the best candidate fitted to all samples and certified, as by `SVR`.

    Parameters
    ----------
    Cs : int or array-like, default=12
        Values of C to try; a number stands for so many from 1e-2 to 1e4.
    gammas : int or array-like, default=None
        Values of gamma to try, for the kernels that have it; a number stands for so many around the value of "scale",
        None for 6.
    epsilon, kernel, degree, coef0, tol, cache_size, n_jobs
        As in `SVR`; `tol` is for the last fit. Of samples, `cache_size` must hold three kernel matrices.
    cv : int, splitter, iterable or "loo", default=None
        Folds as scikit-learn's; None is 5. "loo" leaves out every sample once, exactly.
    scoring : str or callable, default=None
        What is to be large; None is the coefficient of determination.
    rule : {"best", "one_se"}, default="best"
        "one_se" takes the smallest C, and of these the smallest gamma, whose mean score is at most one standard error
        below the best.

    Attributes
    ----------
    C_, gamma_, best_params_, best_index_, best_score_, best_estimator_
        The choice, and the fitted `SVR`.
    cv_results_ : dict
        As that of scikit-learn's ``GridSearchCV``; times are shares of the time that all took together.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, solution_, solutions_, duality_gap_, objective_, \
dual_objective_, status_, n_iter_
        Of the last fit, as in `SVR`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from maxmargin import SVRCV
    >>> model = SVRCV(Cs=[10, 100, 1000], epsilon=1.0).fit(*load_diabetes(return_X_y=True))
    >>> model.best_score_ > 0.4, model.duality_gap_ <= 1e-3
    (True, True)

    """

    epsilon: float = 0.1

    _parameter_constraints: ClassVar[Constraints] = {
        **KERNEL_SELECTION_CONSTRAINTS,
        **{name: KERNEL_CONSTRAINTS[name] for name in ("kernel", "degree", "coef0", "cache_size")},
        "epsilon": SVR._parameter_constraints["epsilon"],
    }
    _exact_path = False  # it begins with the medians of the targets, at which many values may be equal

    def _model(self, **chosen: Any) -> SVR:
        return SVR(
            kernel=self.kernel, degree=self.degree, coef0=self.coef0, epsilon=self.epsilon, tol=self.tol,
            cache_size=self.cache_size, n_jobs=self.n_jobs, **chosen,
        )  # fmt: skip

    def _tasks(self, y: Array, weights: Float) -> Sequence[Task]:
        return [regression_task(y, weights)]

    def _task_problem(self, gram: PrecomputedGram, y: Float, s: Float) -> Problem:
        return tube_problem(gram, y, s, "epsilon_insensitive", self.epsilon, "free")

    def _score(self, score: Scorer, values: Float, rows: Index) -> float:
        return score(None, None, values[:, 0], rows)
