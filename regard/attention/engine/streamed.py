"""Streamed path: the law for some queries at a time, each block worked again in the backward pass.

A row of the map needs its own query and the keys that its mask may show, so blocks of rows are
computed one after another by `attend` itself, each against these keys alone. Between the passes
nothing but context and row numbers is held: O(block · k) numbers instead of O(q · k), for one more
forward pass of work.
"""

from collections.abc import Callable
from functools import partial
from operator import index
from typing import final

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch.utils.checkpoint import checkpoint

from regard.attention.attend import Attended
from regard.attention.engine.case import Case, Cost, Path, every_pair
from regard.attention.engine.dense import by_equations
from regard.attention.engine.kernels import is_transformed
from regard.attention.engine.sparse import at_columns, stretches
from regard.attention.engine.streamed_blocks import AttendInBlocks, Probe, QueryBlock, RowNumbers
from regard.attention.links import Grid, wide
from regard.places import Places

FEW_KEYS = 512
"""Rows so short are kept whole by the dense path, which computes them once."""
BLOCKS_KEPT = 8
"""Maps of up to so many blocks are kept whole as well: they would be computed twice for little."""
NUMBERS_AT_ONCE, NUMBERS_ON_GPU = 1 << 22, 1 << 27
"""How many scores and weights are in a block of queries. On a CPU a
block stays near its cache: over 2,048 keys streaming takes 0.5 to 0.6 of dense's time."""
CUT_ROWS, CUT_COLUMNS = 256, 64
"""Rows of a block under a mask that hides whole blocks of keys, and the size of these."""
UNROLLED = 16
"""Most blocks in a compiler's graph, which holds all steps of each and is as long in the making."""


