"""The loop: it believes no solver, keeps the best point, stops when told to, and says the truth about it."""

import io
import math
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass, field, fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import clocks
import referee
import zoo
from maxmargin import SVC, Point, Problem, Record, Status, _jit, minimize
from maxmargin.loop.interrupts import Interrupts
from maxmargin.loop.minimize import HISTORY_LENGTH
from maxmargin.loop.progress import ProgressLine
from maxmargin.operators import KernelGram, PrecomputedGram, Rows
from maxmargin.parts.losses import Hinge
from maxmargin.parts.penalties import L2
from maxmargin.problems.point import Certificate
from maxmargin.solvers import SMO, Decomposition, DualCoordinate, Solver
from maxmargin.threads import Workers, go_on

CASE = zoo.machine("small", *zoo.blobs(30, 3, seed=0, apart=0.5))
PROBLEM = CASE.build()
SOLUTION = minimize(PROBLEM, DualCoordinate(), tol=1e-12)
ZERO = Point(np.zeros(3), 0.0, np.zeros(30))


def worse(amount):
    """A point on the way from the optimum to zero."""
    best = SOLUTION.point
    return Point((1.0 - amount) * best.w, best.b, (1.0 - amount) * best.alpha)


def true_gap(point):
    description = CASE.describe()
    return referee.judge(description, point.w, point.b, referee.repaired(description, point.alpha)).relative_gap


@dataclass
class FakeState:
    rounds: int = 0
    iterations: int = 0
    estimate: tuple = (math.inf, -math.inf)
    exhausted: bool = False
    counters: dict = field(default_factory=lambda: {"passes": 0.0})
    certificate_passes: float = 2.0
    keeps_its_point: bool = False
    at_rest: Status = Status.STALLED
    untried: bool = False
    effort: float = 0.0


@dataclass
class Fake(Solver):
    """A solver that follows a script: ``points(round)`` and ``estimates(round)``."""

    points: object
    estimates: object = lambda rounds: (math.inf, -math.inf)
    step: int = 1
    passes: float = 0.0  # per round
    exhausted: object = lambda rounds: False
    before: object = lambda rounds: None

    name = "fake"

    def supports(self, problem):
        return None

    def start(self, problem, warm):
        return FakeState()

    def advance(self, problem, state, limit):
        self.before(state.rounds + 1)
        rounds = state.rounds + 1
        counters = {"passes": state.counters["passes"] + self.passes}
        iterations = state.iterations + min(self.step, limit)
        return FakeState(rounds, iterations, self.estimates(rounds), self.exhausted(rounds), counters)

    def point(self, problem, state):
        return self.points(state.rounds)


# ---- liars -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("estimate", [(1.0, 1.0), (0.0, 0.0), (-5.0, 7.0), (1.0, 1.0 - 1e-9)])
def test_a_solver_that_claims_to_be_done_is_not_believed(estimate):
    solution = minimize(PROBLEM, Fake(lambda rounds: ZERO, lambda rounds: estimate))
    assert solution.status is Status.STALLED
    assert solution.certificate.relative_gap == pytest.approx(true_gap(ZERO))
    assert solution.certificate.relative_gap > 0.5


def test_a_solver_that_says_it_cannot_go_on_is_not_believed_to_be_done():
    solution = minimize(PROBLEM, Fake(lambda rounds: worse(0.3), exhausted=lambda rounds: rounds == 2))
    assert solution.status is Status.STALLED
    assert solution.iterations == 2
    assert solution.certificate.relative_gap == pytest.approx(true_gap(worse(0.3)))


@pytest.mark.parametrize("step", [0, 1])
def test_a_solver_that_never_progresses_is_stopped(step):
    solution = minimize(PROBLEM, Fake(lambda rounds: worse(0.3), lambda rounds: (1.0, 0.5), step=step))
    assert solution.status is Status.STALLED
    assert solution.certificate.relative_gap == pytest.approx(true_gap(worse(0.3)))


