"""Large blocks of memory that the next fit uses again.

The system fills fresh memory with zeros page by page, which costs more than the kernel values that are written to it. A
block that is given back stays mapped, but the system may take its pages whenever it needs them.
"""

from __future__ import annotations

import mmap
import weakref

import numpy as np
from numpy.typing import DTypeLike

from maxmargin.protocols import Array

SMALLEST = 2**20  # bytes; the allocator keeps smaller ones itself
LAZY = 2**23  # bytes: smaller blocks stay whole
KEPT_BLOCKS = 4  # fits side by side have one each
POSSIBLE = all(hasattr(mmap, name) for name in ("MAP_PRIVATE", "MAP_ANONYMOUS", "MADV_FREE"))

# Only memory, no state: nobody reads what he has not written. Taking and adding are atomic.
_kept: list[mmap.mmap] = []


def memory_for(owner: object | None, size: int, dtype: DTypeLike) -> Array:
    """An array of ``size`` arbitrary numbers, to be used as long as ``owner`` lives; if there is none, as any array."""
    nbytes = size * np.dtype(dtype).itemsize
    if nbytes < SMALLEST or not POSSIBLE:
        return np.empty(size, dtype=dtype)
    block = _kept_block(nbytes) or _fresh_block(nbytes)
    array = np.frombuffer(block, dtype=dtype, count=size)
    weakref.finalize(array if owner is None else owner, _give_back, block).atexit = False  # views keep it alive
    return array


def _kept_block(nbytes: int) -> mmap.mmap | None:
    """One that is large enough. Those that are not make room for a new one."""
    while True:
        try:
            block = _kept.pop()
        except IndexError:
            return None
        if len(block) >= nbytes:
            return block


def _fresh_block(nbytes: int) -> mmap.mmap:
    block = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        block.madvise(mmap.MADV_HUGEPAGE)
    return block


def _give_back(block: mmap.mmap) -> None:
    if len(_kept) < KEPT_BLOCKS:
        if len(block) > LAZY:
            block.madvise(mmap.MADV_FREE)
        _kept.append(block)
