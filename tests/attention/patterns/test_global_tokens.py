"""Global tokens: a few positions see everything and are seen by everything."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import Chain, all_of, any_of
from regard.attention.links import Grid
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.global_tokens import GlobalTokensPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles


def by_loops(n_queries, n_keys, past, first, last):
    ends = [*range(first), *range(n_keys - last, n_keys)]
    return torch.tensor(
        [[i + past in ends or j in ends for j in range(n_keys)] for i in range(n_queries)]
    )


@pytest.mark.parametrize(("first", "last"), [(0, 0), (2, 0), (0, 3), (2, 3), (13, 0)])
@pytest.mark.parametrize(("n_queries", "n_keys", "past"), [(11, 11, 0), (3, 13, 10), (5, 13, 2)])
def test_visible_is_the_predicate(n_queries, n_keys, past, first, last):
    pattern = GlobalTokensPattern(first=first, last=last)
    seen = pattern.visible(Places.between(n_queries, n_keys, past=past))
    assert torch.equal(seen, by_loops(n_queries, n_keys, past, first, last))


@pytest.mark.parametrize(("n_queries", "past"), [(71, 0), (5, 64)])
def test_global_attention_is_the_witness_under_a_cross(n_queries, past):
    inputs = {
        "query": doubles(2, 3, n_queries, 5, requires_grad=True),
        "key": doubles(2, 3, 71, 5, requires_grad=True),
        "value": doubles(2, 3, 71, 7, requires_grad=True),
    }
    chain = Chain(pattern=GlobalTokensPattern(first=3, last=2))
    got = chain(*inputs.values(), places=Places.between(n_queries, 71, past=past)).context
    want = sdpa(*inputs.values(), attn_mask=by_loops(n_queries, 71, past, 3, 2))
    assert_close("context", got, want)
    assert_same_gradients(got, want, inputs)


def test_all_positions_global_is_full_attention():
    query, key, value = (doubles(2, 3, 17, 5) for _ in range(3))
    got = Chain(pattern=GlobalTokensPattern(first=17))(query, key, value).context
    assert_close("context", got, Chain()(query, key, value).context)


def test_without_global_positions_nothing_is_seen_and_nothing_is_given():
    query, key, value = (doubles(2, 3, 17, 5, requires_grad=True) for _ in range(3))
    context = Chain(pattern=GlobalTokensPattern(first=0))(query, key, value).context
    assert context.abs().max() == 0
    for grad in torch.autograd.grad(context.sum(), (query, key, value)):
        assert grad.abs().max() == 0


def test_a_global_token_carries_news_between_ends_in_two_hops():
    x = doubles(1, 1, 19, 5, requires_grad=True)
    near = SlidingWindowPattern(size=1)
    chain = Chain(pattern=any_of(near, GlobalTokensPattern(first=1)))
    y = chain(x, x, x).context
    z = chain(y, y, y).context
    assert (torch.autograd.grad(z[0, 0, 18].sum(), x)[0].abs().sum(-1) > 0).all()


def test_causal_global_tokens_do_not_depend_on_the_length():
    causal = all_of(GlobalTokensPattern(first=2), CausalPattern())
    long = causal.visible(Places.between(13, 13))
    assert torch.equal(long[:7, :7], causal.visible(Places.between(7, 7)))


def test_gradcheck_in_double_precision():
    inputs = [doubles(1, 2, 5, 3, requires_grad=True) for _ in range(3)]
    chain = Chain(pattern=GlobalTokensPattern(first=1, last=1))
    assert torch.autograd.gradcheck(lambda q, k, v: chain(q, k, v).context, inputs)


@pytest.mark.parametrize(("first", "last"), [(0, 0), (2, 0), (0, 3), (2, 3)])
@pytest.mark.parametrize(("q_size", "k_size", "past"), [(1, 1, 0), (3, 5, 0), (5, 3, 2)])
def test_a_block_is_touched_exactly_where_it_holds_a_visible_pair(
    q_size, k_size, past, first, last
):
    places = Places.between(11, 13, past=past)
    grid = Grid.over(places, range(11), range(13), q_size=q_size, k_size=k_size)
    touched = GlobalTokensPattern(first=first, last=last).touches(grid)
    for a, rows in enumerate(by_loops(11, 13, past, first, last).split(q_size)):
        for b, block in enumerate(rows.split(k_size, 1)):
            assert touched[a, b] == block.any(), (a, b)


@pytest.mark.parametrize(("first", "last"), [(-1, 3), (2, -5)])
def test_negative_counts_are_refused(first, last):
    said = rf"global_tokens: counts must be at least 0, got {first} and {last}\."
    with pytest.raises(SettingError, match=said):
        GlobalTokensPattern(first=first, last=last)
