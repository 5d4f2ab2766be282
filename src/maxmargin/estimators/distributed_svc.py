"""The linear support vector classifier of several machines."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from maxmargin.estimators._machinery import check
from maxmargin.estimators._machinery.distributed_classifier import DISTRIBUTED_CONSTRAINTS, DistributedClassifier
from maxmargin.estimators._machinery.estimator import INTERCEPT_CONSTRAINT
from maxmargin.estimators._machinery.names import Hinges, InterceptName
from maxmargin.estimators._machinery.plan import Function, Plan, Task
from maxmargin.estimators._machinery.problems import hard_margin, hard_margin_function
from maxmargin.loop.solution import Solution
from maxmargin.parts.losses import Hinge, SquaredHinge
from maxmargin.parts.penalties import L2
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Operator
from maxmargin.solvers.choice import AnyProblem


@dataclass(eq=False, repr=False)
class DistributedSVC(DistributedClassifier):
    """Linear support vector classifier for rows that are spread over several processes or machines.

    The problem is that of `LinearSVC`: for every class against the rest (or every pair), minimise

    ``1/2 |w|^2 + C sum_i c_i loss(y_i (w.x_i + b))`` with the squared hinge or the hinge,

    where ``c_i`` is the class weight times the sample weight, and the intercept is penalised unless
    ``intercept="free"``. ``C=inf`` is the hard margin: the widest street between the classes, or the proof that there
    is none. Every client keeps its rows and dual variables; coefficients and sums travel. The result does not depend
    on how the rows are spread, up to rounding.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
        Loss of a margin.
    tol : float, default=1e-4
        Relative duality gap, over the rows of all clients, at which to stop.
    C : float, default=1.0
        Weight of the losses against the norm; infinity for the hard margin.
    multi_class : {"ovr", "ovo"}, default="ovr"
        Which binary problems are solved for more than two classes, one after the other.
    verbose : int, default=0
        Whether the first client shows a progress line on standard error.
    intercept : {"auto", "free", "penalised"} or None, default="auto"
        "auto" is "penalised" if `fit_intercept`, and free with a hard margin.
    solver : str, default="auto"
        Name of a solver that works on rows of several clients; `explain_solver` tells what "auto" stands for.
    max_time : float, default=None
        Limit in seconds, on the clock of the first client; the best point so far is kept.
    callback : callable, default=None
        Called in the first client with a `Record` after every round; a true value stops the fit.
    engine : {"auto", "in_process", "mpi", "dask"}, default="auto"
        Where the clients run: in threads, as the ranks of ``mpirun``, or on the workers of a Dask cluster. "auto" takes
        Dask for its collections, MPI under ``mpirun``, and threads otherwise.
    topology : {"gather", "star"}, default="gather"
        How clients talk: in rounds in which all gather from each other, or to the first of them only, who is the
        server. A star needs two rounds where the others need one, but what a client receives does not grow with the
        number of clients.
    n_clients : int, default=None
        Number of threads, or of workers of Dask for data that are not there yet; None is one for each processor, or
        for each worker. Under ``mpirun`` it is the number of ranks.
    round_timeout : float, default=60.0
        Seconds that a client waits for the others in one round before it gives up.
    checkpoint : path, default=None
        Where every client keeps its state, in ``checkpoint.RANK``; a later fit of the same data goes on from there.
    checkpoint_every : float, default=60.0
        Seconds between two writings of it.
    on_failure : {"raise", "restart"}, default="raise"
        Whether to start again, up to three times, if a client was lost: from the checkpoint, if there is one. A job
        of MPI ends with its first lost rank and has to be started again from outside.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, n_features_in_, feature_names_in_
        As in scikit-learn.
    solution_, solutions_, duality_gap_, objective_, dual_objective_, status_
        As in `SVC`, but dual variables stay with the clients: the points of the solutions have none.
    traffic_ : dict of ndarray
        What each client has sent: ``rounds`` in which all took part, ``scalars``, ``bytes``, how many numbers it has
        ``received``, and the ``seconds`` that it spent in them, waiting for others included.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from maxmargin import DistributedSVC
    >>> model = DistributedSVC(tol=1e-6, n_clients=3).fit(*load_iris(return_X_y=True))
    >>> model.duality_gap_ <= 1e-6, model.traffic_["rounds"].size
    (True, 3)

    """

    _has_hard_margin: ClassVar[bool] = True  # which an infinite C asks for

    loss: Hinges = "squared_hinge"
    _: KW_ONLY
    C: float = 1.0
    intercept: InterceptName | None = "auto"
    intercept_scaling: float = 1

    _parameter_constraints: ClassVar[dict[str, list[object]]] = {
        **DISTRIBUTED_CONSTRAINTS,
        "loss": [StrOptions({"hinge", "squared_hinge"})],
        "C": [Interval(Real, 0, None, closed="right")],
        "fit_intercept": ["boolean"],
        "intercept_scaling": [Interval(Real, 0, 1e100, closed="right")],
        "intercept": INTERCEPT_CONSTRAINT,
    }

    def _problem(self, operator: Operator, task: Task, plan: Plan) -> AnyProblem:
        """What one task minimises."""
        if math.isinf(self.C):
            return hard_margin(operator, task.y, task.s)
        loss = Hinge() if self.loss == "hinge" else SquaredHinge()
        kind = check.check_intercept(self, "penalised")
        return Problem(operator, task.y, loss, L2(1.0), task.s, kind, float(self.intercept_scaling))

    def _function(self, problem: AnyProblem, solution: Solution) -> Function:
        if isinstance(problem, HullDistance):
            return hard_margin_function(problem, solution.point)
        return super()._function(problem, solution)

    def _refuse_contradictions(self) -> None:
        super()._refuse_contradictions()
        if math.isinf(self.C) and (self.intercept not in ("auto", "free") or not self.fit_intercept):
            raise ValueError(
                f"C=inf, the hard margin, has a free intercept; got intercept={self.intercept!r} and "
                f"fit_intercept={self.fit_intercept}. Leave both at their defaults, or pass a finite C."
            )
