"""What solvers of linear problems ask for, and the sentences for problems that do not have it."""

from __future__ import annotations

from typing import Any

from maxmargin.operators import Rows
from maxmargin.penalties import L2
from maxmargin.problem import Problem
from maxmargin.protocols import Features


def lacks_rows(problem: Any, *, in_memory: bool = False) -> str | None:
    """Why not, if the samples are not rows of features, or not in memory where a solver visits single ones."""
    if isinstance(problem, Problem) and isinstance(problem.operator, Rows if in_memory else Features):
        return None
    where = ", and in memory, not in chunks" if in_memory else ""
    return f"it needs the samples as rows of features, not a kernel{where}"


def lacks_l2(problem: Problem) -> str | None:
    """Why not, if the penalty is another one than L2."""
    if isinstance(problem.penalty, L2):
        return None
    return f"it needs an L2 penalty; this problem has {type(problem.penalty).__name__}"


def has_more_features(problem: Problem, most: int) -> str | None:
    """Why not, if a matrix of the size of the features would be too large."""
    d = problem.operator.n_features  # type: ignore[attr-defined]
    if d <= most:
        return None
    return f"it factorises a matrix of the size of the features; this problem has {d}, more than {most}"
