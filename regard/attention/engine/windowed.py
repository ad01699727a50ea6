"""Windowed path: Luong's local selections read the 2D + 1 keys around each row's centre.

On a GPU one kernel computes a softmax of dot products that fades with the distance from the centre
(window_kernel.py). Everything else gathers the windows, one key of every row at a time.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import dropout

from regard.attention.attend import Attended
from regard.attention.engine.agreement import disagreement
from regard.attention.engine.case import Case, Cost, Path
from regard.attention.engine.kernels import HALF, is_transformed
from regard.attention.links import LocalRows, keys_that_exist
from regard.places import Places

GATHERED = 8
"""Row lengths, in windows, from which gathering is faster (measured on a CPU, both passes)."""

CACHED = 2**18
"""Numbers in a block of gathered vectors, few enough for a CPU's cache: with 2**20 the dot products
take ten times as long (float32, one thread, 2026-11-19)."""

KERNEL_BYTES = 512
"""The longest vector whose tiles fit into a GPU's registers."""

TRIED = 150
"""Queries and keys with which the kernel is tried before its first use: three tiles."""


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
        if is_transformed():
            return "torch.func cannot transform its windows"
        return None

    def why_slow(self, case: Case) -> str | None:
        """The reason, if rows are only a few windows long, so that gathering is slower."""
        assert case.window is not None
        width, n_keys = 2 * case.window.half_width + 1, case.key.shape[-2]
        if n_keys >= GATHERED * width:
            return None
        return f"{n_keys} keys are fewer than {GATHERED} windows of {width}"

    def why(self, case: Case) -> str:
        """The width of the window."""
        assert case.window is not None
        return f"each row reads {2 * case.window.half_width + 1} of {case.key.shape[-2]} keys"

    def cost(self, case: Case) -> Cost:
        """The cost of scores and weights inside the windows."""
        assert case.window is not None
        b, h, q, d = case.query.shape
        pairs = b * h * q * (2 * case.window.half_width + 1)
        return Cost(multiply_adds=pairs * (d + case.value.shape[-1]), numbers=2 * pairs)

    def run(self, case: Case) -> Attended:
        """Run the kernel, or the selection's two phases inside gathered windows."""
        if _fits_kernel(case) and disagreement(case, _by_kernel, TRIED) is None:
            return _by_kernel(case)
        assert case.window is not None
        centre = _centre(case)
        reach = case.window.half_width
        steps = torch.arange(-reach, reach + 1, device=case.query.device)
        at = centre.detach().floor().long() + steps
        places = case.places.at_keys(at.clamp(0, case.key.shape[-2] - 1))
        mask = case.mask.visible(places) & (at == places.key)
        scores = _scores(case, places)
        rows = case.window.settle(scores, mask, centre, places)
        weights = case.select.weigh(scores, mask, rows, places)
        weights = dropout(weights, case.dropout) if case.dropout > 0 else weights
        return case.attended(_Gathered.apply(weights, case.value, places.key), rows)


def _fits_kernel(case: Case) -> bool:
    """Whether the kernel for windows can run the case."""
    if case.dot is None or case.select.as_faded_softmax() is None or case.dropout > 0:
        return False
    tensors = (case.dot.query, case.dot.key, case.value)
    return (
        case.query.is_cuda
        and len({x.dtype for x in tensors}) == 1
        and case.value.dtype in (*HALF, torch.float32)
        and max(x.shape[-1] * x.element_size() for x in tensors) <= KERNEL_BYTES
        and min(x.numel() for x in tensors) > 0
    )


def _centre(case: Case) -> Float[Tensor, "b h q 1"]:
    """The centre of each row's window."""
    assert case.window is not None
    b, h, q, _ = case.query.shape
    extent = _extent(case).expand(b, h, q, 1)
    return case.window.centre(case.query, case.places, extent).expand(b, h, q, 1)


