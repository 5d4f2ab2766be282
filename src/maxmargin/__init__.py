"""maxmargin: support vector machines and regularised linear models that prove their answers.

Public names are imported when they are first asked for, so that the command line answers at once, also to Ctrl-C.
"""

from importlib import import_module

TYPE_CHECKING = False  # known to type checkers under this name; typing itself would be the slowest of our imports

if TYPE_CHECKING:
    from maxmargin import bounds as bounds
    from maxmargin import estimators as estimators
    from maxmargin import solvers as solvers
    from maxmargin.datasets import load_planets as load_planets
    from maxmargin.estimators import *
    from maxmargin.loop.minimize import minimize as minimize
    from maxmargin.loop.solution import Record as Record
    from maxmargin.loop.solution import Solution as Solution
    from maxmargin.loop.trace import trace as trace
    from maxmargin.parts.parametrisations import convert_strength as convert_strength
    from maxmargin.problems.box_qp import BoxQP as BoxQP
    from maxmargin.problems.crammer_singer import CrammerSingerProblem as CrammerSingerProblem
    from maxmargin.problems.groups import GroupProblem as GroupProblem
    from maxmargin.problems.hulls import HullDistance as HullDistance
    from maxmargin.problems.point import Certificate as Certificate
    from maxmargin.problems.point import Point as Point
    from maxmargin.problems.point import Status as Status
    from maxmargin.problems.problem import Problem as Problem
    from maxmargin.problems.softmax import SoftmaxProblem as SoftmaxProblem

    __version__: str
    __all__: list[str]

_MODULES = ("bounds", "estimators", "solvers")
_HOMES = {  # of the public names that are no estimators, which are listed in their folder
    "BoxQP": "problems.box_qp",
    "Certificate": "problems.point",
    "CrammerSingerProblem": "problems.crammer_singer",
    "GroupProblem": "problems.groups",
    "HullDistance": "problems.hulls",
    "Point": "problems.point",
    "Problem": "problems.problem",
    "Record": "loop.solution",
    "SoftmaxProblem": "problems.softmax",
    "Solution": "loop.solution",
    "Status": "problems.point",
    "convert_strength": "parts.parametrisations",
    "load_planets": "datasets",
    "minimize": "loop.minimize",
    "trace": "loop.trace",
}


def __getattr__(name: str) -> object:
    """Import what is asked for. Sets: the name, so that it is asked for once."""
    if name == "__version__":
        found: object = import_module("importlib.metadata").version("maxmargin")
    elif name == "__all__":
        found = [*import_module("maxmargin.estimators").__all__, *_HOMES]
    elif name in _MODULES:
        found = import_module(f"maxmargin.{name}")
    elif name in _HOMES:
        found = getattr(import_module(f"maxmargin.{_HOMES[name]}"), name)
    elif not name.startswith("_") and name in (estimators := import_module("maxmargin.estimators")).__all__:
        found = getattr(estimators, name)
    elif name in globals():  # a folder that was imported by the way
        return globals()[name]
    else:
        raise AttributeError(f"module 'maxmargin' has no attribute {name!r}", name=name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module("maxmargin.estimators").__all__, *_HOMES, *_MODULES, "__version__"})
