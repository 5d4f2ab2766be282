"""Operators: how the samples are seen, as rows, as columns, or through a kernel."""

from maxmargin.operators.columns import Columns
from maxmargin.operators.gram import CallableGram, Gram, KernelGram, PrecomputedGram, cross_gram
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
    "cross_gram",
]
