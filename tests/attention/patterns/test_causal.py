"""Causal: a query sees itself and what came before it."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import Chain
from regard.attention.links import Grid, KernelMask
from regard.attention.patterns.causal import CausalPattern
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles, gradients


def by_loops(n_queries, n_keys, past):
    return torch.tensor([[j <= i + past for j in range(n_keys)] for i in range(n_queries)])


@pytest.mark.parametrize(("n_queries", "n_keys", "past"), [(7, 7, 0), (3, 11, 8), (5, 11, 2)])
def test_visible_is_the_predicate(n_queries, n_keys, past):
    places = Places.between(n_queries, n_keys, past=past)
    seen = CausalPattern().visible(places)
    assert torch.equal(seen, by_loops(n_queries, n_keys, past))


@pytest.mark.parametrize(("n_queries", "n_keys", "past"), [(13, 13, 0), (5, 13, 8), (1, 13, 12)])
def test_causal_attention_is_the_witness_under_a_triangle(n_queries, n_keys, past):
    inputs = {
        "query": doubles(2, 3, n_queries, 5, requires_grad=True),
        "key": doubles(2, 3, n_keys, 5, requires_grad=True),
        "value": doubles(2, 3, n_keys, 7, requires_grad=True),
    }
    places = Places.between(n_queries, n_keys, past=past)
    got = Chain(pattern=CausalPattern())(*inputs.values(), places=places).context
    want = sdpa(*inputs.values(), attn_mask=by_loops(n_queries, n_keys, past))
    assert_close("context", got, want)
    assert_same_gradients(got, want, inputs)


def test_the_first_row_is_the_first_value():
    query, key, value = (doubles(2, 3, 7, 5) for _ in range(3))
    context = Chain(pattern=CausalPattern())(query, key, value).context
    assert_close("first row", context[:, :, 0], value[:, :, 0])


def test_the_future_receives_no_gradient():
    query, key, value = (doubles(1, 1, 7, 5, requires_grad=True) for _ in range(3))
    context = Chain(pattern=CausalPattern())(query, key, value).context
    for name, grad in gradients(context[:, :, :3], {"key": key, "value": value}).items():
        assert grad[:, :, 3:].abs().max() == 0, name
        assert grad[:, :, :3].abs().min() > 0, name


def test_gradcheck_in_double_precision():
    inputs = [doubles(1, 2, 5, 3, requires_grad=True) for _ in range(3)]
    chain = Chain(pattern=CausalPattern())
    assert torch.autograd.gradcheck(lambda q, k, v: chain(q, k, v).context, inputs)


def test_a_query_behind_every_key_sees_as_much_as_full():
    query, key, value = doubles(1, 2, 3, 5), doubles(1, 2, 7, 5), doubles(1, 2, 7, 5)
    places = Places.between(3, 7, past=7)
    assert_close(
        "context",
        Chain(pattern=CausalPattern())(query, key, value, places=places).context,
        Chain()(query, key, value).context,
    )


@pytest.mark.parametrize(("q_size", "k_size", "past"), [(1, 1, 0), (3, 5, 0), (5, 3, 4)])
def test_a_block_is_touched_exactly_where_it_holds_a_visible_pair(q_size, k_size, past):
    places = Places.between(11, 13, past=past)
    grid = Grid.over(places, range(11), range(13), q_size=q_size, k_size=k_size)
    seen = by_loops(11, 13, past)
    for a, rows in enumerate(seen.split(q_size)):
        for b, block in enumerate(rows.split(k_size, 1)):
            assert CausalPattern().touches(grid)[a, b] == block.any(), (a, b)


def test_kernels_know_it_by_name():
    assert CausalPattern().as_kernel() == KernelMask(is_causal=True, valid=None)
