"""Data small enough to be part of the program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.protocols import Float, Index


class Planets(NamedTuple):
    """Six bodies of the solar system."""

    X: Float  # diameters in 10^6 m, one column
    y: Index  # -1 for dwarf planets, 1 for planets
    names: tuple[str, ...]


def load_planets() -> Planets:
    """Dwarf planets and planets by their diameter.

    Least squares is drawn to Jupiter and takes Mercury and the Earth for dwarfs; the widest street is not.

    Returns
    -------
    Planets
        Named tuple of ``X`` with shape (6, 1), ``y`` with labels -1 and 1, and ``names``.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SVC, load_planets
    >>> X, y, names = load_planets()
    >>> slope, shift = np.linalg.lstsq(np.column_stack([X, np.ones(6)]), y, rcond=None)[0]
    >>> print(f"least squares: {-shift / slope:.2f}")
    least squares: 27.73
    >>> model = SVC(kernel="linear", C=np.inf, tol=1e-9).fit(X, y)
    >>> print(f"widest street: {-model.intercept_[0] / model.coef_[0, 0]:.2f}")
    widest street: 3.65
    >>> [names[i] for i in model.support_]
    ['Pluto', 'Mercury']

    """
    names = ("Ceres", "Eris", "Pluto", "Mercury", "Earth", "Jupiter")
    return Planets(np.array([[1.0], [2.3], [2.4], [4.9], [12.8], [143.0]]), np.array([-1, -1, -1, 1, 1, 1]), names)
