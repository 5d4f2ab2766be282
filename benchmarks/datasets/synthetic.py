"""The generated workloads, for benchopt."""

from typing import ClassVar

from benchopt import BaseDataset

from benchmark_utils.workloads import BY_NAME, SYNTHETIC


class Dataset(BaseDataset):
    """Data and task of a workload."""

    name = "synthetic"
    parameters: ClassVar = {"workload": [workload.name for workload in SYNTHETIC]}
    test_config: ClassVar = {"workload": "rbf-2k-C1"}

    def get_data(self):
        workload = BY_NAME[self.workload]
        X, y = workload.load(None)
        return {"X": X, "y": y, "task": workload.task}
