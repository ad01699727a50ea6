import pytest
import torch
from torch.autograd import gradcheck
from torch.autograd.functional import jacobian

from regard.attention.selections.soft import SoftSelection
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, doubles
from tests.oracles import selections

SEEN = torch.tensor([[True]])


def weigh(select, scores, mask=SEEN):
    """The weights of a whole matrix."""
    query, places = scores[..., :1], Places.between(*scores.shape[-2:])
    return select.weigh(scores, mask, select.summarise(scores, mask, query, places), places)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 7.0])
def test_soft_selection_is_the_equation(temperature):
    scores, mask = doubles(2, 3, 7, 11), torch.rand(2, 1, 7, 11) > 0.5
    wanted = selections.every_row(
        scores.numpy(), mask.numpy(), lambda e, seen: selections.soft(e, seen, temperature)
    )
    assert_close("weights", weigh(SoftSelection(temperature=temperature), scores, mask), wanted)


@pytest.mark.parametrize("temperature", [0.3, 1.0])
def test_soft_selection_passes_gradcheck(temperature):
    select, mask = SoftSelection(temperature=temperature), torch.rand(3, 5) > 0.4
    scores = doubles(2, 3, 5, requires_grad=True)
    assert gradcheck(lambda scores: weigh(select, scores, mask), (scores,))


def test_the_row_number_is_the_logarithm_of_the_normaliser():
    scores, places = doubles(2, 3, 7, 11), Places.between(7, 11)
    rows = SoftSelection(temperature=0.7).summarise(scores, SEEN, scores, places)
    assert_close("lse", rows.lse, (scores / 0.7).exp().sum(-1, keepdim=True).log())


def test_towards_temperature_zero_it_is_the_argmax():
    scores = doubles(2, 3, 7, 11)
    best = torch.nn.functional.one_hot(scores.argmax(-1), 11)
    assert_close("weights", weigh(SoftSelection(temperature=1e-5), scores), best)


def test_towards_temperature_infinity_all_keys_weigh_the_same():
    found = weigh(SoftSelection(temperature=1e12), doubles(2, 3, 7, 11))
    assert_close("weights", found, torch.ones(2, 3, 7, 11).double() / 11)


def test_torch_agrees():
    scores = doubles(2, 3, 7, 11)
    assert_close("weights", weigh(SoftSelection(), scores), scores.softmax(-1))


def test_the_jacobian_is_diag_p_minus_p_p():
    scores = doubles(1, 11)
    found = jacobian(lambda e: weigh(SoftSelection(), e), scores)[0, :, 0]
    p = scores.softmax(-1)[0]
    assert_close("jacobian", found, p.diag() - p[:, None] * p)
    assert_close("sum of each row", found.sum(-1), torch.zeros(11))


@pytest.mark.parametrize("temperature", [0.0, -1.5])
def test_a_temperature_must_be_above_zero(temperature):
    text = rf"soft: temperature must be above 0, got {temperature}\."
    with pytest.raises(SettingError, match=text):
        SoftSelection(temperature=temperature)
