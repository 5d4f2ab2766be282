"""The unit of a fit: one problem over some of the samples."""

from __future__ import annotations

from dataclasses import dataclass

from maxmargin.protocols import Float, Index


@dataclass(frozen=True)
class Task:
    """One problem of a fit: which samples take part, and what they should score."""

    name: str
    members: Index
    y: Float
