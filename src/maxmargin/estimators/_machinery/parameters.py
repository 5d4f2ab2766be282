"""What the parameters mean that many estimators have: written once, and put into the docstring of each.

In the source a docstring names them in one entry that says `POINTER`. When its class is made, that entry becomes one
for each of the names, with the default of the signature, so that ``help`` shows all of them.
"""

from __future__ import annotations

import inspect
import re

POINTER = "As in every estimator: see `_machinery/parameters.py`."
PARAMETERS: dict[str, tuple[str, str]] = {
    "kernel": (
        '{"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable',
        "A callable receives two arrays of samples and returns their kernel values.",
    ),
    "degree": ("int", "Of the polynomial kernel."),
    "gamma": (
        '{"scale", "auto"} or float',
        '"scale" is ``1 / (n_features * X.var())`` with the samples counted by their weights, "auto" is\n'
        "``1 / n_features``.",
    ),
    "coef0": ("float", "Of the polynomial and the sigmoid kernel."),
    "shrinking": (
        "bool",
        "Whether to leave out variables that are sure to stay at a bound. The result is checked on all of them.",
    ),
    "cache_size": (
        "float",
        "Megabytes for kernel rows, at most; a fifth of it unless rows are needed again and again.",
    ),
    "class_weight": ('dict or "balanced"', "Weights of the classes."),
    "fit_intercept": ("bool", "Whether there is an intercept."),
    "intercept_scaling": ("float", "Height of the constant column whose coefficient a penalised intercept is."),
    "positive": ("bool", "Whether coefficients must not be negative."),
    "bounds": (
        "pair of float or array-like of shape (n_features,)",
        "Smallest and largest value of each coefficient, at most and at least 0.",
    ),
    "copy_X": ("bool", "Without effect: samples are never overwritten."),
    "tol": ("float", "Relative duality gap at which to stop."),
    "max_iter": ("int", "Limit on the solver's iterations; {default} for none."),
    "max_time": ("float", "Limit in seconds; the best point so far is kept."),
    "solver": ("str", 'Name of a solver; what "auto" stands for depends on the samples: `explain_solver` says.'),
    "solver_options": ("dict", "Options of a named solver; wrong ones are refused, and the right ones listed."),
    "warm_start": ("bool", "Whether to start from the last fit."),
    "random_state": ("int, RandomState or None", "Seed of solvers that draw random numbers; None is a fixed seed."),
    "verbose": ("bool or int", "Whether to show a progress line on standard error."),
    "callback": ("callable", "Called with a `Record` after every round; a true value stops the fit."),
    "n_jobs": (
        "int",
        "Number of threads; None is as many as BLAS may use, -1 all processors. Results are the same for any number.",
    ),
}
_ENTRY = re.compile(rf"^( *)([\w, ]+)\n *{re.escape(POINTER)}$", re.MULTILINE)


def describe_shared(cls: type) -> None:
    """Write the entries of shared parameters out. Sets: the docstring of a class."""
    if POINTER not in (cls.__doc__ or ""):
        return
    signature = inspect.signature(cls)

    def entry(name: str, indent: str) -> str:
        kind, text = PARAMETERS[name]
        value = signature.parameters[name].default
        default = f'"{value}"' if isinstance(value, str) else repr(value)
        lines = text.replace("{default}", default).split("\n")
        return "\n".join([f"{indent}{name} : {kind}, default={default}", *(f"{indent}    {line}" for line in lines)])

    def entries(match: re.Match[str]) -> str:
        return "\n".join(entry(name, match[1]) for name in match[2].split(", "))

    cls.__doc__ = _ENTRY.sub(entries, cls.__doc__ or "")
