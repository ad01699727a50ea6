"""Vocabulary kernel: one pass over logits on a GPU, for normalisers of rows and maxima of blocks.

    lse[i] = log sum_j exp(x[i,j]),   maxima[i,b] = max of x[i,j] over the open tokens j of block b

The sums are in single precision, whatever the logits are.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

TILE = 4096
"""Logits that a program reads at a time."""


@triton.jit
def _summarise(
    logits, lse, maxima, n_tokens, n_blocks, closed, BLOCK: tl.constexpr, TILE: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    top = -float("inf")
    total = 0.0
    for start in range(0, n_tokens, TILE):
        at = start + tl.arange(0, TILE)
        x = tl.load(logits + row * n_tokens + at, mask=at < n_tokens, other=-float("inf"))
        x = x.to(tl.float32)
        higher = tl.maximum(top, tl.max(x, 0))
        # all tokens so far may be impossible, and −∞ − (−∞) is NaN
        base = tl.where(higher == -float("inf"), 0.0, higher)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(x - base), 0)
        top = higher
        shown = tl.where(at < closed, -float("inf"), x)
        block = start // BLOCK + tl.arange(0, TILE // BLOCK)
        found = tl.max(tl.reshape(shown, (TILE // BLOCK, BLOCK)), 1)
        tl.store(maxima + row * n_blocks + block, found, mask=block < n_blocks)
    tl.store(lse + row, top + tl.log(total))


def summarise(
    logits: Float[Tensor, "r v"], *, closed: int, block: int
) -> tuple[Float[Tensor, "r 1"], Float[Tensor, "r nb"]]:
    """The normaliser of each row, and the maximum of each of its blocks.

    The first `closed` tokens are in no maximum. A block is a power of two; the last may be shorter.
    """
    logits = logits.contiguous()
    n_rows, n_tokens = logits.shape
    n_blocks = -(-n_tokens // block)
    lse = torch.empty(n_rows, 1, device=logits.device)
    maxima = torch.empty(n_rows, n_blocks, device=logits.device)
    launch: Any = _summarise[(n_rows,)]
    launch(logits, lse, maxima, n_tokens, n_blocks, closed, BLOCK=block, TILE=TILE, num_warps=8)
    return lse, maxima