def test_a_solver_whose_estimates_improve_for_ever_is_stopped():
    solution = minimize(PROBLEM, Fake(lambda rounds: worse(0.3), lambda rounds: (1.0, 1.0 - 1e-5 - 0.99**rounds)))
    assert solution.status is Status.STALLED
    assert solution.certificate.relative_gap == pytest.approx(true_gap(worse(0.3)))


def with_nan(part):
    best = SOLUTION.point
    return {
        "w": Point(best.w * np.nan, best.b, best.alpha),
        "one coefficient": Point(np.where(np.arange(3) == 1, np.nan, best.w), best.b, best.alpha),
        "b": Point(best.w, math.nan, best.alpha),
        "b at zero": Point(np.zeros(3), math.nan, np.zeros(30)),
        "infinite w": Point(best.w * np.inf, best.b, best.alpha),
        "infinite b": Point(best.w, math.inf, best.alpha),
        "alpha": Point(best.w, best.b, best.alpha * np.nan),
        "everything": Point(best.w * np.nan, math.nan, best.alpha * np.nan),
    }[part]


NAN_PARTS = ["w", "one coefficient", "b", "b at zero", "infinite w", "infinite b", "alpha", "everything"]


@pytest.mark.parametrize("part", NAN_PARTS)
@pytest.mark.parametrize("from_round", [0, 3])
def test_coefficients_that_are_not_numbers_are_caught(part, from_round):
    bad = with_nan(part)
    solver = Fake(lambda rounds: bad if rounds >= from_round else worse(0.3), lambda rounds: (1.0, 1.0))
    try:
        solution = minimize(PROBLEM, solver, max_iter=2000)
    except FloatingPointError:
        return
    assert solution.status is not Status.CONVERGED
    assert solution.certificate.relative_gap > 0.01


def test_the_best_point_survives_a_solver_that_overflows():
    """Coordinate ascent on a kernel that is not convex runs away, until nothing that it has is a number."""
    X, y = np.array([[-0.2, -1.3], [-0.2, 0.4], [1.0, -0.3]]), [0, 1, 0]
    model = SVC(
        kernel="poly", coef0=-1.0, class_weight={0: 1e6, 1: 0.01}, loss="squared_hinge", intercept=None,
        solver="kernel_coordinate",
    )  # fmt: skip
    with pytest.warns(ConvergenceWarning, match="not positive semi-definite"):
        model.fit(X, y)
    assert model.status_ is Status.NOT_CONVEX
    assert model.objective_ <= 2000000.01  # that of zero


@pytest.mark.parametrize("part", ["infinite w", "infinite b"])
def test_a_solver_that_never_leaves_infinity_is_stopped(part):
    """A gap of infinity that stays infinite is no progress."""
    solution = minimize(
        PROBLEM, Fake(lambda rounds: with_nan(part), lambda rounds: (math.inf, -math.inf)), max_iter=2000
    )
    assert solution.status is Status.STALLED


def test_an_indefinite_kernel_cannot_be_used_to_lie():
    """Without weak duality a primal value far below the dual value is no proof of anything."""
    y = np.array([1.0, -1.0, 1.0, -1.0])
    problem = Problem(PrecomputedGram(-np.eye(4)), y, Hinge(), L2(1.0), np.ones(4))
    solver = Fake(lambda rounds: Point(np.full(4, 100.0), 0.0, np.zeros(4)), lambda rounds: (1.0, 1.0))
    assert minimize(problem, solver).status is not Status.CONVERGED


def test_a_solver_without_estimates_is_judged_before_it_is_given_up():
    """It progresses all the time and never says so; the loop must not return its first point."""
    solution = minimize(PROBLEM, Fake(lambda rounds: worse(1.0 / (1.0 + rounds))), tol=1e-9)
    assert solution.status is Status.STALLED
    assert solution.certificate.relative_gap <= 1.1 * true_gap(worse(1.0 / (1.0 + solution.iterations)))


# ---- what is kept ----------------------------------------------------------------------------------------------------


