"""Stochastic subgradient descent for linear models, every loss and every penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from maxmargin._jit import compiled, compiled_methods
from maxmargin.numerics.sampling import below, shuffle
from maxmargin.operators import Rows
from maxmargin.operators.rows import DenseVectors, add_four, four_products
from maxmargin.parts.penalties import L1, L2, ElasticNet
from maxmargin.problems.point import Point
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Array, Float, Index
from maxmargin.solvers.solver import Needs, Solver, State

ROUND_WORK = 2_000_000  # multiplications per round: a few milliseconds
CYCLIC, PERMUTATION, UNIFORM = 0, 1, 2
ORDERS = {"cyclic": CYCLIC, "permutation": PERMUTATION, "uniform": UNIFORM}
LEARNING_RATES = ("optimal", "invscaling", "constant", "adaptive")
PROBE_SAMPLES, PROBE_PASSES, PROBE_FACTOR, PROBE_TRIALS = 1000, 2, 4.0, 40
SNAPSHOT_WORK = 16  # steps that do as much work as one snapshot of the coefficients, between two of them
ADAPTIVE_FACTOR = 5.0
SMALLEST_SCALE = 1e-9
STRETCH = 512  # steps that are prepared at a time: what is known of them stays in the nearest caches
NEVER = 2**62
GAIN, VISITS = 0, 1  # columns of what a window has seen of the samples
LARGEST = 1e100
GOLDEN_STEPS, BRACKET_STEPS, FALSI_STEPS = 5, 20, 8
LOOK_PASSES, LOOK_SHARE = 10.0, 0.2  # of a look at the point, over the data; of the work that looks may be
SMALLEST_STEP = 1e-15  # of the first one: below it, an adaptive rate has come to rest


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
    for 4000 steps on up to 1000 samples. The L1 part is cumulative: ``w = a shrunk(theta, u)``, where ``theta`` sums
    the gradient steps and ``u`` the thresholds ``eta lam ratio / m`` since the last power of two of epochs, both in
    units of the scale ``a`` that the L2 part leaves. So a step touches the nonzeros of one row only, and noise does not
    lift a coefficient from zero. Where a loss has unbounded slopes, a step that would overshoot becomes the implicit
    one, ``w <- argmin f_i(w) + |w - w_t|^2 / (2 eta)``, which cannot diverge. The point is the average over the last
    half to three quarters of the path (``average=None``: unless there is an L1 part, whose zeros it would blur), its
    dual variables lie between the slopes at it, their averages along the path, and zero, where the dual is largest.

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
    average: bool | None = None
    seed: int = 0

    name: ClassVar[str] = "sgd"
    needs: ClassVar[Needs] = Needs("rows")

    def __post_init__(self) -> None:
        if self.order not in ORDERS:
            raise ValueError(f"order={self.order!r} is unknown; choose one of {', '.join(map(repr, ORDERS))}.")
        if self.learning_rate not in LEARNING_RATES:
            known = ", ".join(map(repr, LEARNING_RATES))
            raise ValueError(f"learning_rate={self.learning_rate!r} is unknown; choose one of {known}.")
        if self.eta0 is not None and not 0.0 < self.eta0 < math.inf:
            raise ValueError(f"eta0={self.eta0!r} is no step; give a positive number, or None to have it probed.")

    def supports(self, problem: object) -> str | None:
        """``None``, or why not."""
        if (reason := super().supports(problem)) is not None:
            return reason
        assert isinstance(problem, Problem)
        if not isinstance(problem.penalty, (L1, L2, ElasticNet)):
            return f"it needs an L1, L2 or elastic net penalty; this problem has {type(problem.penalty).__name__}"
        return None

    def start(self, problem: Problem, warm: Point | None) -> SGDState:
        """Zero, or the coefficients of a point; and the first step, if it is to be probed."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        state = SGDState(
            theta=np.zeros(rows.n_features),
            beta=0.0,
            order=np.flatnonzero(problem.s > 0.0),
            random=np.array([self.seed], dtype=np.uint64),
            recent=Window.empty(rows.n_features, rows.n_samples),
            earlier=Window.empty(rows.n_features, rows.n_samples),
        )
        if warm is not None:
            state.theta = warm.w.astype(np.float64)
            height = _intercept_height(problem)
            state.beta = warm.b / height if height > 0.0 else 0.0
        state.eta0 = self._probed_step(problem, state) if self.eta0 is None else float(self.eta0)
        state.first_eta0 = state.eta0
        state.passes = 1.0
        return state

    def carry_on(self, problem: Problem, state: SGDState) -> SGDState:
        """The state of one problem as the beginning of another, over fresh samples: coefficients, step and average."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        n = rows.n_samples

        def renewed(window: Window) -> Window:
            total = window.total.copy()
            return replace(window, total=total, seen=np.zeros((n, 2), dtype=np.float32))

        return replace(
            state,
            theta=state.theta.copy(),  # the earlier state stays as it is, if something fails
            random=state.random.copy(),
            order=np.flatnonzero(problem.s > 0.0),
            recent=renewed(state.recent),
            earlier=renewed(state.earlier),
            found=None,
        )

    def advance(self, problem: Problem, state: SGDState, limit: int) -> SGDState:
        """Some epochs, up to the next power of two, where a new stretch of the average begins."""
        done = state.iterations
        entries = max(1, problem.operator.vectors[0].size)  # type: ignore[attr-defined]
        epochs = min(max(ROUND_WORK // entries, 1), 2 ** done.bit_length() - done, limit)
        self._move(problem, state, 1 if self.learning_rate == "adaptive" else epochs)
        state.found = None
        at_power_of_two = state.iterations & (state.iterations - 1) == 0
        if at_power_of_two or state.look_passes + LOOK_PASSES <= LOOK_SHARE * state.passes:
            state.found = self._found(problem, state)
            state.look_passes += LOOK_PASSES
            state.passes += LOOK_PASSES
        return state

    def learn(self, problem: Problem, state: SGDState) -> SGDState:
        """One pass over the samples of a stream, without a look at where it led: of their slopes, no sums are kept."""
        state.recent.seen = state.earlier.seen = np.zeros((0, 2), dtype=np.float32)
        self._move(problem, state, 1)
        return state

    def _move(self, problem: Problem, state: SGDState, epochs: int) -> None:
        """Sets: everything in the state that moves."""
        if state.iterations & (state.iterations - 1) == 0:
            state.begin_window()
        before = replace(state, theta=state.theta.copy())
        self._run(problem, state, self._recipe(problem, state), epochs)
        state.iterations += epochs
        state.passes += epochs
        if not state.is_tame():  # steps far too large: back, with smaller ones
            state.theta, state.scale, state.level, state.beta = before.theta, before.scale, before.level, before.beta
            state.recent, state.earlier = (Window.empty(*state.recent.sizes) for _ in range(2))
            state.eta0 = state.first_eta0 = min(0.1 * state.eta0, self._probed_step(problem, state))
        elif self.learning_rate == "adaptive":
            self._adapt(problem, state)

    def model(self, problem: Problem, state: SGDState) -> tuple[Float, float]:
        """The coefficients and the intercept that a state stands for: the average, or where the path has come to."""
        w, beta = state.coefficients(), state.beta
        count = state.recent.count + state.earlier.count
        if count > 0:
            w = (state.recent.total + state.earlier.total) / count
            beta = (state.recent.beta_total + state.earlier.beta_total) / count
        return w, _intercept_height(problem) * beta

    def point(self, problem: Problem, state: SGDState) -> Point:
        """The coefficients, a good intercept for them if it is free, and the best dual point at hand."""
        return (state.found or self._found(problem, state)).point

    def _found(self, problem: Problem, state: SGDState) -> Found:
        """Where the path has led."""
        w, b = self.model(problem, state)
        z = problem.operator.apply(w)
        if problem.intercept == "free":
            b = _balancing_intercept(problem, z, b)
        slopes = problem.slopes(z + b)
        best = _candidate(problem, slopes)
        if state.iterations > 0:
            average = _mean_slopes(problem.s, state.recent.seen, state.earlier.seen, slopes)
            best = _best_between(problem, best, _candidate(problem, average))
        primal = problem.losses(z + b) + _penalty(problem, w, b)
        if best.value < 0.5 * primal:  # far away: a part of it may be better
            best = _best_between(problem, _candidate(problem, np.zeros_like(slopes)), best)
        return Found(Point(w, b, best.alpha), primal, best.value)

    def _recipe(self, problem: Problem, state: SGDState) -> Recipe:
        """What the steps of a round have in common."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        m = max(1, state.order.size)
        l1, l2 = _strengths(problem)
        decay, power = {
            "optimal": (problem.lam / m * state.eta0, 1.0),
            "invscaling": (1.0, float(self.power_t)),
            "constant": (0.0, 1.0),
            "adaptive": (0.0, 1.0),
        }[self.learning_rate]
        entries = max(1, rows.vectors[0].size)
        averaged = l1 == 0.0 if self.average is None else self.average
        return Recipe(
            eta0=state.eta0,
            decay=decay,
            power=power,
            l1=l1 / m,
            l2=l2 / m,
            height=_intercept_height(problem),
            l1_b=l1 / m if problem.intercept == "penalised" else 0.0,
            l2_b=l2 / m if problem.intercept == "penalised" else 0.0,
            draw=ORDERS[self.order],
            snapshot=math.ceil(SNAPSHOT_WORK * rows.n_features * rows.n_samples / entries) if averaged else NEVER,
        )

    def _run(self, problem: Problem, state: SGDState, recipe: Recipe, epochs: int) -> None:
        """Sets: everything in the state that moves."""
        rows: Rows = problem.operator  # type: ignore[assignment]
        window = state.recent
        simple = recipe.l1 == 0.0 and problem.intercept != "penalised" and not _is_unbounded(problem.loss)
        walker = (FourAhead if simple and isinstance(rows.vectors, DenseVectors) else InTurn)(rows.vectors)
        state.t, state.scale, state.level, state.beta, beta_total, count = _epochs(
            walker, problem.loss, problem.y, problem.s, recipe, state.order, state.random, epochs, state.t,
            state.theta, state.scale, state.level, state.beta, window.total, window.seen, Stretch.empty(),
        )  # fmt: skip
        window.beta_total += beta_total
        window.count += count

    def _probed_step(self, problem: Problem, state: SGDState) -> float:
        """The first step whose schedule serves best in some passes over a few samples.

        Several passes, and judged like the fit: one alone prefers steps that are too small for ill-conditioned data.
        """
        order = state.order[:: max(1, state.order.size // PROBE_SAMPLES)][:PROBE_SAMPLES]
        height = _intercept_height(problem)
        squares = problem.operator.take(order).squared_lengths()  # type: ignore[attr-defined]
        size = float((problem.s[order] * (squares + height**2)).mean()) if order.size else 0.0
        epochs = math.ceil(PROBE_SAMPLES * PROBE_PASSES / max(1, order.size))

        def value(eta: float) -> float:
            trial = replace(
                state, eta0=eta, order=order.copy(), random=state.random.copy(), theta=state.theta.copy(),
                recent=Window.empty(state.theta.size, problem.s.size),
                earlier=Window.empty(state.theta.size, problem.s.size),
            )  # fmt: skip
            recipe = self._recipe(problem, replace(trial, order=state.order))._replace(draw=PERMUTATION)
            self._run(problem, trial, recipe._replace(snapshot=NEVER), epochs)
            self._run(problem, trial, recipe, epochs)
            return _value(problem, order, *self.model(problem, trial)) if trial.is_tame() else math.inf

        eta = 1.0 / size if size > 0.0 else 1.0
        if order.size == 0:
            return eta
        lowest = value(eta)
        factor = PROBE_FACTOR if value(PROBE_FACTOR * eta) < lowest else 1.0 / PROBE_FACTOR
        for _ in range(PROBE_TRIALS):
            found = value(factor * eta)
            if not found < lowest:
                break
            eta, lowest = factor * eta, found
        return eta

    def _adapt(self, problem: Problem, state: SGDState) -> None:
        """Divide the step if the last epochs brought no progress. Sets: ``eta0, lowest, idle, passes``."""
        b = _intercept_height(problem) * state.beta
        value = _value(problem, state.order, state.coefficients(), b)
        state.passes += 1.0
        state.idle = 0 if value < state.lowest else state.idle + 1
        state.lowest = min(value, state.lowest)
        if state.idle >= self.patience:
            state.eta0 /= ADAPTIVE_FACTOR
            state.idle, state.lowest = 0, value  # a lucky epoch with large steps is no measure for small ones


class Found(NamedTuple):
    """A point of the path and its values."""

    point: Point
    primal: float
    dual: float


class Candidate(NamedTuple):
    """A dual feasible point, its product ``X^T alpha`` (with the column of a penalised intercept), and its value."""

    alpha: Float
    product: Float
    value: float


class Recipe(NamedTuple):
    """What is the same in every step of a round."""

    eta0: float
    decay: float
    power: float
    l1: float  # strengths per sample
    l2: float
    height: float  # of the column whose coefficient is the intercept; 0 if there is none
    l1_b: float
    l2_b: float
    draw: int
    snapshot: int  # steps between two additions to the average


@dataclass
class Window:
    """Sums over a part of the path: of coefficients, and of the slopes at each visit of a sample."""

    total: Float
    beta_total: float
    count: int
    seen: Array  # sum of -slope and number of visits of each sample; in float32, since a pass is bound by memory

    @classmethod
    def empty(cls, d: int, n: int) -> Window:
        """A part that has not begun."""
        return cls(np.zeros(d), 0.0, 0, np.zeros((n, 2), dtype=np.float32))

    @property
    def sizes(self) -> tuple[int, int]:
        """Number of coefficients, and of samples whose slopes are summed."""
        return self.total.size, self.seen.shape[0]


@dataclass
class SGDState(State):
    """The coefficients are ``scale * shrunk(theta, level)``, the intercept is ``beta`` times the column's height."""

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
    found: Found | None = None  # at the end of the last round, if the solver looked
    look_passes: float = 0.0
    certificate_passes: float = field(default=2.0 + LOOK_PASSES, init=False)

    @property
    def estimate(self) -> tuple[float, float]:
        """Primal and dual value, if the solver looked."""
        return (self.found.primal, self.found.dual) if self.found else (math.inf, -math.inf)

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing to learn from, or an adaptive rate has come to rest."""
        return self.order.size == 0 or self.eta0 < SMALLEST_STEP * self.first_eta0

    @property
    def counters(self) -> dict[str, float]:
        """Passes over the data and the present factor of the step."""
        return {"passes": self.passes, "eta0": self.eta0}

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
        self.earlier, self.recent = self.recent, Window.empty(*self.recent.sizes)
        self.theta, self.scale, self.level = self.coefficients(), 1.0, 0.0


def _strengths(problem: Problem) -> tuple[float, float]:
    """Strength of ``|w|_1`` and of ``|w|^2 / 2``."""
    penalty = problem.penalty
    ratio = penalty.ratio if isinstance(penalty, ElasticNet) else float(isinstance(penalty, L1))
    return problem.lam * ratio, problem.lam * (1.0 - ratio)


def _value(problem: Problem, samples: Index, w: Float, b: float) -> float:
    """Mean loss over some samples, and the penalty per sample."""
    vectors = problem.operator.vectors  # type: ignore[attr-defined]
    total = _loss_over(vectors, problem.loss, problem.y, problem.s, samples, w, b)
    return total / max(1, samples.size) + _penalty(problem, w, b) / max(1, int(np.count_nonzero(problem.s)))


def _penalty(problem: Problem, w: Float, b: float) -> float:
    l1, l2 = _strengths(problem)
    if problem.intercept == "penalised":
        w = np.append(w, b / problem.intercept_scale)
    return l1 * float(np.abs(w).sum()) + 0.5 * l2 * float(w @ w)


def _candidate(problem: Problem, alpha: Float) -> Candidate:
    """A dual feasible point near ``alpha``."""
    alpha = problem.feasible(alpha)
    product = problem.operator.adjoint(alpha)
    if problem.intercept == "penalised":
        product = np.append(product, problem.intercept_scale * alpha.sum())
    return Candidate(alpha, product, -problem.conjugates(alpha) - _conjugate(problem, product))


def _conjugate(problem: Problem, v: Float) -> float:
    """``penalty*(v)`` in its domain."""
    l1, l2 = _strengths(problem)
    return 0.5 * float((np.maximum(np.abs(v) - l1, 0.0) ** 2).sum()) / l2 if l2 > 0.0 else 0.0


def _best_between(problem: Problem, first: Candidate, second: Candidate) -> Candidate:
    """The point of the largest dual value between two, by golden section."""
    sums = problem.loss, problem.y, problem.s, first.alpha, second.alpha
    step = second.product - first.product

    def value(share: float) -> float:
        return -float(_conjugates_between(*sums, share)) - _conjugate(problem, first.product + share * step)

    values = {0.0: first.value, 1.0: second.value}
    left, right, golden = 0.0, 1.0, 0.5 * (math.sqrt(5.0) - 1.0)
    for _ in range(GOLDEN_STEPS):
        inner = right - golden * (right - left), left + golden * (right - left)
        for share in inner:
            if share not in values:
                values[share] = value(share)
        left, right = (left, inner[1]) if values[inner[0]] >= values[inner[1]] else (inner[0], right)
    share = max(values, key=lambda share: values[share])
    return Candidate(_points_between(*sums, share), first.product + share * step, values[share])


def _balancing_intercept(problem: Problem, z: Float, b: float) -> float:
    """A free intercept near ``b`` at which the slopes nearly balance, by regula falsi.

    `Problem.best_intercept` is exact, but takes a hundred times a sum over the samples, as long as some epochs.
    """

    def pull(b: float) -> float:
        return float(_sum_of_slopes(problem.loss, z, b, problem.y, problem.s))  # falls as b grows

    ends, pulls = [b, b], [pull(b), 0.0]
    step = math.copysign(1e-3 * (1.0 + abs(b)), pulls[0])
    for _ in range(BRACKET_STEPS):
        if pulls[0] == 0.0:
            return b
        ends[1] = ends[0] + step
        pulls[1] = pull(ends[1])
        if pulls[1] * pulls[0] <= 0.0:
            break
        ends[0], pulls[0], step = ends[1], pulls[1], 4.0 * step
    for _ in range(FALSI_STEPS):
        if pulls[0] == pulls[1] or ends[0] == ends[1]:
            break
        b = ends[0] - pulls[0] * (ends[1] - ends[0]) / (pulls[1] - pulls[0])
        found = pull(b)
        if found * pulls[1] <= 0.0:
            ends[0], pulls[0] = ends[1], pulls[1]
        else:
            pulls[0] *= 0.5  # Illinois: an end that stays must not hold the others back
        ends[1], pulls[1] = b, found
    return ends[1] if abs(pulls[1]) <= abs(pulls[0]) else ends[0]


def _intercept_height(problem: Problem) -> float:
    return {"free": 1.0, "penalised": problem.intercept_scale, None: 0.0}[problem.intercept]


class Stretch(NamedTuple):
    """Some steps to come: what is known of them beforehand, and the slopes that they will find."""

    samples: Index
    y: Float
    s: Float
    eta: Float
    unit: Float  # what a slope of -1 adds to ``theta``, as a multiple of the row
    scale: Float  # before each step, and after the last
    level: Float  # likewise
    slopes: Float

    @classmethod
    def empty(cls) -> Stretch:
        """Room for the steps of a stretch."""
        numbers = [np.zeros(STRETCH + 1) for _ in cls._fields[1:]]
        return cls(np.empty(STRETCH, dtype=np.int64), *numbers)


@compiled_methods
class InTurn(NamedTuple):
    """One step after the other, as the method is written."""

    vectors: Any

    def walk(
        self, loss: Any, recipe: Recipe, stretch: Stretch, first: int, count: int, theta: Float, beta: float,
        left: int, total: Float,
    ) -> tuple[float, int, float, int]:  # fmt: skip
        """Steps of a stretch from ``first`` on, the next snapshot after ``left`` of them.

        Returns the next ``beta`` and ``left``, and the sum of ``beta`` over the snapshots and their number. Sets:
        ``theta, stretch.slopes, total``.
        """
        vectors, samples, y, s, eta = self.vectors, stretch.samples, stretch.y, stretch.s, stretch.eta
        unit, scale, level, slopes = stretch.unit, stretch.scale, stretch.level, stretch.slopes
        h, beta_total, snapshots = recipe.height, 0.0, 0
        for k in range(first, count):
            i = samples[k]
            inner = vectors.dot_shrunk(i, level[k], theta) if recipe.l1 > 0.0 else vectors.dot(i, theta)
            z = scale[k] * inner + h * beta
            g = loss.slope(z, y[k])
            if _is_unbounded(loss):
                implicit = -loss.dual_step(0.0, y[k], s[k], z, eta[k] * (vectors.squared_length(i) + h * h)) / s[k]
                g = implicit if abs(g) > 2.0 * abs(implicit) else g
            slopes[k] = g
            if g != 0.0:
                vectors.add(i, -unit[k] * g, theta)
            moved = beta - eta[k] * s[k] * g * h
            beta = _shrunk(moved, eta[k] * recipe.l1_b) / (1.0 + eta[k] * recipe.l2_b)
            left -= 1
            if left == 0:
                for j in range(theta.shape[0]):
                    total[j] += scale[k + 1] * _shrunk(theta[j], level[k + 1])
                beta_total += beta
                snapshots += 1
                left = recipe.snapshot
        return beta, left, beta_total, snapshots


@compiled_methods
class FourAhead(NamedTuple):
    """The same steps on dense rows, for losses of bounded slope and a penalty without L1 part and intercept.

    A step has to wait for the one before, which is a chain of about thirty instructions. But four of them need only
    the products of their rows with the present ``theta`` and with each other, and these wait for nothing: how the
    first steps change the scores of the next follows by a multiplication.
    """

    vectors: Any

    def walk(
        self, loss: Any, recipe: Recipe, stretch: Stretch, first: int, count: int, theta: Float, beta: float,
        left: int, total: Float,
    ) -> tuple[float, int, float, int]:  # fmt: skip
        """As `InTurn.walk`, with ``first`` zero; a snapshot may have to wait for the other steps of its four."""
        X, samples, y = self.vectors.X, stretch.samples, stretch.y
        unit, scale, slopes = stretch.unit, stretch.scale, stretch.slopes
        h, beta_total, snapshots = recipe.height, 0.0, 0
        for group in range(count // 4):
            k = 4 * group
            i0, i1, i2, i3 = samples[k], samples[k + 1], samples[k + 2], samples[k + 3]
            a0, a1, a2, a3 = scale[k], scale[k + 1], scale[k + 2], scale[k + 3]
            u0, u1, u2, u3 = unit[k], unit[k + 1], unit[k + 2], unit[k + 3]
            b0, b1, b2, b3 = h * a0 * u0, h * a1 * u1, h * a2 * u2, h * a3 * u3  # what a slope of -1 adds to beta
            z0, z1, z2, z3, x01, x02, x03, x12, x13, x23 = four_products(X, i0, i1, i2, i3, theta)
            z0, z1, z2, z3 = a0 * z0 + h * beta, a1 * z1 + h * beta, a2 * z2 + h * beta, a3 * z3 + h * beta
            g0 = loss.slope(z0, y[k])
            g1 = loss.slope(z1 - g0 * (a1 * u0 * x01 + h * b0), y[k + 1])
            z2 -= g0 * (a2 * u0 * x02 + h * b0)
            g2 = loss.slope(z2 - g1 * (a2 * u1 * x12 + h * b1), y[k + 2])
            z3 -= g0 * (a3 * u0 * x03 + h * b0) + g1 * (a3 * u1 * x13 + h * b1)
            g3 = loss.slope(z3 - g2 * (a3 * u2 * x23 + h * b2), y[k + 3])
            add_four(X, i0, i1, i2, i3, -u0 * g0, -u1 * g1, -u2 * g2, -u3 * g3, theta)
            slopes[k], slopes[k + 1], slopes[k + 2], slopes[k + 3] = g0, g1, g2, g3
            beta -= (b0 * g0 + b1 * g1) + (b2 * g2 + b3 * g3)
            left -= 4
            if left <= 0:
                for j in range(theta.shape[0]):
                    total[j] += scale[k + 4] * theta[j]
                beta_total += beta
                snapshots += 1
                left = recipe.snapshot
        beta, left, beta_rest, rest = InTurn(self.vectors).walk(
            loss, recipe, stretch, count - count % 4, count, theta, beta, left, total
        )
        return beta, left, beta_total + beta_rest, snapshots + rest


@compiled
def _epochs(
    walker: Any, loss: Any, y: Float, s: Float, recipe: Recipe, order: Index, random: Array, epochs: int, t: int,
    theta: Float, scale: float, level: float, beta: float, total: Float, seen: Array, stretch: Stretch,
) -> tuple[int, float, float, float, float, int]:  # fmt: skip
    """Steps over the samples of ``order``; the coefficients are ``scale * shrunk(theta, level)`` before and after.

    Sets: ``order, random, theta, total, seen, stretch``.
    """
    m = order.shape[0]
    beta_total, snapshots, left = 0.0, 0, recipe.snapshot - t % recipe.snapshot
    for _ in range(epochs):
        if recipe.draw == PERMUTATION:
            shuffle(order, 0, m, random)
        done = 0
        while done < m:
            count = _prepare(recipe, y, s, order, done, random, t, scale, level, stretch)
            if recipe.draw != CYCLIC:
                for k in range(count):
                    walker.vectors.approach(stretch.samples[k])
            beta, left, more, new = walker.walk(loss, recipe, stretch, 0, count, theta, beta, left, total)
            beta_total += more
            snapshots += new
            if seen.shape[0] > 0:
                _record(stretch, count, seen)
            t += count
            done += count
            scale, level = stretch.scale[count], stretch.level[count]
            if scale < SMALLEST_SCALE:
                for j in range(theta.shape[0]):
                    theta[j] *= scale
                level *= scale
                scale = 1.0
    return t, scale, level, beta, beta_total, snapshots


@compiled
def _record(stretch: Stretch, count: int, seen: Array) -> None:
    """Sets: ``seen``."""
    samples, slopes = stretch.samples, stretch.slopes
    for k in range(count):
        seen[samples[k], GAIN] -= slopes[k]
        seen[samples[k], VISITS] += 1.0


@compiled
def _prepare(
    recipe: Recipe, y: Float, s: Float, order: Index, first: int, random: Array, t: int, scale: float, level: float,
    stretch: Stretch,
) -> int:  # fmt: skip
    """Draw the samples of the next steps and follow the schedule until the scale is too small; return their number.

    Nothing here waits for a step, so that memory and divisions are not waited for there. Sets: ``random, stretch``.
    """
    samples, eta, unit, scales, levels = stretch.samples, stretch.eta, stretch.unit, stretch.scale, stretch.level
    targets, weights = stretch.y, stretch.s
    m = order.shape[0]
    count = min(STRETCH, m - first)
    if recipe.power == 1.0:
        for k in range(count):
            eta[k] = recipe.eta0 / (1.0 + recipe.decay * (t + k))
    else:
        for k in range(count):
            eta[k] = recipe.eta0 / (1.0 + recipe.decay * (t + k)) ** recipe.power
    inverse = 1.0 / scale
    for k in range(count):
        unit[k] = inverse
        inverse *= 1.0 + eta[k] * recipe.l2
        if inverse > 1.0 / SMALLEST_SCALE:
            count = k + 1
            break
    for k in range(count):
        scales[k] = 1.0 / unit[k]
    scales[count] = 1.0 / inverse
    for k in range(count if recipe.l1 > 0.0 else 0):  # without an L1 part they stay zero
        levels[k], levels[k + 1] = level, level + eta[k] * recipe.l1 * unit[k]
        level = levels[k + 1]
    if recipe.draw == CYCLIC and m == y.shape[0]:  # all of them lie side by side
        next_y, next_s = y[first : first + count], s[first : first + count]
        for k in range(count):
            samples[k], targets[k], weights[k] = first + k, next_y[k], next_s[k]
    else:
        for k in range(count):
            i = order[below(m, random)] if recipe.draw == UNIFORM else order[first + k]
            samples[k], targets[k], weights[k] = i, y[i], s[i]
    for k in range(count):
        unit[k] *= eta[k] * weights[k]
    return count


@compiled
def _is_unbounded(loss: Any) -> bool:
    """Whether there is no bound on the slopes."""
    low, high = loss.dual_range(1.0)
    return math.isinf(high - low)


@compiled
def _mean_slopes(s: Float, recent: Array, earlier: Array, alpha: Float) -> Float:
    """``-s_i slope`` in the mean over the visits of each sample that was seen; ``alpha_i`` of the others."""
    out = alpha.copy()
    for i in range(recent.shape[0]):
        visits = recent[i, VISITS] + earlier[i, VISITS]
        if visits > 0.0:
            out[i] = s[i] * (np.float64(recent[i, GAIN]) + earlier[i, GAIN]) / visits
    return out


@compiled
def _sum_of_slopes(loss: Any, z: Float, b: float, y: Float, s: Float) -> float:
    total = 0.0
    for i in range(z.shape[0]):
        total -= s[i] * loss.slope(z[i] + b, y[i])
    return total


@compiled
def _conjugates_between(loss: Any, y: Float, s: Float, first: Float, second: Float, share: float) -> float:
    """``sum_i s_i loss*(-alpha_i / s_i, y_i)`` between two dual feasible points."""
    total = 0.0
    for i in range(y.shape[0]):
        if s[i] > 0.0:
            total += s[i] * loss.conjugate(-_between(loss, y[i], first[i] / s[i], second[i] / s[i], share), y[i])
    return total


@compiled
def _points_between(loss: Any, y: Float, s: Float, first: Float, second: Float, share: float) -> Float:
    out = np.zeros(y.shape[0])
    for i in range(y.shape[0]):
        if s[i] > 0.0:
            out[i] = s[i] * _between(loss, y[i], first[i] / s[i], second[i] / s[i], share)
    return out


@compiled
def _between(loss: Any, y: float, first: float, second: float, share: float) -> float:
    """Dual variables per weight: rounding must not leave their range."""
    low, high = loss.dual_range(y)
    return min(max(first + share * (second - first), low), high)


@compiled
def _loss_over(vectors: Any, loss: Any, y: Float, s: Float, samples: Index, w: Float, b: float) -> float:
    total = 0.0
    for k in range(samples.shape[0]):
        i = samples[k]
        total += s[i] * loss.value(vectors.dot(i, w) + b, y[i])
    return total


@compiled
def _shrunk(v: float, level: float) -> float:
    """``v`` moved towards zero by ``level``."""
    return math.copysign(max(abs(v) - level, 0.0), v)
