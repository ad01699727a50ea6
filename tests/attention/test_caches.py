"""Caches: decoding step by step is decoding at once, whatever the causal chain is made of."""

import pytest
import torch

from regard.attention import Chain, GroupedQueryHeads, all_of, any_of, given, multi_head, padding
from regard.attention.caches import STORAGE_STEP, KeyValues, reordered
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.blocks import BlocksPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.global_tokens import GlobalTokensPattern
from regard.attention.patterns.random_links import RandomLinksPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.concat import ConcatScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.general import GeneralScore
from regard.attention.scores.location import LocationScore
from regard.attention.selections.hard import HardSelection
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.attention.selections.local_predictive import LocalPredictiveSelection
from regard.attention.selections.soft import SoftSelection
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.attention.selections.top_k import TopKSelection
from regard.dims import Dims
from regard.places import Places
from regard.positions.rotary import RotaryPositions
from tests.assertions import assert_close, doubles

N = 17
DIMS = Dims(d_model=12, n_heads=3, max_len=19)
HEAD = DIMS.head()
CAUSAL = CausalPattern()
LINKS = RandomLinksPattern(block=2, n_random=2, is_causal=True)
STEPS = {"one by one": [1] * N, "unevenly": [3, 1, 7, 2, 1, 3], "at once": [N]}


CHAINS = {
    "causal": {},
    "causal window": {"pattern": all_of(CAUSAL, SlidingWindowPattern(size=3))},
    "causal blocks": {"pattern": all_of(CAUSAL, BlocksPattern(size=5))},
    "causal global tokens": {"pattern": all_of(CAUSAL, GlobalTokensPattern(first=2))},
    "causal random links": {"pattern": all_of(CAUSAL, LINKS)},
    "causal links and window": {
        "pattern": all_of(CAUSAL, any_of(LINKS, SlidingWindowPattern(size=1)))
    },
    "causal big_bird": {"pattern": BigBirdPattern(block=2, n_random=1, is_causal=True)},
    "shaw": {"relation": ShawRelation(HEAD, clip=3)},
    "bucketed": {"relation": BucketedRelation(HEAD, n_buckets=6, max_distance=11, is_causal=True)},
    "linear_bias": {"relation": LinearBiasRelation(HEAD)},
    "linear_bias in a window": {
        "relation": LinearBiasRelation(HEAD),
        "pattern": SlidingWindowPattern(size=5),
    },
    "soft": {"select": SoftSelection(temperature=0.3)},
    "sparsemax": {"select": SparsemaxSelection()},
    "top_k": {"select": TopKSelection(count=3)},
    "local_monotonic": {"select": LocalMonotonicSelection(half_width=2)},
    "local_predictive": {"select": LocalPredictiveSelection(HEAD, half_width=2)},
    "local_predictive with shaw": {
        "select": LocalPredictiveSelection(HEAD, half_width=2),
        "relation": ShawRelation(HEAD, clip=3),
    },
    "hard": {"select": HardSelection()},
    "expected": {"select": HardSelection(at_test="expected")},
    "dot": {"score": DotScore()},
    "general": {"score": GeneralScore(HEAD)},
    "concat": {"score": ConcatScore(HEAD)},
    "additive": {"score": AdditiveScore(HEAD, has_bias=True)},
    "location": {"score": LocationScore(HEAD)},
    "memory_compressed": {"memory": MemoryCompressedMemory(HEAD)},
    "memory_compressed by twos": {"memory": MemoryCompressedMemory(HEAD, stride=2)},
    "hard over slots": {"memory": MemoryCompressedMemory(HEAD), "select": HardSelection()},
    "sparsemax over slots": {
        "memory": MemoryCompressedMemory(HEAD),
        "select": SparsemaxSelection(),
    },
}
HEADS = {
    **{
        name: (lambda links=links: multi_head(DIMS, chain=Chain(**links)))
        for name, links in CHAINS.items()
    },
    "rotary": lambda: multi_head(DIMS, rotary=RotaryPositions(DIMS)),
    "multi-query": lambda: GroupedQueryHeads(DIMS, n_groups=1),
    "multi-query, rotary, compressed": lambda: GroupedQueryHeads(
        DIMS,
        chain=Chain(memory=MemoryCompressedMemory(HEAD)),
        rotary=RotaryPositions(DIMS),
        has_bias=True,
    ),
}


def decoder(name):
    """Heads with fresh weights, all of them away from zero."""
    heads = HEADS[name]().double().eval()
    for parameter in heads.parameters():
        parameter.data.normal_(std=0.4)
    return heads


def stepped(heads, x, sizes, mask=CAUSAL):
    """The contexts of a decoder that is given its positions in pieces, and its last cache."""
    cache, contexts = None, []
    for part in x.split(sizes, 1):
        attended, cache = heads.step(part, cache, mask)
        contexts.append(attended.context)
    return torch.cat(contexts, 1), cache