def test_the_best_point_is_kept():
    solver = Fake(lambda rounds: worse(0.05 if rounds == 2 else 0.6), lambda rounds: (1.0, 1.0))
    solution = minimize(PROBLEM, solver, max_iter=9)
    assert solution.status is Status.MAX_ITER
    assert solution.iterations == 9
    np.testing.assert_array_equal(solution.point.w, worse(0.05).w)
    assert solution.certificate.relative_gap == pytest.approx(true_gap(worse(0.05)))


def test_a_point_is_kept_though_its_relative_gap_is_above_one():
    # A dual value of -4e11 hid a primal value of 1000: the relative gap of nothing was 1, that of a good point 1.001,
    # and nothing was returned. The two values are judged by themselves.
    far = Point(np.zeros(3), 0.0, 1e3 * SOLUTION.point.alpha)
    near = Point(SOLUTION.point.w, SOLUTION.point.b, 5.0 * SOLUTION.point.alpha)
    case = zoo.machine("small", *zoo.blobs(30, 3, seed=0, apart=0.5), loss=("squared hinge", 1.0))
    solution = minimize(case.build(), Fake(lambda rounds: near if rounds else far), max_iter=1)
    verdict = referee.judge(case.describe(), near.w, near.b, near.alpha)
    assert verdict.dual < 0.0 < verdict.primal
    assert np.array_equal(solution.point.w, near.w)
    assert solution.certificate.primal == pytest.approx(verdict.primal)
    assert solution.certificate.dual == pytest.approx(verdict.dual)


def test_a_falling_gap_is_progress_though_the_relative_one_stays_above_one():
    # The relative gap of (1, -1e9) is 1, that of (1, -1) is 2: by that measure nothing had been gained on the way.
    solver = Fake(lambda rounds: worse(0.3), lambda rounds: (1.0, -1e9 * 0.95**rounds))
    assert minimize(PROBLEM, solver, max_iter=300).status is Status.MAX_ITER


def test_the_last_point_is_judged_at_the_iteration_limit():
    solution = minimize(PROBLEM, Fake(lambda rounds: worse(0.5**rounds)), max_iter=7)
    np.testing.assert_array_equal(solution.point.w, worse(0.5**7).w)


def test_a_perfect_start_needs_no_rounds():
    solution = minimize(PROBLEM, Fake(lambda rounds: SOLUTION.point))
    assert (solution.status, solution.iterations) == (Status.CONVERGED, 0)


class Quick(Fake):
    """Its start is not worth a certificate."""

    def start(self, problem, warm):
        return FakeState(untried=True)


def test_a_start_that_is_not_worth_it_has_no_certificate():
    solution = minimize(PROBLEM, Quick(lambda rounds: SOLUTION.point if rounds else ZERO))
    assert (solution.status, solution.iterations) == (Status.CONVERGED, 1)
    assert [record.iterations for record in solution.history] == [1]


@pytest.mark.parametrize("limits", [{"max_iter": 0}, {"max_iter": 1}, {"max_time": 0.0}])
def test_without_time_for_anything_else_such_a_start_is_certified(limits):
    solution = minimize(PROBLEM, Quick(lambda rounds: ZERO), **limits)
    assert solution.status in (Status.MAX_ITER, Status.MAX_TIME)
    assert solution.certificate == PROBLEM.certify(ZERO)


def test_a_first_round_that_is_given_up_leaves_a_certified_point(monkeypatch):
    clocks.put(monkeypatch, 0.01)
    solution = minimize(PROBLEM, Quick(lambda rounds: ZERO, before=pieces_that_never_end), max_time=1.0)
    assert (solution.status, solution.iterations) == (Status.MAX_TIME, 0)
    assert solution.certificate == PROBLEM.certify(ZERO)


@pytest.mark.parametrize("step", [1, 4, 1000])
@pytest.mark.parametrize("limit", [0, 1, 10])
def test_max_iter_is_exact(step, limit):
    solution = minimize(PROBLEM, Fake(lambda rounds: ZERO, step=step), max_iter=limit)
    assert solution.status is Status.MAX_ITER
    assert solution.iterations == limit


