"""A quadratic program in a finite box: what keeps the solvers of kernels finite where the kernel is not positive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from maxmargin.problems.box_qp import BoxQP


def with_finite_box(qp: BoxQP) -> BoxQP:
    """The same program with finite bounds where every variable has a part ``D a^2 / 2`` of its own.

    That is the dual of squared losses, which bound their variables on one side only. Over an indefinite kernel it may
    have no minimum, and steps grow until they overflow. If the kernel matrix is positive, nothing is lost: at the
    minimum, which is not above the value at zero, ``a^T D a / 2 <= q^T a``, so that ``|D^(1/2) a|`` is at most
    ``2 |D^(-1/2) q|``.
    """
    if np.isfinite(qp.low).all() and np.isfinite(qp.high).all():
        return qp
    if not (qp.D > 0.0).all() or qp.totals.any():
        return qp
    root = np.sqrt(qp.D)
    reach = 2.0 * float(np.linalg.norm(qp.q / root)) / root
    return replace(qp, low=np.maximum(qp.low, -reach), high=np.minimum(qp.high, reach))
