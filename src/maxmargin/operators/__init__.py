"""Operators: how the samples are seen, as rows, in memory or chunk by chunk, as columns, or through a kernel."""

from maxmargin.operators.chunks import ChunkedMatrix, Chunks, rows_of
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
    "ChunkedMatrix",
    "Chunks",
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
    "rows_of",
]