def test_message_has_the_numbers():
    message = minimize(PROBLEM, Fake(lambda rounds: worse(0.3)), max_iter=3, tol=1e-5).message
    assert message.startswith("Stopped at the iteration limit")
    assert f"{true_gap(worse(0.3)):.2e}" in message
    assert "1e-05" in message
    assert "3 iterations of fake" in message


# ---- history and callbacks -------------------------------------------------------------------------------------------


def assert_is_a_history(history):
    assert history
    assert all(earlier.seconds <= later.seconds for earlier, later in pairwise(history))
    assert all(earlier.iterations <= later.iterations for earlier, later in pairwise(history))
    assert any(record.certified for record in history)
    assert all("passes" in record.counters for record in history)
    passes = [record.counters["passes"] for record in history]
    assert passes == sorted(passes)


@pytest.mark.parametrize("name", ["rows", "kernel"])
def test_history_of_a_fit(name):
    X, y = zoo.blobs(300, 4, seed=1, apart=0.4)
    operator = Rows(X) if name == "rows" else KernelGram(zoo.KERNELS["rbf"][0], X)
    problem = Problem(operator, y, Hinge(), L2(1.0), np.full(300, 5.0))
    solution = minimize(problem, DualCoordinate() if name == "rows" else SMO(), tol=1e-8)
    assert_is_a_history(solution.history)
    assert solution.history[0].certified  # the start
    last = solution.history[-1]
    assert last.certified
    assert (last.primal, last.dual) == (solution.certificate.primal, solution.certificate.dual)
    assert last.iterations == solution.iterations
    assert last.seconds <= solution.seconds


def test_long_histories_are_thinned():
    solver = Fake(lambda rounds: worse(0.999**rounds), lambda rounds: (1.0, 1.0 - 0.999**rounds), passes=100.0)
    solution = minimize(PROBLEM, solver, max_iter=3 * HISTORY_LENGTH)
    assert len(solution.history) <= HISTORY_LENGTH
    assert_is_a_history(solution.history)
    assert solution.history[0].iterations == 0
    assert solution.history[-1].iterations == 3 * HISTORY_LENGTH


def test_certificates_stay_a_small_share_of_the_work():
    certified = []
    solver = Fake(lambda rounds: worse(0.999**rounds), lambda rounds: (1.0, 1.0 - 0.999**rounds), passes=100.0)
    minimize(PROBLEM, solver, max_iter=600, callback=lambda record: certified.append(record.certified))
    assert 8 <= sum(certified) <= 12  # rounds 1, 2, 4, 8, ..., 512


def test_work_on_stored_rows_pays_for_certificates():
    """Of a long fit whose rows are all stored, Ctrl-C must not return the point of its first second."""
    X, y = zoo.blobs(600, 4, seed=1, apart=0.1)
    problem = Problem(KernelGram(zoo.KERNELS["rbf"][0], X), y, Hinge(), L2(1.0), np.full(600, 1e5))
    history = minimize(problem, Decomposition(block_size=8, tol=1e-12), tol=1e-12, max_iter=1000).history
    first = next(record for record in history[1:] if record.certified)
    assert first.counters["passes"] < 10.0 * 0.5  # half of the samples are support vectors
    assert first.iterations < 1000


def test_callback_sees_every_round_and_stops_the_fit():
    seen = []

    def callback(record):
        assert isinstance(record, Record)
        seen.append(record.iterations)
        return record.iterations >= 5

    solution = minimize(PROBLEM, Fake(lambda rounds: worse(0.5**rounds)), callback=callback)
    assert seen == [1, 2, 3, 4, 5]
    assert solution.status is Status.CALLBACK
    assert solution.iterations == 5
    np.testing.assert_array_equal(solution.point.w, worse(0.5**5).w)  # judged, although no check was due


