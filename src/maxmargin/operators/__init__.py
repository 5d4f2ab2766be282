"""Operators: samples as rows, in memory, chunk by chunk or spread over clients, as columns, or through a kernel."""

from maxmargin.operators.bordered import Bordered
from maxmargin.operators.centred import Centred
from maxmargin.operators.chunked import ChunkedMatrix, Chunks, MatrixLike, rows_of
from maxmargin.operators.columns import Columns
from maxmargin.operators.given import CallableGram, PrecomputedGram
from maxmargin.operators.gram import Gram, KernelGram, StoredGram
from maxmargin.operators.rows import Matrix, Rows
from maxmargin.operators.sharded import Sharded
from maxmargin.operators.shared_rows import SharedRows
from maxmargin.operators.tiles import kernel_sums
from maxmargin.operators.vectors import DenseVectors, SparseVectors

__all__ = [
    "Bordered",
    "CallableGram",
    "Centred",
    "ChunkedMatrix",
    "Chunks",
    "Columns",
    "DenseVectors",
    "Gram",
    "KernelGram",
    "Matrix",
    "MatrixLike",
    "PrecomputedGram",
    "Rows",
    "Sharded",
    "SharedRows",
    "SparseVectors",
    "StoredGram",
    "kernel_sums",
    "rows_of",
]
