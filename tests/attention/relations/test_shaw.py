import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import attend
from regard.attention.patterns.causal import CausalPattern
from regard.attention.relations.shaw import ShawRelation
from regard.dims import Dims
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles, gradients
from tests.oracles import chain, patterns, relations, scores, selections

DIMS = Dims(d_model=5, n_heads=3, d_value=2)


def build(**settings):
    """Tables for three heads."""
    return ShawRelation(DIMS, **settings).double()


def vectors(n_queries=7, n_keys=11):
    """Queries, keys and values."""
    return (
        doubles(2, 3, n_queries, 5, requires_grad=True),
        doubles(2, 3, n_keys, 5, requires_grad=True),
        doubles(2, 3, n_keys, 2, requires_grad=True),
    )


@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.parametrize("clip", [0, 2, 13])
def test_shaw_relation_is_the_equation(clip, is_shared):
    relation, (query, key, value) = build(clip=clip, is_shared=is_shared), vectors()

    def pair_by_pair(table):
        heads = table.detach().expand(3, -1, -1).numpy()
        return np.stack([np.stack([relations.shaw(7, 11, head, clip) for head in heads])] * 2)

    weights, context = chain.attend(
        *[x.detach().numpy() for x in (query, key, value)],
        score=lambda h, q, k, j: scores.scaled_dot(q, k),
        select=lambda h, e, seen, i, q: selections.soft(e, seen),
        visible=np.stack([patterns.full(7, 11)] * 2),
        key_vectors=pair_by_pair(relation.wK),
        value_vectors=pair_by_pair(relation.wV),
    )
    done = attend(query, key, value, relation=relation)
    assert_close("weights", done.map.dense(), weights)
    assert_close("context", done.context, context)


def test_shaw_relation_passes_gradcheck():
    relation = ShawRelation(Dims(d_model=2, n_heads=2), clip=1).double()
    query, key, value = (doubles(1, 2, 3, 2, requires_grad=True) for _ in range(3))

    def context(query, key, value, *_):
        return attend(query, key, value, relation=relation).context

    assert gradcheck(context, (query, key, value, relation.wK, relation.wV))


def test_the_gathered_form_is_the_tensor_of_every_pair():
    relation, (query, key, value) = build(clip=2), vectors()
    offsets = torch.arange(11) - torch.arange(7)[:, None]
    index = offsets.clamp(-2, 2) + 2
    a_key, a_value = relation.wK[:, index], relation.wV[:, index]
    keys, values = key[..., None, :, :] + a_key, value[..., None, :, :] + a_value
    weights = (torch.einsum("bhqd,bhqkd->bhqk", query, keys) / 5**0.5).softmax(-1)
    wanted = torch.einsum("bhqk,bhqkd->bhqd", weights, values)
    found = attend(query, key, value, relation=relation).context
    assert_close("context", found, wanted)
    named = {"query": query, "key": key, "value": value, **dict(relation.named_parameters())}
    assert_same_gradients(found, wanted, named)


def test_a_clip_no_distance_reaches_is_no_clip():
    (query, key, value), near, far = vectors(7, 7), build(clip=6), build(clip=9)
    with torch.no_grad():
        far.wK[:, 3:-3], far.wV[:, 3:-3] = near.wK, near.wV
    found = attend(query, key, value, relation=far).context
    assert_close("context", found, attend(query, key, value, relation=near).context)


def test_one_vector_for_every_value_is_added_to_every_context():
    relation, (query, key, value), u = build(clip=2), vectors(), doubles(3, 1, 2)
    with torch.no_grad():
        relation.wV.zero_()
        plain = attend(query, key, value, relation=relation).context
        relation.wV += u
    found = attend(query, key, value, relation=relation).context
    assert_close("context", found, plain + u)


def test_with_clip_zero_permuting_words_permutes_what_each_becomes():
    x, order = doubles(2, 3, 7, 5), torch.randperm(7)
    dims = Dims(d_model=5, n_heads=3)
    for clip in (0, 1):
        relation = ShawRelation(dims, clip=clip).double()
        straight = attend(x, x, x, relation=relation).context[..., order, :]
        y = x[..., order, :]
        difference = (attend(y, y, y, relation=relation).context - straight).abs().max()
        assert (difference < 1e-12) == (clip == 0)


def test_the_offset_is_key_minus_query():
    relation = build(clip=2)
    with torch.no_grad():
        relation.wK.zero_()
        relation.wK[:, -1] = 1
    query = torch.ones(1, 3, 7, 5).double()
    found = relation.to_scores(query, Places.between(7, 7))
    # the last row of the table is for keys two or more places after the query
    wanted = torch.ones(7, 7).double().triu(2) * 5**0.5
    assert_close("scores", found, wanted.expand(1, 3, 7, 7))


def test_a_decoder_never_uses_the_vectors_of_later_keys():
    relation, (query, key, value) = build(clip=2), vectors(7, 7)
    context = attend(query, key, value, CausalPattern(), relation=relation).context
    for name, gradient in gradients(context, dict(relation.named_parameters())).items():
        assert (gradient[:, 3:] == 0).all(), name
        assert (gradient[:, :3] != 0).all(), name


def test_heads_that_share_have_one_table():
    relation, (query, key, value) = build(clip=2, is_shared=True), vectors()
    own = build(clip=2)
    with torch.no_grad():
        own.wK.copy_(relation.wK.expand_as(own.wK))
        own.wV.copy_(relation.wV.expand_as(own.wV))
    shared = attend(query, key, value, relation=relation).context
    assert_close("context", shared, attend(query, key, value, relation=own).context)
    assert own.wK.numel() == 3 * relation.wK.numel()


def test_a_clip_cannot_be_negative():
    with pytest.raises(SettingError, match=r"shaw: clip must be at least 0, got -1\."):
        build(clip=-1)
