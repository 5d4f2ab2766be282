"""What a launcher, such as ``mpirun``, tells the processes that it starts: found out without loading MPI."""

from __future__ import annotations

import os

NUMBERS_OF_RANKS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS")
RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK")


def under_mpirun() -> bool:
    """Whether this process is one of several ranks; a launcher that tells the rank only is believed."""
    numbers = [os.environ[name] for name in NUMBERS_OF_RANKS if name in os.environ]
    has_rank = any(name in os.environ for name in RANKS)
    return has_rank and (not numbers or any(number != "1" for number in numbers))


def launched_rank() -> int:
    """The rank of this process; 0 if it was not launched as one of several."""
    return next((int(os.environ[name]) for name in RANKS if os.environ.get(name, "").isdigit()), 0)
