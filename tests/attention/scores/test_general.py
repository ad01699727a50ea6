import torch
from torch.autograd import gradcheck

from regard.attention.scores.dot import DotScore
from regard.attention.scores.general import GeneralScore
from regard.attention.scores.scaled_dot import ScaledDotScore
from regard.dims import Dims
from tests.assertions import assert_close, doubles
from tests.oracles import scores


def test_general_score_is_the_equation():
    score = GeneralScore(Dims(d_model=5, n_heads=3, d_key=2)).double()
    query, key, W = doubles(2, 3, 7, 5), doubles(2, 3, 11, 2), score.W.detach().numpy()
    wanted = scores.every_pair(
        query.numpy(), key.numpy(), lambda h, q, k, j: scores.general(q, k, W[h])
    )
    assert_close("scores", score(query, key), wanted)


def test_general_score_passes_gradcheck():
    score = GeneralScore(Dims(d_model=3, n_heads=2, d_key=2)).double()
    query, key = doubles(1, 2, 3, 3, requires_grad=True), doubles(1, 2, 5, 2, requires_grad=True)
    assert gradcheck(lambda query, key, _: score(query, key), (query, key, score.W))


def with_matrix(W: torch.Tensor) -> GeneralScore:
    """One head, whose matrix is given."""
    score = GeneralScore(Dims(d_model=W.shape[0], d_key=W.shape[1])).double()
    score.W.data = W[None]
    return score


def test_with_the_identity_it_is_the_dot_product():
    query, key = doubles(2, 1, 7, 5), doubles(2, 1, 11, 5)
    score = with_matrix(torch.eye(5).double())
    assert_close("scores", score(query, key), DotScore()(query, key))


def test_with_the_identity_over_root_d_it_is_the_scaled_dot_product():
    query, key = doubles(2, 1, 7, 5), doubles(2, 1, 11, 5)
    score = with_matrix(torch.eye(5).double() / 5**0.5)
    assert_close("scores", score(query, key), ScaledDotScore()(query, key))


def test_a_product_of_two_projections_is_one_matrix():
    query, key, A, C = doubles(2, 1, 7, 5), doubles(2, 1, 11, 3), doubles(5, 2), doubles(3, 2)
    score = with_matrix(A @ C.mT)
    assert_close("scores", score(query, key), DotScore()(query @ A, key @ C))


def test_each_head_has_its_own_matrix():
    score = GeneralScore(Dims(d_model=5, n_heads=3)).double()
    query, key = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5)
    before = score(query, key)
    with torch.no_grad():
        score.W[1] *= 2
    after = score(query, key)
    assert_close("the head that changed", after[:, 1], 2 * before[:, 1])
    assert_close("the heads that did not", after[:, ::2], before[:, ::2])
