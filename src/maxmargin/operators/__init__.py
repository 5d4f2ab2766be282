"""Operators: how the samples are seen, as rows, as columns, or through a kernel."""

from maxmargin.operators.columns import Columns
from maxmargin.operators.gram import (
    CallableGram,
    Gram,
    KernelGram,
    PrecomputedGram,
    StoredGram,
    cross_gram,
    kernel_sums,
)
from maxmargin.operators.rows import DenseVectors, Rows, SparseVectors

__all__ = [
    "CallableGram",
    "Columns",
    "DenseVectors",
    "Gram",
    "KernelGram",
    "PrecomputedGram",
    "Rows",
    "SparseVectors",
    "StoredGram",
    "cross_gram",
    "kernel_sums",
]