def test_callback_on_a_converged_point_reports_convergence():
    solver = Fake(lambda rounds: SOLUTION.point if rounds == 3 else ZERO)
    solution = minimize(PROBLEM, solver, callback=lambda record: record.iterations == 3)
    assert solution.status is Status.CONVERGED


def test_an_exception_in_a_callback_reaches_the_user():
    handler = signal.getsignal(signal.SIGINT)

    def callback(record):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        minimize(PROBLEM, Fake(lambda rounds: ZERO), callback=callback)
    assert signal.getsignal(signal.SIGINT) is handler


# ---- time ------------------------------------------------------------------------------------------------------------


def long_problem(kind):
    """A problem that takes minutes to 1e-6."""
    rng = np.random.default_rng(0)
    if kind == "tiny kernel":  # a round must be short however few samples there are
        X, y = zoo.blobs(12, 3, seed=6, apart=0.3)
        return Problem(KernelGram(zoo.KERNELS["linear"][0], X), y, Hinge(), L2(1e-6), np.ones(12)), SMO()
    X, y, s = rng.normal(size=(2000, 10)), np.sign(rng.normal(size=2000)), np.ones(2000)
    if kind == "rows":
        return Problem(Rows(X * np.logspace(0, 4, 10)), y, Hinge(), L2(1.0), s), DualCoordinate()
    return Problem(KernelGram(zoo.KERNELS["linear"][0], X), y, Hinge(), L2(1e-6), s), SMO()


@pytest.mark.parametrize(("kind", "tick"), [("rows", 0.002), ("kernel", 0.0001), ("tiny kernel", 0.002)])
def test_max_time_is_respected(kind, tick, monkeypatch):
    problem, solver = long_problem(kind)
    minimize(problem, solver, max_iter=1)  # reading the clock while loops are compiled would count
    clock = clocks.put(monkeypatch, tick)
    solution = minimize(problem, solver, tol=1e-12, max_time=0.5)
    assert solution.status is Status.MAX_TIME
    assert 0.2 <= solution.seconds <= clock.now <= 0.6
    assert math.isfinite(solution.certificate.gap)
    assert solution.certificate.relative_gap > 1e-12


@pytest.mark.parametrize("kind", ["rows", "kernel", "tiny kernel"])
def test_a_round_is_little_work(kind):
    """However many or few samples there are: time limits and Ctrl-C wait for the end of a round."""
    problem, solver = long_problem(kind)
    records = []
    minimize(problem, solver, tol=1e-12, callback=lambda record: records.append(record) or len(records) == 8)
    n = problem.operator.n_samples
    if kind == "rows":
        work = np.diff([record.counters["passes"] for record in records]) * 10 * n
    else:
        work = np.diff([record.iterations for record in records]) * (2 * n + 100)  # two rows, and the choice of them
    assert len(work) == 7
    assert work.max() <= 5e7  # multiplications: some ten milliseconds


def test_a_slow_first_certificate_does_not_cost_the_last_point():
    """The first one includes compilation. A fit that is then out of time must still judge what it has reached."""

    class SlowAtFirst:
        calls, separable, conclusion = 0, True, PROBLEM.conclusion

        def certify(self, point):
            self.calls += 1
            time.sleep(0.5 if self.calls == 1 else 0.0)
            return PROBLEM.certify(point)

    solver = Fake(lambda rounds: worse(0.5**rounds), before=lambda rounds: time.sleep(0.1))
    solution = minimize(SlowAtFirst(), solver, max_time=0.7)
    assert solution.status is Status.MAX_TIME
    assert solution.iterations >= 1
    np.testing.assert_array_equal(solution.point.w, worse(0.5**solution.iterations).w)


def pieces_that_never_end(rounds):
    Workers(2).run(lambda pieces: [time.sleep(0.001) for _ in pieces], range(10**9))


