"""Blocks: a query sees its own block and no other."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import Chain, all_of
from regard.attention.links import Grid
from regard.attention.patterns.blocks import BlocksPattern
from regard.attention.patterns.causal import CausalPattern
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles


def by_loops(n_queries, n_keys, past, size):
    return torch.tensor(
        [[j // size == (i + past) // size for j in range(n_keys)] for i in range(n_queries)]
    )


@pytest.mark.parametrize("size", [1, 3, 5, 29])
@pytest.mark.parametrize(("n_queries", "n_keys", "past"), [(11, 11, 0), (3, 13, 10), (5, 13, 2)])
def test_visible_is_the_predicate(n_queries, n_keys, past, size):
    seen = BlocksPattern(size=size).visible(Places.between(n_queries, n_keys, past=past))
    assert torch.equal(seen, by_loops(n_queries, n_keys, past, size))


@pytest.mark.parametrize(("n_queries", "n_keys", "past", "size"), [(71, 71, 0, 7), (5, 71, 66, 11)])
def test_block_attention_is_the_witness_under_a_block_diagonal(n_queries, n_keys, past, size):
    inputs = {
        "query": doubles(2, 3, n_queries, 5, requires_grad=True),
        "key": doubles(2, 3, n_keys, 5, requires_grad=True),
        "value": doubles(2, 3, n_keys, 7, requires_grad=True),
    }
    places = Places.between(n_queries, n_keys, past=past)
    got = Chain(pattern=BlocksPattern(size=size))(*inputs.values(), places=places).context
    want = sdpa(*inputs.values(), attn_mask=by_loops(n_queries, n_keys, past, size))
    assert_close("context", got, want)
    assert_same_gradients(got, want, inputs)


def test_blocks_are_sentences_of_their_own():
    query, key, value = (doubles(2, 3, 17, 5) for _ in range(3))
    got = Chain(pattern=BlocksPattern(size=7))(query, key, value).context
    parts = [slice(0, 7), slice(7, 14), slice(14, 17)]
    want = [Chain()(query[:, :, p], key[:, :, p], value[:, :, p]).context for p in parts]
    assert_close("context", got, torch.cat(want, 2))


def test_one_block_is_full_attention():
    query, key, value = (doubles(2, 3, 17, 5) for _ in range(3))
    got = Chain(pattern=BlocksPattern(size=17))(query, key, value).context
    assert_close("context", got, Chain()(query, key, value).context)


def test_one_causal_block_is_causal_attention():
    query, key, value = (doubles(2, 3, 17, 5) for _ in range(3))
    local = Chain(pattern=all_of(BlocksPattern(size=17), CausalPattern()))
    got = local(query, key, value).context
    assert_close("context", got, Chain(pattern=CausalPattern())(query, key, value).context)


def test_the_first_token_of_each_causal_block_sees_only_itself():
    query, key, value = (doubles(2, 3, 17, 5) for _ in range(3))
    local = Chain(pattern=all_of(BlocksPattern(size=5), CausalPattern()))
    got = local(query, key, value).context
    assert_close("first tokens", got[:, :, ::5], value[:, :, ::5])


def test_gradcheck_in_double_precision():
    inputs = [doubles(1, 2, 5, 3, requires_grad=True) for _ in range(3)]
    chain = Chain(pattern=BlocksPattern(size=2))
    assert torch.autograd.gradcheck(lambda q, k, v: chain(q, k, v).context, inputs)


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize(("q_size", "k_size", "past"), [(1, 1, 0), (3, 5, 0), (5, 3, 4)])
def test_a_block_is_touched_exactly_where_it_holds_a_visible_pair(q_size, k_size, past, size):
    places = Places.between(11, 13, past=past)
    grid = Grid.over(places, range(11), range(13), q_size=q_size, k_size=k_size)
    touched = BlocksPattern(size=size).touches(grid)
    for a, rows in enumerate(by_loops(11, 13, past, size).split(q_size)):
        for b, block in enumerate(rows.split(k_size, 1)):
            assert touched[a, b] == block.any(), (a, b)


def test_an_empty_block_is_refused():
    with pytest.raises(SettingError, match=r"blocks: size must be at least 1, got 0\."):
        BlocksPattern(size=0)
