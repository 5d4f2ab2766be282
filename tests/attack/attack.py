"""The attack: nasty problems, every estimator, every solver, and an exact judge.

``python tests/attack/attack.py --seconds 3600 --seed 7`` runs until the time is over and prints what it found, each
with a script that shows it. ``--first 400`` goes on where an earlier run of the same seed has ended, ``--number 12``
runs one problem, ``--worker`` serves a parent that watches for hangs.
"""

import argparse
import base64
import json
import pickle
import sys
import time
import traceback
import warnings
from pathlib import Path

import functions
import numpy as np
from judge import Finding, Fit, judge
from newer import newer_case
from problems import case
from sklearn.exceptions import ConvergenceWarning

import maxmargin
from maxmargin.solvers import SOLVERS

NIGHT_SECONDS = 1.0  # max_time of a fit
PATIENCE = 5.0  # seconds by which a fit may exceed it
WORDS = 4  # of a sentence, at least
WITHOUT_SOLVERS = ("RidgeCV",)
OURS = ("maxmargin", "sklearn")
CALLED = (
    "svm_path", "nu_path", "leave_one_out", "ball", "hull_distance", "lasso_homotopy", "pareto_curve", "basis_pursuit",
    "minimum_norm", "best_subset",
)  # fmt: skip


def attack(made, max_time, solvers, say=lambda text: None):
    """Fit a case with solvers and judge what they return."""
    if made.how in CALLED:
        return call(made, max_time, say)
    findings, fits = [], []
    for solver in solvers:
        say(solver)
        fit, found, seconds = attempt(made, solver, max_time)
        if seconds > max_time + PATIENCE:  # perhaps it compiled its loops
            say(solver)
            fit, found, seconds = attempt(made, solver, max_time)
        findings += found
        if seconds > max_time + PATIENCE:
            findings.append(Finding("slow", solver, f"max_time={max_time:g}", f"{seconds:.1f} s"))
        if fit is not None:
            fits.append(fit)
    say("judge")
    return findings + judge(made, fits, seconds=2.0 * max_time)


def call(made, max_time, say):
    """What is called is no fit: one call, and the judge of what it returns."""
    say(made.how)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            found = functions.called(made, max_time)
        except Exception as error:
            return [*_wrong_exception("auto", error, made.how), *_wrong_warnings("auto", raised)]
        say("judge")
        findings = functions.judged(made, found, 2.0 * max_time)
    return [*findings, *_wrong_warnings("auto", raised)]


def attempt(made, solver, max_time):
    """One fit, what it did that it must not, and its seconds; those of the processor, if others keep it busy."""
    began = np.array([time.perf_counter(), time.process_time()])
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            model = fitted(made, solver, max_time) if made.how == "fit" else functions.fitted(made, max_time)
        except Exception as error:
            found = [*_wrong_exception(solver, error, "fit"), *_wrong_warnings(solver, raised)]
            return None, found, _seconds_since(began)
        seconds = _seconds_since(began) if made.how == "fit" else 0.0
        try:
            verdict = maxmargin.certify(model, made.X, made.y, made.weights)
            found = []
        except Exception as error:
            verdict, found = error, list(_wrong_exception(solver, error, "certify"))
    return Fit(solver, model, verdict), [*found, *_wrong_warnings(solver, raised)], seconds


def _seconds_since(began):
    return float((np.array([time.perf_counter(), time.process_time()]) - began).min())


def fitted(made, solver, max_time):
    """A model of a case."""
    options = {"max_time": max_time, **made.params}
    if made.estimator not in WITHOUT_SOLVERS:
        options = {"solver": solver, **options}
    model = getattr(maxmargin, made.estimator)(**options)
    if made.before is not None:
        model.fit(*made.before)
    weights = {} if made.weights is None else {"sample_weight": made.weights}
    return model.fit(made.X, made.y, **weights)


def _wrong_exception(solver, error, where):
    """Nothing but a ValueError or a TypeError with a sentence, raised by us and not by what we call."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    ours = any(f"/{package}/" in frame.filename for package in OURS)
    linear_algebra = isinstance(error, np.linalg.LinAlgError)
    if not isinstance(error, ValueError | TypeError) or linear_algebra or not ours or len(str(error).split()) < WORDS:
        place = "/".join(Path(frame.filename).parts[-2:])
        text = f"{type(error).__name__}: {error}"[:200]
        yield Finding(f"{where}: exception", solver, f"{text} ({place}:{frame.lineno})", "a sentence, or an answer")


def _wrong_warnings(solver, raised):
    seen = set()
    for one in raised:
        text = f"{one.category.__name__}: {one.message}"[:160]
        if not issubclass(one.category, ConvergenceWarning) and text not in seen:
            seen.add(text)
            place = "/".join(Path(one.filename).parts[-2:])
            yield Finding("warning", solver, f"{text} ({place}:{one.lineno})", "no warning but our own")


def chosen_solvers(made, few):
    """All solvers; or "auto" and a few others, for a short attack."""
    if made.solvers is not None:
        return ["auto", *made.solvers]
    names = [] if made.estimator in WITHOUT_SOLVERS else sorted(SOLVERS)
    if few is None:
        return ["auto", *names]
    rng = np.random.default_rng([made.seed, made.number, 1])
    model = getattr(maxmargin, made.estimator)(**made.params)
    able = [name for name in names if _supports(model, made, name)]
    return ["auto", *rng.permutation(able)[:few].tolist()]


def _supports(model, made, name):
    """Whether a fit with a solver is refused."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            maxmargin.explain_solver(model.set_params(solver=name), made.X, made.y)
    except Exception:
        return False
    return True


def work():
    """Serve requests, one line each: a case, max_time, and solvers (all, some, or how many). Say what is being done."""
    for line in sys.stdin:
        made, max_time, solvers = pickle.loads(base64.b64decode(line))

        def say(text):
            print(json.dumps({"doing": text}), flush=True)

        try:
            names = solvers if isinstance(solvers, list) else chosen_solvers(made, solvers)
            answer = [vars(finding) for finding in attack(made, max_time, names, say)]
        except Exception:
            answer = [vars(Finding("attack", "any", "the judge itself failed", traceback.format_exc()[-600:]))]
        print(json.dumps({"found": answer}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on (60)")
    parser.add_argument("--seed", type=int, default=0, help="of all problems (0)")
    parser.add_argument("--first", type=int, default=0, help="number of the first problem; the last line says the next")
    parser.add_argument("--number", type=int, help="of the only problem to run")
    parser.add_argument(
        "--newer", action="store_true", help="problems of the newer kinds, which have numbers of their own"
    )
    parser.add_argument("--worker", action="store_true", help="read problems from standard input")
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    from night import night

    make = newer_case if options.newer else case
    if options.number is not None:
        return night(make, options.seed, options.number, 1, np.inf, NIGHT_SECONDS)
    return night(make, options.seed, options.first, None, options.seconds, NIGHT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
