"""Pair network: one number for each pair of a row and a column, by a layer that reads both.

    e[i,j] = v · act(a[i] + b[j])

A pair's hidden vector is needed for its number alone. So large maps are computed in tiles whose
vectors stay in a processor's cache, and tiles are computed again for the gradient: memory
O(q · k) instead of O(q · k · f).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from regard.attention.shapes import Scores

ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
}

SLOPES: Mapping[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]] = {
    torch.tanh: lambda out: out.square().neg_().add_(1),
    torch.relu: lambda out: out.sign(),
    torch.sigmoid: lambda out: out * (1 - out),
}
"""The derivative of each activation, from its output."""

FEW_NUMBERS = 1 << 22
"""Hidden vectors of so many numbers are kept, which is quicker (two CPU cores)."""

TILE_NUMBERS, TILE_NUMBERS_ON_GPU = 1 << 18, 1 << 26
"""Numbers in the hidden vectors of a tile."""

MOST_HEADS, MOST_UNITS = 65_535, 256
"""The largest batch, in heads, and the most hidden units that a GPU's kernel takes."""

TILE_SIDE = 64
"""Rows and columns of a tile, at most."""


def pair_numbers(
    rows: Float[Tensor, "*b q f"],
    columns: Float[Tensor, "*b k f"],
    v: Float[Tensor, "h f"],
    activation: Callable[[Tensor], Tensor],
) -> Scores:
    """The number of every pair."""
    n_numbers = rows.numel() * columns.shape[-2]
    if n_numbers <= FEW_NUMBERS or activation not in SLOPES or _is_traced():
        return read_out(activation(rows[..., :, None, :] + columns[..., None, :, :]), v)
    return _PairNumbers.apply(
        rows, columns.to(rows.dtype), v.to(rows.dtype).expand_as(rows[..., 0, :]), activation
    )


def read_out(pairs: Float[Tensor, "b h q k f"], v: Float[Tensor, "h f"]) -> Scores:
    """The numbers of hidden vectors."""
    return torch.einsum("bhqkf,hf->bhqk", pairs, v)


def _is_traced() -> bool:
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


class _PairNumbers(torch.autograd.Function):
    """The same in tiles, forward and backward."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, columns: Tensor, v: Tensor, activation: Callable[[Tensor], Tensor]
    ) -> Tensor:
        ctx.save_for_backward(rows, columns, v)
        ctx.activation = activation
        a, b, u = (_flat(x) for x in (rows, columns, v[..., None, :]))
        if fits_kernel(a, b):
            # Triton comes with torch only where there is a GPU
            from regard.attention.pair_network_kernel import numbers_of

            out = numbers_of(a, b, u[:, 0], activation.__name__)
            return out.view(*rows.shape[:-1], columns.shape[-2])
        out = a.new_empty(len(a), a.shape[1], b.shape[1])
        for at, i, j in _tiles(a, b):
            hidden = activation(a[at, i, None] + b[at, None, j])
            out[at, i, j] = (hidden @ u[at, :, :, None])[..., 0]
        return out.view(*rows.shape[:-1], columns.shape[-2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        rows, columns, v = ctx.saved_tensors
        a, b, u, g = (_flat(x) for x in (rows, columns, v[..., None, :], grad))
        if fits_kernel(a, b):
            from regard.attention.pair_network_kernel import gradients_of

            found = gradients_of(a, b, u[:, 0], g, ctx.activation.__name__)
            inputs = zip(found, (rows, columns, v), strict=True)
            return (*(x.to(like.dtype).view_as(like) for x, like in inputs), None)
        d_a, d_b, d_u = (torch.zeros_like(x) for x in (a, b, u))
        for at, i, j in _tiles(a, b):
            hidden, gains = ctx.activation(a[at, i, None] + b[at, None, j]), g[at, i, j]
            d_u[at] += gains.flatten(1)[:, None] @ hidden.flatten(1, 2)
            slope = SLOPES[ctx.activation](hidden)
            d_a[at, i] += (gains[:, :, None] @ slope)[:, :, 0] * u[at]
            d_b[at, j] += (gains.mT[:, :, None] @ slope.transpose(1, 2))[:, :, 0] * u[at]
        return d_a.view_as(rows), d_b.view_as(columns), d_u.view_as(v), None


def fits_kernel(rows: Float[Tensor, "bh q f"], columns: Float[Tensor, "bh k f"]) -> bool:
    """Whether a GPU's kernel takes them."""
    is_known = rows.is_cuda and rows.dtype in (torch.float16, torch.bfloat16, torch.float32)
    return is_known and 0 < len(rows) <= MOST_HEADS and rows.shape[-1] <= MOST_UNITS


def _flat(x: Float[Tensor, "*b n f"]) -> Float[Tensor, "bh n f"]:
    return x.reshape(-1, *x.shape[-2:])


def _tiles(a: Tensor, b: Tensor) -> Iterator[tuple[slice, slice, slice]]:
    """Heads, rows and columns of each tile."""
    numbers = TILE_NUMBERS_ON_GPU if a.is_cuda else TILE_NUMBERS
    (n_heads, n_rows, width), n_columns = a.shape, b.shape[1]
    side = TILE_SIDE * (8 if a.is_cuda else 1)
    high = min(n_rows, side)
    across = min(n_columns, max(side, numbers // max(1, high * width)) if high < side else side)
    deep = max(1, numbers // max(1, high * across * width))
    for first in range(0, n_heads, deep):
        for top in range(0, n_rows, high):
            for left in range(0, n_columns, across):
                yield slice(first, first + deep), slice(top, top + high), slice(left, left + across)
