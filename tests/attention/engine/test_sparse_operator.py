"""The sparse operator is the sparse path, and a pattern can be built anew from its text."""

import pytest
import torch

from regard.attention import PATTERNS, Chain, all_of, any_of, given, padding
from regard.attention.engine.sparse_operator import attend_by_operator
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.random_links import RandomLinksPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.choices import Choice
from regard.dims import Dims
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles
from tests.contracts.building import SETTINGS

DIMS, N = Dims(d_model=5, n_heads=3), 71
MASKS = {
    "window": SlidingWindowPattern(size=5),
    "causal window": all_of(SlidingWindowPattern(size=5), CausalPattern()),
    "nested": all_of(all_of(SlidingWindowPattern(size=5), CausalPattern()), CausalPattern()),
    "big_bird": BigBirdPattern(block=4, n_random=1, seed=3),
    "causal big_bird": BigBirdPattern(block=4, n_random=1, is_causal=True),
    "nothing": all_of(),
}


def inputs(n_queries=N):
    return {
        "query": doubles(2, 3, n_queries, 5, requires_grad=True),
        "key": doubles(2, 3, N, 5, requires_grad=True),
        "value": doubles(2, 3, N, 7, requires_grad=True),
    }


@pytest.mark.parametrize("is_padded", [False, True])
@pytest.mark.parametrize(("n_queries", "past"), [(N, 0), (3, N - 3), (1, N - 1)])
@pytest.mark.parametrize("name", MASKS)
def test_the_operator_is_the_path(name, n_queries, past, is_padded):
    x, places = inputs(n_queries), Places.between(n_queries, N, past=past)
    mask = all_of(MASKS[name], padding(torch.tensor([N, 40]), N)) if is_padded else MASKS[name]
    out, lse = attend_by_operator(*x.values(), mask, places, 5**-0.5)
    want = Chain(path="sparse")(*x.values(), mask, places)
    assert_close("context", out, want.context)
    assert_close("log-sum-exp", lse.unsqueeze(-1), want.rows.lse)
    assert_same_gradients(out, want.context, x)


@pytest.mark.parametrize("n_queries", [N, 3, 1])
def test_the_operator_takes_a_causal_memory_s_slots(n_queries):
    memory, past = MemoryCompressedMemory(DIMS).double(), N - n_queries
    x, places = inputs(n_queries), Places.between(n_queries, N, past=past)
    mask = all_of(CausalPattern(), padding(torch.tensor([N, 40]), N))
    value = x["value"][..., :5]
    short = memory.shorten(x["key"], value, mask, places)
    got, _ = attend_by_operator(
        x["query"], short.key, short.value, short.mask, short.places, 5**-0.5
    )
    want = Chain(memory=memory, path="dense")(x["query"], x["key"], value, mask, places).context
    assert_close("context", got, want)
    assert_same_gradients(got, want, x | dict(memory.named_parameters()))


def test_torch_finds_its_registration_complete():
    query, key, value = inputs().values()
    valid = torch.arange(N) < torch.tensor([[N], [40]])
    some = (["sliding_window:size=5", "causal"], 0, N, 0.5)
    for exists in (None, valid):
        torch.library.opcheck(torch.ops.regard.sparse, (query, key, value, exists, *some))


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_built_anew_from_its_text(name):
    for settings in (SETTINGS.get(name, {}), {}):
        pattern = PATTERNS[name](DIMS, **settings)
        again = Choice.parse(pattern.as_text()).build(PATTERNS, DIMS)
        places = Places.between(200, 200)
        assert torch.equal(again.visible(places), pattern.visible(places))
        assert again.as_text() == pattern.as_text()


def test_a_pattern_that_is_more_than_its_settings_has_no_text():
    besides = RandomLinksPattern(besides=SlidingWindowPattern())
    for pattern in (besides, any_of(*MASKS.values()), given(torch.ones(3, 3).bool())):
        assert pattern.as_text() is None
