"""Windowed path: Luong's local selections read the 2D + 1 keys around each row's centre."""

from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.attend import Attended
from regard.attention.engine.case import Case, Cost, Path
from regard.attention.links import keys_that_exist
from regard.places import Places

GATHERED, GATHERED_AND_HELD = 8, 4
"""Row lengths, in windows, from which gathering is faster: for dot products, and for scores that
hold numbers for each pair. Measured on a CPU, forward and backward."""


@final
class WindowedPath(Path):
    """Gather each row's window, then score, select and combine inside it."""

    name = "windowed"

    def why_not(self, case: Case) -> str | None:
        """The reason, if there is no window or a link needs the whole row."""
        if case.memory is not None:
            return "a memory shortens the keys first"
        if case.window is None:
            return f"{type(case.select).__name__} looks beyond a window"
        if not case.relation.is_zero:
            return f"{type(case.relation).__name__} is computed for whole rows"
        if case.kernel_mask is None:
            return f"the mask {type(case.mask).__name__} does not say where a row ends"
        if case.places.past is None:
            return "the rows or columns have gaps"
        return None

    def why_slow(self, case: Case) -> str | None:
        """The reason, if rows are only a few windows long, so that gathering is slower."""
        assert case.window is not None
        width, n_keys = 2 * case.window.half_width + 1, case.key.shape[-2]
        worth = GATHERED if case.score.held_per_pair == 0 else GATHERED_AND_HELD
        if n_keys >= worth * width:
            return None
        return f"{n_keys} keys are fewer than {worth} windows of {width}"

    def why(self, case: Case) -> str:
        """The width of the window."""
        assert case.window is not None
        return f"each row reads {2 * case.window.half_width + 1} of {case.key.shape[-2]} keys"

    def cost(self, case: Case) -> Cost:
        """The cost of scores and weights inside the windows."""
        assert case.window is not None
        b, h, q, d = case.query.shape
        pairs = b * h * q * (2 * case.window.half_width + 1)
        held = case.score.held_per_pair
        work = pairs * (max(d, held) + case.value.shape[-1])
        return Cost(multiply_adds=work, numbers=(2 + held) * pairs)

    def run(self, case: Case) -> Attended:
        """Gather each row's window, then run the selection's two phases inside it."""
        assert case.window is not None
        b, h, q, _ = case.query.shape
        extent = _extent(case).expand(b, h, q, 1)
        centre = case.window.centre(case.query, case.places, extent).expand(b, h, q, 1)
        reach = case.window.half_width
        steps = torch.arange(-reach, reach + 1, device=case.query.device)
        at = centre.detach().floor().long() + steps
        places = case.places.at_keys(at.clamp(0, case.key.shape[-2] - 1))
        mask = case.mask.visible(places) & (at == places.key)
        scores = _scores(case, places)
        rows = case.window.settle(scores, mask, centre, places)
        weights = case.select.weigh(scores, mask, rows, places)
        weights = torch.dropout(weights, case.dropout, train=case.dropout > 0)
        return case.attended(_Gathered.apply(weights, case.value, places.key), rows)


def _extent(case: Case) -> Int[Tensor, "*b q 1"]:
    """Number of keys up to each row's last visible one, found without checking every pair."""
    assert case.kernel_mask is not None
    n_keys = case.key.shape[-2]
    until = case.places.query
    until = until.clamp(max=n_keys - 1) if case.kernel_mask.is_causal else until * 0 + n_keys - 1
    if (valid := case.kernel_mask.valid) is None:
        return until + 1
    positions = torch.arange(1, n_keys + 1, device=valid.device)
    last = torch.where(keys_that_exist(valid, n_keys), positions, 0).cummax(-1).values
    return last[:, None, until.squeeze(-1), None]


def _scores(case: Case, places: Places) -> Float[Tensor, "b h q w"]:
    """The score of each row with the keys of its window."""
    if case.dot is not None:
        return _Dots.apply(case.dot.query, case.dot.key, places.key) * case.dot.scale
    # any other score sees every row as a batch of its own, with one query and w keys
    index = places.key.flatten(-2)[..., None].expand(-1, -1, -1, case.key.shape[-1])
    keys = case.key.gather(-2, index).unflatten(-2, places.key.shape[-2:])
    b, h, q, w, _ = keys.shape
    one_row = Places(
        places.query.expand(b, h, q, 1).transpose(1, 2).reshape(b * q, h, 1, 1),
        places.key.transpose(1, 2).reshape(b * q, h, 1, w),
        places.length,
    )
    scores = case.score(
        case.query.transpose(1, 2).reshape(b * q, h, 1, -1),
        keys.transpose(1, 2).reshape(b * q, h, w, -1),
        one_row,
    )
    return scores.view(b, q, h, w).transpose(1, 2)


def _rows_at(source: Float[Tensor, "b h k d"], at: Int[Tensor, "b h q"]) -> Tensor:
    return source.gather(-2, at[..., None].expand(*at.shape, source.shape[-1]))


def _add_rows(total: Float[Tensor, "b h k d"], at: Int[Tensor, "b h q"], part: Tensor) -> None:
    total.scatter_add_(-2, at[..., None].expand(part.shape), part)


class _Dots(torch.autograd.Function):
    """query[i] · key[index[i,w]], one column of the window at a time: no q × w × d tensor."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, index)
        columns = [(query * _rows_at(key, at)).sum(-1) for at in index.unbind(-1)]
        return torch.stack(columns, -1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, index = ctx.saved_tensors
        d_query, d_key = torch.zeros_like(query), torch.zeros_like(key)
        for at, g in zip(index.unbind(-1), grad.unbind(-1), strict=True):
            d_query.addcmul_(g[..., None], _rows_at(key, at))
            _add_rows(d_key, at, g[..., None] * query)
        return d_query, d_key, None


class _Gathered(torch.autograd.Function):
    """sum over w of weights[i,w] · value[index[i,w]], one column of the window at a time."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(weights, value, index)
        out = value.new_zeros(*weights.shape[:-1], value.shape[-1])
        for at, weight in zip(index.unbind(-1), weights.unbind(-1), strict=True):
            out.addcmul_(weight[..., None], _rows_at(value, at))
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, value, index = ctx.saved_tensors
        d_weights, d_value = [], torch.zeros_like(value)
        for at, weight in zip(index.unbind(-1), weights.unbind(-1), strict=True):
            d_weights.append((grad * _rows_at(value, at)).sum(-1))
            _add_rows(d_value, at, weight[..., None] * grad)
        return torch.stack(d_weights, -1), d_value, None
