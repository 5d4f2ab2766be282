"""What a kernel machine remembers of its training samples, as long as it lives in memory and is not stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from maxmargin.estimators._machinery.plan import Plan, Task
from maxmargin.operators import Matrix
from maxmargin.protocols import Float

REMEMBERED_SAMPLES = 10_000  # with more of them, samples are not kept alive for what may come later


class Training(NamedTuple):
    """References, no copies, to what a model was fitted to. Model files and pickles leave it out."""

    X: Matrix | None  # None if there were too many samples
    y: Any
    weights: Float
    tasks: Sequence[Task]

    @classmethod
    def of(cls, plan: Plan) -> Training:
        """That of a fit."""
        few = plan.weights.size <= REMEMBERED_SAMPLES
        return cls(plan.X if few else None, plan.y, plan.weights, plan.tasks)
