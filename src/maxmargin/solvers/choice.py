"""What ``solver="auto"`` stands for: one table, measured by ``benchmarks/regret.py``, that explains itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from maxmargin.operators import Chunks, Columns, Sharded
from maxmargin.parts.losses import Squared
from maxmargin.parts.penalties import L2, Unpenalised
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.classes import ClassesProblem
from maxmargin.problems.crammer_singer import CrammerSingerProblem
from maxmargin.problems.groups import GroupProblem
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.problem import Problem
from maxmargin.solvers import solver_class, with_solvers
from maxmargin.solvers.kernels.block_smo import MOST_SAMPLES
from maxmargin.solvers.relay import Relay
from maxmargin.solvers.rows.newton import MAX_FEATURES, worth_thinning
from maxmargin.solvers.solver import AnySolver

NEWTON_STEPS = 150  # some on a part of the rows; then something is wrong: thousands of kinks, or dependent columns
FIRST_BLOCKS = 64  # of easy problems; others need steps on all free variables at once, which decomposition makes
EPOCHS = 300  # then rows that nearly repeat each other, with other targets, may be in the way: blocks of them help
BLOCK_EPOCHS = 2000  # then the rows in the way are too many for a block, and most rows are known that matter
SHORT_ROWS = 0.05  # entries of a row, as a share of the features
FIRST_EPOCHS, FIRST_EPOCHS_OF_KINKS = 5, 60  # on short rows; with kinks, most of these are soon left out
PASSES, PRODUCTS = 25, 5  # of a typical fit by newton; measured on a9a, covtype, mnist
READ, MULTIPLIED = 5e8, 1e10  # entries, and multiplications, of one thread in a second
# Of two clients with 100,000 rows, the hinge, 100 features and a gap of 1e-3: all rounds, matrices of products among
# them, and passes over the data. Counted: newton 107, cocoa 71 where classes are mixed and 116 where each has one.
NEWTON_ROUNDS, NEWTON_PRODUCTS, COCOA_ROUNDS, COCOA_PASSES = 110, 20, 90, 80
# Of ridge regression to 1e-6: conjugate gradients take 20 to 200 steps of two passes. Multiplications of sparse rows:
CONJUGATE_STEPS, SCATTERED, DENSE_ROWS = 60, 5e8, 0.3
FEW_EQUATIONS, CORRECTIONS = 200, 100
MOST_EQUATIONS, MOST_SINGULAR = 8000, 5000  # half a gigabyte; and of a decomposition, which takes thirty times as long
NEWTON_ROUNDS_OF_ALL = 50  # of semismooth Newton; it gives up before that if it goes round in circles
LAST_STEPS = 60  # of a named solver: interior point needs 40 at most
MOST_ENTRIES = 2**20  # of the rows of a fit that one compiled call solves
ROUGHLY = 0.5  # at 1e-8 cocoa needs ten times as many rounds as at 1e-3, and newton a few more
MOST_SHARED, MOST_MULTIPLIED = 1000, 1e11  # features, and multiplications of a step: up to half a minute for a fit
LATENCY, SENT = 1e-3, 1e8  # seconds, and numbers in a second

AnyProblem: TypeAlias = Problem | BoxQP | HullDistance | ClassesProblem | GroupProblem


@dataclass(frozen=True)
class Traits:
    """What is known of a problem before it is solved."""

    n_samples: int
    n_features: int
    entries: int = 0  # that are stored
    l1: bool = False  # a penalty with an L1 part
    columns: bool = False  # samples are seen as columns of features
    squares: bool = False  # the squared loss
    linear_equations: bool = False  # least squares with an L2 penalty or none: the optimum solves such equations
    kernelised: bool = False  # samples are seen through a kernel matrix
    in_memory: bool = True
    max_time: float | None = None
    clients: int = 0  # that the samples are spread over; 0 if they are in one place
    of_hulls: bool = False  # the distance of two hulls: a hard margin, or nu
    reduced: bool = False  # some row may not be a point of its hull alone: nu
    of_classes: bool = False  # several classes at once
    of_groups: bool = False  # coefficients in groups
    intercept: bool = True
    kinked: bool = False  # a loss with kinks: the hinge, or the epsilon-insensitive one

    @classmethod
    def of(cls, problem: AnyProblem, max_time: float | None = None, clients: int = 0) -> Traits:
        """Those of a posed problem; ``clients`` is how many there will be, if they do not have their rows yet."""
        squares = isinstance(problem, Problem) and isinstance(problem.loss, Squared)
        if isinstance(problem, BoxQP) or (isinstance(problem, Problem) and problem.kernelised):
            gram = problem.gram
            return cls(gram.n_samples, 0, kernelised=True, squares=squares, max_time=max_time)
        rows: Any = problem.operator
        return cls(
            n_samples=rows.total_samples if isinstance(rows, Sharded) else rows.n_samples,
            n_features=rows.n_features,
            entries=rows.entries,
            l1=isinstance(problem, Problem) and not isinstance(problem.penalty, L2),
            columns=isinstance(problem.operator, Columns),
            squares=squares,
            linear_equations=isinstance(problem, Problem) and squares and isinstance(problem.penalty, L2 | Unpenalised),
            in_memory=not isinstance(rows.rows if isinstance(rows, Sharded) else rows, Chunks),
            max_time=max_time,
            clients=rows.communicator.size if isinstance(rows, Sharded) else clients,
            of_hulls=isinstance(problem, HullDistance),
            reduced=isinstance(problem, HullDistance) and not problem.hard,
            of_classes=isinstance(problem, ClassesProblem),
            of_groups=isinstance(problem, GroupProblem),
            intercept=isinstance(problem, Problem) and problem.intercept is not None,
            kinked=isinstance(problem, CrammerSingerProblem)
            or (isinstance(problem, Problem) and problem.loss.traits.kinked),
        )

    @property
    def newton_numbers(self) -> float:
        """About as many as newton sends from each of several clients: matrices, of which a half is enough, and sums."""
        d = self.n_features
        return float(NEWTON_PRODUCTS * (d + 1) * (d + 2) // 2 + NEWTON_ROUNDS * d)

    @property
    def cocoa_numbers(self) -> float:
        """About as many as cocoa sends from each of several clients."""
        return float(COCOA_ROUNDS * self.n_features)

    @property
    def cocoa_seconds(self) -> float:
        """About as long as cocoa takes with several clients."""
        return COCOA_PASSES * self.entries / READ / self.clients + COCOA_ROUNDS * LATENCY + self.cocoa_numbers / SENT

    @property
    def shared_newton_seconds(self) -> float:
        """About as long as newton takes with several clients."""
        factors = NEWTON_PRODUCTS * self.n_features**3 / 3.0 / MULTIPLIED
        return self.newton_seconds / self.clients + factors + NEWTON_ROUNDS * LATENCY + self.newton_numbers / SENT

    @property
    def newton_seconds(self) -> float:
        """About as long as newton takes."""
        return PASSES * self.entries / READ + PRODUCTS * self.entries * self.row_length / MULTIPLIED

    @property
    def row_length(self) -> float:
        """Entries of a row."""
        return self.entries / max(1, self.n_samples)

    @property
    def equations(self) -> int:
        """How many linear equations least squares amounts to: one for each feature, or for each sample in memory."""
        by_features = self.n_features + self.intercept
        return by_features if self.clients or not self.in_memory else min(by_features, self.n_samples)

    @property
    def factor_seconds(self) -> float:
        """About as long as it takes to form such equations and to factorise their matrix."""
        by_features = self.equations > self.n_samples or self.equations >= self.n_features
        products = self.entries * (self.row_length if by_features else self.n_samples)
        speed = MULTIPLIED if self.row_length > DENSE_ROWS * self.n_features else SCATTERED
        return 0.5 * products / speed / max(1, self.clients) + self.equations**3 / 6.0 / MULTIPLIED

    @property
    def gradient_seconds(self) -> float:
        """About as long as conjugate gradients take."""
        return CONJUGATE_STEPS * (2.0 * self.entries / READ / max(1, self.clients) + LATENCY * (self.clients > 0))

    @property
    def thinnable(self) -> bool:
        """Whether newton begins with a part of the samples, so that every budget of time gives something."""
        return worth_thinning(self.entries, self.n_samples, self.n_features)


@dataclass(frozen=True)
class Choice:
    """A solver, perhaps others that take over one after the other, and why."""

    name: str
    reason: str
    successors: tuple[tuple[str, int | None], ...] = ()  # each with the iterations of the one before it, if limited

    def make(self, hints: Mapping[str, object] = MappingProxyType({})) -> AnySolver:
        """The solver, and those that take over, each with those of the hints that are options of it."""
        names = [self.name, *(name for name, _ in self.successors)]
        kinds = [solver_class(name) for name in names]
        solvers = [kind.with_hints(with_solvers(kind, hints)) for kind in kinds]
        solver = solvers.pop()
        for _, patience in reversed(self.successors):
            solver = Relay(solvers.pop(), solver, patience)
        return solver

    def after_the_first(self) -> Choice:
        """What is left if the first has done what it can; itself if nothing takes over."""
        if not self.successors:
            return self
        (name, _), *others = self.successors
        return Choice(name, f"{self.name!r} has done what it can", tuple(others))

    def __str__(self) -> str:
        relief = "".join(f", and '{name}' takes over {_when(patience)}" for name, patience in self.successors)
        return f"'{self.name}', because {self.reason}{relief}."


def _when(patience: int | None) -> str:
    return "once that is faster" if patience is None else f"after {patience} iterations"


def asked_for(name: str, problem: AnyProblem) -> Choice:
    """A solver that users named, and who goes on from its point where it cannot."""
    able = [other for other in solver_class(name).finishers if solver_class(other)().supports(problem) is None]
    return Choice(name, f"solver={name!r} was asked for", tuple((other, LAST_STEPS) for other in able[:1]))


def small_enough(n_samples: int, n_features: int) -> str | None:
    """Why a fit is small, so that one compiled call solves all its problems; ``None`` if it is not.

    Measured on made data with 20 features, a Gaussian kernel and the hinge: the call takes a fifth of the time of the
    loop on 150 samples, half on 1000, and as long on 2000, where its matrix of all kernel values is 32 MB.
    """
    if n_samples > MOST_SAMPLES or n_samples * n_features > MOST_ENTRIES:
        return None
    return f"up to {MOST_SAMPLES} samples with {MOST_ENTRIES} entries are few"


def choose(problem: AnyProblem, max_time: float | None = None, clients: int = 0) -> Choice:
    """The solver that "auto" stands for: what the table says about a posed problem and a budget of seconds."""
    return table(Traits.of(problem, max_time, clients))


def table(traits: Traits) -> Choice:
    """What "auto" stands for. The first line that applies counts.

    ==============================================================  ===================  ========================
    problem                                                         solver               take over
    ==============================================================  ===================  ========================
    several classes at once, the softmax                            ``softmax_newton``
    several classes at once, a loss with kinks                      ``dual_simplices``
    coefficients in groups                                          ``group_descent``
    the distance of two hulls (a hard margin, or nu), clients       ``saddle``
    that of reduced ones (nu) as rows, more than 2000 samples       ``saddle``
    the squared loss through a kernel, up to 8000 samples           ``kernel_cholesky``  ``decomposition``
    anything seen through a kernel, up to 2000 samples              ``block_smo``        ``decomposition``
    the same with more                                              ``decomposition``    ``semismooth_newton``,
                                                                                         ``decomposition``
    the distance of two hulls in one place                          ``decomposition``
    least squares with an L2 penalty or none, few linear equations  ``cholesky``         ``svd``
    the same, many                                                  ``conjugate_gradients``
    the squared loss and a penalty with an L1 part, by columns      ``working_set``
    other losses without kinks and such a penalty, by columns       ``proximal_newton``
    a loss with kinks, and a penalty with an L1 part or limits      ``interior_point``   ``smoothed``
    other penalties with an L1 part, by rows                        ``smoothed``
    clients, in memory: too many features, or cocoa twice as fast   ``cocoa``
    clients                                                         ``newton``
    more than 1000 features, in memory                              ``dual_coordinate``  ``blocks``, ``pivoting``
    more than 1000 features, read in chunks                         ``smoothed``
    no time for newton, and too few samples to begin with a part    ``sgd``
    short rows, a twentieth of the features, and no intercept       ``dual_coordinate``  ``newton``,
                                                                                         ``interior_point``
    all others                                                      ``newton``           ``interior_point``
    ==============================================================  ===================  ========================

    Clients compare seconds that follow from counted rounds and numbers, a millisecond for each round and a hundred
    million numbers in a second.

    On short rows a few epochs (60 with kinks, else 5) take less time than the first steps of ``newton``, which goes on
    from there: on w8a it is done in half of the time. Where rows are longer (a9a: a ninth), or an intercept ties all
    of them together, it takes longer.

    Linear nu-SVM, Gaussian rows, CPU seconds of one thread, ``saddle`` against ``decomposition``: 3,000 x 10 0.040 and
    0.044 to 1e-3, 0.037 and 0.053 to 1e-6; 5,000 x 100 0.02 and 0.23; 5,000 x 1,000 0.14 and 2.1; 10,000 x 50 0.09 and
    0.54 to 1e-5; 20,000 x 20 0.04 and 1.15; 5,000 sparse rows with 50 of 5,000 entries 0.10 and 1.06. Up to 2,000
    samples, in one compiled call, blocks of pairs take 0.004 to 0.015 where it takes 0.011 to 0.027.

    Two things were measured and are not in the table. The tolerance: where ``newton`` is not the fastest at 1e-3, it
    loses milliseconds. With kinks and few samples per feature ``interior_point`` is up to three times as fast, but none
    of its dual variables is ever zero, and all samples would be support vectors.
    """
    t = traits
    if t.of_classes and t.kinked:
        return Choice("dual_simplices", "all classes are fitted at once, and one sample's variables have a closed form")
    if t.of_classes:
        return Choice("softmax_newton", "all classes are fitted at once")
    if t.of_groups:
        return Choice("group_descent", "coefficients leave zero in groups, and few groups will")
    if t.of_hulls and t.clients:
        return Choice(
            "saddle", "it is for the distance of two hulls, and its rounds do not depend on who has the samples"
        )
    if t.of_hulls and t.reduced and t.n_samples > MOST_SAMPLES:
        many = "the hulls of {n} samples are reduced, and its time grows in proportion to them, not to their square"
        return Choice("saddle", many.format(n=t.n_samples))
    if t.kernelised and t.squares and t.n_samples <= MOST_EQUATIONS:
        few = f"its optimum solves {t.n_samples} linear equations, whose matrix is factorised at once"
        return Choice("kernel_cholesky", few, (("decomposition", CORRECTIONS),))
    if t.kernelised and t.n_samples <= MOST_SAMPLES:
        few = f"the kernel matrix of {t.n_samples} samples can be stored, and most of its fits are one compiled call"
        return Choice("block_smo", few, (("decomposition", FIRST_BLOCKS),))
    if t.of_hulls or t.kernelised:
        few = "the samples are seen through a kernel, and it needs few of its rows"
        finish = (("semismooth_newton", None), ("decomposition", NEWTON_ROUNDS_OF_ALL))
        return Choice("decomposition", few, () if t.of_hulls else finish)
    if t.linear_equations:
        return _for_linear_equations(t)
    if t.l1 and t.columns and t.squares:
        return Choice("working_set", "few columns will have a coefficient, and the problem over them is solved exactly")
    if t.l1 and t.columns and not t.kinked:
        few = "few columns will have a coefficient, and models of the loss on these need few iterations"
        return Choice("proximal_newton", few)
    if t.l1 and t.kinked and t.n_features <= MOST_SHARED and t.entries * t.row_length <= MOST_MULTIPLIED:
        few = (
            f"with {t.n_features} features its steps are cheap, and kinks and limits of coefficients hardly add to them"
        )
        return Choice("interior_point", few, (("smoothed", NEWTON_STEPS),))
    if t.l1:
        return Choice("smoothed", "the penalty has an L1 part, whose kink at zero it steps over exactly")
    return _for_clients(t) if t.clients else _for_rows(t)


def _for_linear_equations(t: Traits) -> Choice:
    """The lines of the table for least squares, in one place or with clients."""
    few = f"its optimum solves {t.equations} linear equations"
    if t.equations <= MOST_EQUATIONS and (t.factor_seconds <= t.gradient_seconds or t.equations <= FEW_EQUATIONS):
        relief = "svd" if t.equations <= MOST_SINGULAR else "conjugate_gradients"
        return Choice("cholesky", f"{few}, whose matrix is factorised at once", ((relief, CORRECTIONS),))
    return Choice("conjugate_gradients", f"{few}, and some passes over the data cost less than their matrix")


def _for_clients(t: Traits) -> Choice:
    """The lines of the table for rows of several clients."""
    d, k = f"{t.n_features} features", f"{t.clients} clients"
    newton = f"about {NEWTON_ROUNDS} rounds and {t.newton_numbers:.2g} numbers"
    cocoa = f"about {COCOA_ROUNDS} rounds and {t.cocoa_numbers:.2g} numbers"
    many = t.n_features > MAX_FEATURES
    if t.in_memory and (many or t.cocoa_seconds < ROUGHLY * t.shared_newton_seconds):
        other = "are too many for a matrix of their products" if many else f"would cost 'newton' {newton}"
        return Choice("cocoa", f"{d} {other}, and {k} need {cocoa} each for rough answers")
    return Choice("newton", f"with {d} its {k} need {newton} each, and its steps are few whatever the accuracy")


def _for_rows(t: Traits) -> Choice:
    """The lines of the table for rows of features in one place, with an L2 penalty."""
    d = f"{t.n_features} features"
    if t.n_features > MAX_FEATURES:
        many = f"{d} are too many for a matrix of their products"
        if not t.in_memory:
            return Choice("smoothed", f"{many}, and it reads the samples from beginning to end, as chunks have to be")
        relief = (("blocks", EPOCHS), ("pivoting", BLOCK_EPOCHS))
        return Choice("dual_coordinate", f"{many}, and it needs one row at a time", relief)
    if t.max_time is not None and t.max_time < 0.5 * t.newton_seconds and not t.thinnable and t.in_memory:
        little = f"max_time={t.max_time:g} is too short for 'newton' to get anywhere"
        return Choice("sgd", f"{little}, and a few passes of small steps do")
    if t.row_length < SHORT_ROWS * t.n_features and not t.intercept and t.in_memory:
        short = f"the rows are short, {t.row_length:.3g} entries for {d}, and some epochs over them take little time"
        first = FIRST_EPOCHS_OF_KINKS if t.kinked else FIRST_EPOCHS
        return Choice("dual_coordinate", short, (("newton", first), ("interior_point", NEWTON_STEPS)))
    few = f"with {d} its steps are cheap and few, whatever the scales of the columns"
    return Choice("newton", few, (("interior_point", NEWTON_STEPS),))
