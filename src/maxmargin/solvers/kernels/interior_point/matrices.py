"""What interior point steps solve with: ``1 + S K S`` for a diagonal ``S``, with all of ``K`` or its factor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from maxmargin.operators.low_rank import LowRank
from maxmargin.operators.tiles import stretches
from maxmargin.protocols import Float
from maxmargin.threads import go_on

CORRECTIONS = 12  # of a solution: conjugate gradients that the factor preconditions
ACCURACY = 1e-14  # of a solution, relative to the right hand side
AT_A_TIME = 4096  # rows
RIDGES = (1e-14, 1e-12, 1e-10)  # of the diagonal, where rounding leaves no factor: the corrections make up for it

Solve = Callable[[Float], Float]


class KernelMatrix(ABC):
    """``K``, or what stands for it, and the solution of ``(1 + S K S) x = r`` for any diagonal ``S``."""

    passes: float  # over the data, that a product takes
    left_out: float  # the trace of what it leaves out of the kernel matrix

    @abstractmethod
    def times(self, beta: Float) -> Float:
        """``K beta``."""

    @abstractmethod
    def factor(self, s: Float) -> Solve | None:
        """What nearly solves; ``None`` if the matrix is not positive definite."""

    def solver(self, s: Float) -> Solve | None:
        """What solves, as exactly as float64 can: a few conjugate gradients mend what is lost in the factor."""
        nearly = self.factor(s)
        if nearly is None:
            return None

        def solve(r: Float) -> Float:
            x = nearly(r)
            error = r - x - s * self.times(s * x)
            z = nearly(error)
            p, rho = z, float(error @ z)
            for _ in range(CORRECTIONS):
                enough = float(np.linalg.norm(error)) <= ACCURACY * float(np.linalg.norm(r))
                h = p + s * self.times(s * p)
                curvature = float(p @ h)
                if enough or not (rho > 0.0 and curvature > 0.0):
                    break
                x, error = x + (rho / curvature) * p, error - (rho / curvature) * h
                z, before = nearly(error), rho
                rho = float(error @ z)
                if not rho < 0.25 * before:
                    break
                p = z + (rho / before) * p
            return x

        return solve


class Whole(KernelMatrix):
    """All kernel values."""

    passes, left_out = 1.0, 0.0

    def __init__(self, K: Float) -> None:
        self.K = K

    def times(self, beta: Float) -> Float:
        """``K beta``."""
        return np.asarray(self.K @ beta)

    def factor(self, s: Float) -> Solve | None:
        """Cholesky's factor: ``n^3 / 3`` operations."""
        go_on()
        for more in (0.0, *RIDGES):
            B = self.K * s[:, None]
            B *= s
            diagonal = B.diagonal() * (1.0 + more) + 1.0
            B[np.diag_indices_from(B)] = diagonal
            L, failed = dpotrf(B.T, lower=1, overwrite_a=1, clean=0)
            if not failed:
                return partial(_solved, L)
        return None


def _solved(L: Float, r: Float) -> Float:
    return np.asarray(dpotrs(L, r, lower=1)[0])


class OfLowRank(KernelMatrix):
    """``G G^T + diag(left)`` in the place of ``K``: the diagonal is exact, and the dual value expects what is left out.

    ``1 + S K S`` is a diagonal ``e`` and ``V V^T`` with ``V = S G``: what is factorised has the size of the rank.
    """

    def __init__(self, found: LowRank, lam: float, shift: float) -> None:
        self.G, self.left = found.G / np.sqrt(lam), found.left / lam
        if shift:
            self.G = np.column_stack([self.G, np.full(len(self.G), np.sqrt(shift))])
        self.passes, self.left_out = self.G.shape[1] / max(1, self.G.shape[0]), float(self.left.sum())

    def times(self, beta: Float) -> Float:
        """``K beta``."""
        return np.asarray(self.G @ (beta @ self.G) + self.left * beta)

    def factor(self, s: Float) -> Solve | None:
        """By the matrix of Sherman, Morrison and Woodbury: ``n k^2`` operations."""
        e = 1.0 + s * s * self.left
        M = np.eye(self.G.shape[1])
        for rows in stretches(len(self.G), AT_A_TIME):
            go_on()
            V = (s[rows] / np.sqrt(e[rows]))[:, None] * self.G[rows]
            M += V.T @ V
        L, failed = dpotrf(M, lower=1, overwrite_a=1, clean=0)
        if failed:
            return None

        def solve(r: Float) -> Float:
            scaled = r / e
            inner = dpotrs(L, (s * scaled) @ self.G, lower=1)[0]
            return np.asarray(scaled - s * (self.G @ inner) / e)

        return solve
