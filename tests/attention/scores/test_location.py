import re

import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import attend
from regard.attention.scores.location import LocationScore
from regard.dims import Dims
from regard.errors import LengthError
from regard.places import Places
from tests.assertions import assert_close, doubles, gradients
from tests.oracles import scores

DIMS = Dims(d_model=5, n_heads=3, d_key=2, max_len=17)


def test_location_score_is_the_equation():
    score = LocationScore(DIMS).double()
    query, key, W = doubles(2, 3, 7, 5), doubles(2, 3, 11, 2), score.W.detach().numpy()
    wanted = scores.every_pair(
        query.numpy(), key.numpy(), lambda h, q, k, j: scores.location(q, j, W[h])
    )
    assert_close("scores", score(query, key), wanted)


def test_location_score_passes_gradcheck():
    score = LocationScore(Dims(d_model=3, n_heads=2, max_len=5)).double()
    query, key = doubles(1, 2, 3, 3, requires_grad=True), doubles(1, 2, 4, 3)
    assert gradcheck(lambda query, _: score(query, key), (query, score.W))


def test_the_keys_content_is_never_read():
    score = LocationScore(DIMS).double()
    query, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 13)
    key, other = doubles(2, 3, 11, 2, requires_grad=True), doubles(2, 3, 11, 2)
    one, two = (attend(query, k, value, score=score) for k in (key, other))
    assert_close("weights", two.map.dense(), one.map.dense(), atol=0)
    assert (gradients(one.context, {"key": key})["key"] == 0).all()


def test_permuting_values_moves_the_context_and_no_weight():
    score, order = LocationScore(DIMS).double(), torch.randperm(11)
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 2), doubles(2, 3, 11, 13)
    one = attend(query, key, value, score=score)
    other = attend(query, key[..., order, :], value[..., order, :], score=score)
    assert_close("weights", other.map.dense(), one.map.dense(), atol=0)
    assert (other.context - one.context).abs().max() > 1e-2


def test_a_short_source_uses_the_first_positions():
    score, query = LocationScore(DIMS).double(), doubles(2, 3, 7, 5)
    long, short = score(query, doubles(2, 3, 13, 2)), score(query, doubles(2, 3, 5, 2))
    assert_close("scores", short, long[..., :5])


def test_positions_beyond_the_source_get_no_gradient():
    score = LocationScore(DIMS).double()
    found = gradients(score(doubles(2, 3, 7, 5), doubles(2, 3, 11, 2)), {"W": score.W})["W"]
    assert (found[..., 11:] == 0).all()
    assert (found[..., :11] != 0).all()


def test_a_key_is_scored_by_where_it_stands_and_not_by_its_column():
    score, query = LocationScore(DIMS).double(), doubles(2, 3, 7, 5)
    whole = score(query, doubles(2, 3, 17, 2))
    at = torch.tensor([[16, 0, 5]])
    there = Places.between(7, 17).at_keys(at)
    assert_close("scores", score(query, doubles(2, 3, 3, 2), there), whole[..., at[0]])


def test_a_source_longer_than_max_len_is_an_error():
    score, query = LocationScore(DIMS).double(), doubles(2, 3, 7, 5)
    assert score(query, doubles(2, 3, 17, 2)).isfinite().all()
    text = (
        "location: 19 keys, but max_len is 17. Take a larger max_len (model.max_len of a recipe), "
        "or a score that reads the keys (dot, general, additive)."
    )
    with pytest.raises(LengthError, match=re.escape(text)):
        score(query, doubles(2, 3, 19, 2))