@pytest.mark.parametrize("pieces", STEPS)
@pytest.mark.parametrize("name", HEADS)
def test_step_by_step_is_at_once(name, pieces):
    heads, x = decoder(name), doubles(2, N, 12)
    want = heads(x, mask=CAUSAL).context
    with torch.no_grad():  # as a decoder runs, and so that learned biases take the sparse path
        got, cache = stepped(heads, x, STEPS[pieces])
    assert_close("context", got, want)
    assert cache.length == N


@pytest.mark.parametrize("name", HEADS)
def test_the_last_step_learns_what_the_whole_learns(name):
    heads, x = decoder(name), doubles(2, N, 12)
    whole = heads(x, mask=CAUSAL).context[:, -1].square().sum()
    last = stepped(heads, x, [5, 7, 5])[0][:, -1].square().sum()
    parameters = dict(heads.named_parameters())
    theirs = torch.autograd.grad(whole, list(parameters.values()), allow_unused=True)
    ours = torch.autograd.grad(last, list(parameters.values()), allow_unused=True)
    for parameter, mine, their in zip(parameters, ours, theirs, strict=True):
        assert (mine is None) == (their is None), parameter
        if mine is not None:
            assert_close(f"gradient of {parameter}", mine, their, atol=1e-9)


@pytest.mark.parametrize("changed", [1, 2, 3, 9, N - 1])
@pytest.mark.parametrize("name", HEADS)
def test_a_later_token_changes_no_earlier_output(name, changed):
    heads, x = decoder(name), doubles(2, N, 12)
    before = heads(x, mask=CAUSAL).context
    x[:, changed:] = doubles(2, N - changed, 12) * 11
    after = heads(x, mask=CAUSAL).context
    assert_close("earlier outputs", after[:, :changed], before[:, :changed], atol=1e-13)
    assert (after[:, changed:] - before[:, changed:]).abs().max() > 1e-6


@pytest.mark.parametrize("name", ["causal", "causal window", "local_predictive", "additive"])
def test_a_padding_mask_for_the_whole_sentence_serves_every_step(name):
    heads, x = decoder(name), doubles(2, N, 12)
    mask = all_of(CAUSAL, padding(torch.tensor([5, N])))
    assert_close(
        "context", stepped(heads, x, STEPS["unevenly"], mask)[0], heads(x, mask=mask).context
    )


def test_a_matrix_for_the_whole_sentence_serves_every_step():
    heads, x = multi_head(DIMS).double(), doubles(2, N, 12)
    mask = all_of(CAUSAL, given(torch.rand(N, N) < 0.6))
    for sizes in STEPS.values():
        assert_close("context", stepped(heads, x, sizes, mask)[0], heads(x, mask=mask).context)


def test_a_selected_cache_goes_on_from_the_selected_rows():
    heads, x, rows = multi_head(DIMS).double(), doubles(3, N, 12), torch.tensor([2, 0, 2, 2, 1])
    _, cache = stepped(heads, x[:, :11], [11])
    attended, _ = heads.step(x[rows, 11:], cache.select(rows), CAUSAL)
    assert_close("context", attended.context, heads(x[rows], mask=CAUSAL).context[:, 11:])


def test_selecting_rows_leaves_the_other_cache_alone():
    cache = KeyValues(doubles(3, 2, 5, 7), doubles(3, 2, 5, 7))
    chosen = cache.select(torch.tensor([1, 1]))
    chosen.key.zero_()
    assert cache.key.abs().min() > 0
    assert torch.equal(chosen.value, cache.value[[1, 1]])


def test_a_longer_cache_begins_with_the_shorter_one():
    heads, x = multi_head(DIMS).double(), doubles(2, N, 12)
    _, short = stepped(heads, x[:, :5], [5])
    _, long = heads.step(x[:, 5:], short, CAUSAL)
    assert (short.length, long.length) == (5, N)
    assert torch.equal(long.key[:, :, :5], short.key)
    assert torch.equal(long.value[:, :, :5], short.value)


def test_a_cache_that_two_go_on_from_serves_both():
    heads, x = multi_head(DIMS).double(), doubles(2, N, 12)
    with torch.no_grad():
        _, short = stepped(heads, x[:, :6], [5, 1])
        one, _ = heads.step(x[:, 6:7], short, CAUSAL)
        other, further = heads.step(x[:, 7:8], short, CAUSAL)
        again, _ = heads.step(x[:, 6:7], short, CAUSAL)
    assert_close("context", again.context, one.context)
    assert (one.context - other.context).abs().max() > 1e-6
    assert torch.equal(further.key[:, :, :6], short.key)


def test_steps_write_into_the_room_that_is_there():
    heads, x = multi_head(DIMS).double(), doubles(2, N, 12)
    with torch.no_grad():
        _, short = stepped(heads, x[:, :6], [5, 1])
        _, longer = heads.step(x[:, 6:7], short, CAUSAL)
    assert longer.key.data_ptr() == short.key.data_ptr()
    assert (short.length, longer.length) == (6, 7)


