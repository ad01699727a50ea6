import re

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from regard.attention import attend
from regard.attention.relations.bucketed import BucketedRelation
from regard.dims import Dims
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, doubles, gradients
from tests.oracles import chain, patterns, relations, scores, selections

DIMS = Dims(d_model=5, n_heads=3)


def build(**settings):
    """A table that is not all zeros, as it is at the start."""
    relation = BucketedRelation(DIMS, **settings).double()
    torch.nn.init.normal_(relation.t)
    return relation


@pytest.mark.parametrize("is_causal", [False, True])
def test_bucketed_relation_is_the_equation(is_causal):
    relation = build(n_buckets=6, max_distance=5, is_causal=is_causal)
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5), doubles(2, 3, 11, 2)
    bias = [relations.bucketed(7, 11, t, 5, is_causal) for t in relation.t.detach().numpy()]
    weights, context = chain.attend(
        *[x.numpy() for x in (query, key, value)],
        score=lambda h, q, k, j: scores.scaled_dot(q, k),
        select=lambda h, e, seen, i, q: selections.soft(e, seen),
        visible=np.stack([patterns.full(7, 11)] * 2),
        bias=np.stack(bias),
    )
    done = attend(query, key, value, relation=relation)
    assert_close("weights", done.map.dense(), weights)
    assert_close("context", done.context, context)


def test_bucketed_relation_passes_gradcheck():
    relation = BucketedRelation(Dims(d_model=2, n_heads=2), n_buckets=4, max_distance=3).double()
    query, key, value = (doubles(1, 2, 3, 2, requires_grad=True) for _ in range(3))

    def context(query, key, value, _):
        return attend(query, key, value, relation=relation).context

    assert gradcheck(context, (query, key, value, relation.t))


KNOWN = {
    0: 0, 1: 1, 7: 7, 8: 8, 11: 8, 12: 9, 15: 9, 16: 10, 22: 10, 23: 11, 31: 11,
    32: 12, 45: 12, 46: 13, 63: 13, 64: 14, 90: 14, 91: 15, 127: 15, 128: 15, 5000: 15,
}  # fmt: skip
"""Distance and bucket, for T5's 32 buckets in both directions."""

KNOWN_CAUSAL = {0: 0, 1: 1, 15: 15, 16: 16, 18: 16, 19: 17, 32: 21, 64: 26, 127: 31, 5000: 31}
"""The same, where keys only come before queries."""


def test_the_buckets_are_those_of_t5():
    relation, distance = BucketedRelation(DIMS), torch.tensor([list(KNOWN)])
    before = torch.tensor([list(KNOWN.values())])
    assert torch.equal(relation.bucket(-distance), before)
    after = torch.where(distance > 0, before + 16, before)
    assert torch.equal(relation.bucket(distance), after)


def test_the_causal_buckets_are_those_of_t5():
    relation = BucketedRelation(DIMS, is_causal=True)
    distance = torch.tensor([list(KNOWN_CAUSAL)])
    assert torch.equal(relation.bucket(-distance), torch.tensor([list(KNOWN_CAUSAL.values())]))
    assert (relation.bucket(distance) == 0).all()


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    n_buckets=st.integers(4, 40),
    max_distance=st.integers(2, 300),
    is_causal=st.booleans(),
    offset=st.integers(-400, 400),
)
def test_every_offset_falls_into_its_bucket(n_buckets, max_distance, is_causal, offset):
    per_side = n_buckets if is_causal else n_buckets // 2
    assume(max_distance > per_side // 2)
    relation = BucketedRelation(
        DIMS, n_buckets=n_buckets, max_distance=max_distance, is_causal=is_causal
    )
    wanted = relations.bucket(offset, n_buckets, max_distance, is_causal)
    assert relation.bucket(torch.tensor([[offset]])).item() == wanted


def test_every_bucket_that_a_distance_falls_into_learns():
    relation = build(n_buckets=6, max_distance=5)
    query, key, value = (doubles(2, 3, 11, 5) for _ in range(3))
    context = attend(query, key, value, relation=relation).context
    # distance 0 is counted among the earlier keys, so the first bucket of the later ones is empty
    found = gradients(context, {"t": relation.t})["t"]
    assert ((found != 0).all(0)).tolist() == [True, True, True, False, True, True]


def test_the_same_distance_gives_the_same_bias_wherever_it_is():
    bias = build().as_bias(Places.between(13, 13))
    for offset in range(-12, 13):
        same = bias.diagonal(offset, dim1=-2, dim2=-1)
        assert_close(f"offset {offset}", same, same[:, :1].expand_as(same))


@pytest.mark.parametrize(
    ("n_buckets", "max_distance", "is_causal"), [(2, 128, False), (1, 128, True), (32, 8, False)]
)
def test_too_few_buckets_or_too_near_an_end_are_an_error(n_buckets, max_distance, is_causal):
    text = (
        f"bucketed: {n_buckets} buckets cannot reach distance {max_distance}. Take at least 4 "
        "buckets, and a max_distance above half of those on one side."
    )
    with pytest.raises(SettingError, match=re.escape(text)):
        build(n_buckets=n_buckets, max_distance=max_distance, is_causal=is_causal)


@pytest.mark.parametrize(("distance", "bucket"), [(8, 5), (16, 6), (64, 8)])
def test_a_distance_on_a_border_belongs_to_the_farther_bucket(distance, bucket):
    # 4 · 32^(s/5) is a whole number here: 4 · 32^(1/5) = 8, 4 · 32^(2/5) = 16, 4 · 32^(4/5) = 64
    relation = BucketedRelation(DIMS, n_buckets=18, max_distance=128)
    border = torch.tensor([[-distance, 1 - distance]])
    assert relation.bucket(border).tolist() == [[bucket, bucket - 1]]
