"""Thresholded path: sparsemax and top-k of dot products in O(q) memory, whatever they keep.

A row's weights follow from its scores and one threshold, so a first pass over the keys finds the
threshold and a second one combines the values; the backward pass makes the scores again. On a CPU
blocks of queries are computed in its cache (threshold_blocks.py), on a GPU a kernel walks over
tiles (threshold_kernel.py). Scores are at least in single precision.
"""

from typing import Any, final

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from regard.attention.attend import Attended
from regard.attention.engine import kernels
from regard.attention.engine.agreement import disagreement
from regard.attention.engine.case import Case, Cost, Path
from regard.attention.engine.kernels import like_rows
from regard.attention.engine.threshold_blocks import attend_in_blocks, differentiate_in_blocks
from regard.attention.links import keys_that_exist, wide

FEW_KEYS = 512
"""Rows so short are kept whole by the dense path."""

FEW_PAIRS = 1 << 20
"""Maps of so few pairs are kept whole: blocks would cost more calls than they save."""

TILE_ROWS, TILE_KEYS = 128, 64
"""Queries and keys of the kernel's tiles; it remembers which of them may hold a weight."""

TRIED = 150
"""Queries and keys with which the kernel is tried before its first use: several tiles."""

MOST_KEPT = TILE_KEYS
"""The most keys that the GPU's kernel can keep by number."""


@final
class ThresholdedPath(Path):
    """Find each row's threshold, then combine the keys above it."""

    name = "thresholded"

    def why_not(self, case: Case) -> str | None:
        """The reason, if weights do not follow from dot products and a threshold."""
        if case.memory is not None:
            return "a memory shortens the keys first"
        if case.threshold is None:
            return f"{type(case.select).__name__} has no threshold that its weights follow from"
        if case.dot is None:
            return f"{type(case.score).__name__} is not a dot product of query and key"
        if not case.relation.is_zero:
            return f"{type(case.relation).__name__} changes the scores"
        if case.kernel_mask is None:
            return f"the kernels do not know the mask {type(case.mask).__name__}"
        if case.places.past is None:
            return "the rows or columns have gaps"
        if case.dropout > 0:
            return "the weights to be dropped are never stored"
        if kernels.is_transformed():
            return "torch.func cannot transform its blocks"
        # tensors without memory stand for those of a CPU
        return None if case.query.is_cpu or case.query.is_meta else _why_no_kernel(case)

    def why_slow(self, case: Case) -> str | None:
        """The reason, if the map is small."""
        n_keys = case.key.shape[-2]
        if n_keys <= FEW_KEYS:
            return f"{n_keys} keys are few: rows of up to {FEW_KEYS} are kept whole"
        if case.n_pairs <= FEW_PAIRS:
            return f"{case.n_pairs} pairs are few: maps of up to {FEW_PAIRS} are kept whole"
        return None

    def why(self, case: Case) -> str:
        """Weights follow from a threshold."""
        return "one threshold of each row says which keys have a weight"

    def cost(self, case: Case) -> Cost:
        """The products of every pair, and two numbers per row."""
        width = case.query.shape[-1] + case.value.shape[-1]
        rows = case.n_pairs // case.key.shape[-2]
        return Cost(multiply_adds=case.n_pairs * width, numbers=2 * rows)

    def run(self, case: Case) -> Attended:
        """Call the kernel."""
        return attend_above_threshold(case)


def attend_above_threshold(case: Case) -> Attended:
    """The attention of a case, by the blocks of a CPU or the kernel of a GPU."""
    assert case.dot is not None and case.threshold is not None and case.kernel_mask is not None
    valid, width = case.kernel_mask.valid, case.value.shape[-1]
    query, key, value = case.dot.query, case.dot.key, case.value
    if valid is not None:
        valid = keys_that_exist(valid, key.shape[-2]).expand(len(query), -1)
    if query.is_cuda:
        query, key, value = (_padded(x, _width(case)) for x in (query, key, value))
    context, threshold, normaliser = AttendAboveThreshold.apply(
        query,
        key,
        value,
        valid,
        case.places.past if case.kernel_mask.is_causal else None,
        case.threshold.best or 0,
        case.dot.scale,
    )
    rows = case.threshold.rows(threshold.unsqueeze(-1), normaliser.unsqueeze(-1))
    precision = wide(query[:0]).dtype
    return case.attended(
        context[..., :width], rows, precision=None if precision == query.dtype else precision
    )


