import re

import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import attend
from regard.attention.scores.additive import ACTIVATIONS, AdditiveScore
from regard.dims import Dims
from regard.errors import UnknownChoice
from tests.assertions import assert_close, doubles
from tests.oracles import scores

DIMS = Dims(d_model=5, n_heads=3, d_key=2)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("has_bias", [False, True])
def test_additive_score_is_the_equation(activation, has_bias):
    score = AdditiveScore(DIMS, d_hidden=13, activation=activation, has_bias=has_bias).double()
    for parameter in score.parameters():
        torch.nn.init.normal_(parameter)
    query, key = doubles(2, 3, 7, 5), doubles(2, 3, 11, 2)
    W, U, v = (x.detach().numpy() for x in (score.W, score.U, score.v))
    c = score.c.detach().numpy()[:, 0] if has_bias else [None] * 3
    wanted = scores.every_pair(
        query.numpy(),
        key.numpy(),
        lambda h, q, k, j: scores.additive(q, k, W[h], U[h], v[h], c[h], activation),
    )
    assert_close("scores", score(query, key), wanted)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_additive_score_passes_gradcheck(activation):
    dims = Dims(d_model=3, n_heads=2, d_key=2)
    score = AdditiveScore(dims, d_hidden=2, activation=activation, has_bias=True).double()
    query, key = doubles(1, 2, 3, 3, requires_grad=True), doubles(1, 2, 5, 2, requires_grad=True)
    assert gradcheck(lambda query, key, *_: score(query, key), (query, key, *score.parameters()))


def test_with_v_at_zero_every_key_weighs_the_same():
    score = AdditiveScore(DIMS).double()
    torch.nn.init.zeros_(score.v)
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 2), doubles(2, 3, 11, 13)
    done = attend(query, key, value, score=score)
    assert_close("weights", done.map.dense(), torch.ones(2, 3, 7, 11).double() / 11)
    mean = value.mean(-2, keepdim=True).expand(2, 3, 7, 13)
    assert_close("context", done.context, mean)


def test_a_bias_starts_at_zero_and_changes_nothing():
    plain, biased = AdditiveScore(DIMS).double(), AdditiveScore(DIMS, has_bias=True).double()
    biased.load_state_dict(plain.state_dict(), strict=False)
    query, key = doubles(2, 3, 7, 5), doubles(2, 3, 11, 2)
    assert_close("scores", biased(query, key), plain(query, key))


def test_an_unread_query_gives_every_query_the_same_scores():
    score = AdditiveScore(DIMS).double()
    torch.nn.init.zeros_(score.W)
    found = score(doubles(2, 3, 7, 5), doubles(2, 3, 11, 2))
    assert_close("scores", found, found[..., :1, :].expand_as(found))
    assert found.std(-1).min() > 0


def test_permuting_annotations_leaves_the_context_alone():
    score, order = AdditiveScore(DIMS, has_bias=True).double(), torch.randperm(11)
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 2), doubles(2, 3, 11, 13)
    one = attend(query, key, value, score=score).context
    other = attend(query, key[..., order, :], value[..., order, :], score=score).context
    assert_close("context", other, one)


def test_an_unknown_activation_is_named_with_the_nearest():
    text = "There is no 'tanhh' here. Did you mean 'tanh'? Known: tanh, relu, sigmoid."
    with pytest.raises(UnknownChoice, match=re.escape(text)):
        AdditiveScore(DIMS, activation="tanhh")
