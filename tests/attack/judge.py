"""Whether fits of one case tell the truth: their claims against exact values, and against each other."""

import math
from dataclasses import dataclass

import newton
import numpy as np
import posing
import squares
from active_set import ActiveSet
from exact import arb, lower, upper

PREDICTED = 1e-9  # of the terms of a score: what rounding may change


@dataclass
class Finding:
    """Something that is not true, or must not happen."""

    kind: str
    solver: str
    claimed: str
    true: str

    def __str__(self):
        return f"{self.kind} (solver={self.solver!r}): claimed {self.claimed}; true is {self.true}"


@dataclass
class Fit:
    """A model that was fitted with a solver; ``verdict`` is what ``certify`` says, or the exception it raised."""

    solver: str
    model: object
    verdict: object


def judge(case, fits, seconds=1.0):
    """All lies of fits of the same case."""
    findings = [finding for fit in fits for finding in _consistent(fit)]
    broken = {finding.solver for finding in findings if finding.kind == "not finite"}
    fits = [fit for fit in fits if fit.solver not in broken]
    if not fits:
        return findings
    findings += _bandwidth(case, fits[0])
    for question in posing.questions(case, fits[0].model):
        findings += Bench(case, question, fits, seconds).findings()
    return findings


def _consistent(fit):
    """What needs no arithmetic."""
    model, worst = fit.model, fit.model.solution_.certificate
    for name in ("coef_", "intercept_", "dual_coef_", "rho_", "nu_", "epsilon_"):
        try:
            values = posing.dense(model, name)
        except AttributeError:
            continue
        if not np.isfinite(np.asarray(values, dtype=np.float64)).all():
            yield Finding("not finite", fit.solver, f"{name} after a fit", "numbers, or a ValueError")
            break
    if model.duality_gap_ != worst.relative_gap and not math.isnan(worst.relative_gap):
        yield Finding("two gaps", fit.solver, f"duality_gap_ {model.duality_gap_}", f"solution_ {worst.relative_gap}")
    for solution in model.solutions_:
        certificate = solution.certificate
        if math.isnan(certificate.primal) or math.isnan(certificate.dual):
            yield Finding("not finite", fit.solver, f"{certificate}", "numbers")
        if solution.status.name == "CONVERGED" and not certificate.relative_gap <= solution.tol:
            yield Finding("converged with a gap", fit.solver, f"{certificate}", f"tol is {solution.tol}")


def _bandwidth(case, fit):
    if case.estimator not in posing.KERNEL_MACHINES or fit.model.kernel == "precomputed":
        return
    true = posing.exact_gamma(case, fit.model)
    if true is not None and not abs(float(true) - fit.model._gamma) <= 1e-8 * abs(float(true)):
        yield Finding("gamma", "any", f"{fit.model.gamma!r} is {fit.model._gamma:.8g}", f"{float(true):.8g}")


def _mispredicted(case, model, question, f, b):
    """What the model predicts for its own samples if that is not the function that is judged."""
    several = len(model.solutions_) > 1 and case.estimator not in posing.LEAST_SQUARES
    if several or isinstance(f, list) or getattr(model, "multi_class", "") == "multinomial":
        return None
    try:
        scores = (model.decision_function if hasattr(model, "decision_function") else model.predict)(case.X)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    scores = np.asarray(scores, dtype=np.float64)
    scores = scores[:, question.k] if scores.ndim > 1 else scores
    exact = np.array([float(z + b) for z in f.scores])
    apart = np.abs(scores[question.members] - exact)
    allowed = PREDICTED * (f.reach + abs(float(b))) + 1e-290
    worst = int(np.argmax(np.where(np.isfinite(exact), apart - allowed, -np.inf)))
    if apart[worst] <= allowed[worst] or not np.isfinite(exact).any():
        return None
    return f"sample {worst} scores {scores[question.members][worst]:.12g}, in exact arithmetic {exact[worst]:.12g}"


@dataclass
class _Answer:
    """What one fit says about one problem, and what its function is worth."""

    solver: str
    status: str
    tol: float
    certificate: object
    verdict: object
    value: arb
    slack: float
    separates: bool
    claimed: bool  # whether dual values are said to be below its value
    within: bool  # the limits of its coefficients
    misses: str | None  # what is wrong with its predictions

    @property
    def scale(self):
        return max(abs(self.certificate.primal), abs(self.certificate.dual), self.certificate.least)


