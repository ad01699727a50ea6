"""Streamed path: the law for some queries at a time, each block worked again in the backward pass.

A row of the map needs its own query, all keys and nothing of another row, so blocks of rows are
computed one after another by `attend` itself. Between the passes nothing but context and row
numbers is held: O(block · k) numbers instead of O(q · k), for one more forward pass of work.
"""

from functools import partial
from typing import cast, final

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from regard.attention.attend import Attended
from regard.attention.engine.case import Case, Cost, Path, every_pair
from regard.attention.engine.dense import by_equations
from regard.places import Places

FEW_KEYS = 512
"""Rows so short are kept whole by the dense path, which computes them once."""
BLOCKS_KEPT = 8
"""Maps of up to so many blocks are kept whole as well: streaming takes up to 1.7 times as long."""
NUMBERS_AT_ONCE, NUMBERS_ON_GPU = 1 << 24, 1 << 27
"""How many scores, weights and numbers held for each pair are in a block of queries."""


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
        if BLOCKS_KEPT * _block(case) >= case.query.shape[-2]:
            return f"the whole map is no more than {BLOCKS_KEPT} blocks of queries"
        if case.query.is_cuda and torch.cuda.is_current_stream_capturing():
            return "a CUDA graph cannot restore random numbers for the backward pass"
        return None

    def why(self, case: Case) -> str:
        """The number of queries in a block."""
        return f"{_block(case)} of {case.query.shape[-2]} queries at a time, as the equations say"

    def cost(self, case: Case) -> Cost:
        """The cost of every pair, of which those of one block are held."""
        whole = every_pair(case)
        n_queries = case.query.shape[-2]
        block = min(_block(case), n_queries)
        return Cost(whole.multiply_adds, whole.numbers * block // n_queries)

    def run(self, case: Case) -> Attended:
        """Compute one block after another; a compiler would unroll them all."""
        if torch.compiler.is_compiling():
            return cast("Attended", torch.compiler.disable(_run)(case))
        return _run(case)


def _run(case: Case) -> Attended:
    size, n_queries = _block(case), case.query.shape[-2]
    parts = [
        _recomputed(case, slice(at, min(at + size, n_queries))) for at in range(0, n_queries, size)
    ]
    contexts, rows = zip(*parts, strict=True)
    numbers = (torch.cat(each, -2) for each in zip(*rows, strict=True))
    return case.attended(torch.cat(contexts, -2), type(rows[0])(*numbers))


def _block(case: Case) -> int:
    """How many queries are worked at a time."""
    b, h, _, _ = case.query.shape
    of_one_query = b * h * case.key.shape[-2] * (2 + case.score.held_per_pair)
    numbers = NUMBERS_ON_GPU if case.query.is_cuda else NUMBERS_AT_ONCE
    return max(1, numbers // of_one_query)


def _recomputed(case: Case, at: slice) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Context and row numbers of some queries; what they need is made again for the gradient."""
    of_block = partial(_attend_block, case, case.places.tile(at, slice(None)))
    query = case.query[..., at, :]
    if not torch.is_grad_enabled():
        return of_block(query, case.key, case.value)
    return checkpoint(of_block, query, case.key, case.value, use_reentrant=False)


def _attend_block(
    case: Case, places: Places, query: Tensor, key: Tensor, value: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    done = by_equations(case, query, key, value, places)
    size = (*query.shape[:-1], 1)
    return done.context, type(done.rows)(*(number.expand(size) for number in done.rows))
