"""Joined path: a relation that is constant far away, as ordinary attentions joined by their lse.

    far left, j <= i - reach:   softmax attention whose rows add one number and one vector each
    band, |j - i| < reach:      every distance has its own number and vector (band.py)
    far right, j >= i + reach:  as far left
    lse = log sum of exp(lse of a piece),   context = sum of exp(lse of a piece - lse) · its context

A far piece is a triangle or a rectangle, which the stock kernels take whole: linear memory at their
speed. In the backward pass each piece runs by its kernel's own backward with the joined context and
lse, since dS[i,j] = P[i,j] (dO[i] · v[j] - dO[i] · O[i]) holds pair by pair.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import Module

from regard.attention.attend import Attended
from regard.attention.engine import kernels
from regard.attention.engine.agreement import disagreement
from regard.attention.engine.band import Band
from regard.attention.engine.case import Case, Cost, Path, not_softmax_of_dot
from regard.attention.engine.joined_on_gpu import attend_joined_on_gpu, fits_gpu_kernels
from regard.attention.engine.sloped import attend_sloped, fits_slope_kernel
from regard.attention.engine.tiled_band import table_gradients
from regard.attention.links import Relation, SoftRows, keys_that_exist, wide

FEW_PAIRS, FEW_PAIRS_ON_GPU = 1 << 18, 1 << 19
"""Maps of so many pairs in a head are computed whole: the pieces' calls would take longer."""

TRIED = 600
"""Queries and keys with which a GPU's kernels are tried: enough for those for long rows."""

UNIT = 256.0
"""In what a slope is counted: distances over a scale pass 65,504, where half precision ends."""


class Piece(NamedTuple):
    """A part of the map beyond the band, which sees one distance of the relation."""

    rows: slice
    columns: slice
    is_causal: bool
    is_right: bool
    """Whether it is to the right of the band: the kernel gets its rows and columns reversed."""

    @property
    def distance(self) -> int:
        """The index of its distance: the first or the last."""
        return -1 if self.is_right else 0

    def rows_of(self, x: Tensor, axis: int = -2) -> Tensor:
        """The queries' part of a tensor, in the kernel's order."""
        return self.ordered(x.narrow(axis, self.rows.start, _length(self.rows)), axis)

    def columns_of(self, x: Tensor, axis: int = -2) -> Tensor:
        """The keys' part of a tensor, in the kernel's order."""
        return self.ordered(x.narrow(axis, self.columns.start, _length(self.columns)), axis)

    def ordered(self, x: Tensor, axis: int) -> Tensor:
        """Rows or columns in the kernel's order, or back in that of the map."""
        return x.flip(axis) if self.is_right and self.is_causal else x

    def distances(self, past: int) -> tuple[int, int]:
        """Distance of the kernel's first pair, and what a row further on adds (a column takes)."""
        if self.is_right and self.is_causal:
            return self.columns.stop - self.rows.stop - past, 1
        ahead = past + self.rows.start - self.columns.start
        return (-ahead, -1) if self.is_right else (ahead, 1)

    def add(self, total: Tensor, part: Tensor, *, to: slice) -> None:
        """Add what the kernel gave to these rows or columns of a sum."""
        total[..., to, :] += self.ordered(part, -2)


def far_pieces(n_rows: int, n_columns: int, past: int, reach: int) -> Iterator[Piece]:
    """The pieces that hold every pair whose distance is `reach` or more, each pair once."""
    for rows, columns, is_causal in _staircase(n_rows, n_columns, past - reach):
        yield Piece(rows, columns, is_causal, is_right=False)
    for rows, columns, is_causal in _staircase(
        n_rows, n_columns, n_columns - n_rows - past - reach
    ):
        yield Piece(
            _reversed(rows, n_rows), _reversed(columns, n_columns), is_causal, is_right=True
        )


