"""maxmargin: support vector machines and regularised linear models that prove their answers."""

from importlib.metadata import version

from maxmargin import bounds as bounds
from maxmargin import estimators
from maxmargin import solvers as solvers
from maxmargin.datasets import load_planets
from maxmargin.estimators import *
from maxmargin.loop.minimize import minimize
from maxmargin.loop.solution import Record, Solution
from maxmargin.loop.trace import trace
from maxmargin.parts.parametrisations import convert_strength
from maxmargin.problems.box_qp import BoxQP
from maxmargin.problems.crammer_singer import CrammerSingerProblem
from maxmargin.problems.groups import GroupProblem
from maxmargin.problems.hulls import HullDistance
from maxmargin.problems.point import Certificate, Point, Status
from maxmargin.problems.problem import Problem
from maxmargin.problems.softmax import SoftmaxProblem

__version__ = version("maxmargin")

__all__ = [
    *estimators.__all__,
    "BoxQP",
    "Certificate",
    "CrammerSingerProblem",
    "GroupProblem",
    "HullDistance",
    "Point",
    "Problem",
    "Record",
    "SoftmaxProblem",
    "Solution",
    "Status",
    "convert_strength",
    "load_planets",
    "minimize",
    "trace",
]
