"""Axes for the pictures of models and paths, which need matplotlib; nothing else does."""

from __future__ import annotations

from typing import Any


def new_axes(rows: int = 1, columns: int = 1, **settings: Any) -> Any:
    """Axes of a new figure, an array of them if there are several, if matplotlib is there."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("Drawing needs matplotlib, which is not installed: pip install 'maxmargin[plot]'.") from None
    return pyplot.subplots(rows, columns, layout="constrained", **settings)[1]
