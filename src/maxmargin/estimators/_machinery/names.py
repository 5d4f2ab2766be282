"""The names that parameters may have, so that type checkers find a wrong one before the program runs.

Solvers are not among them: modules outside of the package may register more.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

KernelName: TypeAlias = Literal["linear", "rbf", "poly", "sigmoid", "laplacian", "precomputed"]
Bandwidth: TypeAlias = Literal["scale", "auto"]
InterceptName: TypeAlias = Literal["auto", "free", "penalised"]
Hinges: TypeAlias = Literal["hinge", "squared_hinge"]
Tubes: TypeAlias = Literal["epsilon_insensitive", "squared_epsilon_insensitive"]
Pairing: TypeAlias = Literal["ovo", "ovr"]
Norm: TypeAlias = Literal["l2", "l1"]
AnyNorm: TypeAlias = Literal["l2", "l1", "elasticnet"]
Engine: TypeAlias = Literal["auto", "in_process", "mpi", "dask"]
Topology: TypeAlias = Literal["gather", "star"]
OnFailure: TypeAlias = Literal["raise", "restart"]
Approximation: TypeAlias = Literal["nystroem"]
