import torch
from torch.autograd import gradcheck
from torch.nn.functional import scaled_dot_product_attention

from regard.attention import attend
from regard.attention.scores.dot import DotScore
from regard.attention.scores.scaled_dot import ScaledDotScore
from tests.assertions import assert_close, doubles
from tests.oracles import scores


def test_scaled_dot_score_is_the_equation():
    query, key = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5)
    wanted = scores.every_pair(
        query.numpy(), key.numpy(), lambda h, q, k, j: scores.scaled_dot(q, k)
    )
    assert_close("scores", ScaledDotScore()(query, key), wanted)


def test_scaled_dot_score_passes_gradcheck():
    query = doubles(2, 2, 3, 2, requires_grad=True)
    key = doubles(2, 2, 5, 2, requires_grad=True)
    assert gradcheck(ScaledDotScore(), (query, key))


def test_the_worked_example_is_reproduced():
    x = torch.tensor([[1, 3, 2], [1, 1, 3], [1, 2, 1]], dtype=torch.float64)
    done = attend(x, x, x, score=ScaledDotScore())
    weights = [
        [0.865743, 0.085986, 0.048271],
        [0.347146, 0.618375, 0.034479],
        [0.738638, 0.130681, 0.130681],
    ]
    context = [[1, 2.779756, 2.037715], [1, 1.728771, 2.583896], [1, 2.607958, 2.0]]
    assert_close("weights", done.map.dense(), torch.tensor(weights), atol=1e-6)
    assert_close("context", done.context, torch.tensor(context), atol=1e-6)


def test_vectors_of_one_number_need_no_scale():
    query, key = doubles(2, 3, 7, 1), doubles(2, 3, 11, 1)
    assert_close("scores", ScaledDotScore()(query, key), DotScore()(query, key))


def test_torch_agrees():
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5), doubles(2, 3, 11, 5)
    context = attend(query, key, value, score=ScaledDotScore()).context
    assert_close("context", context, scaled_dot_product_attention(query, key, value))


def test_scores_of_independent_unit_numbers_have_variance_one():
    query, key = doubles(400, 64), doubles(400, 64)
    assert abs(ScaledDotScore()(query, key).var().item() - 1) < 0.05
    assert abs(DotScore()(query, key).var().item() - 64) < 0.05 * 64


def test_without_the_scale_wide_vectors_saturate_the_softmax():
    query, key = doubles(400, 64), doubles(64, 64)
    for score, wanted in ((DotScore(), 0.79), (ScaledDotScore(), 0.11)):
        highest = score(query, key).softmax(-1).amax(-1).mean().item()
        assert abs(highest - wanted) < 0.03
