import math

import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import attend, padding
from regard.attention.selections.local_predictive import LocalPredictiveSelection
from regard.attention.selections.soft import SoftSelection
from regard.dims import Dims
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, doubles, gradients
from tests.oracles import selections

DIMS = Dims(d_model=5, n_heads=3)
SEEN = torch.tensor([[True]])


def build(**settings):
    """Three heads, with parameters large enough to point to very different keys."""
    select = LocalPredictiveSelection(DIMS, **settings).double()
    for parameter in select.parameters():
        torch.nn.init.normal_(parameter)
    return select


def run(select, scores, query, mask=SEEN):
    """The weights and the row numbers of a whole matrix."""
    places = Places.between(*scores.shape[-2:])
    rows = select.summarise(scores, mask, query, places)
    return select.weigh(scores, mask, rows, places), rows


@pytest.mark.parametrize("settings", [{"half_width": 2}, {"half_width": 3, "sigma": 0.8}])
def test_local_predictive_selection_is_the_equation(settings):
    select, mask = build(**settings), torch.rand(2, 1, 7, 11) > 0.3
    scores, query = doubles(2, 3, 7, 11), doubles(2, 3, 7, 5)
    weights, rows = run(select, scores, query, mask)
    W, v = select.W.detach().numpy(), select.v.detach().numpy()[..., 0]
    seen = mask.expand(2, 3, 7, 11).numpy()
    for b in range(2):
        for h in range(3):
            for i in range(7):
                e, row, q = scores[b, h, i].numpy(), seen[b, h, i], query[b, h, i].numpy()
                wanted = selections.local_predictive(e, row, q, W[h], v[h], **settings)
                centre = selections.predicted_centre(row, q, W[h], v[h])
                assert_close(f"row {b, h, i}", weights[b, h, i], wanted)
                assert_close(f"centre {b, h, i}", rows.centre[b, h, i], [centre])


def test_the_gaussian_is_half_as_wide_as_the_window_unless_given():
    assert build(half_width=7).sigma == 3.5
    assert build(half_width=7, sigma=2.0).sigma == 2.0


def test_local_predictive_selection_passes_gradcheck():
    select = LocalPredictiveSelection(Dims(d_model=2, n_heads=2), half_width=2).double()
    scores = doubles(1, 2, 3, 5, requires_grad=True)
    query = doubles(1, 2, 3, 2, requires_grad=True)
    inputs = (scores, query, select.W, select.v)
    assert gradcheck(lambda scores, query, *_: run(select, scores, query)[0], inputs)


def test_a_wide_window_with_a_flat_gaussian_is_soft():
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5), doubles(2, 3, 11, 13)
    mask = padding(torch.tensor([11, 6]))
    local = attend(query, key, value, mask, select=build(half_width=11, sigma=1e7))
    soft = attend(query, key, value, mask, select=SoftSelection())
    assert_close("weights", local.map.dense(), soft.map.dense())
    assert_close("context", local.context, soft.context)


def test_the_mass_of_a_row_is_a_ratio_of_two_normalisers():
    select, scores, query = build(half_width=3), 2 * doubles(2, 3, 7, 11), doubles(2, 3, 7, 5)
    weights, rows = run(select, scores, query)
    at = torch.arange(11)
    outside = (at - rows.centre.floor()).abs() > 3
    inside_scores = scores.masked_fill(outside, -torch.inf)
    faded = inside_scores - (at - rows.centre) ** 2 / (2 * 1.5**2)
    wanted = (faded.logsumexp(-1) - inside_scores.logsumexp(-1)).exp()
    assert_close("mass", weights.sum(-1), wanted)
    assert (weights.sum(-1) <= 1).all()
    assert (weights.sum(-1) > 0).all()


def test_only_the_gaussian_teaches_where_to_look():
    scores, query = doubles(2, 3, 7, 11), doubles(2, 3, 7, 5)
    sizes = []
    for sigma in (1.0, 1e2, 1e4):
        torch.manual_seed(0)
        select = build(half_width=4, sigma=sigma)
        found = gradients(run(select, scores, query)[0], dict(select.named_parameters()))
        sizes.append({name: gradient.abs().max() for name, gradient in found.items()})
    for name in ("W", "v"):
        learns, less, nothing = (size[name] for size in sizes)
        assert learns > 1e-2
        # the gradient falls as 1 / sigma²
        assert less < 1e-2 * learns
        assert nothing < 1e-6 * learns


def test_the_prediction_lies_between_the_ends_of_each_sentence():
    select, lengths = build(half_width=2), torch.tensor([11, 4])
    mask = padding(lengths).visible(Places.between(7, 11))
    _, rows = run(select, doubles(2, 3, 7, 11), 9 * doubles(2, 3, 7, 5), mask)
    assert (rows.centre >= 0).all()
    assert (rows.centre[0] <= 11).all()
    assert (rows.centre[1] <= 4).all()
    assert rows.centre[0].max() > 6


def test_a_neutral_network_looks_at_the_middle():
    select = build(half_width=2)
    torch.nn.init.zeros_(select.v)
    _, rows = run(select, doubles(2, 3, 7, 11), doubles(2, 3, 7, 5))
    assert_close("centre", rows.centre, torch.full((2, 3, 7, 1), 5.5))


def test_a_window_needs_a_neighbour_on_each_side():
    text = r"local_predictive: half_width must be at least 1, got 0\."
    with pytest.raises(SettingError, match=text):
        LocalPredictiveSelection(DIMS, half_width=0)


@pytest.mark.parametrize("sigma", [0.0, -2.5, math.nan, math.inf])
def test_a_gaussian_needs_a_width(sigma):
    text = rf"local_predictive: sigma must be a number above 0, got {sigma}\."
    with pytest.raises(SettingError, match=text):
        LocalPredictiveSelection(DIMS, sigma=sigma)
