"""Sliding window: a query sees its neighbours on both sides."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import Chain
from regard.attention.links import Grid
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles


def by_loops(n_queries, n_keys, past, size):
    return torch.tensor(
        [[abs(j - i - past) <= size for j in range(n_keys)] for i in range(n_queries)]
    )


@pytest.mark.parametrize("size", [0, 1, 5, 13])
@pytest.mark.parametrize(("n_queries", "n_keys", "past"), [(11, 11, 0), (3, 13, 10), (5, 13, 2)])
def test_visible_is_the_predicate(n_queries, n_keys, past, size):
    seen = SlidingWindowPattern(size=size).visible(Places.between(n_queries, n_keys, past=past))
    assert torch.equal(seen, by_loops(n_queries, n_keys, past, size))


@pytest.mark.parametrize(
    ("n_queries", "n_keys", "past", "size"), [(71, 71, 0, 5), (67, 71, 3, 2), (3, 131, 120, 7)]
)
def test_windowed_attention_is_the_witness_under_a_band(n_queries, n_keys, past, size):
    inputs = {
        "query": doubles(2, 3, n_queries, 5, requires_grad=True),
        "key": doubles(2, 3, n_keys, 5, requires_grad=True),
        "value": doubles(2, 3, n_keys, 7, requires_grad=True),
    }
    places = Places.between(n_queries, n_keys, past=past)
    chain = Chain(pattern=SlidingWindowPattern(size=size))
    got = chain(*inputs.values(), places=places).context
    want = sdpa(*inputs.values(), attn_mask=by_loops(n_queries, n_keys, past, size))
    assert_close("context", got, want)
    assert_same_gradients(got, want, inputs)


def test_a_window_as_long_as_the_sentence_is_full_attention():
    query, key, value = (doubles(2, 3, 17, 5) for _ in range(3))
    window = Chain(pattern=SlidingWindowPattern(size=16))
    assert_close("context", window(query, key, value).context, Chain()(query, key, value).context)


def test_a_window_of_nothing_returns_the_values():
    query, key, value = (doubles(2, 3, 17, 5) for _ in range(3))
    window = Chain(pattern=SlidingWindowPattern(size=0))
    assert_close("context", window(query, key, value).context, value)


def test_a_key_outside_the_window_changes_nothing():
    query, key, value = (doubles(1, 2, 23, 5) for _ in range(3))
    chain = Chain(pattern=SlidingWindowPattern(size=3))
    before = chain(query, key, value).context
    key[:, :, 11], value[:, :, 11] = 97.0, -89.0
    after = chain(query, key, value).context
    inside = torch.arange(8, 15)
    outside = torch.tensor([i for i in range(23) if i not in inside])
    assert torch.equal(before[:, :, outside], after[:, :, outside])
    assert (before[:, :, inside] != after[:, :, inside]).any(-1).all()


def test_two_layers_reach_twice_as_far():
    x = doubles(1, 1, 19, 5, requires_grad=True)
    chain = Chain(pattern=SlidingWindowPattern(size=3))
    y = chain(x, x, x).context
    z = chain(y, y, y).context
    reached = torch.autograd.grad(z[0, 0, 9].sum(), x)[0][0, 0].abs().sum(-1) > 0
    assert reached.tolist() == [abs(j - 9) <= 6 for j in range(19)]


def test_gradcheck_in_double_precision():
    inputs = [doubles(1, 2, 5, 3, requires_grad=True) for _ in range(3)]
    chain = Chain(pattern=SlidingWindowPattern(size=1))
    assert chain.explain(5, n_heads=2, d_query=3).path == "sparse"
    assert torch.autograd.gradcheck(lambda q, k, v: chain(q, k, v).context, inputs)


@pytest.mark.parametrize("size", [0, 2, 7])
@pytest.mark.parametrize(("q_size", "k_size", "past"), [(1, 1, 0), (3, 5, 0), (5, 3, 4)])
def test_a_block_is_touched_exactly_where_it_holds_a_visible_pair(q_size, k_size, past, size):
    places = Places.between(11, 13, past=past)
    grid = Grid.over(places, range(11), range(13), q_size=q_size, k_size=k_size)
    touched = SlidingWindowPattern(size=size).touches(grid)
    for a, rows in enumerate(by_loops(11, 13, past, size).split(q_size)):
        for b, block in enumerate(rows.split(k_size, 1)):
            assert touched[a, b] == block.any(), (a, b)


def test_a_negative_size_is_refused():
    with pytest.raises(SettingError, match=r"sliding_window: size must be at least 0, got -3\."):
        SlidingWindowPattern(size=-3)