@pytest.mark.parametrize("length", [1, 7, 8, 13])
def test_reordering_selects_in_the_room_that_is_there(length):
    heads, x, rows = multi_head(DIMS).double(), doubles(3, N, 12), torch.tensor([2, 0, 2])
    with torch.no_grad():
        _, cache = stepped(heads, x[:, :length], [1] * length)
        want = cache.select(rows)
        (got,) = reordered([cache], rows)
        for kept, sought in zip(got[:2], want[:2], strict=True):
            assert torch.equal(kept, sought)
        (back,) = reordered([got], torch.tensor([1, 0, 2]))
        attended, _ = heads.step(x[[0, 2, 2], length : length + 1], back, CAUSAL)
    whole = heads(x[[0, 2, 2], : length + 1], mask=CAUSAL).context
    assert_close("context", attended.context, whole[:, length:].detach())


@pytest.mark.parametrize(
    "steps", [1, STORAGE_STEP - 1, STORAGE_STEP, STORAGE_STEP + 1, 2 * STORAGE_STEP + 3]
)
def test_layers_reordered_together_hold_what_each_would_hold_alone(steps):
    drawn = torch.Generator().manual_seed(steps)
    with torch.no_grad():
        caches = [KeyValues(doubles(3, 2, 1, 7), doubles(3, 2, 1, 7)) for _ in range(4)]
        alone = [(cache.key, cache.value) for cache in caches]
        for _ in range(steps):
            rows = torch.randint(3, (3,), generator=drawn)
            new = [KeyValues(doubles(3, 2, 1, 7), doubles(3, 2, 1, 7)) for _ in caches]
            caches = [
                cache.append(one) for cache, one in zip(reordered(caches, rows), new, strict=True)
            ]
            alone = [
                tuple(
                    torch.cat([old[rows], one], 2) for old, one in zip(pair, added[:2], strict=True)
                )
                for pair, added in zip(alone, new, strict=True)
            ]
    for cache, (key, value) in zip(caches, alone, strict=True):
        assert torch.equal(cache.key, key)
        assert torch.equal(cache.value, value)


def test_layers_are_reordered_by_one_copy_in_the_stack_they_share():
    caches = [KeyValues(doubles(2, 2, 3, 7), doubles(2, 2, 3, 7)) for _ in range(3)]
    with torch.no_grad():
        first = reordered(caches, torch.tensor([0, 0, 1, 1]))
        second = reordered(first, torch.tensor([3, 1, 0, 2]))
        third = reordered(second, torch.tensor([0, 1, 2, 3]))
    stacks = {id(cache.storage) for cache in (*first, *second, *third)}
    assert len(stacks) == 1
    # two orders take turns, and no third one is asked for
    assert [cache.key.data_ptr() for cache in third] == [cache.key.data_ptr() for cache in first]


def test_caches_that_went_apart_are_not_reordered_as_one():
    caches = [KeyValues(doubles(2, 2, 3, 7), doubles(2, 2, 3, 7)) for _ in range(2)]
    order, new = torch.tensor([1, 0]), KeyValues(doubles(2, 2, 1, 7), doubles(2, 2, 1, 7))
    with torch.no_grad():
        one, other = reordered(caches, order)
        longer = one.append(new)
        # the second goes on without what was appended to the first
        for got, want in zip(reordered([one, other], order), caches, strict=True):
            assert torch.equal(got.key, want.key)
    assert torch.equal(longer.key[:, :, 3:], new.key)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("sizes", [[5, 1, 1, 3], [10]])
def test_stacked_projections_are_the_three(name, sizes):
    heads, x = decoder(name), doubles(2, 10, 12)
    with torch.no_grad():
        want, cache = stepped(heads, x, sizes)
        heads.stack()
        got, stacked = stepped(heads, x, sizes)
    assert_close("context", got, want)
    assert_close("keys", stacked.key, cache.key)
    assert_close("values", stacked.value, cache.value)


@pytest.mark.parametrize("name", ["causal", "rotary", "additive", "multi-query"])
@pytest.mark.parametrize("n_queries", [1, 3])
def test_rows_that_share_a_memory_look_as_if_each_had_its_own(name, n_queries):
    heads, x, source = decoder(name), doubles(6, n_queries, 12), doubles(2, 5, 12)
    mask = padding(torch.tensor([3, 5]))
    places = Places.between(n_queries, 5, past=4)
    shared = heads.attend_to_memory(x, heads.remember(source, source), mask, places)
    own = source.repeat_interleave(3, 0)
    alone = padding(torch.tensor([3, 3, 3, 5, 5, 5]))
    want = heads.attend_to_memory(x, heads.remember(own, own), alone, places)
    assert_close("context", shared.context, want.context)


def test_the_map_of_a_step_is_its_rows_of_the_whole_map():
    heads, x = multi_head(DIMS).double(), doubles(2, N, 12)
    _, cache = stepped(heads, x[:, :13], [13])
    attended, _ = heads.step(x[:, 13:], cache, CAUSAL)
    whole = heads(x, mask=CAUSAL).map.dense()
    assert_close("rows of the map", attended.map.dense(), whole[:, :, 13:])
