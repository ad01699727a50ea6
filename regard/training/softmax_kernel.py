"""Logits → the gradient of their loss, in place, one GPU program a row.

    g[v] = (softmax(x)[v] - (1 - eps) [v = gold] - eps / W [v ≠ pad])

with W the logits that are not padding's: V - 1, or V where padding has none.

A row is read twice and written once, and the second reading finds it in the cache. Written in
Triton, which comes with torch where there is a GPU; import this module only there.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 8192
"""Logits a program looks at in one go."""


@triton.jit
def _row(X, gold, right, rest, n, n_smoothed, eps, share, PAD: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    X += row * n
    answer = tl.load(gold + row)
    top, total, plain = -1e30, 0.0, 0.0
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        x = tl.load(X + at, mask=at < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(top, tl.max(x, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), 0)
        plain += tl.sum(tl.where((at < n) & (at != PAD), x, 0.0), 0)
        top = new
    lse = top + tl.log(total)
    tl.store(right + row, lse - tl.load(X + answer).to(tl.float32))
    tl.store(rest + row, lse * n_smoothed - plain)
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        x = tl.load(X + at, mask=at < n, other=0.0).to(tl.float32)
        spread = tl.where(at == PAD, 0.0, share)
        g = tl.exp(x - lse) - spread - tl.where(at == answer, 1.0 - eps, 0.0)
        tl.store(X + at, g.to(X.dtype.element_ty), mask=at < n)


def into_gradient(
    logits: Tensor, gold: Tensor, *, smoothing: float, pad: int
) -> tuple[Tensor, Tensor]:
    """Overwrite logits; for each row -log p of the right token, and of all but the padding.

    `pad` is the column of padding; below 0 there is none.
    """
    n_rows, n = logits.shape
    n_smoothed = n - (pad >= 0)
    right, rest = (logits.new_empty(n_rows, dtype=torch.float32) for _ in range(2))
    _row[(n_rows,)](
        logits, gold, right, rest, n, n_smoothed, smoothing, smoothing / n_smoothed,
        PAD=pad, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    return right, rest
