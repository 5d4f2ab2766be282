"""A finding as a short script that needs nothing but NumPy, SciPy and the library."""

import numpy as np
import scipy.sparse as sp
from problems import pair, products, tilted

TEMPLATE = """\
    # {line}
    # python tests/attack/attack.py{newer} --seed {seed} --number {number}   ({notes})
    import numpy as np, scipy.sparse as sp, maxmargin
    from numpy import inf, nan
    X = {X}
    y = {y}
    weights = {weights}
{run}"""
FIT = """\
    model = maxmargin.{estimator}({params})
{before}    model.fit(X, {y_name}sample_weight=weights)
    print(model.solutions_)
    print(maxmargin.certify(model, X, y, weights))
"""
CALL = """\
    print("{how}", "{estimator}", dict({params}))  # called as in tests/attack/functions.py
"""


def script(made, finding):
    """The script of a case and one of its findings."""
    line = "{kind}: claimed {claimed}; true is {true}".format(**finding).replace("\n", " ")[:1200]
    solver = finding["solver"] if finding["solver"] not in ("any", "judge", "start") else "auto"
    params = {**made.params, "solver": solver, "max_time": 1} if made.how == "fit" else made.params
    text = ", ".join(f"{name}={_parameter(value)}" for name, value in params.items())
    before = ""
    if made.before is not None:
        X0, y0 = made.before
        before = f"    model.fit({matrix(X0)}, {numbers(y0)})\n"
    run = (FIT if made.how == "fit" else CALL).format(
        estimator=made.estimator,
        params=text,
        before=before,
        y_name="" if made.y is None else "y, ",
        how=made.how,
    )
    return TEMPLATE.format(
        line=line,
        seed=made.seed,
        number=made.number,
        newer=" --newer" if made.newer else "",
        notes=", ".join(made.notes),
        X=matrix(made.X),
        y=numbers(made.y),
        weights=numbers(made.weights),
        run=run,
    )


def _parameter(value):
    if value is products or value is tilted:
        text = "lambda A, B: np.asarray((A @ B.T).toarray() if sp.issparse(A) else A @ B.T, dtype=float) + 1.0"
        tilt = " + 1e-9 * (np.asarray(A.sum(axis=1)).reshape(-1, 1) - np.asarray(B.sum(axis=1)).ravel())"
        return text + (tilt if value is tilted else "")
    return "lambda u, v: float(u @ v) + 1.0" if value is pair else repr(value)


def matrix(X):
    """An expression that makes the same matrix; duplicates of a COO matrix are told as their sums."""
    if sp.issparse(X):
        return f"sp.{X.format}_matrix({matrix(X.toarray())})"
    array = f"np.array({np.asarray(X).tolist()!r}, dtype={X.dtype.name!r}).reshape({X.shape})"
    return f"np.asfortranarray({array})" if X.flags.f_contiguous and not X.flags.c_contiguous else array


def numbers(values):
    """An expression for targets or weights."""
    return "None" if values is None else f"np.array({np.asarray(values).tolist()!r})"