def _why_no_kernel(case: Case) -> str | None:
    """Why the GPU's kernel cannot compute a case, or None."""
    assert case.threshold is not None and case.dot is not None
    kinds = {x.dtype for x in (case.dot.query, case.dot.key, case.value)}
    if not case.query.is_cuda or len(kinds) > 1 or not kinds <= set(kernels.HALF):
        return f"no kernel computes with {case.query.dtype} on {case.query.device.type}"
    if (n_heads := case.query.shape[0] * case.query.shape[1]) > kernels.MOST_HEADS:
        return f"{n_heads} heads are more than {kernels.MOST_HEADS}, the kernel's most"
    if _width(case) > kernels.TILE_WIDTHS[-1]:
        return f"vectors are wider than {kernels.TILE_WIDTHS[-1]}, the kernel's most"
    if (case.threshold.best or 0) > MOST_KEPT:
        return f"{case.threshold.best} best keys are more than {MOST_KEPT}, the kernel's most"
    return disagreement(case, attend_above_threshold, TRIED)


def _width(case: Case) -> int:
    """The kernel's width that fits queries, keys and values."""
    assert case.dot is not None
    needed = max(case.dot.key.shape[-1], case.value.shape[-1], kernels.TILE_WIDTHS[0])
    return 1 << (needed - 1).bit_length()


def _padded(vectors: Tensor, width: int) -> Tensor:
    """The vectors with zeros at the end, which change no product."""
    short = width - vectors.shape[-1]
    return pad(vectors, (0, short)) if short else vectors


class AttendAboveThreshold(torch.autograd.Function):
    """Context, threshold and normaliser, differentiable in query, key and value."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        valid: Tensor | None,
        past: int | None,
        count: int,
        scale: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Attend; `past` counts the keys before a causal mask, None if there is none."""
        context, *rows, tiles = torch.ops.regard.threshold(
            query, key, value, valid, past, count, scale
        )
        ctx.save_for_backward(query, key, value, context, *rows, tiles, valid)
        ctx.settings = past, count, scale
        ctx.mark_non_differentiable(*rows)
        return context, rows[0], rows[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        """Rebuild the weights and differentiate."""
        found = torch.ops.regard.threshold_backward(grad, *ctx.saved_tensors, *ctx.settings)
        return (*found, None, None, None, None)


def _on_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    valid: Tensor | None,
    past: int | None,
    count: int,
    scale: float,
) -> tuple[Tensor, ...]:
    found = attend_in_blocks(query, key, value, valid, past, count, scale)
    return (*found, _tiles(query, key))


def _backward_on_cpu(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    context: Tensor,
    threshold: Tensor,
    normaliser: Tensor,
    tiles: Tensor,
    valid: Tensor | None,
    past: int | None,
    count: int,
    scale: float,
) -> tuple[Tensor, ...]:
    rows = (threshold, normaliser)
    return differentiate_in_blocks(grad, query, key, value, *rows, valid, past, count, scale)


def _on_cuda(*inputs: Any) -> tuple[Tensor, ...]:
    # Triton comes with torch only where there is a GPU
    from regard.attention.engine.threshold_kernel import attend

    return attend(*inputs)


def _backward_on_cuda(*inputs: Any) -> tuple[Tensor, ...]:
    from regard.attention.engine.threshold_backward_kernel import differentiate

    return differentiate(*inputs)


def _results(query: Tensor, key: Tensor, value: Tensor, *others: object) -> tuple[Tensor, ...]:
    """Empty tensors for context, threshold, normaliser, and whether a tile holds a weight."""
    context = like_rows(query, width=value.shape[-1])
    row = query.new_empty(query.shape[:-1], dtype=wide(query[:0]).dtype)
    return context, row, torch.empty_like(row), _tiles(query, key)


def _gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *others: object
) -> tuple[Tensor, ...]:
    """Empty tensors for the gradients."""
    return like_rows(query), like_rows(key), like_rows(value)


def _tiles(query: Tensor, key: Tensor) -> Tensor:
    """A byte for each tile of the map."""
    n_queries, n_keys = -(-query.shape[-2] // TILE_ROWS), -(-key.shape[-2] // TILE_KEYS)
    return query.new_empty(*query.shape[:2], n_queries, n_keys, dtype=torch.uint8)


# registered as torch operators, which torch.compile does not trace into
_LIBRARY = torch.library.Library("regard", "FRAGMENT")
_SETTINGS = "Tensor? valid, SymInt? past, int count, float scale"
_LIBRARY.define(
    f"threshold(Tensor q, Tensor k, Tensor v, {_SETTINGS}) -> (Tensor, Tensor, Tensor, Tensor)"
)
_LIBRARY.define(
    "threshold_backward(Tensor g, Tensor q, Tensor k, Tensor v, Tensor out, Tensor threshold,"
    f" Tensor normaliser, Tensor tiles, {_SETTINGS}) -> (Tensor, Tensor, Tensor)"
)
for _name, _device, _compute in (
    ("threshold", "CPU", _on_cpu),
    ("threshold", "CUDA", _on_cuda),
    ("threshold", "Meta", _results),
    ("threshold_backward", "CPU", _backward_on_cpu),
    ("threshold_backward", "CUDA", _backward_on_cuda),
    ("threshold_backward", "Meta", _gradients),
):
    _LIBRARY.impl(_name, _compute, _device)
