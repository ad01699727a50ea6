"""Banded: a relation by the distance of two positions, the same for all pairs beyond a reach."""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

WHOLE = 8
"""A product's rows of numbers are made a multiple of this, as the units of a GPU need them."""


def products_by_distance(
    vectors: Float[Tensor, "b h q d"], table: Float[Tensor, "#h r d"]
) -> Float[Tensor, "b h q r"]:
    """vectors[i] · table[c], as a view of rows that hold whole groups of numbers."""
    n_distances = table.shape[-2]
    whole = pad(table, (0, 0, 0, -n_distances % WHOLE))
    if vectors.transpose(1, 2).is_contiguous() and vectors.shape[1] == len(table):
        # one product for each head, where that copies nothing
        products = torch.einsum("bhqd,hrd->bhqr", vectors, whole)
    else:
        products = vectors @ whole.mT
    return products[..., :n_distances]


class Banded(NamedTuple):
    """A relation by the distance `j - i`, which is constant or a straight line beyond `reach`."""

    by_distance: Float[Tensor, "#b #h #q r"] | None
    """What is added to each row's scores at each distance from `-reach` to `reach`; None if vectors
    are added to the keys instead."""
    to_values: Float[Tensor, "#h r dv"] | None
    """What is added to the values at each distance, if anything."""
    slope: Float[Tensor, " h"] | None = None
    """What each step beyond `reach` adds to the scores, on either side, if anything."""
    to_keys: Float[Tensor, "#h r d"] | None = None
    """What is added to the keys at each distance, if anything."""

    def numbers(
        self, query: Float[Tensor, "b h q d"], *, scale: float, sharpness: float
    ) -> Float[Tensor, "#b #h #q r"]:
        """What is added to each row's scores under an inverse temperature.

        `scale` is that of the products of queries and keys.
        """
        if self.to_keys is not None:
            return products_by_distance(query, self.to_keys * (scale * sharpness))
        assert self.by_distance is not None
        return self.by_distance if sharpness == 1 else self.by_distance * sharpness
