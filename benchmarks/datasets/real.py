"""The workloads on real data, for benchopt; the environment variable MAXMARGIN_DATA names their directory."""

import os
from pathlib import Path
from typing import ClassVar

from benchopt import BaseDataset

from benchmark_utils.workloads import BY_NAME, REAL

DIRECTORY = os.environ.get("MAXMARGIN_DATA")


class Dataset(BaseDataset):
    """Data and task of a workload."""

    name = "real"
    parameters: ClassVar = {"workload": [workload.name for workload in REAL]}

    @classmethod
    def is_installed(cls, *_, **__):
        return DIRECTORY is not None

    def get_data(self):
        workload = BY_NAME[self.workload]
        X, y = workload.load(Path(DIRECTORY))
        return {"X": X, "y": y, "task": workload.task}
