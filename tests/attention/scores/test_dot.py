import torch
from torch.autograd import gradcheck

from regard.attention import attend
from regard.attention.scores.dot import DotScore
from tests.assertions import assert_close, doubles
from tests.oracles import scores

X = torch.tensor([[1, 3, 2], [1, 1, 3], [1, 2, 1]], dtype=torch.float64)
"""Three words as vectors: I, am, good."""


def test_dot_score_is_the_equation():
    query, key = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5)
    wanted = scores.every_pair(query.numpy(), key.numpy(), lambda h, q, k, j: scores.dot(q, k))
    assert_close("scores", DotScore()(query, key), wanted)


def test_dot_score_passes_gradcheck():
    query = doubles(2, 2, 3, 2, requires_grad=True)
    key = doubles(2, 2, 5, 2, requires_grad=True)
    assert gradcheck(DotScore(), (query, key))


def test_the_worked_example_is_reproduced():
    done = attend(X, X, X, score=DotScore())
    assert_close("scores", DotScore()(X, X), torch.tensor([[14, 10, 9], [10, 11, 6], [9, 6, 6]]))
    weights = [
        [0.975559, 0.017868, 0.006573],
        [0.267623, 0.727475, 0.004902],
        [0.909443, 0.045279, 0.045279],
    ]
    context = [[1, 2.957691, 2.011295], [1, 1.540148, 2.722573], [1, 2.864164, 2.0]]
    assert_close("weights", done.map.dense(), torch.tensor(weights), atol=1e-6)
    assert_close("context", done.context, torch.tensor(context), atol=1e-6)
    # every word has a 1 there, and the weights of a row sum to one
    assert_close("first column", done.context[:, 0], torch.ones(3), atol=1e-15)


def test_one_vector_added_to_every_key_changes_no_weight():
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5), doubles(2, 3, 11, 2)
    one = attend(query, key, value, score=DotScore())
    moved = attend(query, key + doubles(5), value, score=DotScore())
    assert_close("weights", moved.map.dense(), one.map.dense())


def test_permuting_words_permutes_what_each_becomes():
    x, order = doubles(2, 3, 7, 5), torch.randperm(7)
    straight = attend(x, x, x, score=DotScore()).context
    y = x[..., order, :]
    assert_close("context", attend(y, y, y, score=DotScore()).context, straight[..., order, :])


def test_one_hot_keys_read_the_query():
    query, key = doubles(1, 1, 7, 5), torch.eye(5).double()[None, None]
    assert_close("scores", DotScore()(query, key), query)
