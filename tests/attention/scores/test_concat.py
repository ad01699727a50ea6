import torch
from torch.autograd import gradcheck

from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.concat import ConcatScore
from regard.dims import Dims
from tests.assertions import assert_close, doubles
from tests.oracles import scores

DIMS = Dims(d_model=5, n_heads=3, d_key=2)


def test_concat_score_is_the_equation_over_joined_vectors():
    score = ConcatScore(DIMS, d_hidden=13).double()
    query, key = doubles(2, 3, 7, 5), doubles(2, 3, 11, 2)
    W, v = score.W.detach().numpy(), score.v.detach().numpy()
    wanted = scores.every_pair(
        query.numpy(), key.numpy(), lambda h, q, k, j: scores.concat(q, k, W[h], v[h])
    )
    assert_close("scores", score(query, key), wanted)


def test_concat_score_passes_gradcheck():
    score = ConcatScore(Dims(d_model=3, n_heads=2, d_key=2), d_hidden=2).double()
    query, key = doubles(1, 2, 3, 3, requires_grad=True), doubles(1, 2, 5, 2, requires_grad=True)
    assert gradcheck(lambda query, key, *_: score(query, key), (query, key, *score.parameters()))


def test_with_its_matrix_cut_in_two_it_is_the_additive_score():
    concat, additive = ConcatScore(DIMS, d_hidden=13).double(), AdditiveScore(DIMS, d_hidden=13)
    additive.W.data, additive.U.data = concat.W.detach().split([5, 2], dim=1)
    additive.v.data = concat.v.detach()
    query, key = doubles(2, 3, 7, 5), doubles(2, 3, 11, 2)
    assert_close("scores", concat(query, key), additive(query, key))


def test_with_a_small_matrix_queries_and_keys_add_up():
    score = ConcatScore(DIMS, d_hidden=13).double()
    with torch.no_grad():
        score.W *= 1e-4
    query, key = doubles(2, 3, 7, 5), doubles(2, 3, 11, 2)
    found = score(query, key)
    # tanh(x) is x for small x, so what separates two keys is the same for every query
    between_keys = found - found[..., :1]
    assert_close("differences", between_keys, between_keys[..., :1, :].expand_as(found), atol=1e-9)
    assert between_keys.abs().max() > 1e-6