def test_a_round_that_goes_on_after_the_limit_is_given_up(monkeypatch):
    def before(rounds):
        if rounds == 3:
            pieces_that_never_end(rounds)

    clocks.put(monkeypatch, 0.01)
    solver = Fake(lambda rounds: worse(0.5**rounds), lambda rounds: (1.0, 1.0 - 1e-9), before=before)  # all are judged
    solution = minimize(PROBLEM, solver, max_time=1.0)
    assert (solution.status, solution.iterations) == (Status.MAX_TIME, 2)
    np.testing.assert_array_equal(solution.point.w, worse(0.25).w)
    assert not solution.history[-1].certified


def test_a_point_that_outlives_its_round_is_judged(monkeypatch):
    class Keeping(Fake):
        def start(self, problem, warm):
            return FakeState(keeps_its_point=True)

        def advance(self, problem, state, limit):
            state = super().advance(problem, state, limit)
            state.keeps_its_point = True
            return state

    clocks.put(monkeypatch, 0.01)
    solver = Keeping(
        lambda rounds: worse(0.5**rounds), before=lambda rounds: pieces_that_never_end(rounds) if rounds == 4 else None
    )
    solution = minimize(PROBLEM, solver, max_time=1.0)
    assert (solution.status, solution.iterations) == (Status.MAX_TIME, 3)
    np.testing.assert_array_equal(solution.point.w, worse(0.125).w)


def test_a_certificate_that_goes_on_after_the_limit_is_given_up(monkeypatch):
    class Slow:
        calls, separable, conclusion = 0, True, PROBLEM.conclusion

        def certify(self, point):
            self.calls += 1
            if self.calls == 3:
                pieces_that_never_end(self.calls)
            return PROBLEM.certify(point)

    clocks.put(monkeypatch, 0.01)
    solver = Fake(lambda rounds: worse(0.5**rounds), lambda rounds: (1.0, 1.0 - 1e-9))
    solution = minimize(Slow(), solver, max_time=1.0)
    assert solution.status is Status.MAX_TIME
    np.testing.assert_array_equal(solution.point.w, worse(0.5).w)


def test_compiling_takes_no_time_from_the_fit(monkeypatch):
    clock = clocks.put(monkeypatch, 0.001)

    def compile_for_long(rounds):
        with _jit._compiling:
            clock.now += 1000.0

    solver = Fake(lambda rounds: worse(0.5**rounds), before=compile_for_long)
    solution = minimize(PROBLEM, solver, max_time=1.0, max_iter=5)
    assert solution.status is Status.MAX_ITER
    assert solution.seconds < 1.0
    assert solution.compiling == pytest.approx(5000.0, rel=1e-3)
    assert "5000.0 s of compiling" in solution.message
    assert "compiling" not in minimize(PROBLEM, Fake(lambda rounds: ZERO), max_iter=5).message


def test_no_time_at_all_still_gives_a_certified_point():
    solution = minimize(PROBLEM, DualCoordinate(), tol=1e-15, max_time=0.0)
    assert solution.status in (Status.MAX_TIME, Status.STALLED)  # a step may end where only rounding is left
    assert math.isfinite(solution.certificate.gap)


# ---- Ctrl-C ----------------------------------------------------------------------------------------------------------


def run_script(body):
    header = """
        import math, os, signal, sys, time
        sys.path.insert(0, "tests")
        from test_minimize import *
    """
    script = textwrap.dedent(header) + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=Path(__file__).parents[1],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_from_outside_returns_the_best_point():
    process = run_script("""
        problem, solver = long_problem("kernel")
        minimize(problem, solver, max_iter=1)
        rounds = []

        def callback(record):
            rounds.append(record)
            if len(rounds) == 3:
                print("running", flush=True)

        solution = minimize(problem, solver, tol=1e-12, callback=callback)
        print(solution.status.name, solution.certificate.gap, len(solution.history), flush=True)
        print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
    """)
    try:
        assert process.stdout.readline() == "running\n", process.stderr.read()
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        status, gap, records = process.stdout.readline().split()
        assert status == "INTERRUPTED"
        assert math.isfinite(float(gap))
        assert int(records) >= 3
        assert process.stdout.readline() == "True\n"  # the handler was put back
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.communicate()


