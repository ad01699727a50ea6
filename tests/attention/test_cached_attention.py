"""Cached attention: what is kept is what may still be seen, and it is enough."""

from itertools import pairwise

import pytest
import torch

from regard.attention import Chain, KeyValues, all_of, multi_head, padding
from regard.attention.cached_attention import attend_with_cache
from regard.attention.caches import CompressedPast, Past, WindowedPast
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.blocks import BlocksPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.dims import Dims
from regard.errors import MeetingError
from regard.places import Places
from tests.assertions import assert_close, doubles

DIMS, CAUSAL = Dims(d_model=8, n_heads=2), CausalPattern()
FORGETTING = {
    "window": SlidingWindowPattern(size=3),
    "window of nothing": SlidingWindowPattern(size=0),
    "blocks": BlocksPattern(size=4),
    "big bird": BigBirdPattern(block=2, n_random=0, is_causal=True),
}


def heads(**links):
    return multi_head(DIMS, chain=Chain(**links)).double()


@pytest.mark.parametrize("pattern", FORGETTING.values(), ids=FORGETTING)
@pytest.mark.parametrize("length", range(9))
def test_what_is_still_seen_is_what_some_later_query_sees(pattern, length):
    later = Places.between(40, length, past=length) if length else None
    seen = {j for each in pattern.still_seen(length) for j in each}
    if later is None:
        assert not seen
        return
    later.length = length + 40
    visible = (pattern.visible(later) & CAUSAL.visible(later)).any(-2)
    assert seen == set(visible.nonzero().flatten().tolist())


@pytest.mark.parametrize("pattern", FORGETTING.values(), ids=FORGETTING)
@pytest.mark.parametrize("cuts", [(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10), (0, 5, 6, 10), (0, 3, 10)])
def test_forgetting_changes_no_output(pattern, cuts):
    looking, x = heads(pattern=pattern), doubles(2, 10, 8)
    past, parts = None, []
    for begin, end in pairwise(cuts):
        attended, past = attend_with_cache(looking, x[:, begin:end], past, CAUSAL)
        parts.append(looking.join(attended).context)
    assert_close("context", torch.cat(parts, 1), looking(x, mask=CAUSAL).context)
    assert isinstance(past, WindowedPast)
    assert past.n_kept == sum(map(len, pattern.still_seen(10)))


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_slots_and_what_waits_are_the_whole_memory(stride):
    memory = MemoryCompressedMemory(DIMS.head(), stride=stride)
    looking, x = heads(memory=memory), doubles(2, 11, 8)
    past, parts = None, []
    for place in range(11):
        attended, past = attend_with_cache(looking, x[:, place : place + 1], past, CAUSAL)
        parts.append(looking.join(attended).context)
        assert past.waiting.length < stride
    assert_close("context", torch.cat(parts, 1), looking(x, mask=CAUSAL).context)
    assert past.n_kept == 1 + 11 // stride + 11 % stride


def test_a_padding_mask_counts_forgotten_positions_too():
    looking, x = heads(pattern=SlidingWindowPattern(size=3)), doubles(2, 9, 8)
    valid = torch.ones(2, 9, dtype=torch.bool)
    valid[0, :4] = False
    past = None
    for place in range(9):
        mask = all_of(CAUSAL, padding(valid[:, : place + 1]))
        attended, past = attend_with_cache(looking, x[:, place : place + 1], past, mask)
    whole = looking(x, mask=all_of(CAUSAL, padding(valid))).context
    assert_close("context", looking.join(attended).context, whole[:, -1:])


def test_gradients_come_back_through_a_past():
    looking, x = heads(pattern=SlidingWindowPattern(size=2)), doubles(1, 6, 8).requires_grad_()
    past = None
    for place in range(6):
        attended, past = attend_with_cache(looking, x[:, place : place + 1], past, CAUSAL)
    (grad,) = torch.autograd.grad(looking.join(attended).context.sum(), x)
    (want,) = torch.autograd.grad(looking(x, mask=CAUSAL).context[:, -1].sum(), x)
    assert_close("gradient", grad, want)


def test_padding_inside_a_slot_is_refused():
    looking = heads(memory=MemoryCompressedMemory(DIMS.head()))
    mask = all_of(CAUSAL, padding(torch.tensor([[False, True]])))
    with pytest.raises(MeetingError, match="rows of unequal length go on apart"):
        attend_with_cache(looking, doubles(1, 2, 8), None, mask)


def test_every_kind_of_past_selects_rows():
    x = doubles(3, 7, 8)
    for links, kind in (
        ({}, KeyValues),
        ({"pattern": BlocksPattern(size=4)}, WindowedPast),
        ({"memory": MemoryCompressedMemory(DIMS.head())}, CompressedPast),
    ):
        looking = heads(**links)
        _, past = attend_with_cache(looking, x[:, :5], None, CAUSAL)
        assert isinstance(past, Past)
        assert isinstance(past, kind)
        rows = torch.tensor([2, 0])
        chosen, _ = attend_with_cache(looking, x[rows, 5:], past.select(rows), CAUSAL)
        whole = looking(x, mask=CAUSAL).context
        assert_close("context", looking.join(chosen).context, whole[rows, 5:])
