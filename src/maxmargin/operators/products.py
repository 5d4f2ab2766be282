"""Kernel matrices of the same samples for many parameters, from inner products that are computed once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from maxmargin.operators.gram import Gram, KernelGram, map_all
from maxmargin.operators.rows import Matrix, dense64, is_sparse
from maxmargin.protocols import Float, Kernel
from maxmargin.threads import Workers


class Products:
    """Samples whose inner products, and with them all distances, are shared by kernels of any parameters."""

    def __init__(self, X: Matrix, workers: Workers) -> None:
        self.X, self.workers = X, workers

    @cached_property
    def _centred(self) -> Float:
        """Inner products of the samples less their middle, for kernels of distances: so they cancel less."""
        Z = dense64(self.X)
        Z = Z - Z.mean(axis=0)
        return np.asarray(Z @ Z.T)

    @cached_property
    def _plain(self) -> Float:
        X = self.X.astype(np.float64)
        P = X @ X.T
        return np.asarray(P.toarray() if is_sparse(P) else P)

    def prepare(self, kernel: Kernel) -> None:
        """Compute what kernels of this kind share, before several threads ask for it."""
        if not kernel.traits.by_distance:
            _ = self._centred if self._is_centred(kernel) else self._plain

    def _is_centred(self, kernel: Kernel) -> bool:
        return kernel.traits.of_differences and not is_sparse(self.X)

    def matrix(self, kernel: Kernel) -> Float:
        """The whole kernel matrix, for fits that need not be exact: distances are not measured again."""
        if kernel.traits.by_distance:
            return self.gram(kernel).whole
        P = self._centred if self._is_centred(kernel) else self._plain
        K = P.copy()
        map_all(kernel, K, P.diagonal().copy())
        return K

    def gram(self, kernel: Kernel) -> Gram:
        """The kernel matrix as an operator, with nothing shared."""
        return KernelGram(kernel, self.X, self.workers)
