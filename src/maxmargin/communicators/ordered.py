"""A sum that does not depend on the engine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxmargin.protocols import Float


def ordered_sum(parts: Float | Sequence[Float]) -> Float:
    """The sum of the arrays of all clients in the order of their ranks: the same bits wherever it is formed."""
    out = np.array(parts[0])
    for part in parts[1:]:
        out += part
    return out
