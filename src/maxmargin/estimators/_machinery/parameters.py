"""What the parameters mean that several estimators have: written once, and put into the docstring of each.

In the source a docstring has the parameters that are its own, and entries such as "As in `SVR`." for those that it
shares with another estimator. What it does not name is in the table below. When the package is imported, each of these
gets an entry of its own, with the default of the signature, so that ``help`` shows all of them.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from maxmargin.loop.minimize import Callback

PARAMETERS: dict[str, tuple[str, str]] = {
    "kernel": (
        '{"rbf", "linear", "poly", "sigmoid", "laplacian", "precomputed"} or callable',
        "A callable receives two arrays of samples and returns their kernel values.",
    ),
    "degree": ("int", "Of the polynomial kernel."),
    "gamma": (
        '{"scale", "auto"} or float',
        '"scale" is ``1 / (n_features * X.var())`` with the samples counted by their weights, "auto" is\n'
        "        ``1 / n_features``.",
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
    "tol": (
        "float",
        "Relative duality gap at which to stop; 0 goes on as far as float64 gets, and warns; at most 0.1 counts.",
    ),
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
ATTRIBUTES = "\n\n    Attributes\n"
_NAMES = re.compile(r"^    (\w+(?:, \w+)*)\n        As in `(\w+)`\.$", re.MULTILINE)


@dataclass(kw_only=True, eq=False, repr=False)
class Parameters:
    """Those of every fit, as fields: a class of estimators adds its own, and the constructor is made from all."""

    tol: float = 1e-4
    max_iter: int | None = -1
    max_time: float | None = None
    solver: str = "auto"
    solver_options: dict[str, object] | None = None
    warm_start: bool = False
    verbose: bool | int = 0
    callback: Callback | None = None
    n_jobs: int | None = None


def describe_shared(classes: dict[str, type]) -> None:
    """Write the entries of shared parameters out, and bring signatures into the order of the docstrings.

    Sets: docstrings and signatures of classes, which are given by their names.
    """
    for name, cls in classes.items():
        text, init = _described(name, classes), cls.__init__  # type: ignore[misc]
        own, *others = inspect.signature(init).parameters.values()
        others.sort(key=lambda one: one.kind is one.KEYWORD_ONLY and text.find(f"\n    {one.name} : "))
        vars(init)["__signature__"] = inspect.Signature([own, *others])


def _described(name: str, classes: dict[str, type]) -> str:
    """The docstring of a class, after those that it points to. Sets: it."""
    cls = classes[name]
    text, signature = cls.__doc__ or "", inspect.signature(cls).parameters

    def entry(parameter: str, kind: str, meaning: str) -> str:
        value = signature[parameter].default
        default = f'"{value}"' if isinstance(value, str) else repr(value)
        return f"    {parameter} : {kind}, default={default}\n        " + meaning.replace("{default}", default)

    def entries(match: re.Match[str]) -> str:
        names = match[1].split(", ")
        if not all(parameter in signature for parameter in names):  # but attributes
            return match[0]
        return "\n".join(entry(parameter, *_entry_of(parameter, _described(match[2], classes))) for parameter in names)

    own, *others = _NAMES.sub(entries, text).partition(ATTRIBUTES)
    named = ", ".join(re.findall(r"^    (\w+(?:, \w+)*)(?: : .*)?$", own, re.MULTILINE)).split(", ")
    rest = [entry(name, *PARAMETERS[name]) for name in signature if name not in named]
    cls.__doc__ = "".join(["\n".join([own, *rest]), *others])
    return cls.__doc__


def _entry_of(parameter: str, docstring: str) -> tuple[str, str]:
    """Type and meaning of a parameter that a docstring describes."""
    match = re.search(rf"^    {parameter} : (.*?)(?:, default=.*)?\n((?:        .*\n)+)", docstring, re.MULTILINE)
    assert match is not None, parameter
    return match[1], match[2].strip()
