"""The roles that the parts of the library play for each other, and the aliases for arrays.

A part is whatever has the right methods: nothing here is inherited from. Scalar methods of losses, penalties and
kernels are called from compiled loops, so their classes are ``NamedTuple`` types marked with ``@compiled_methods``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Float: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.int64]
Array: TypeAlias = NDArray[Any]
Intercept: TypeAlias = Literal["free", "penalised"] | None


class LossTraits(NamedTuple):
    """What solvers have to know about a loss before they call it. Everything else follows from its methods."""

    classes: bool = False  # whether targets are -1 or +1, and dual variables have their sign
    kinked: bool = False  # whether its slope jumps somewhere, so that descent has to smooth it
    dual_pieces: int = 0  # parabolas that its conjugate consists of: 1, or 2 that meet at zero; 0 if it is no parabola


class Loss(Protocol):
    """A convex function of the score ``z`` for a target ``y``."""

    @property
    def traits(self) -> LossTraits:
        """What solvers have to know in advance."""

    def value(self, z: float, y: float) -> float:
        """Loss at score ``z``."""

    def slope(self, z: float, y: float) -> float:
        """A subgradient with respect to ``z``."""

    def conjugate(self, u: float, y: float) -> float:
        """``sup_z u z - value(z, y)``; infinite outside of its domain."""

    def dual_range(self, y: float) -> tuple[float, float]:
        """Smallest interval that holds ``-slope(z, y)`` for every ``z``."""

    def dual_slope(self, a: float, y: float, s: float) -> float:
        """Derivative of ``s conjugate(-a/s, y)`` in ``a``, inside of its range."""

    def dual_curvature(self, a: float, y: float, s: float) -> float:
        """Second derivative of ``s conjugate(-a/s, y)`` in ``a``; infinite where ``a`` does not react to the score."""

    def dual_step(self, a: float, y: float, s: float, z: float, q: float) -> float:
        """Dual variable that maximises ``-s conjugate(-a'/s, y) - (a' - a) z - q (a' - a)^2 / 2`` over ``a'``."""


class Penalty(Protocol):
    """A convex, separable function of the coefficients, which is zero at zero. ``j`` is the number of a coefficient."""

    @property
    def lam(self) -> float:
        """Strength of the penalty."""

    def cost(self, w: float, j: int) -> float:
        """Penalty of one coefficient; infinite where it must not be."""

    def conjugate_cost(self, v: float, j: int) -> float:
        """``sup_w v w - cost(w)``; infinite outside of its domain."""

    def dual_limits(self, j: int) -> tuple[float, float]:
        """Ends of the interval around zero in which ``conjugate_cost(v, j)`` is finite."""

    def prox(self, v: float, step: float, j: int) -> float:
        """``argmin_w cost(w) + (w - v)^2 / (2 step)``."""


class KernelTraits(NamedTuple):
    """What a kernel matrix has to know about its kernel beforehand."""

    positive: bool = False  # whether every matrix of it is positive semi-definite; if not, each matrix is tested
    by_distance: bool = False  # whether pairs are measured by their Manhattan distance, not by their inner product
    of_differences: bool = False  # whether moving all points together changes nothing: they are centred, to round less
    steepness: float = 0.0  # of kernels of differences: how fast the logarithm of a value falls with the measurement


class Kernel(Protocol):
    """A Mercer kernel that depends on two points through one measurement of the pair and their squared norms."""

    @property
    def traits(self) -> KernelTraits:
        """What has to be known beforehand."""

    def similarity(self, m: float, sq_left: float, sq_right: float) -> float:
        """Value of the kernel for the measurement ``m`` (inner product or distance)."""

    def magnitude(self, sq: Float) -> Float:
        """Numbers for points of these squared lengths: no value is larger than the product of those of its points."""

    def roundings(self, sq: Float, largest: float, terms: float) -> Float:
        """The error of computed values as a multiple of unit roundoff and of the product of the magnitudes.

        One point has the squared length ``sq``, the other at most ``largest``. The measurement is a sum of ``terms``
        products or, for kernels of differences, of twice so many positive terms: what cancels is counted elsewhere.
        """


class Vectors(Protocol):
    """A sequence of vectors, dense or sparse, as compiled loops see it."""

    def dot(self, i: int, w: Float) -> float:
        """Inner product of vector ``i`` with the dense vector ``w``."""

    def dot_weighted(self, i: int, s: Float, w: Float) -> float:
        """Inner product of vector ``i`` with ``w``, where each entry has a weight."""

    def dot_shrunk(self, i: int, level: float, w: Float) -> float:
        """Inner product of vector ``i`` with ``w`` after its entries were moved towards zero by ``level``."""

    def add(self, i: int, step: float, w: Float) -> None:
        """``w += step * vector i``."""

    def multiply(self, start: int, stop: int, w: Float, out: Float) -> None:
        """Inner products of some vectors, one after another, with ``w``. Sets: ``out[start:stop]``."""

    def add_each(self, some: Index, weights: Float, w: Float) -> None:
        """``w += weights[i] * vector i`` for some vectors."""

    def add_squares(self, i: int, weight: float, w: Float) -> None:
        """``w += weight * (vector i)^2``, entry by entry."""

    def beyond(self, i: int, limits: Float) -> bool:
        """Whether vector ``i`` has an entry that is larger, without its sign, than the limit of its column."""

    def approach(self, i: int) -> None:
        """Announce that vector ``i`` will be needed soon."""

    def squared_length(self, i: int) -> float:
        """Squared Euclidean norm of vector ``i``."""

    def add_weighted(self, i: int, step: float, weights: Float, w: Float) -> None:
        """``w += step * weights * vector i``, entry by entry."""

    def weighted_square(self, i: int, weights: Float) -> float:
        """The same with a weight for each entry."""


@runtime_checkable
class Operator(Protocol):
    """The map from coefficients to scores and its adjoint.

    For a matrix the coefficients are ``w`` and the scores ``X w``. For a kernel the coefficients are the expansion
    ``beta`` of a function over the samples, the scores ``K beta``, and the adjoint is the identity.
    """

    n_samples: int

    def apply(self, w: Float) -> Float:
        """Scores of the samples, recomputed in float64."""

    def adjoint(self, alpha: Float) -> Float:
        """Coefficients of ``sum_i alpha_i x_i``, recomputed in float64."""

    def passes(self, w: Float) -> float:
        """Cost of ``apply(w)``, where reading the whole matrix once costs 1."""


@runtime_checkable
class Features(Operator, Protocol):
    """An operator over rows of features, which need not be in memory: for methods that sweep over all rows."""

    n_features: int
    entries: int  # of the matrix
    total_samples: int  # of all clients, if the rows are spread over several
    room: int  # rows that fit into memory beside it
    parts: list[slice]  # of the rows, for threads
    workers: Any  # threads for the parts
    products_passes: float  # what `products` costs

    def column_lengths(self) -> Float:
        """Norms of the columns."""

    def terms(self) -> tuple[int, int]:
        """How many products are added up to a score, and to a coefficient, in one sum after another, at most."""

    def take(self, samples: Index) -> Features:
        """Some of the rows, copied into memory."""

    def products(self, w: Float, alpha: Float) -> tuple[Float, Float]:
        """``X w`` and ``X^T alpha``."""

    def squared_lengths(self) -> Float:
        """Squared norms of the rows."""

    def column_squares(self, s: Float) -> Float:
        """``sum_i s_i x_ij^2`` for every column ``j``."""

    def beyond(self, limits: Float) -> Array:
        """Whether each row has an entry that is larger, without its sign, than the limit of its column."""

    def weighted_gram(self, h: Float, height: float = 0.0) -> Float:
        """``[X c]^T diag(h) [X c]`` for weights ``h >= 0``; ``c`` has this height, and is left out if that is 0."""

    def adjoint_passes(self, alpha: Float) -> float:
        """What ``adjoint(alpha)`` costs."""

    def gram_passes(self, h: Float) -> float:
        """What the gram of `adjoint_and_gram` costs beside the adjoint."""

    def apply_each(self, W: Float) -> Float:
        """``X W^T``: a column of scores for each row of ``W``."""

    def adjoint_each(self, A: Float) -> Float:
        """``A^T X``: a row of coefficients for each column of ``A``."""


@runtime_checkable
class LocalRows(Features, Protocol):
    """Rows of features that are all of this client."""

    def take(self, samples: Index) -> LocalRows:
        """Some of the rows, copied into memory."""

    def adjoint_and_gram(self, alpha: Float, h: Float, height: float) -> tuple[Float, Callable[[], Float]]:
        """``X^T alpha``, and ``weighted_gram(h, height)`` for whoever asks, from one reading if reading is expensive.

        ``h`` must not change before it is asked for.
        """

    def squares_each(self, H: Float) -> Float:
        """``H^T X^2``: a row of weighted sums of squares of the features for each column of ``H``."""


class Communicator(Protocol):
    """The only way in which the clients of a distributed fit know of each other: all call the same method, and wait.

    Every client runs the same program on its own rows. A sum is formed in the order of the ranks, so that it has the
    same bits for every client and on every engine.
    """

    @property
    def rank(self) -> int:
        """Of this client; that of the first is 0."""

    @property
    def size(self) -> int:
        """Number of clients."""

    def allgather(self, x: Float) -> Float:
        """The arrays of all clients, which are of one shape, stacked in the order of their ranks."""

    def allreduce(self, x: Float) -> Float:
        """The sum of the arrays of all clients."""

    def broadcast(self, x: Float) -> Float:
        """The array of rank 0; what the others bring counts for its shape only."""

    def combined(self, x: Float, rule: Callable[[Float], Float], size: int) -> Float:
        """The ``size`` numbers that a rule makes of the arrays of all clients, stacked in the order of their ranks.

        The rule is the same for all, and applied wherever the arrays meet.
        """
