"""Grouped-query attention: many heads look, and groups of them share keys and values."""

import pytest
import torch

from regard.attention import GroupedQueryHeads, multi_head
from regard.attention.patterns.causal import CausalPattern
from regard.dims import Dims
from regard.errors import DimsError
from regard.positions.rotary import RotaryPositions
from tests.assertions import assert_close, assert_same_gradients, doubles, gradients

DIMS = Dims(d_model=30, n_heads=6)


def spread(grouped, *, rotary=None):
    """Multi-head attention in which each head owns a copy of its group's keys and values."""
    plain = multi_head(grouped.dims, rotary=rotary).double()
    d, each = grouped.dims.d_head, grouped.dims.n_heads // grouped.n_groups
    plain.W_Q.weight, plain.W_O.weight = grouped.W_Q.weight, grouped.W_O.weight
    for name in ("W_K", "W_V"):
        shared = getattr(grouped, name).weight
        copies = [shared[g * d : (g + 1) * d] for g in range(grouped.n_groups) for _ in range(each)]
        getattr(plain, name).weight = torch.nn.Parameter(torch.cat(copies))
    return plain


@pytest.mark.parametrize("n_groups", [1, 2, 3, 6])
def test_heads_of_a_group_share_their_keys_and_values(n_groups):
    grouped = GroupedQueryHeads(DIMS, n_groups=n_groups).double()
    query, key = doubles(2, 5, 30, requires_grad=True), doubles(2, 7, 30, requires_grad=True)
    got, want = grouped(query, key).context, spread(grouped)(query, key).context
    assert_close("context", got, want)
    assert_same_gradients(got, want, {"query": query, "key": key})


def test_gradients_of_shared_projections_are_the_sums_over_their_heads():
    grouped = GroupedQueryHeads(DIMS, n_groups=2).double()
    plain, x = spread(grouped), doubles(2, 5, 30)
    ours = gradients(grouped(x).context, {"W_K": grouped.W_K.weight, "W_V": grouped.W_V.weight})
    theirs = gradients(plain(x).context, {"W_K": plain.W_K.weight, "W_V": plain.W_V.weight})
    for name in ours:
        summed = theirs[name].view(2, 3, 5, 30).sum(1).view(10, 30)
        assert_close(f"gradient of {name}", ours[name], summed)


def test_as_many_groups_as_heads_is_multi_head():
    plain = multi_head(DIMS).double()
    grouped = GroupedQueryHeads(DIMS, n_groups=6).double()
    grouped.load_state_dict(plain.state_dict())
    x = doubles(2, 7, 30)
    assert torch.equal(grouped(x).context, plain(x).context)


def test_one_group_is_multi_query():
    heads = GroupedQueryHeads(DIMS).double()
    x = doubles(2, 7, 30)
    key, value = x @ heads.W_K.weight.T, x @ heads.W_V.weight.T
    parts = []
    for h in range(6):
        query = x @ heads.W_Q.weight[5 * h : 5 * h + 5].T
        parts.append((query @ key.mT / 5**0.5).softmax(-1) @ value)
    assert_close("context", heads(x).context, torch.cat(parts, -1) @ heads.W_O.weight.T)


def test_rotary_turns_shared_keys_once():
    rotary = RotaryPositions(Dims(d_model=24, n_heads=6))
    grouped = GroupedQueryHeads(Dims(d_model=24, n_heads=6), n_groups=2, rotary=rotary).double()
    x = doubles(2, 7, 24)
    assert_close("context", grouped(x).context, spread(grouped, rotary=rotary)(x).context)


@pytest.mark.parametrize(("n_groups", "numbers"), [(1, 2 * 30 * 35), (3, 2 * 30 * 45)])
def test_fewer_groups_mean_fewer_parameters(n_groups, numbers):
    heads = GroupedQueryHeads(DIMS, n_groups=n_groups)
    assert sum(p.numel() for p in heads.parameters()) == numbers


def test_the_cache_holds_groups_not_heads():
    heads = GroupedQueryHeads(DIMS, n_groups=2).double()
    _, cache = heads.step(doubles(2, 7, 30), None, CausalPattern())
    assert cache.key.shape == cache.value.shape == (2, 2, 7, 5)


def test_gradcheck_with_a_shared_group():
    heads = GroupedQueryHeads(Dims(d_model=4, n_heads=2)).double()
    x = doubles(1, 3, 4, requires_grad=True)

    def run(query, *_):
        return heads(query).context

    assert torch.autograd.gradcheck(run, [x, *heads.parameters()])


@pytest.mark.parametrize("n_groups", [0, 4, 7])
def test_groups_that_do_not_divide_the_heads_are_refused(n_groups):
    said = (
        rf"grouped_query: n_groups \({n_groups}\) must divide n_heads \(6\); "
        r"1 is multi-query, n_heads is multi-head\."
    )
    with pytest.raises(DimsError, match=said):
        GroupedQueryHeads(DIMS, n_groups=n_groups)


def test_heads_may_be_wider_than_their_share_and_norm_their_queries_and_keys():
    dims = Dims(d_model=10, n_heads=4, head_width=6)
    norms = [torch.nn.RMSNorm(6, eps=1e-6) for _ in range(2)]
    heads = GroupedQueryHeads(dims, n_groups=2, query_norm=norms[0], key_norm=norms[1]).double()
    for norm in norms:
        norm.weight.data.normal_()
    x = doubles(2, 7, 10)

    def normed(vectors, norm):
        root = (vectors.square().mean(-1, keepdim=True) + 1e-6).sqrt()
        return vectors / root * norm.weight

    parts = []
    for h in range(4):
        group = slice(6 * (h // 2), 6 * (h // 2) + 6)
        query = normed(x @ heads.W_Q.weight[6 * h : 6 * h + 6].T, norms[0])
        key = normed(x @ heads.W_K.weight[group].T, norms[1])
        value = x @ heads.W_V.weight[group].T
        parts.append((query @ key.mT / 6**0.5).softmax(-1) @ value)
    want = torch.cat(parts, -1) @ heads.W_O.weight.T
    assert_close("context", heads(x).context, want)
    heads.stack()
    assert_close("stacked", heads(x).context, want)