def _by_kernel(case: Case) -> Attended:
    """Attend without writing a window to memory."""
    assert case.dot is not None and case.window is not None and case.kernel_mask is not None
    centre = _centre(case)
    # Triton comes with torch only where there is a GPU
    from regard.attention.engine.window_kernel import AttendInWindows

    valid, n_keys = case.kernel_mask.valid, case.key.shape[-2]
    context, lse = AttendInWindows.apply(
        case.dot.query,
        case.dot.key,
        case.value,
        centre.squeeze(-1).float().contiguous(),
        None if valid is None else keys_that_exist(valid, n_keys),
        case.kernel_mask.is_causal,
        case.places.past,
        case.window.half_width,
        case.select.as_faded_softmax(),
        case.dot.scale,
    )
    return case.attended(context, LocalRows(lse.unsqueeze(-1), centre))


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


class _Block(NamedTuple):
    """Some rows of all heads, and the keys of their windows, one column of the window at a time."""

    rows: slice
    columns: tuple[Int[Tensor, " r"], ...]


def _blocks(index: Int[Tensor, "b h q w"], source: Float[Tensor, "b h k d"]) -> Iterator[_Block]:
    """All rows; on a CPU in blocks whose vectors its cache holds."""
    b, h, n_keys, d = source.shape
    heads = torch.arange(b * h, device=index.device).view(b, h, 1, 1)
    flat = (index + heads * n_keys).flatten(0, -2)
    # a compiler fuses the columns itself, and would repeat them for every block
    is_cut = index.is_cpu and not torch.compiler.is_compiling()
    size = max(1, CACHED // max(1, d)) if is_cut else max(1, len(flat))
    for first in range(0, len(flat), size):
        rows = slice(first, first + size)
        yield _Block(rows, flat[rows].T.contiguous().unbind())


def _dots(rows: Tensor, source: Tensor, index: Tensor) -> Tensor:
    """rows[i] · source[index[i,w]]."""
    out, each, found = rows.new_empty(index.shape), _flat(rows), _flat(source)
    for at, columns in _blocks(index, source):
        parts = [(each[at] * found.index_select(0, column)).sum(-1) for column in columns]
        _flat(out)[at] = torch.stack(parts, -1)
    return out


def _sums(weights: Tensor, source: Tensor, index: Tensor) -> Tensor:
    """Sum over w of weights[i,w] · source[index[i,w]]."""
    out, found = source.new_zeros(*index.shape[:-1], source.shape[-1]), _flat(source)
    each = _flat(weights)
    for at, columns in _blocks(index, source):
        total = _flat(out)[at]
        for column, weight in zip(columns, each[at].unbind(-1), strict=True):
            total.addcmul_(weight[:, None], found.index_select(0, column))
    return out


def _spread(weights: Tensor, rows: Tensor, index: Tensor, like: Tensor) -> Tensor:
    """Sum of weights[i,w] · rows[i] over all i and w whose index is j; the transpose of `_sums`."""
    out = torch.zeros(like.shape, dtype=like.dtype, device=like.device)
    shares, each = _flat(weights), _flat(rows)
    for at, columns in _blocks(index, like):
        for column, share in zip(columns, shares[at].unbind(-1), strict=True):
            _flat(out).index_add_(0, column, share[:, None] * each[at])
    return out


def _flat(x: Float[Tensor, "b h n d"]) -> Float[Tensor, "bhn d"]:
    """The vectors of all heads in one list: whole vectors are found faster than numbers."""
    return x.reshape(-1, x.shape[-1])


class _Dots(torch.autograd.Function):
    """query[i] · key[index[i,w]], one column of the window at a time: no q × w × d tensor."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, index)
        return _dots(query, key, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, index = ctx.saved_tensors
        return _sums(grad, key, index), _spread(grad, query, index, key), None


class _Gathered(torch.autograd.Function):
    """sum over w of weights[i,w] · value[index[i,w]], one column of the window at a time."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(weights, value, index)
        return _sums(weights, value, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        weights, value, index = ctx.saved_tensors
        return _dots(grad, value, index), _spread(weights, grad, index, value), None