def _staircase(n_rows: int, n_columns: int, step: int) -> Iterator[tuple[slice, slice, bool]]:
    """All pairs with `column <= row + step`: a rectangle, a square's triangle, the rows below."""
    first, corner = max(0, -step), max(0, min(step, n_columns))
    if corner:
        yield slice(0, n_rows), slice(0, corner), False
    side = min(n_rows - first, n_columns - corner)
    if side > 0:
        yield slice(first, first + side), slice(corner, corner + side), True
        if first + side < n_rows:
            yield slice(first + side, n_rows), slice(corner, n_columns), False


def _reversed(part: slice, length: int) -> slice:
    return slice(length - part.stop, length - part.start)


def _length(part: slice) -> int:
    return part.stop - part.start


@final
class JoinedPath(Path):
    """Far left, band and far right, joined by their log-sum-exps."""

    name = "joined"

    def why_not(self, case: Case) -> str | None:
        """The reason, if the relation is not constant far away, or kernels lack the mask."""
        if reason := not_softmax_of_dot(case):
            return reason
        if case.relation.is_zero:
            return "no relation tells near keys from far ones"
        if case.kernel_mask is None:
            return f"the kernels do not know the mask {type(case.mask).__name__}"
        if case.places.past is None:
            return "the rows or columns have gaps"
        if kernels.is_transformed():
            return "torch.func cannot transform its pieces"
        name = type(case.relation).__name__
        if case.relation.reach is None:
            return f"{name} is not constant from some distance on"
        if case.relation.has_slope and case.query.dtype == torch.float32:
            return f"{name} grows with the distance, which single precision would round off"
        if case.relation.has_slope and _is_learned(case.relation):
            return f"{name} learns its slope, for which the pieces give no gradient"
        return disagreement(case, _attend(case), TRIED) if case.query.is_cuda else None

    def why_slow(self, case: Case) -> str | None:
        """The reason, if the map is small."""
        n_queries, n_keys = case.query.shape[-2], case.key.shape[-2]
        if n_queries * n_keys <= (FEW_PAIRS_ON_GPU if case.query.is_cuda else FEW_PAIRS):
            return f"{n_queries} × {n_keys} pairs are few: they are computed whole"
        return None

    def why(self, case: Case) -> str:
        """The distance from which the relation is constant, or that it is a line."""
        if fits_slope_kernel(case):
            return "a straight line on either side, in one kernel without the keys that it hides"
        plan = _Plan.of(case)
        return f"constant from distance {plan.reach} on: {len(plan.pieces)} pieces and a band"

    def cost(self, case: Case) -> Cost:
        """The cost of the visible pairs, the band's numbers, and a normaliser a row."""
        b, h, q, d = case.query.shape
        halves = 1 if case.kernel_mask is not None and case.kernel_mask.is_causal else 2
        work = case.n_pairs * (d + case.value.shape[-1]) * halves // 2
        return Cost(work, b * h * q * (4 * (case.relation.reach or 1) + 64))

    def run(self, case: Case) -> Attended:
        """Run the pieces and join them."""
        return _attend(case)(case)


def _is_learned(relation: Relation) -> bool:
    """Whether gradients are wanted of a relation's parameters."""
    if not (isinstance(relation, Module) and torch.is_grad_enabled()):
        return False
    return any(x.requires_grad for x in relation.parameters())


def _attend(case: Case) -> Callable[[Case], Attended]:
    """The function that runs a case: by a kernel of ours, where one takes it."""
    if fits_slope_kernel(case):
        return attend_sloped
    return attend_joined_on_gpu if fits_gpu_kernels(case) else attend_joined


def attend_joined(case: Case) -> Attended:
    """The attention of a case by pieces."""
    assert case.dot is not None and case.softmax is not None
    banded = case.relation.as_banded(case.query)
    assert banded is not None
    dot, to_values, slope = case.dot, banded.to_values, banded.slope
    by_distance = banded.numbers(case.query, scale=dot.scale, sharpness=case.softmax)
    slope = None if slope is None else slope * case.softmax
    tensors = _Tensors(dot.query, dot.key, case.value, by_distance, to_values, slope)
    context, lse = _Joined.apply(_Plan.of(case), *tensors)
    return case.attended(context, SoftRows(lse.unsqueeze(-1)))


