"""What the distributed estimators share: parameters, the course of a fit, what it leaves."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from maxmargin.estimators._machinery import check, engines
from maxmargin.estimators._machinery.advice import notes_on_convergence
from maxmargin.estimators._machinery.clients import Agreed, Held, Outcome, Readable
from maxmargin.estimators._machinery.estimator import FIT_CONSTRAINTS, POSITIVE
from maxmargin.estimators._machinery.fit import all_or_nothing
from maxmargin.estimators._machinery.linear import LinearMachine
from maxmargin.estimators._machinery.names import Engine, OnFailure, Topology
from maxmargin.operators import Matrix, MatrixLike
from maxmargin.protocols import Array, Communicator, Float
from maxmargin.solvers.choice import AnyProblem, Choice

DISTRIBUTED_CONSTRAINTS: dict[str, list[object]] = {
    **{name: rule for name, rule in FIT_CONSTRAINTS.items() if name != "warm_start"},
    "random_state": ["random_state"],
    "engine": [StrOptions({"auto", "in_process", "mpi", "dask"})],
    "topology": [StrOptions({"gather", "star"})],
    "n_clients": [Interval(Integral, 1, None, closed="left"), None],
    "round_timeout": [POSITIVE],
    "checkpoint": [str, Path, None],
    "checkpoint_every": [Interval(Real, 0, None, closed="left")],
    "on_failure": [StrOptions({"raise", "restart"})],
}
TRAFFIC = ("rounds", "scalars", "bytes", "received", "seconds")


@dataclass(kw_only=True, eq=False, repr=False)
class DistributedMachine(LinearMachine):
    """A linear estimator whose rows are spread over clients."""

    engine: Engine = "auto"
    topology: Topology = "gather"
    n_clients: int | None = None
    round_timeout: float = 60.0
    checkpoint: str | Path | None = None
    checkpoint_every: float = 60.0
    on_failure: OnFailure = "raise"
    warm_start: bool = field(default=False, init=False)
    n_jobs: None = field(default=None, init=False)

    _reads_chunks = False
    _targets: ClassVar[str]  # what they are called

    def fit(self, X: MatrixLike | Readable, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model to the rows of all clients and certify it.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask collection or ShardedData
            Samples. Arrays are divided among the clients; under ``mpirun`` every rank passes the same and takes its
            part. Chunks of a Dask collection stay in their workers. Files (`maxmargin.io.open_shards`) are read by the
            clients, each its own rows.
        y : array-like or Dask collection of shape (n_samples,)
            Class labels, or targets; files have their own.
        sample_weight : array-like or Dask collection of shape (n_samples,), default=None
            Weight of each sample's loss: weight 2 is the same as the sample twice.

        Returns
        -------
        self : estimator
            The fitted estimator, the same for every rank.

        """
        with all_or_nothing(self):
            self._validate_params()
            self._refuse_contradictions()
            self._keep_outcome(self._run(X, y, sample_weight))
        for note in notes_on_convergence(self, cast("Matrix", X) if hasattr(X, "max") else np.empty((0, 0))):
            warnings.warn(note, ConvergenceWarning, stacklevel=2)
        return self

    def predict(self, X: MatrixLike) -> Array:
        """Labels or targets of samples.

        Parameters
        ----------
        X : array-like, sparse matrix or Dask array of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray or Dask array of shape (n_samples,)
            Class labels, or targets.

        """
        check_is_fitted(self)
        if engines.is_dask(X):
            of_nothing = self._decoded(np.empty((0, np.size(self.intercept_))))
            predictions: Array = engines.by_chunks(self.predict, X, of_nothing)
            return predictions
        return super().predict(X)

    def _agree(self, y: Array, weights: Float, communicator: Communicator) -> Agreed:
        """What all clients are going to solve, from the targets and weights of one."""
        raise NotImplementedError

    def _nus(self, name: Callable[[int], str], sides: Float) -> tuple[Float, float]:
        """The nu of each task and the largest feasible one, from the weights of its positive and negative samples."""
        return np.zeros(len(sides)), 0.0

    def _choice(self, problem: AnyProblem, clients: int = 0) -> Choice:
        """The solver for the rows of all clients, or of those to come."""
        return super()._choice(problem, clients or engines.number_of_clients(self))

    def _refuse_contradictions(self) -> None:
        """Refuse parameters that exclude each other."""
        if getattr(self, "_skl_callbacks", ()):
            raise ValueError(
                f"{type(self).__name__} has no scikit-learn callbacks, since its rounds may run in other processes; "
                f"use the parameter callback."
            )

    def _run(self, X: Any, y: ArrayLike | None, sample_weight: ArrayLike | None) -> Outcome:
        """What the clients of an engine have found."""
        engine = engines.engine_for(self, X)
        if engines.is_dask(X):
            if hasattr(X, "columns"):
                self.feature_names_in_ = np.array(list(X.columns), dtype=object)
            return engines.run_on_chunks(self, X, y, sample_weight)
        if hasattr(X, "read"):
            if y is not None or sample_weight is not None:
                raise ValueError(
                    f"Files hold their own {self._targets} and no weights; pass neither y nor sample_weight."
                )
            if X.feature_names is not None:
                self.feature_names_in_ = np.array(X.feature_names, dtype=object)
            return engines.run(self, engine, lambda rank, size: X)
        X, y = check.check_training_data(self, X, y)
        weights = check.check_sample_weight(self, X, sample_weight)

        def shard_of(rank: int, size: int) -> Held:
            some = slice(y.size * rank // size, y.size * (rank + 1) // size)
            return Held(X[some], y[some], weights[some])

        return engines.run(self, engine, shard_of)

    def _keep_outcome(self, outcome: Outcome) -> None:
        """Sets: the fitted attributes."""
        self.n_features_in_, self.shape_fit_ = outcome.n_features, (outcome.n_samples, outcome.n_features)
        self.coef_, self.intercept_ = outcome.coef, outcome.intercept
        self.traffic_ = dict(zip(TRAFFIC, outcome.traffic.T, strict=True))
        self._keep_certificates(outcome.solutions)
