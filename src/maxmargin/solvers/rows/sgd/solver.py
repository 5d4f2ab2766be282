"""Stochastic subgradient descent for linear models, every loss and every penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from maxmargin.numerics.grid import lowest_on_grid
from maxmargin.numerics.sampling import ORDERS, PERMUTATION, seeded
from maxmargin.operators.vectors import DenseVectors
from maxmargin.parts.penalties import L1, L2, ElasticNet, Unpenalised, strengths
from maxmargin.problems.point import Point, Status
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.rows.sgd.descent import (
    BEST,
    BETA,
    COUNT,
    LEVEL,
    MEAN_BETA,
    NOBODY,
    NUMBERS,
    SCALE,
    SETTLED,
    STEPS,
    HeldOut,
    Rule,
    descend,
    mean_objective,
)
from maxmargin.solvers.rows.sgd.duals import (
    balancing_intercept,
    best_between,
    candidate,
    mean_value,
    penalty_at,
)
from maxmargin.solvers.rows.sgd.loops import (
    NEVER,
    PASSIVE,
    FourAhead,
    InTurn,
    Recipe,
    Stretch,
    is_unbounded,
    walk_epochs,
)
from maxmargin.solvers.solver import Needs, Solver, State, check_options
from maxmargin.solvers.windows import Window, mean_slopes, unseen

ROUND_WORK = 2_000_000  # multiplications per round: a few milliseconds
LEARNING_RATES = ("optimal", "invscaling", "constant", "adaptive", *PASSIVE)
PROBE_SAMPLES, PROBE_FACTOR = 1000, 4.0
FEW_PROBES, MOST_PROBES = 2000, 4000  # steps: fits to few samples may take no more than these
FEW_SNAPSHOTS = 8  # in an epoch
SNAPSHOT_WORK = 16  # steps that do as much work as one snapshot of the coefficients, between two of them
ADAPTIVE_FACTOR = 5.0
LOOK_PASSES, LOOK_SHARE = 10.0, 0.2  # what a look costs, in passes over the data; what share of the work looks may be
LARGEST = 1e100  # entry of the coefficients; beyond it they are about to overflow
SMALLEST_STEP = 1e-15  # of the first one: below it, an adaptive rate has come to rest
LEAST_STEP = 1e-6  # the same where the objective decides when to stop


@dataclass(frozen=True)
class SGD(Solver[Problem, "SGDState"]):
    """Stochastic subgradient descent with proximal steps for the penalty.

    Problem: ``min sum_i s_i loss(x_i.w + b, y_i) + lam (ratio |w|_1 + (1 - ratio) |w|^2 / 2)``, any loss, intercept
    free, penalised or absent.

    Method: with ``f_i = s_i loss(x_i.w + b, y_i)``, ``m`` samples of positive weight and ``l2 = lam (1 - ratio) / m``,
    one step is ``w <- (w - eta f_i'(w)) / (1 + eta l2)`` and ``b <- b - eta f_i'(b)``. Samples come in cyclic order, in
    a new permutation every epoch, or drawn uniformly. The step ``eta`` is ``eta0 / (1 + lam eta0 t / m)`` ("optimal"),
    ``eta0 / (1 + t)^power_t`` ("invscaling"), ``eta0`` ("constant"), or ``eta0`` divided by 5 after ``patience`` epochs
    without progress ("adaptive"), where ``t`` counts steps; ``eta0=None`` is the best of a geometric grid, each tried
    for 2000 to 4000 steps on up to 1000 samples.
    The L1 part is cumulative: ``w = a shrunk(theta, u)``, where ``theta`` sums
    the gradient steps and ``u`` the thresholds ``eta lam ratio / m`` since the last power of two of epochs, both in
    units of the scale ``a`` that the L2 part leaves. So a step touches the nonzeros of one row only, and noise does not
    lift a coefficient from zero. Where a loss has unbounded slopes, a step that would overshoot becomes the implicit
    one, ``w <- argmin f_i(w) + |w - w_t|^2 / (2 eta)``, which cannot diverge. The passive-aggressive steps "pa1" and
    "pa2" are ``min(eta0, l / |x|^2)`` and ``l / (|x|^2 + 1 / (2 eta0))`` for the loss ``l`` of the sample, times the
    sign of its slope. The point is the average over the last half to three quarters of the path (``average=None``:
    unless there is an L1 part, whose zeros it would blur), over all points from step ``average`` on, or the last one
    (``False``). Its dual variables lie between the slopes at it, their averages along the path, and zero, where the
    dual is largest.

    With ``settle`` it is done when the mean objective that an epoch has found on its way is not smaller than the
    smallest one before by ``settle`` in ``patience`` epochs one after another; "adaptive" divides its step then, as
    long as it is at least 1e-6. With ``settle=-inf`` it goes on for as long as it may. The average of ``average=None``
    weighs point ``t`` by ``t^3`` then.

    Cost: one iteration is one epoch; it reads the rows once and takes ``O(nonzeros)``; memory ``O(n + d)``. On dense
    rows, with bounded slopes and no L1 part, four steps are made at a time: the same steps, in half the time.

    Reference: Bottou, "Stochastic gradient descent tricks", 2012, sections 4 and 5; Tsuruoka, Tsujii, Ananiadou,
    "Stochastic gradient descent training for L1-regularized log-linear models with cumulative penalty", ACL 2009;
    Rakhlin, Shamir, Sridharan, "Making gradient descent optimal for strongly convex stochastic optimization", 2012.
    """

    order: str = "permutation"
    learning_rate: str = "optimal"
    eta0: float | None = None
    power_t: float = 0.5
    patience: int = 5
    average: bool | int | None = None
    seed: int = 0
    settle: float | None = None
    decay: float | None = None
    held_out: HeldOut | None = None

    name: ClassVar[str] = "sgd"
    needs: ClassVar[Needs] = Needs("rows")

    def __post_init__(self) -> None:
        check_options(self, order=ORDERS, learning_rate=LEARNING_RATES)
        if self.eta0 is not None and not 0.0 < self.eta0 < math.inf:
            raise ValueError(f"eta0={self.eta0!r} is no step; give a positive number, or None to have it probed.")

    def obstacle(self, problem: Problem) -> str | None:
        """``None``, or why not."""
        if not isinstance(problem.penalty, (L1, L2, ElasticNet, Unpenalised)):
            return (
                f"it needs an L1, L2 or elastic net penalty, or none; this problem has {type(problem.penalty).__name__}"
            )
        return None

    def start(self, problem: Problem, warm: Point | None) -> SGDState:
        """Zero, or the coefficients of a point; and the first step, if it is to be probed."""
        rows, column = problem.rows, problem.column
        state = SGDState(
            theta=np.zeros(rows.n_features) if warm is None else warm.w.astype(np.float64),
            beta=warm.b / column if warm is not None and column > 0.0 else 0.0,
            order=np.flatnonzero(problem.s > 0.0),
            random=seeded(self.seed),
            recent=Window.empty(rows.n_features, rows.n_samples),
            earlier=Window.empty(rows.n_features, 0 if self._settles else rows.n_samples),
        )
        state.eta0 = self._probed_step(problem, state) if self.eta0 is None else float(self.eta0)
        state.first_eta0 = state.eta0
        state.passes = 1.0
        return state

    def carry_on(self, problem: Problem, state: SGDState) -> SGDState:
        """The state of one problem as the beginning of another, over fresh samples: coefficients, step and average."""
        return replace(
            state,
            theta=state.theta.copy(),  # the earlier state stays as it is, if something fails
            random=state.random.copy(),
            order=np.flatnonzero(problem.s > 0.0),
            recent=state.recent.among_others(0),
            earlier=state.earlier.among_others(0),
            mean=state.mean.copy(),
            numbers=state.numbers.copy(),
            found=None,
            primal=math.inf,
            dual=-math.inf,
        )

    @property
    def _settles(self) -> bool:
        """Whether the objective along the path decides when to stop."""
        return self.settle is not None

    @property
    def _from(self) -> int:
        """The step from which on all points count the same in the average; `NEVER` if that is not what was asked."""
        return NEVER if self.average is None or self.average is False else int(self.average)

    def advance(self, problem: Problem, state: SGDState, limit: int) -> SGDState:
        """Some epochs, up to the next power of two, where a new stretch of the average begins."""
        done = state.iterations
        epochs = min(max(ROUND_WORK // max(1, problem.rows.entries), 1), limit)
        state.found, state.primal, state.dual = None, math.inf, -math.inf
        if self._settles:
            self._go_on(problem, state, epochs)
            return state
        epochs = min(epochs, 2 ** done.bit_length() - done)
        self._move(problem, state, 1 if self.learning_rate == "adaptive" else epochs)
        at_power_of_two = state.iterations & (state.iterations - 1) == 0
        if at_power_of_two or state.look_passes + LOOK_PASSES <= LOOK_SHARE * state.passes:
            state.found, state.primal, state.dual = self._look(problem, state)
            state.look_passes += LOOK_PASSES
            state.passes += LOOK_PASSES
        return state

    def learn(self, problem: Problem, state: SGDState) -> SGDState:
        """One pass over the samples of a stream, without a look at where it led: of their slopes, no sums are kept."""
        state.recent.seen = state.earlier.seen = unseen(0)
        self._go_on(problem, state, 1)
        return state

    def _go_on(self, problem: Problem, state: SGDState, epochs: int) -> None:
        """Epochs under the rule of ``settle``. Sets: everything in the state that moves."""
        before = replace(state, theta=state.theta.copy(), mean=state.mean.copy(), numbers=state.numbers.copy())
        tol = -math.inf if self.settle is None else self.settle
        rule = Rule(tol, self.patience, max(float(problem.s.sum()), 1e-300))
        recipe = self._recipe(problem, state, settles=True)
        if (recipe.snapshot < NEVER or recipe.growing) and state.mean.size == 0:
            state.mean = np.zeros(state.theta.size)
        made = self._descend(problem, state, recipe, rule, epochs)
        state.iterations += made
        state.passes += made
        if not state.is_tame():
            self._take_back(problem, state, before)
        elif state.numbers[SETTLED] and self.learning_rate == "adaptive" and state.eta0 > LEAST_STEP:
            state.eta0 /= ADAPTIVE_FACTOR
            state.numbers[SETTLED] = 0.0

    def _take_back(self, problem: Problem, state: SGDState, before: SGDState) -> None:
        """After steps that were far too large: back, with smaller ones. Sets: everything in the state that moves."""
        state.theta, state.scale, state.level, state.beta = before.theta, before.scale, before.level, before.beta
        state.mean, state.numbers = before.mean, before.numbers
        state.recent, state.earlier = state.recent.next(), state.earlier.next()
        state.eta0 = state.first_eta0 = min(0.1 * state.eta0, self._probed_step(problem, state))

    def _descend(self, problem: Problem, state: SGDState, recipe: Recipe, rule: Rule, epochs: int) -> int:
        """Sets: everything in the state that moves. Returns the number of epochs that were made."""
        numbers, window = state.numbers, state.recent
        numbers[STEPS], numbers[SCALE], numbers[LEVEL], numbers[BETA] = state.t, state.scale, state.level, state.beta
        made = descend(
            self._walker(problem, recipe), problem.loss, problem.y, problem.s, recipe, rule, self.held_out or NOBODY,
            state.order, state.random, state.iterations, epochs, numbers, state.theta, window.total, state.mean,
            window.seen, Stretch.empty(),
        )  # fmt: skip
        state.t, (state.scale, state.level, state.beta) = int(numbers[STEPS]), numbers[SCALE : BETA + 1].tolist()
        return made

    def _move(self, problem: Problem, state: SGDState, epochs: int) -> None:
        """Sets: everything in the state that moves."""
        if self._from == NEVER and state.iterations & (state.iterations - 1) == 0:
            state.begin_window()
        before = replace(state, theta=state.theta.copy())
        self._run(problem, state, self._recipe(problem, state), epochs)
        state.iterations += epochs
        state.passes += epochs
        if not state.is_tame():
            self._take_back(problem, state, before)
        elif self.learning_rate == "adaptive":
            self._adapt(problem, state)

    def model(self, problem: Problem, state: SGDState) -> tuple[Float, float]:
        """The coefficients and the intercept that a state stands for: the average, or where the path has come to."""
        both, count = state.recent.with_coefficients_of(state.earlier), state.numbers[COUNT]
        if count > 0.0 and state.mean.size:
            return state.mean, problem.column * float(state.numbers[MEAN_BETA])
        if count > 0.0:
            return state.recent.total / count, problem.column * float(state.numbers[MEAN_BETA]) / count
        w, beta = both.mean() if both.count > 0 else (state.coefficients(), state.beta)
        return w, problem.column * beta

    def point(self, problem: Problem, state: SGDState) -> Point:
        """The coefficients, a good intercept for them if it is free, and the best dual point at hand.

        Who is stopped by the objective gets the intercept that the steps have found: it belongs to the model as well.
        """
        if isinstance(problem.penalty, Unpenalised):
            return Point(*self.model(problem, state))
        return state.found or self._look(problem, state)[0]

    def _look(self, problem: Problem, state: SGDState) -> tuple[Point, float, float]:
        """Where the path has led, with the primal and the dual value."""
        w, b = self.model(problem, state)
        z = problem.operator.apply(w)
        if problem.free_intercept and not self._settles:
            b = balancing_intercept(problem, z, b)
        slopes = problem.slopes(z + b)
        best = candidate(problem, slopes)
        if state.iterations > 0:
            seen, before = state.recent.seen, state.earlier.seen
            average = mean_slopes(problem.s, seen, before if len(before) == len(seen) else seen, slopes)
            best = best_between(problem, best, candidate(problem, average))
        primal = problem.losses(z + b) + penalty_at(problem, w, b)
        if best.value < 0.5 * primal:  # far away: a part of it may be better
            best = best_between(problem, candidate(problem, np.zeros_like(slopes)), best)
        return Point(w, b, best.alpha), primal, best.value

    def _recipe(self, problem: Problem, state: SGDState, settles: bool = False) -> Recipe:
        """What the steps of a round have in common; of one that `descend` makes, if ``settles``."""
        rows, m = problem.rows, max(1, state.order.size)
        l1, l2 = strengths(problem.penalty)
        penalised = float(problem.penalised_column > 0.0)
        snapshot = math.ceil(SNAPSHOT_WORK * rows.n_features * rows.n_samples / max(1, rows.entries))
        rate = problem.lam / m if self.decay is None else self.decay
        decay, power = {
            "optimal": (rate * state.eta0, 1.0),
            "invscaling": (1.0, float(self.power_t)),
        }.get(self.learning_rate, (0.0, 1.0))
        averaged = l1 == 0.0 if self.average is None else self.average is not False
        start = self._from if l1 == 0.0 else NEVER
        # On long sparse rows, or for few samples, there are no snapshots to speak of.
        growing = settles and self.average is None and l1 == 0.0 and state.order.size < FEW_SNAPSHOTS * snapshot
        return Recipe(
            eta0=state.eta0,
            decay=decay,
            power=power,
            l1=l1 / m,
            l2=l2 / m,
            height=problem.column,
            l1_b=penalised * l1 / m,
            l2_b=penalised * l2 / m,
            draw=ORDERS[self.order],
            snapshot=snapshot if averaged and not growing and start == NEVER else NEVER,
            passive=PASSIVE.get(self.learning_rate, 0),
            start=1 if growing else start,
            growing=growing,
        )

    def _walker(self, problem: Problem, recipe: Recipe) -> InTurn | FourAhead:
        """Who makes the steps."""
        vectors = problem.rows.vectors
        simple = recipe.l1 == recipe.l2_b == recipe.passive == 0 and recipe.start == NEVER
        simple = simple and not is_unbounded(problem.loss)
        return FourAhead(vectors) if simple and isinstance(vectors, DenseVectors) else InTurn(vectors)

    def _run(self, problem: Problem, state: SGDState, recipe: Recipe, epochs: int) -> None:
        """Sets: everything in the state that moves."""
        window = state.recent
        state.t, state.scale, state.level, state.beta, beta_total, count, _ = walk_epochs(
            self._walker(problem, recipe), problem.loss, problem.y, problem.s, recipe, state.order, state.random,
            epochs, state.t, state.theta, state.scale, state.level, state.beta, window.total, window.seen,
            Stretch.empty(), False,
        )  # fmt: skip
        window.b_total += beta_total
        window.count += count

    def _probed_step(self, problem: Problem, state: SGDState) -> float:
        """The first step whose schedule serves best in some passes over a few samples.

        Several passes, and judged like the fit: one alone prefers steps that are too small for ill-conditioned data.
        """
        order = state.order[:: max(1, state.order.size // PROBE_SAMPLES)][:PROBE_SAMPLES]
        if order.size == 0:
            return 1.0
        squares = problem.rows.take(order).squared_lengths() + problem.column**2
        size = float((problem.s[order] * squares).mean())
        epochs = math.ceil(min(MOST_PROBES, FEW_PROBES + 2 * order.size) / order.size)
        plain, rule, stretch = replace(self, average=None), Rule(-math.inf, 1, 1.0), Stretch.empty()
        recipe = plain._recipe(problem, replace(state, eta0=1.0))._replace(draw=PERMUTATION)
        walker, vectors = self._walker(problem, recipe), problem.rows.vectors
        nothing = unseen(0)

        def value(eta: float) -> float:
            theta, mean, numbers = state.theta.copy(), np.zeros(state.theta.size), np.zeros(NUMBERS)
            numbers[STEPS], numbers[SCALE], numbers[LEVEL], numbers[BETA] = (
                state.t, state.scale, state.level, state.beta,
            )  # fmt: skip
            own = recipe._replace(
                eta0=eta, decay=recipe.decay * eta if self.learning_rate == "optimal" else recipe.decay
            )
            descend(
                walker, problem.loss, problem.y, problem.s, own, rule, NOBODY, order.copy(), state.random.copy(), 0,
                epochs, numbers, theta, theta, mean, nothing, stretch,
            )  # fmt: skip
            if numbers[COUNT] == 0.0:
                scale, level = numbers[SCALE], numbers[LEVEL]
                mean = scale * np.copysign(np.maximum(np.abs(theta) - level, 0.0), theta)
                numbers[MEAN_BETA] = numbers[BETA]
            if not (np.abs(mean).max(initial=0.0) <= LARGEST and abs(numbers[MEAN_BETA]) <= LARGEST):
                return math.inf
            b = problem.column * float(numbers[MEAN_BETA])
            return float(mean_objective(vectors, problem.loss, problem.y, problem.s, own, order, mean, b))

        return lowest_on_grid(value, 1.0 / size if size > 0.0 else 1.0, PROBE_FACTOR)

    def _adapt(self, problem: Problem, state: SGDState) -> None:
        """Divide the step if the last epochs brought no progress. Sets: ``eta0, lowest, idle, passes``."""
        value = mean_value(problem, state.order, state.coefficients(), problem.column * state.beta)
        state.passes += 1.0
        state.idle = 0 if value < state.lowest else state.idle + 1
        state.lowest = min(value, state.lowest)
        if state.idle >= self.patience:
            state.eta0 /= ADAPTIVE_FACTOR
            state.idle, state.lowest = 0, value  # a lucky epoch with large steps is no measure for small ones


def _fresh_numbers() -> Float:
    numbers = np.zeros(NUMBERS)
    numbers[BEST] = math.inf
    return numbers


@dataclass
class SGDState(State):
    """The coefficients are ``scale * shrunk(theta, level)``, the intercept is ``beta`` times its column."""

    theta: Float
    beta: float
    order: Index
    random: Array
    recent: Window  # since the last power of two of epochs
    earlier: Window  # since the one before
    eta0: float = 1.0
    first_eta0: float = 1.0
    t: int = 0
    scale: float = 1.0
    level: float = 0.0
    lowest: float = math.inf  # objective seen so far, and the epochs without progress since
    idle: int = 0
    found: Point | None = None  # at the end of the last round, if the solver looked; its values are the estimates
    look_passes: float = 0.0
    mean: Float = field(default_factory=lambda: np.empty(0))  # that weighs later points more, if there is one
    numbers: Float = field(default_factory=_fresh_numbers)  # of `descend`

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing to learn from, the objective no longer falls, or an adaptive rate is at rest."""
        at_rest = self.eta0 < SMALLEST_STEP * self.first_eta0 or bool(self.numbers[SETTLED])
        return self.order.size == 0 or at_rest

    @property
    def at_rest(self) -> Status:
        """Why there is nothing to go on with."""
        return Status.SETTLED if self.numbers[SETTLED] else Status.STALLED

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data and the present factor of the step."""
        return {"passes": self.passes, "eta0": self.eta0}

    @property
    def certificate_passes(self) -> float:
        """Of a look, and of the certificate."""
        return 2.0 + LOOK_PASSES

    def coefficients(self) -> Float:
        """Where the path has come to."""
        shrunk = np.maximum(np.abs(self.theta) - self.level, 0.0)
        return np.asarray(self.scale * np.copysign(shrunk, self.theta) + 0.0)  # adding zero turns -0 into 0

    def is_tame(self) -> bool:
        """Whether nothing has overflown, or is about to."""
        largest = float(np.abs(self.theta).max(initial=0.0))
        return largest <= LARGEST and abs(self.beta) <= LARGEST and self.level < math.inf  # false for NaN

    def begin_window(self) -> None:
        """Start a new stretch of the average. Sets: ``recent, earlier, theta, scale, level``.

        The thresholds start anew as well: a coefficient that has to leave zero late would otherwise have to make up
        for all that the penalty has held back since the beginning.
        """
        self.earlier, self.recent = self.recent, self.recent.next()
        self.theta, self.scale, self.level = self.coefficients(), 1.0, 0.0
