"""Weights of losses whose squares float64 can hold: others are refused, since no certificate could be trusted."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from maxmargin.protocols import Float

SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-100, 1e150  # of a loss that counts


def are_plain(estimator: object) -> bool:
    """Whether without sample weights the weights of all losses are 1 or ``C``, which is neither too small nor large."""
    own = vars(estimator)
    return own.get("class_weight") is None and SMALLEST_WEIGHT <= own.get("C", 1.0) <= LARGEST_WEIGHT


def refuse_extreme_weights(estimator: object, weights: Iterable[Float]) -> None:
    """Refuse weights of losses, of one problem after another, whose products would underflow or overflow."""
    for s in {id(array): array for array in weights}.values():
        least, most = float(s.min(initial=np.inf)), float(s.max(initial=0.0))
        if least < SMALLEST_WEIGHT:
            least = float(s[s > 0.0].min(initial=np.inf))
        if least >= SMALLEST_WEIGHT and most <= LARGEST_WEIGHT:
            continue
        worst = most if most > LARGEST_WEIGHT else least
        factors = [name for name in ("C", "class_weight") if getattr(estimator, name, None) is not None]
        raise ValueError(
            f"The loss of a sample has the weight {worst:.1e} in {type(estimator).__name__}: the product of "
            f"{', '.join([*factors, 'sample_weight'])}, as far as they are given. It must be 0, or from "
            f"{SMALLEST_WEIGHT:.0e} to {LARGEST_WEIGHT:.0e}, or sums could not be held; change them by a common factor."
        )
