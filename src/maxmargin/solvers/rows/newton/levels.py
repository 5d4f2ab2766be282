"""Problems of fewer rows, which large ones are solved on first."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from maxmargin.numerics.sampling import chances
from maxmargin.problems.problem import Problem
from maxmargin.protocols import Index

COARSER = 12  # times fewer rows
COARSE_ENTRIES = 200_000  # of a matrix that is worth solving on fewer rows first
COARSE_SAMPLES = 600  # per feature, of such a matrix
HEAVY = 1e9  # multiplications for the Hessian that make it worth while from fewer samples per feature,
HEAVY_SAMPLES = 75  # namely these
LEAST_SAMPLES = 8  # per feature, that are left


def is_large(problem: Problem) -> bool:
    """Whether a twelfth of the rows says much about all of them, and is much cheaper."""
    rows = problem.features
    return worth_thinning(rows.entries, rows.total_samples, rows.n_features)


def worth_thinning(entries: int, n_samples: int, n_features: int) -> bool:
    """Whether a matrix is so large that a part of its rows is solved first."""
    heavy = entries**2 >= HEAVY * n_samples
    least = HEAVY_SAMPLES if heavy else COARSE_SAMPLES
    return entries >= COARSE_ENTRIES and n_samples >= least * n_features


def thinned(problem: Problem) -> Problem:
    """A twelfth of the rows, or what fits into memory, chosen by chance; their weights add up to that of all.

    A row's chance follows from its number among the rows of all clients: it is the same however these are spread.
    """
    rows = problem.features
    communicator = problem.communicator
    counts, rooms = communicator.allgather(np.array([rows.n_samples, rows.room], dtype=float)).T
    room = float((rooms[counts > 0.0] / counts[counts > 0.0]).min(initial=1.0))
    share = min(max(1.0 / COARSER, LEAST_SAMPLES * rows.n_features / float(counts.sum())), room)
    first = int(counts[: communicator.rank].sum())
    some = np.flatnonzero(chances(first, first + rows.n_samples) < share)[: rows.room]
    coarse = part_of(problem, some)
    weight, part = problem.sums(problem.s.sum(), coarse.s.sum())
    return replace(coarse, s=coarse.s * (weight / (part or 1.0)))


def part_of(problem: Problem, some: Index) -> Problem:
    """The problem of some of our rows."""
    return replace(problem, operator=problem.features.take(some), y=problem.y[some], s=problem.s[some])