@dataclass(frozen=True)
class _Plan:
    """How a map is cut."""

    pieces: tuple[Piece, ...]
    band: Band
    past: int
    reach: int
    scale: float
    valid: Bool[Tensor, "b k"] | None

    @classmethod
    def of(cls, case: Case) -> "_Plan":
        assert case.kernel_mask is not None and case.dot is not None
        assert case.softmax is not None and case.places.past is not None
        reach = case.relation.reach
        assert reach is not None
        n_queries, n_keys = case.query.shape[-2], case.key.shape[-2]
        is_causal, valid = case.kernel_mask
        valid = None if valid is None else keys_that_exist(valid, n_keys)
        pieces = tuple(
            piece
            for piece in far_pieces(n_queries, n_keys, case.places.past, reach)
            if not (is_causal and piece.is_right)
        )
        past, scale = case.places.past, case.dot.scale * case.softmax
        band = Band(n_queries, n_keys, past, reach, is_causal, valid, scale)
        return cls(pieces, band, past, reach, scale, valid)


class _Tensors(NamedTuple):
    """What the pieces read."""

    query: Tensor
    key: Tensor
    value: Tensor
    by_distance: Float[Tensor, "#b #h #q r"]
    to_values: Float[Tensor, "#h r dv"] | None
    slope: Float[Tensor, " h"] | None


