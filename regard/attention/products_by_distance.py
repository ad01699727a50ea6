"""Products of each row's vector with the vectors of all distances."""

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
