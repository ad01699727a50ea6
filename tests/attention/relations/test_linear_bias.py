import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import attend
from regard.attention.relations.linear_bias import LinearBiasRelation, slopes
from regard.dims import Dims
from regard.places import Places
from tests.assertions import assert_close, doubles
from tests.oracles import chain, patterns, relations, scores, selections


def test_linear_bias_relation_is_the_equation():
    relation = LinearBiasRelation(Dims(d_model=5, n_heads=3)).double()
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5), doubles(2, 3, 11, 2)
    weights, context = chain.attend(
        *[x.numpy() for x in (query, key, value)],
        score=lambda h, q, k, j: scores.scaled_dot(q, k),
        select=lambda h, e, seen, i, q: selections.soft(e, seen),
        visible=np.stack([patterns.full(7, 11)] * 2),
        bias=np.stack([relations.linear_bias(7, 11, m) for m in relations.slopes(3)]),
    )
    done = attend(query, key, value, relation=relation)
    assert_close("weights", done.map.dense(), weights)
    assert_close("context", done.context, context)


def test_linear_bias_relation_passes_gradcheck():
    relation = LinearBiasRelation(Dims(d_model=2, n_heads=2)).double()
    query, key, value = (doubles(1, 2, 3, 2, requires_grad=True) for _ in range(3))

    def context(query, key, value):
        return attend(query, key, value, relation=relation).context

    assert gradcheck(context, (query, key, value))


def test_eight_heads_halve_the_slope_from_head_to_head():
    assert slopes(8) == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]


def test_twelve_heads_take_four_more_slopes_between_those_of_eight():
    assert slopes(12)[:8] == slopes(8)
    assert slopes(12)[8:] == pytest.approx([2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5], rel=1e-15)


@pytest.mark.parametrize("n_heads", [1, 2, 3, 4, 5, 6, 7, 11, 12, 16, 17, 31])
def test_slopes_are_the_papers_for_any_number_of_heads(n_heads):
    assert slopes(n_heads) == pytest.approx(relations.slopes(n_heads), rel=1e-15)
    assert len(set(slopes(n_heads))) == n_heads


def test_nothing_is_learned_and_nothing_is_stored():
    relation = LinearBiasRelation(Dims(d_model=5, n_heads=3))
    assert list(relation.parameters()) == []
    assert relation.state_dict() == {}


def test_of_equal_keys_the_nearer_one_weighs_more():
    relation = LinearBiasRelation(Dims(d_model=5, n_heads=3)).double()
    query, key = doubles(2, 3, 7, 5), doubles(2, 3, 1, 5).expand(2, 3, 7, 5)
    weights = attend(query, key, key, relation=relation).map.dense()
    first = weights[..., 0, :]
    assert (first.diff(dim=-1) < 0).all()
    assert_close("first and last row", weights[..., -1, :], first.flip(-1))


def test_the_bias_reaches_any_length():
    relation = LinearBiasRelation(Dims(d_model=5, n_heads=2)).double()
    last = Places.between(1, 10_007, past=10_006)
    bias = relation.as_bias(last)
    wanted = -torch.tensor([2.0**-4, 2.0**-8]).double()[:, None] * (10_006 - torch.arange(10_007))
    assert_close("bias", bias[:, 0], wanted)
