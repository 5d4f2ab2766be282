"""The rows of several clients, each of which has some of them."""

from __future__ import annotations

import numpy as np

from maxmargin.protocols import Array, Communicator, Float, Index, LocalRows


class Sharded:
    """The map ``w -> X w`` for a matrix whose rows are spread over clients, all of which call the same methods.

    Whatever has an entry for each row is local and needs no communication: scores, weights, squared lengths. Sums over
    rows are those of all clients. They cost one round each and are the same bits everywhere, so that decisions which
    rest on them are made in agreement.

    Of the figures, ``n_features``, ``entries``, ``total_samples``, ``products_passes`` and all costs are of the whole
    matrix, and equal for all clients; ``n_samples``, ``room``, ``parts`` and ``workers`` are local.

    Parameters
    ----------
    rows : LocalRows
        The rows of this client; there may be none.
    communicator : Communicator
        To the other clients.

    """

    def __init__(self, rows: LocalRows, communicator: Communicator) -> None:
        self.rows, self.communicator = rows, communicator
        self.n_samples, self.n_features = rows.n_samples, rows.n_features
        self.room, self.parts, self.workers = rows.room, rows.parts, rows.workers
        own = [rows.n_features, rows.entries, rows.n_samples, rows.products_passes, *rows.terms()]
        figures = communicator.allgather(np.array(own, dtype=np.float64))
        widths = figures[:, 0].astype(int).tolist()
        if len(set(widths)) > 1:
            raise ValueError(
                f"The clients have rows of {', '.join(map(str, widths))} features, in the order of their ranks, and "
                "they must be equal: give the number of features to whatever reads the rows."
            )
        self.entries, self.total_samples = (int(total) for total in figures[:, 1:3].sum(axis=0))
        self.products_passes = float(figures[:, 3].max())
        self._terms = int(figures[:, 4].max()), int(figures[:, 5].max()) + communicator.size
        self._column_lengths: Float | None = None

    def take(self, samples: Index) -> Sharded:
        """Some of the rows of each client, copied into memory."""
        return Sharded(self.rows.take(samples), self.communicator)

    def apply(self, w: Float) -> Float:
        """``X w`` for the rows of this client."""
        return self.rows.apply(w)

    def adjoint(self, alpha: Float) -> Float:
        """``X^T alpha``, over the rows of all."""
        return self.communicator.allreduce(self.rows.adjoint(alpha))

    def products(self, w: Float, alpha: Float) -> tuple[Float, Float]:
        """``X w`` for the rows of this client, and ``X^T alpha`` over the rows of all."""
        scores, total = self.rows.products(w, alpha)
        return scores, self.communicator.allreduce(total)

    def squared_lengths(self) -> Float:
        """Squared norms of the rows of this client."""
        return self.rows.squared_lengths()

    def column_squares(self, s: Float) -> Float:
        """``sum_i s_i x_ij^2`` for every column ``j``, over the rows of all."""
        return self.communicator.allreduce(self.rows.column_squares(s))

    def column_lengths(self) -> Float:
        """Norms of the columns over the rows of all, which cost a round when they are asked for the first time."""
        if self._column_lengths is None:
            self._column_lengths = np.sqrt(self.communicator.allreduce(self.rows.column_lengths() ** 2))
        return self._column_lengths

    def terms(self) -> tuple[int, int]:
        """How many products are added up to a score, and to a coefficient, in one sum after another."""
        return self._terms

    def beyond(self, limits: Float) -> Array:
        """Whether each row of this client has an entry that is larger, without its sign, than that of its column."""
        return self.rows.beyond(limits)

    def weighted_gram(self, h: Float, height: float = 0.0) -> Float:
        """``[X c]^T diag(h) [X c]`` over the rows of all, where ``c`` has this height, and is left out if it is 0."""
        return sum_of_symmetric(self.rows.weighted_gram(h, height), self.communicator)

    def adjoint_passes(self, alpha: Float) -> float:
        """What an adjoint costs at most: which rows of the others have weight zero is not known here."""
        return 1.0

    def gram_passes(self, h: Float) -> float:
        """What a gram costs at most beside the adjoint that it comes with."""
        return 1.0

    def apply_each(self, W: Float) -> Float:
        """``X W^T`` for the rows of this client."""
        return self.rows.apply_each(W)

    def adjoint_each(self, A: Float) -> Float:
        """``A^T X``, over the rows of all."""
        return self.communicator.allreduce(self.rows.adjoint_each(A))

    def passes(self, w: Float) -> float:
        """One product reads every row once."""
        return 1.0


def sum_of_symmetric(own: Float, communicator: Communicator) -> Float:
    """The sum of the symmetric matrices of all clients, of which only the lower triangles are sent."""
    if communicator.size == 1:
        return own.copy()
    lower, total = np.tril_indices_from(own), np.zeros_like(own)
    total[lower] = communicator.allreduce(own[lower])
    return total + np.tril(total, -1).T
