"""What else can be called for a case than one fit: paths, updates, searches, balls and hulls, each with its judge."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import posing
import scipy.sparse as sp
from exact import RowSpace, Street, arb
from judge import Bench, Finding, Fit
from newer_exact import InBall

import maxmargin

PLACES = (0.0, 0.3, 0.7, 1.0)  # along a path
NOTHING = ValueError("nothing to certify")


def fitted(made, max_time):
    """The model of a search or of an update, as one of a single fit."""
    return _selected(made) if made.how == "selected" else _updated(made, max_time)


def called(made, max_time):
    """What a function returns."""
    p, weights = dict(made.params), {} if made.weights is None else {"sample_weight": made.weights}
    X, y = made.X, made.y
    if made.how in ("svm_path", "nu_path"):
        return getattr(maxmargin, made.how)(X, y, **p, **weights)
    if made.how == "leave_one_out":
        model = getattr(maxmargin, made.estimator)(**p, max_time=max_time).fit(X, y, **weights)
        return maxmargin.leave_one_out(model, X, y, **weights)
    if made.how == "ball":
        if "order" in p:
            return maxmargin.projected_sgd(X, y, p.pop("radius"), **p)
        return maxmargin.minimise_in_ball(X, y, p.pop("radius"), max_time=max_time, **p)
    if made.how == "hull_distance":
        rows = X.tocsr() if sp.issparse(X) else X
        return maxmargin.hull_distance(rows[np.flatnonzero(y == 1)], rows[np.flatnonzero(y != 1)], **p)
    weighted = made.how in ("lasso_homotopy", "best_subset")
    return getattr(maxmargin, made.how)(X, y, **p, **(weights if weighted else {}))


def judged(made, found, seconds):
    """Lies of what a function returned."""
    if made.how in ("svm_path", "nu_path"):
        return _along(made, found, seconds)
    if made.how == "ball":
        return _in_ball(made, found, seconds)
    if made.how == "hull_distance":
        return _hulls(made, found, seconds)
    if made.how == "leave_one_out" and not np.isfinite(found).all():
        return [Finding("not finite", "auto", f"{np.asarray(found)[~np.isfinite(found)][:3]}", "scores")]
    return []


# ---- models ----------------------------------------------------------------------------------------------------------


def _selected(made):
    search = getattr(maxmargin, f"{made.estimator}CV")(**made.params)
    weights = {} if made.weights is None else {"sample_weight": made.weights}
    return search.fit(made.X, made.y, **weights).best_estimator_


def _updated(made, max_time):
    """The first two thirds and then the others; or all of them and the first third twice, which is forgotten."""
    n = made.X.shape[0]
    model = getattr(maxmargin, made.estimator)(**made.params, max_time=max_time)
    weights = np.ones(n) if made.weights is None else made.weights
    first = np.arange(n) < 2 * n // 3 if made.number % 2 else np.ones(n, dtype=bool)
    if made.y is not None and np.unique(made.y[first]).size < np.unique(made.y).size:
        first[:] = True
    twice = np.arange(0 if made.number % 2 else n // 3)
    order = np.concatenate([np.flatnonzero(first), twice])
    model.fit(made.X[order], None if made.y is None else made.y[order], sample_weight=weights[order])
    if not first.all():
        rest = np.flatnonzero(~first)
        model.add(made.X[rest], None if made.y is None else made.y[rest], sample_weight=weights[rest])
    return model.remove(n + twice) if twice.size else model


# ---- judges ----------------------------------------------------------------------------------------------------------


def _model(certificate, solver="auto", **attributes):
    """As much of a model as the judge looks at."""
    point = SimpleNamespace(alpha=None)
    status = SimpleNamespace(name="FOUND")
    solution = SimpleNamespace(certificate=certificate, status=status, tol=0.0, point=point)
    return Fit(solver, SimpleNamespace(solutions_=[solution], **attributes), NOTHING)


def _along(made, path, seconds):
    """Some points of a path, each judged as a fit."""
    strength = "C" if made.how == "svm_path" else "nu"
    low, high = (0.0, path.C_max) if strength == "C" else (path.nu_min, path.nu_max)
    findings = []
    for place in PLACES:
        value = min(low + place * (high - low), high)
        if not value > 0.0:
            continue
        a, b = path.at(value)
        if not np.isfinite(a).all() or not np.isfinite(b):
            findings.append(Finding("not finite", "auto", f"coefficients at {strength}={value!r}", "numbers"))
            continue
        params = {name: v for name, v in made.params.items() if name != "C_max"} | {strength: value}
        model = getattr(maxmargin, made.estimator)(**params)
        posed = replace(made, params=params)

        def scores(X, value=value):
            return path.decision_function(X, value)

        fit = _model(path.certificate(value), dual_coef_=a, intercept_=b, decision_function=scores)
        fit.model.get_params, fit.model._gamma = model.get_params, getattr(path.model, "_gamma", None)
        question = posing.questions(posed, fit.model)[0]
        findings += Bench(posed, question, [fit], seconds).findings()
    return findings


def _in_ball(made, found, seconds):
    data = posing.Data.of(replace(made, weights=None))
    n, radius = len(data.X), arb(float(made.params["radius"]))
    loss = {"logistic": ("logistic", arb(1)), "huber_hinge": ("huber hinge", arb(1))}.get(made.params["loss"])
    loss = posing.LOSSES[made.params["loss"]] if loss is None else loss
    y = [arb(float(v)) for v in made.y]
    space, shares = RowSpace(data.X), [1 / arb(n)] * n
    problem = InBall(space, y, shares, loss, ("none", arb(0)), None, square_of_radius=radius * radius)
    findings = []
    if sum((arb(float(v)) * arb(float(v)) for v in found.w), arb(0)) > problem.square_of_radius:
        findings.append(Finding("outside of the ball", "auto", f"|w| <= {float(radius)}", "longer"))
    fits = [_model(found.certificate, coef_=found.w[None], decision_function=lambda X: X @ found.w)]
    return findings + list(Bench(made, posing.Question(0, np.arange(n), problem), fits, seconds).findings())


def _hulls(made, found, seconds):
    data = posing.Data.of(replace(made, weights=None, y=np.where(made.y == 1, 1, 0)))
    n, nu = len(data.X), float(made.params["nu"])
    y, used = [arb(1.0 if code else -1.0) for code in data.codes], np.ones(n, dtype=bool)
    problem = Street(RowSpace(data.X), y, None if nu == 1.0 else [arb(nu)] * n, arb(1), used)
    w, b = (found.w / found.rho, found.b / found.rho) if found.rho > 0.0 else (found.w, found.b)
    fit = _model(found.solution.certificate, coef_=w[None], intercept_=b, decision_function=lambda X: X @ w + b)
    fit.model.solutions_ = [found.solution]
    return list(Bench(made, posing.Question(0, np.arange(n), problem), [fit], seconds).findings())
