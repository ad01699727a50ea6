"""Soft cap: scores follow the scaled dot product near zero and never pass the cap."""

import math

import pytest
import torch

from regard.attention import Chain, attend
from regard.attention.soft_cap import SoftCappedScore
from tests.assertions import assert_close, assert_same_gradients, doubles


def test_a_capped_score_is_the_equation():
    query, key = doubles(2, 3, 5, 7), doubles(2, 3, 11, 7)
    got = SoftCappedScore(1.5)(query, key)
    want = torch.empty(2, 3, 5, 11, dtype=torch.float64)
    for place in torch.cartesian_prod(*(torch.arange(n) for n in want.shape)):
        b, h, i, j = place.tolist()
        dot = sum(query[b, h, i, d] * key[b, h, j, d] for d in range(7))
        want[b, h, i, j] = 1.5 * math.tanh(dot / math.sqrt(7) / 1.5)
    assert_close("scores", got, want)
    assert got.abs().max() < 1.5


@pytest.mark.parametrize("path", ["streamed", "dense"])
def test_a_chain_of_capped_scores_is_the_law(path):
    query, key, value = (doubles(1, 2, n, 7, requires_grad=True) for n in (5, 11, 11))
    score = SoftCappedScore(1.5)
    got = Chain(score, path=path)(query, key, value).context
    want = attend(query, key, value, score=score).context
    assert_close("context", got, want)
    assert_same_gradients(got, want, {"query": query, "key": key, "value": value})


def test_a_cap_far_above_all_scores_changes_nothing():
    query, key = doubles(1, 2, 5, 7), doubles(1, 2, 11, 7)
    far = SoftCappedScore(1e6)(query, key)
    assert_close("scores", far, SoftCappedScore(1e6).scaled_dot(query, key), atol=1e-9)