class _Joined(torch.autograd.Function):
    """softmax(scale · q kᵀ + relation) v by pieces, forward and backward."""

    @staticmethod
    def forward(ctx: Any, plan: _Plan, *tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        x = _Tensors._make(tensors)
        rows = [slice(0, x.query.shape[-2]), *(piece.rows for piece in plan.pieces)]
        band = plan.band.attend(x.query, x.key, x.value, x.by_distance, x.to_values)
        far = [_far(piece, plan, x) for piece in plan.pieces]
        lse = band[1].clone()
        for piece, (_, own) in zip(plan.pieces, far, strict=True):
            lse[..., piece.rows] = lse[..., piece.rows].logaddexp(own)
        lse = lse.masked_fill(lse == -torch.inf, kernels.EMPTY_ROW)
        total = wide(x.value).new_zeros(band[0].shape)
        for part, (context, own) in zip(rows, (band, *far), strict=True):
            share = (own - lse[..., part]).exp()[..., None]
            total[..., part, :].addcmul_(share, context.to(total.dtype))
        out = total.to(x.value.dtype)
        ctx.save_for_backward(*x, out, lse, *(each for pair in far for each in pair))
        ctx.plan = plan
        ctx.mark_non_differentiable(lse)
        return out, lse

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        plan: _Plan = ctx.plan
        # under a checkpoint these can be read once
        saved, n = ctx.saved_tensors, len(_Tensors._fields)
        x, (out, lse, *far) = _Tensors(*saved[:n]), saved[n:]
        band = plan.band.gradients(
            grad, x.query, x.key, x.value, out, lse, x.by_distance, x.to_values
        )
        level = (wide(grad) * wide(out)).sum(-1)
        d_by_distance, mass = band.by_distance, band.mass
        for piece, context, own in zip(plan.pieces, far[::2], far[1::2], strict=True):
            share = (own - lse[..., piece.rows]).exp()
            gain = (wide(grad[..., piece.rows, :]) * wide(context)).sum(-1)
            row_sums = share * (gain - level[..., piece.rows])
            if d_by_distance.shape[-2] == 1:
                d_by_distance[..., 0, piece.distance] += row_sums.sum(-1)
            else:
                d_by_distance[..., piece.rows, piece.distance] += row_sums
            if mass is not None:
                mass[..., piece.rows, piece.distance] += share.to(mass.dtype)
            d_query, d_key, d_value = _far_gradients(piece, plan, x, grad, out, lse)
            piece.add(band.query, d_query, to=piece.rows)
            piece.add(band.key, d_key, to=piece.columns)
            piece.add(band.value, d_value, to=piece.columns)
        d_by_distance, d_to_values = table_gradients(band, grad, x.by_distance, x.to_values)
        return None, band.query, band.key, band.value, d_by_distance, d_to_values, None


def _far(piece: Piece, plan: _Plan, x: _Tensors) -> tuple[Tensor, Tensor]:
    """Context and log-sum-exp of one piece, the relation included, in the order of the rows."""
    valid = None if plan.valid is None else piece.columns_of(plan.valid, -1)
    context, lse = kernels.softmax_attention(
        *_compared(piece, plan, x),
        piece.columns_of(x.value),
        None,
        valid=valid,
        is_causal=piece.is_causal,
        scale=plan.scale,
    )
    if valid is not None:
        seen = valid.cummax(-1).values if piece.is_causal else valid.any(-1, keepdim=True)
        lse = lse.masked_fill(~seen[:, None], -torch.inf)
    context, lse = piece.ordered(context, -2), piece.ordered(lse, -1)
    if x.to_values is not None:
        context = context + x.to_values[:, piece.distance, None].to(context.dtype)
    return context, lse + _numbers(piece, plan, x).to(lse.dtype)


def _far_gradients(
    piece: Piece, plan: _Plan, x: _Tensors, grad: Tensor, out: Tensor, lse: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of one piece for its queries, keys and values, in the kernel's order."""
    value = x.value
    if x.to_values is not None:
        value = value + x.to_values[:, piece.distance, None].to(value.dtype)
    lse = lse[..., piece.rows] - _numbers(piece, plan, x).to(lse.dtype)
    d_query, d_key, d_value = kernels.softmax_attention_backward(
        piece.rows_of(grad),
        *_compared(piece, plan, x),
        piece.columns_of(value),
        piece.rows_of(out),
        piece.ordered(lse, -1),
        None,
        valid=None if plan.valid is None else piece.columns_of(plan.valid, -1),
        is_causal=piece.is_causal,
        scale=plan.scale,
    )
    width = x.query.shape[-1]
    return d_query[..., :width], d_key[..., :width], d_value


def _compared(piece: Piece, plan: _Plan, x: _Tensors) -> tuple[Tensor, Tensor]:
    """Queries and keys of a piece; a slope is one more product of each pair, with the column."""
    query, key = piece.rows_of(x.query), piece.columns_of(x.key)
    if x.slope is None:
        return query, key
    _, step = piece.distances(plan.past)
    columns = torch.arange(key.shape[-2], device=key.device, dtype=torch.float64)
    rest = columns * (-step / plan.scale / UNIT) * x.slope[:, None]
    parts = []
    for _ in range(3 if key.dtype in kernels.HALF else 1):
        # half precision holds a large number as a sum of three
        parts.append(rest.to(key.dtype))
        rest = rest - parts[-1]
    added = torch.stack(parts, -1).expand(*key.shape[:-1], -1)
    units = query.new_full((), UNIT).expand(*query.shape[:-1], len(parts))
    return torch.cat((query, units), -1), torch.cat((key, added), -1)


def _numbers(piece: Piece, plan: _Plan, x: _Tensors) -> Tensor:
    """What the relation adds to the scores of each row of a piece, its columns' slope aside."""
    numbers = x.by_distance[..., piece.distance]
    numbers = numbers if numbers.shape[-1] == 1 else numbers[..., piece.rows]
    if x.slope is None:
        return numbers
    first, step = piece.distances(plan.past)
    rows = torch.arange(_length(piece.rows), device=numbers.device)
    rows = piece.ordered(first + step * rows - plan.reach, -1)
    return numbers + wide(x.slope)[:, None] * rows
