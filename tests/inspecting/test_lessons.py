"""The worked example, and the identities that it teaches."""

import pytest
import torch

from regard import attend
from regard.attention.links import SoftRows
from regard.attention.scores.dot import DotScore
from regard.attention.selections.soft import SoftSelection
from regard.inspecting.lessons import X, Y, worked
from regard.places import Places
from tests.assertions import assert_close, doubles

DOT = DotScore()


@pytest.fixture
def x():
    return torch.tensor(X, dtype=torch.float64)


@pytest.fixture
def y():
    return torch.tensor(Y, dtype=torch.float64)


def test_the_weights_are_those_worked_out_by_hand():
    steps = worked()
    want = [[0.975559, 0.017868, 0.006573], [0.267623, 0.727475, 0.004902],
            [0.909443, 0.045279, 0.045279]]  # fmt: skip
    assert_close("weights", torch.tensor(steps["weights"]), torch.tensor(want), atol=1e-6)


def test_a_column_of_ones_stays_one_because_weights_sum_to_one(x):
    context = attend(x, x, x, score=DOT).context
    assert_close("first column", context[:, 0], torch.ones(3), atol=1e-15)


def test_adding_a_number_to_a_row_of_scores_changes_no_weight():
    select, scores, places = SoftSelection(), doubles(3, 5), Places.between(3, 5)
    mask = torch.ones(1, 1, dtype=torch.bool)
    query = doubles(3, 2)
    plain = select.weigh(scores, mask, select.summarise(scores, mask, query, places), places)
    moved = scores + torch.tensor([[7.0], [-3.0], [0.5]])
    rows = select.summarise(moved, mask, query, places)
    assert isinstance(rows, SoftRows)
    assert_close("weights", select.weigh(moved, mask, rows, places), plain)


def test_the_second_sentence_is_known_only_up_to_a_shift(x, y):
    shifted = y + torch.tensor([5.0, -1.0, 2.0], dtype=torch.float64)
    ours = attend(x, y, y, score=DOT).map.dense()
    assert_close("weights", attend(x, shifted, y, score=DOT).map.dense(), ours)


def test_permuting_the_words_permutes_the_contexts(x):
    order = [2, 0, 1]
    context = attend(x, x, x, score=DOT).context
    assert_close("context", attend(x[order], x[order], x[order], score=DOT).context, context[order])


def test_permuting_the_second_sentence_changes_no_context(x, y):
    order = [1, 2, 0]
    context = attend(x, y, y, score=DOT).context
    assert_close("context", attend(x, y[order], y[order], score=DOT).context, context)


def test_the_softmax_s_jacobian_is_diag_p_minus_p_p():
    scores = doubles(5)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    p = scores.softmax(-1)
    assert_close("jacobian", jacobian, p.diag() - torch.outer(p, p))
    assert_close("row sums", jacobian.sum(-1), torch.zeros(5))