@final
class StreamedPath(Path):
    """Follow the equations block by block."""

    name = "streamed"

    def why_not(self, case: Case) -> str | None:
        """The reason, if a memory shortens the keys first."""
        return None if case.memory is None else "a memory shortens the keys first"

    def why_slow(self, case: Case) -> str | None:
        """The reason, if rows are short, the map is small, or a CUDA graph is recorded."""
        n_keys = case.key.shape[-2]
        if n_keys <= FEW_KEYS:
            return f"{n_keys} keys are few: rows of up to {FEW_KEYS} are kept whole"
        if not _is_cut(case) and BLOCKS_KEPT * _block(case) >= case.query.shape[-2]:
            return f"the whole map is no more than {BLOCKS_KEPT} blocks of queries"
        if case.query.is_cuda and torch.cuda.is_current_stream_capturing():
            return "a CUDA graph cannot restore random numbers for the backward pass"
        return None

    def why(self, case: Case) -> str:
        """The number of queries in a block, and the share of the map that is computed."""
        n_queries, block = case.query.shape[-2], _block(case)
        said = f"{block} of {n_queries} queries at a time, as the equations say"
        share = _computed(case) / (n_queries * case.key.shape[-2])
        return said if share == 1 else f"{said}, over {100 * share:.0f} % of the map"

    def cost(self, case: Case) -> Cost:
        """The cost of the computed pairs, of which those of one block are held."""
        whole, n_queries = every_pair(case), case.query.shape[-2]
        pairs, block = _computed(case), min(_block(case), n_queries)
        every = n_queries * case.key.shape[-2]
        held = whole.numbers * pairs // every * block // n_queries
        return Cost(whole.multiply_adds * pairs // every, held)

    def run(self, case: Case) -> Attended:
        """Compute one block after another."""
        tensors = (case.query, case.key, case.value)
        blocks = [QueryBlock(at, _of_block(case, at)) for at in _blocks(case)]
        if not (torch.compiler.is_compiling() or _is_kept(case)):
            row = slice(0, 1)
            probe = Probe.of(QueryBlock(row, _of_block(case, row)), *tensors)
            if probe.learned is not None:
                context, *numbers = AttendInBlocks.apply(blocks, *tensors, *probe.learned)
                return case.attended(context, probe.numbers(*numbers))
        # every block adds to the gradients of all keys
        tensors, is_kept = (case.query, wide(case.key), wide(case.value)), _is_kept(case)
        parts = [_in_graph(block, *tensors, is_kept=is_kept) for block in blocks]
        contexts, rows = zip(*parts, strict=True)
        whole = (torch.cat(each, -2) for each in zip(*rows, strict=True))
        return case.attended(torch.cat(contexts, -2), type(rows[0])(*whole))


def _is_cut(case: Case) -> bool:
    """Whether the mask may hide whole blocks of keys from a block of queries."""
    is_plain = case.kernel_mask is not None and not case.kernel_mask.is_causal
    is_traced = torch.compiler.is_compiling() or is_transformed()
    is_gapless = case.places.past is not None
    return is_gapless and not (is_plain or is_traced or case.n_pairs == 0)


def _blocks(case: Case) -> list[slice]:
    """The blocks of queries; only a few in a compiler's graph, which is one for each length."""
    size, n = _block(case), case.query.shape[-2]
    if torch.compiler.is_compiling():
        n = index(n)
        size = max(index(size), -(-n // UNROLLED))
    return [slice(at, min(at + size, n)) for at in range(0, max(1, n), size)]


def _block(case: Case) -> int:
    """How many queries are worked at a time."""
    (b, h, n_queries, _), n_keys, is_cut = case.query.shape, case.key.shape[-2], _is_cut(case)
    if is_cut:
        # what a block in the middle sees stands for all
        middle = slice(n_queries // 2, min(n_queries // 2 + CUT_ROWS, n_queries))
        n_keys = _length(_columns(case, middle))
    of_one_query = 2 * b * h * n_keys
    numbers = NUMBERS_ON_GPU if case.query.is_cuda else NUMBERS_AT_ONCE
    block = max(1, numbers // max(1, of_one_query))
    return min(block, CUT_ROWS) if is_cut else block


def _columns(case: Case, at: slice) -> tuple[slice, ...]:
    """The stretches of keys that a block of queries may see."""
    n_keys = case.key.shape[-2]
    if not _is_cut(case):
        return (slice(0, n_keys),)
    rows = range(at.start, at.stop)
    grid = Grid.over(case.places, rows, range(n_keys), q_size=len(rows), k_size=CUT_COLUMNS)
    # a row that sees nothing still has a context, of some key
    return stretches(case.mask.touches(grid)[0], CUT_COLUMNS, n_keys) or (slice(0, 1),)


def _computed(case: Case) -> int:
    """Pairs of one head that are computed."""
    return sum((at.stop - at.start) * _length(_columns(case, at)) for at in _blocks(case))


def _length(columns: tuple[slice, ...]) -> int:
    return sum(stretch.stop - stretch.start for stretch in columns)


def _is_kept(case: Case) -> bool:
    """Whether a graph of all blocks is kept, since none of them can be computed again.

    An exported graph is a forward pass, torch.func keeps all that a gradient needs, and parameters
    that `functional_call` exchanged for a call are back in their place when gradients are made.
    """
    links = (link for link in (case.score, case.relation, case.select) if isinstance(link, Module))
    own = (isinstance(x, Parameter) for link in links for x in link.parameters())
    return torch.compiler.is_exporting() or is_transformed() or not all(own)


def _in_graph(
    block: QueryBlock, query: Tensor, key: Tensor, value: Tensor, *, is_kept: bool
) -> tuple[Tensor, RowNumbers]:
    """The outputs of a block as a part of a graph."""
    query = query[..., block.rows, :]
    if is_kept or not torch.is_grad_enabled():
        return block.attend(query, key, value)
    return checkpoint(block.attend, query, key, value, use_reentrant=False)


def _of_block(
    case: Case, at: slice
) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, RowNumbers]]:
    """The function from some queries, all keys and all values to context and row numbers."""
    columns = _columns(case, at)
    places = case.places.tile(at, slice(None))
    return partial(
        _attend_block, case, places.at_keys(at_columns(places.key, columns, -1)), columns
    )


def _attend_block(
    case: Case,
    places: Places,
    columns: tuple[slice, ...],
    query: Tensor,
    key: Tensor,
    value: Tensor,
) -> tuple[Tensor, RowNumbers]:
    key = at_columns(key, columns, -2).to(case.key.dtype)
    value = at_columns(value, columns, -2).to(case.value.dtype)
    done = by_equations(case, query, key, value, places)
    size = (*query.shape[:-1], 1)
    return done.context, type(done.rows)(*(number.expand(size) for number in done.rows))