def test_ctrl_c_by_the_book():
    process = run_script("""
        def interrupt(rounds):
            if rounds == 3:
                signal.raise_signal(signal.SIGINT)

        handler = signal.getsignal(signal.SIGINT)
        solution = minimize(PROBLEM, Fake(lambda rounds: worse(0.5**rounds), before=interrupt))
        print(solution.status.name, solution.iterations, bool((solution.point.w == worse(0.5**3).w).all()))
        print(signal.getsignal(signal.SIGINT) is handler)

        def interrupt_twice(rounds):
            if rounds == 3:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)

        try:
            minimize(PROBLEM, Fake(lambda rounds: ZERO, before=interrupt_twice))
        except KeyboardInterrupt:
            print("raised", signal.getsignal(signal.SIGINT) is handler)

        class Certifying:  # Ctrl-C in the middle of a certificate
            calls, separable, conclusion = 0, True, PROBLEM.conclusion

            def certify(self, point):
                self.calls += 1
                if self.calls == 3:
                    signal.raise_signal(signal.SIGINT)
                return PROBLEM.certify(point)

        solution = minimize(Certifying(), Fake(lambda rounds: worse(0.5**rounds), lambda rounds: (1.0, 1.0)))
        print(solution.status.name, bool((solution.point.w == worse(0.5).w).all()))

        def interrupt_and_go_on(rounds):
            if rounds == 3:
                signal.raise_signal(signal.SIGINT)
                pieces_that_never_end(rounds)

        solver = Fake(lambda rounds: worse(0.5**rounds), lambda rounds: (1.0, 1.0), before=interrupt_and_go_on)
        solution = minimize(PROBLEM, solver)
        print(solution.status.name, bool((solution.point.w == worse(0.25).w).all()))

        own = lambda number, frame: print("own handler")
        signal.signal(signal.SIGINT, own)
        solution = minimize(PROBLEM, Fake(lambda rounds: ZERO, before=interrupt), max_iter=5)
        print(solution.status.name, signal.getsignal(signal.SIGINT) is own)
    """)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out.splitlines() == [
        "INTERRUPTED 3 True",
        "True",
        "raised True",
        "INTERRUPTED True",
        "INTERRUPTED True",
        "own handler",  # a handler of the user's is left in place
        "MAX_ITER True",
    ]


def test_without_a_bound_the_lowest_value_is_kept():
    assert Certificate(3.0, -math.inf).rank < Certificate(5.0, -math.inf).rank
    assert Certificate(5.0, 4.0).rank < Certificate(3.0, -math.inf).rank
    assert Certificate(3.0, -math.inf).rank < Certificate(1.0, 2.0).rank  # which contradicts itself


class Pressed(Interrupts):
    """Somebody has been waiting for an answer to Ctrl-C since the first solver started."""

    @property
    def waiting(self):
        return math.inf if self.pending else -math.inf


def pressed_while(interrupts, step):
    """A solver during whose start, or during whose first certificate, Ctrl-C is pressed."""

    class Pressing(Fake):
        def start(self, problem, warm):
            if step == "start":
                interrupts.pending = True
            go_on()
            return FakeState()

        def point(self, problem, state):
            interrupts.pending = True
            return self.points(state.rounds)

    class Certifying:
        separable, convex, conclusion = True, True, PROBLEM.conclusion

        def certify(self, point):
            go_on()
            return PROBLEM.certify(point)

    return Certifying(), Pressing(lambda rounds: worse(0.5**rounds))


@pytest.mark.parametrize("step", ["start", "certificate"])
def test_ctrl_c_before_there_is_anything_to_return(step):
    """It ends the fit; but where an earlier problem was solved, the next one has a point for it."""
    interrupts = Pressed()
    with pytest.raises(KeyboardInterrupt):
        minimize(*pressed_while(interrupts, "start"), interrupts=interrupts)
    interrupts = Pressed()
    minimize(PROBLEM, Fake(lambda rounds: ZERO), max_iter=1, interrupts=interrupts)
    solution = minimize(*pressed_while(interrupts, step), interrupts=interrupts)
    assert solution.status is Status.INTERRUPTED
    assert math.isfinite(solution.certificate.gap)