class Bench:
    """All fits of one problem, and the smallest value of a function that is known."""

    def __init__(self, case, question, fits, seconds):
        self.question, self.problem, self.seconds = question, question.problem, seconds
        self.space = question.problem.space
        self.size = 0.0  # of the largest dual variables, added up
        self.answers = [self._answer(case, fit) for fit in fits]
        self.best, self.by = self._best(fits)

    def _answer(self, case, fit):
        k, problem = self.question.k, self.problem
        solution = fit.model.solutions_[k]
        f, b = posing.function_of(fit.model, self.question)
        value = problem.primal(f, b)
        slack = problem.slack(f, b) if value.is_finite() else math.inf
        verdict = fit.verdict if isinstance(fit.verdict, Exception) else fit.verdict.certificates[k]
        separates = hasattr(problem, "separates") and problem.separates(f, b)
        status = solution.status.name
        alpha = solution.point.alpha
        self.size = max(self.size, 0.0 if alpha is None else float(np.abs(alpha).sum()))
        claimed, limits = getattr(problem, "claimed", lambda f: True)(f), getattr(problem, "limits", None)
        within, misses = limits is None or limits.hold(f.w), _mispredicted(case, fit.model, self.question, f, b)
        about = separates, claimed, within, misses
        return _Answer(fit.solver, status, solution.tol, solution.certificate, verdict, value, slack, *about)

    def _best(self, fits):
        claimed = getattr(self.problem, "claimed", lambda f: True)
        known = [
            (answer.value, f"the function of solver={answer.solver!r}") for answer in self.answers if answer.claimed
        ]
        known += [(self.problem.primal(f, b), "the zero function") for f, b in self.problem.zero() if claimed(f)]
        if self.space.convex and getattr(self.space, "finite", True):
            known += [(value, "the exact optimum") for value in self._references(fits)]
        known = [(value, by) for value, by in known if value.is_finite()]
        return min(known, key=lambda pair: upper(pair[0])) if known else (arb("inf"), "nobody")

    def _references(self, fits):
        """The value of an exact solution, where one can be found."""
        if squares.applies(self.problem):
            f, b = squares.minimum(self.problem)
            if self.problem.claimed(f):
                yield self.problem.primal(f, b)
        if newton.applies(self.problem):
            f, b = posing.function_of(fits[0].model, self.question)
            w, b = newton.minimum(self.problem, f.w, b, self.seconds)
            yield self.problem.primal(self.space.coefficients(w), b)
        program = self.problem.program()
        if program is None:
            return
        start = [0.0] * len(program.q)
        for fit in fits:
            alpha = fit.model.solutions_[self.question.k].point.alpha
            if alpha is not None and alpha.size == len(start) and np.isfinite(alpha).all():
                start = alpha.tolist()
            elif alpha is not None and alpha.size == self.space.n and np.isfinite(alpha).all():
                start = program.spread(alpha.tolist())
        try:
            a, multipliers = ActiveSet(program, start).solve(self.seconds)
        except ZeroDivisionError:
            return
        self.size = max(self.size, sum(abs(float(v)) for v in a))
        if all(b is not None for b in multipliers):
            f, b = self.problem.of_dual(program.expansion(a), multipliers)
            yield self.problem.primal(f, b)

    @property
    def dent(self):
        """What slightly negative eigenvalues of a user's kernel matrix may change."""
        dent = getattr(self.space, "dent", 0.0)
        return dent * (2.0 * min(self.size, 1e150)) ** 2 if dent > 0.0 else 0.0

    def findings(self):
        for answer in self.answers:
            yield from self._lies(answer)
            yield from self._certify_lies(answer)

    def _lies(self, answer):
        c, tiny = answer.certificate, answer.slack
        yield from self._interval(answer, c, "")
        if not answer.within:
            yield Finding("outside of the limits", answer.solver, f"{self.problem.limits}", "a coefficient is beyond")
        if answer.misses is not None:
            yield Finding("prediction", answer.solver, "scores of the samples of the fit", answer.misses)
        if answer.status == "NOT_SEPARABLE":
            parted = [other.solver for other in self.answers if other.separates]
            if parted or (hasattr(self.problem, "separates") and self.best < -tiny):
                who = f"the function of solver={parted[0]!r}" if parted else self.by
                yield Finding("NOT_SEPARABLE", answer.solver, "no function separates the classes", f"{who} does")
        if answer.status == "CONVERGED" and self.space.convex:
            missed = lower(answer.value - self.best)
            if missed > answer.tol * answer.scale * (1.0 + 1e-6) + tiny:
                yield Finding(
                    "CONVERGED",
                    answer.solver,
                    f"a relative gap of {c.relative_gap:.2e} (tol {answer.tol:.0e})",
                    f"its function costs {float(answer.value):.10g}, {self.by} {float(self.best):.10g}",
                )

    def _interval(self, answer, c, who):
        """The exact value of the function is at most the primal value, and the dual value below all functions."""
        tiny = answer.slack
        if lower(answer.value) > c.primal + c.primal_error + tiny:
            yield Finding(
                f"{who}primal too small",
                answer.solver,
                f"{c.primal:.12g} (error {c.primal_error:.2e}, {answer.status})",
                f"{float(answer.value):.12g}, larger by {lower(answer.value - arb(c.primal)):.2e}",
            )
        if not self.space.convex and c.dual > -math.inf:
            yield Finding(f"{who}dual of an indefinite kernel", answer.solver, f"a bound of {c.dual:.6g}", "none")
        elif c.dual - c.dual_error > upper(self.best) + tiny + self.dent:
            yield Finding(
                f"{who}dual too large",
                answer.solver,
                f"{c.dual:.12g} (error {c.dual_error:.2e}, {answer.status})",
                f"{self.by} costs {float(self.best):.12g}, smaller by {lower(arb(c.dual) - self.best):.2e}",
            )

    def _certify_lies(self, answer):
        verdict, c = answer.verdict, answer.certificate
        if isinstance(verdict, Exception):
            return
        yield from self._interval(answer, verdict, "certify: ")
        apart = max(
            verdict.dual - verdict.dual_error - c.primal - c.primal_error,
            c.dual - c.dual_error - verdict.primal - verdict.primal_error,
        )
        if apart > answer.slack:
            yield Finding(
                "certify disagrees",
                answer.solver,
                f"the fit [{c.dual:.10g}, {c.primal:.10g}]",
                f"certify says [{verdict.dual:.10g}, {verdict.primal:.10g}]",
            )
