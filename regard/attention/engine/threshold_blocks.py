"""Threshold blocks: sparsemax and top-k of dot products, a block of queries at a time, on a CPU.

    scores = scale · q kᵀ,   context = weights(scores, threshold) v

A block of scores is small enough to stay in the processor's cache, where a pass over it costs far
less than the product that made it. The threshold is found there without a sort; then only the keys
that some query of the block keeps take part in the other products. Each head is computed by one
thread. Nothing is stored for the backward pass but the row numbers; it makes the scores again.
Memory: one block for each thread.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from regard.attention.engine.kernels import like_rows
from regard.attention.links import wide
from regard.attention.selections.top_k import ROUNDING

NUMBERS, FEWEST_ROWS = 1 << 18, 32
"""Scores in a block, which are 1 MiB in single precision, and its fewest queries."""

GROUP = 16
"""Keys of which the best alone gives a first guess at the threshold."""

STEPS = 64
"""Most steps of Newton's method; every one but the last drops a key, so that few are taken."""

WORTH_GATHERING = 0.6
"""The share of the keys up to which copying them is cheaper than computing with all."""


@runtime_checkable
class ThresholdRule(Protocol):
    """How scores become weights once each row has a threshold; `-inf` marks a hidden key."""

    def find(self, scores: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
        """Threshold and normaliser of each row of whole scores; `room` has their shape."""

    def weigh_(self, scores: Tensor, threshold: Tensor, normaliser: Tensor) -> Tensor:
        """The weights, in the place of the scores."""

    def differentiate_(self, grad: Tensor, weights: Tensor, normaliser: Tensor) -> Tensor:
        """The gradient of the scores, in the place of the weights' gradient."""


class SimplexRule:
    """weight = max(score - threshold, 0), summing to 1; the normaliser counts a row's keys."""

    def find(self, scores: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
        """Follow Newton's method from the left, where no step can pass the solution."""
        threshold = self._below(scores)
        before = kept = scores.new_empty(0)
        for _ in range(STEPS):
            above = torch.sub(scores, threshold, out=room).relu_()
            total = above.sum(-1, keepdim=True)
            before, kept = kept, above.sign_().sum(-1, keepdim=True)
            # a row that sees nothing keeps its finite threshold
            threshold = threshold + (total - 1) / kept.clamp(min=1) * (kept > 0)
            if torch.equal(before, kept):
                break
        return threshold, kept

    def _below(self, scores: Tensor) -> Tensor:
        """A number that is not above the threshold: any part of a row has a lower one than it."""
        n_groups = scores.shape[-1] // GROUP
        if n_groups < GROUP:
            best = scores.amax(-1, keepdim=True)
            return best.clamp(min=torch.finfo(scores.dtype).min) - 1
        groups, rest = scores[:, : GROUP * n_groups], scores[:, GROUP * n_groups :]
        # the rest may be all that a row sees
        best = torch.cat((groups.unflatten(-1, (GROUP, n_groups)).amax(1), rest), -1)
        return self.find(best, torch.empty_like(best))[0]

    def weigh_(self, scores: Tensor, threshold: Tensor, normaliser: Tensor) -> Tensor:
        """The part of each score above the threshold."""
        return scores.sub_(threshold).relu_()

    def differentiate_(self, grad: Tensor, weights: Tensor, normaliser: Tensor) -> Tensor:
        """The gradient less its mean, both over the keys with a weight."""
        kept = weights.sign()
        mean = grad.mul_(kept).sum(-1, keepdim=True) / normaliser.clamp(min=1)
        return grad.addcmul_(kept, mean, value=-1)


class BestKeysRule:
    """The softmax of the `count` best keys of each row and of those tied with the last of them."""

    def __init__(self, count: int) -> None:
        self.count = count

    def find(self, scores: Tensor, room: Tensor) -> tuple[Tensor, Tensor]:
        """The threshold is halfway between the last score that is kept and the next."""
        info, n_keys = torch.finfo(scores.dtype), scores.shape[-1]
        best = scores.topk(min(self.count + 1, n_keys)).values.clamp(min=info.min)
        last = best[:, min(self.count, n_keys) - 1, None]
        tied = last - ROUNDING * info.eps * best[:, :1].abs()
        below = best[:, -1:] if n_keys > self.count else torch.full_like(last, info.min)
        if n_keys > self.count and bool((below >= tied).any()):
            is_tied = scores >= tied
            last = scores.masked_fill(~is_tied, torch.inf).amin(-1, keepdim=True)
            last = last.clamp(min=info.min, max=info.max)
            below = scores.masked_fill(is_tied, info.min).amax(-1, keepdim=True)
            below = below.clamp(min=info.min)
            best = scores.masked_fill(scores < last, -torch.inf)
        else:
            best = best[:, : self.count].masked_fill(best[:, : self.count] == info.min, -torch.inf)
        lse = best.logsumexp(-1, keepdim=True)
        return last / 2 + below / 2, lse.clamp(min=info.min)

    def weigh_(self, scores: Tensor, threshold: Tensor, normaliser: Tensor) -> Tensor:
        """Each kept key's share."""
        is_below = scores < threshold
        # exponentials of minus infinity take several times as long
        return scores.sub_(normaliser).exp_().masked_fill_(is_below, 0.0)

    def differentiate_(self, grad: Tensor, weights: Tensor, normaliser: Tensor) -> Tensor:
        """The softmax's gradient."""
        mean = torch.linalg.vecdot(grad, weights).unsqueeze(-1)
        return grad.sub_(mean).mul_(weights)


def rule_of(count: int) -> ThresholdRule:
    """The rule of a number of best keys; 0 stands for the simplex."""
    return BestKeysRule(count) if count else SimplexRule()


class Block(NamedTuple):
    """Some queries of one head, and the keys up to the last that one of them may see."""

    rows: slice
    keys: slice
    missing: Tensor | None
    """True for keys that do not exist, if there are any."""
    sees: int | None
    """How many keys the first query sees, and each next one more; None if all see all."""

    @property
    def size(self) -> tuple[int, int]:
        """How many queries and keys."""
        return self.rows.stop - self.rows.start, self.keys.stop

    def scores(self, query: Tensor, key: Tensor, scale: float, room: Tensor) -> Tensor:
        """All scores of the block, minus infinity for hidden pairs."""
        scores = _view(room, *self.size)
        torch.mm(wide(query[self.rows]) * scale, key[self.keys].mT, out=scores)
        if self.missing is not None:
            scores.masked_fill_(self.missing, -torch.inf)
        if self.sees is not None:
            some = scores[:, self.sees :]
            some.masked_fill_(torch.ones(some.shape, dtype=torch.bool).triu(), -torch.inf)
        return scores


def blocks(query: Tensor, key: Tensor, real: Tensor | None, past: int | None) -> Iterator[Block]:
    """Blocks of one head that together hold every visible pair.

    `real` says which keys exist; `past` counts the keys before a causal mask.
    """
    n_queries, n_keys = query.shape[-2], key.shape[-2]
    size = _block_size(n_keys)
    # keys after the last real one take no part
    stop = n_keys if real is None else int(real.nonzero().amax()) + 1 if real.any() else 0
    missing = None if real is None or bool(real[:stop].all()) else ~real
    for first in range(0, n_queries, size):
        rows = slice(first, min(first + size, n_queries))
        keys = slice(0, stop if past is None else min(stop, past + rows.stop))
        if keys.stop == 0:
            continue
        sees = None if past is None or past + first + 1 >= keys.stop else past + first + 1
        yield Block(rows, keys, None if missing is None else missing[keys], sees)


def attend_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    valid: Tensor | None,
    past: int | None,
    count: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Context, threshold and normaliser of each row."""
    rule, numbers = rule_of(count), wide(query[:1, :1, :1, :1])
    context = like_rows(query, width=value.shape[-1]).zero_()
    threshold, normaliser = (numbers.new_zeros(query.shape[:-1]) for _ in range(2))

    def attend(at: tuple[int, int]) -> None:
        q, k, v = query[at], wide(key[at]), wide(value[at])
        first, second = _rooms(k)
        for block in blocks(q, k, None if valid is None else valid[at[0]], past):
            scores = block.scores(q, k, scale, first)
            found = rule.find(scores, _view(second, *block.size))
            kept, scores = _kept(scores, found[0], second)
            weights = rule.weigh_(scores, *found)
            context[at][block.rows] = (weights @ _at(v[block.keys], kept)).to(context.dtype)
            threshold[at][block.rows] = found[0].squeeze(-1)
            normaliser[at][block.rows] = found[1].squeeze(-1)

    _for_each_head(attend, query)
    return context, threshold, normaliser


def differentiate_in_blocks(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    threshold: Tensor,
    normaliser: Tensor,
    valid: Tensor | None,
    past: int | None,
    count: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value."""
    rule = rule_of(count)
    d_query, d_key, d_value = (like_rows(x).zero_() for x in (query, key, value))

    def differentiate(at: tuple[int, int]) -> None:
        q, k, v = query[at], wide(key[at]), wide(value[at])
        d_keys, d_values = torch.zeros_like(k), torch.zeros_like(v)
        first, second = _rooms(k)
        for block in blocks(q, k, None if valid is None else valid[at[0]], past):
            rows = block.rows
            numbers = (threshold[at][rows, None], normaliser[at][rows, None])
            scores = block.scores(q, k, scale, first)
            kept, scores = _kept(scores, numbers[0], second)
            weights = rule.weigh_(scores, *numbers)
            d_rows = wide(grad[at][rows])
            _add(d_values[block.keys], kept, weights.mT @ d_rows)
            d_weights = d_rows @ _at(v[block.keys], kept).mT
            d_scores = rule.differentiate_(d_weights, weights, numbers[1])
            d_query[at][rows] = (d_scores @ _at(k[block.keys], kept) * scale).to(query.dtype)
            _add(d_keys[block.keys], kept, d_scores.mT @ (wide(q[rows]) * scale))
        d_key[at], d_value[at] = d_keys.to(key.dtype), d_values.to(value.dtype)

    _for_each_head(differentiate, query)
    return d_query, d_key, d_value


def _for_each_head(work: Callable[[tuple[int, int]], None], query: Tensor) -> None:
    """Do the work of all heads, each on one thread.

    Threads that met after every small operation would wait for each other all the time.
    """
    heads = list(product(range(query.shape[0]), range(query.shape[1])))
    n_threads = torch.get_num_threads()
    n_workers = min(n_threads, len(heads))

    def compute(head: tuple[int, int]) -> None:
        # a thread has modes of its own; under autocast the products would be rounded
        with torch.inference_mode(), torch.autocast("cpu", enabled=False):
            work(head)

    if n_workers <= 1:
        for head in heads:
            compute(head)
        return

    def alone(head: tuple[int, int]) -> None:
        # what a thread may do besides computing is set for each thread
        torch.set_num_threads(1)
        compute(head)

    try:
        with ThreadPoolExecutor(n_workers) as threads:
            list(threads.map(alone, heads))
    finally:
        # the number for threads that begin later
        torch.set_num_threads(n_threads)


def _block_size(n_keys: int) -> int:
    """How many queries are in a block."""
    return max(FEWEST_ROWS, NUMBERS // max(n_keys, 1))


def _rooms(key: Tensor) -> tuple[Tensor, Tensor]:
    """Room for two blocks of scores, kept from block to block: fresh memory costs a pass."""
    numbers = _block_size(key.shape[-2]) * key.shape[-2]
    return key.new_empty(numbers), key.new_empty(numbers)


def _view(room: Tensor, n_rows: int, n_keys: int) -> Tensor:
    return room[: n_rows * n_keys].view(n_rows, n_keys)


def _kept(scores: Tensor, threshold: Tensor, room: Tensor) -> tuple[Tensor | None, Tensor]:
    """The keys that some row keeps and their scores; None and all scores where most are kept."""
    n_rows, n_keys = scores.shape
    above = torch.sub(scores, threshold, out=_view(room, n_rows, n_keys))
    kept = above.amax(0).ge(0).nonzero().squeeze(-1)
    if len(kept) > WORTH_GATHERING * n_keys:
        return None, scores
    return kept, torch.index_select(scores, 1, kept, out=_view(room, n_rows, len(kept)))


def _at(rows: Tensor, kept: Tensor | None) -> Tensor:
    return rows if kept is None else rows.index_select(0, kept)


def _add(total: Tensor, kept: Tensor | None, part: Tensor) -> None:
    if kept is None:
        total += part
    else:
        total.index_add_(0, kept, part)