def test_no_bound_for_want_of_convexity_is_named():
    """But where rounding is why there is no bound, the fit has stalled."""
    indefinite = PrecomputedGram(np.diag(np.array([1.0, -1.0])))
    for operator, status in ((indefinite, Status.NOT_CONVEX), (PrecomputedGram(np.eye(2)), Status.STALLED)):
        problem = Problem(operator, np.array([1.0, -1.0]), Hinge(), L2(1.0), np.ones(2), "free")

        class Unbounded(type(problem)):
            def certify(self, point):
                return Certificate(2.0, -math.inf)

        problem = Unbounded(*(getattr(problem, one.name) for one in fields(problem)))
        still = Fake(lambda rounds: Point(np.zeros(2), 0.0, np.zeros(2)), exhausted=lambda rounds: rounds == 3)
        assert minimize(problem, still).status is status


def test_fits_from_other_threads():
    solutions = {}

    def fit(key):
        solutions[key] = minimize(CASE.build(), DualCoordinate(), tol=1e-9)

    threads = [threading.Thread(target=fit, args=(key,)) for key in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert len(solutions) == 4
    for solution in solutions.values():
        assert solution.status is Status.CONVERGED
        assert solution.point.w.tobytes() == solutions[0].point.w.tobytes()


# ---- the progress line -----------------------------------------------------------------------------------------------


def test_progress_goes_to_stderr_and_only_if_asked_for(capsys):
    minimize(PROBLEM, Fake(lambda rounds: worse(0.5**rounds)), max_iter=5)
    quiet = capsys.readouterr()
    assert (quiet.out, quiet.err) == ("", "")
    minimize(PROBLEM, Fake(lambda rounds: worse(0.5**rounds)), max_iter=5, verbose=1)
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.rstrip("\n").split("\r")[-1]
    assert last.startswith("fake: 5 iterations")
    assert "relative gap" in last
    assert "/s)" in last
    assert "passes" in last
    assert shown.err.endswith("\n")


def test_progress_line_has_gap_rate_and_time_left():
    line = ProgressLine(1, "smo", 1e-6)
    text = line.text(Record(2.0, 500, 1.0, 1.0 - 1e-3, True, {"passes": 12.0, "kernel_evaluations": 3456.0}))
    assert text.startswith("smo: 500 iterations (250/s), relative gap 1.00e-03 -> 1e-06, 2.0 s")
    assert "about 2.0 s left" in text  # three digits took 2 s, three are missing
    assert "12 passes" in text
    assert "kernel evaluations" in text


def test_progress_line_says_what_compiling_took():
    line, record = ProgressLine(1, "smo", 1e-6), Record(2.0, 500, 1.0, 0.5, True)
    line.show(record, compiling=0.04)
    assert "compiling" not in line.text(record)
    line.show(record, compiling=6.4)
    assert "2.0 s, not counting 6.4 s of compiling" in line.text(record)


@pytest.mark.parametrize("dual", [-math.inf, -1.0, 1.0, 1.0 - 1e-9])
def test_progress_line_promises_no_time_when_it_cannot_know(dual):
    assert "left" not in ProgressLine(1, "smo", 1e-6).text(Record(2.0, 500, 1.0, dual, True))
    assert "left" not in ProgressLine(1, "smo", 1e-6).text(Record(0.0, 0, 1.0, 0.5, True))


def test_progress_line_overwrites_itself_completely(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    line = ProgressLine(1, "smo", 1e-6, seconds_between=0.0)
    long, short = Record(1.0, 10**9, 1.0, 0.5, True, {"passes": 1.0}), Record(2.0, 1, 1.0, 1.0, True)
    with line:
        line.show(long)
        line.show(short)
    first, second = stream.getvalue().split("\r")[1:3]
    assert len(second) >= len(first)
