import numpy as np
import torch
from torch.autograd import gradcheck
from torch.autograd.functional import jacobian

from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.places import Places
from tests.assertions import assert_close, doubles
from tests.oracles import selections

SEEN = torch.tensor([[True]])


def weigh(scores, mask=SEEN):
    """The weights of a whole matrix."""
    select, places = SparsemaxSelection(), Places.between(*scores.shape[-2:])
    rows = select.summarise(scores, mask, scores[..., :1], places)
    return select.weigh(scores, mask, rows, places)


def test_sparsemax_selection_is_the_equation():
    scores, mask = 2 * doubles(2, 3, 7, 11), torch.rand(2, 1, 7, 11) > 0.4
    wanted = selections.every_row(scores.numpy(), mask.numpy(), selections.sparsemax)
    assert_close("weights", weigh(scores, mask), wanted)


def test_sparsemax_selection_passes_gradcheck():
    scores, mask = doubles(2, 3, 5, requires_grad=True), torch.rand(3, 5) > 0.3
    assert gradcheck(lambda scores: weigh(scores, mask), (scores,))


def test_it_is_the_nearest_point_of_the_simplex():
    steps = 150
    simplex = np.array(
        [(a, b, steps - a - b) for a in range(steps + 1) for b in range(steps + 1 - a)]
    )
    simplex = torch.tensor(simplex / steps)
    for scores in 0.8 * doubles(20, 1, 3):
        found = weigh(scores)
        nearest = (simplex - scores).norm(dim=-1).min()
        ours = (found - scores).norm()
        assert ours <= nearest + 1e-12
        assert nearest < ours + 2 / steps


def test_two_keys_share_by_their_difference():
    gap = torch.linspace(-2, 2, 41).double()[:, None]
    found = weigh(torch.cat([gap, torch.zeros(41, 1).double()], -1))
    assert_close("weight of the first", found[:, :1], ((gap + 1) / 2).clamp(0, 1))


def test_a_point_of_the_simplex_stays_where_it_is():
    point = doubles(7, 11).softmax(-1)
    assert_close("weights", weigh(point), point)


def test_equal_scores_share_equally():
    found = weigh(torch.full((7, 11), 3.7).double())
    assert_close("weights", found, torch.ones(7, 11).double() / 11)


def test_a_key_more_than_one_below_the_best_gets_exactly_nothing():
    scores = doubles(2, 3, 7, 11)
    far = scores < scores.amax(-1, keepdim=True) - 1
    assert far.any()
    assert (weigh(scores)[far] == 0).all()


def test_the_jacobian_centres_the_support():
    scores = 0.3 * doubles(1, 11)
    inside = (weigh(scores)[0] > 0).double()
    found = jacobian(weigh, scores)[0, :, 0]
    assert 1 < inside.sum() < 11
    assert_close("jacobian", found, inside.diag() - inside[:, None] * inside / inside.sum())
