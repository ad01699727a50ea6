"""Rotary positions: queries and keys are turned, so that scores see only distance."""

import numpy as np
import pytest
import torch

from regard.attention import Chain, multi_head
from regard.attention.scores.general import GeneralScore
from regard.dims import Dims
from regard.errors import DimsError, MeetingError, SettingError
from regard.positions.rotary import RotaryPositions
from regard.positions.sinusoidal import frequencies
from tests.assertions import assert_close, doubles

DIMS = Dims(d_model=30, n_heads=3)
ROTARY = RotaryPositions(DIMS)


def turned(x, at, wave=lambda i, width: 10000.0 ** (-2 * i / width)):
    """A 2 × 2 rotation for each pair of neighbouring channels, one by one."""
    out = np.zeros_like(x)
    for p, position in enumerate(at):
        for i in range(x.shape[-1] // 2):
            angle = position * wave(i, x.shape[-1])
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            pair = x[..., p, 2 * i : 2 * i + 2]
            out[..., p, 2 * i : 2 * i + 2] = pair @ turn.T
    return out


def test_each_pair_of_channels_is_turned_by_its_angle():
    x, at = doubles(2, 3, 7, 10), torch.tensor([0, 1, 2, 11, 5, 97, 3])
    assert_close("turned", ROTARY(x, at), turned(x.numpy(), at.tolist()))


def test_scores_depend_on_the_distance_alone():
    query, key = doubles(10).expand(13, 10), doubles(10).expand(13, 10)
    at = torch.arange(13)
    scores = ROTARY(query, at) @ ROTARY(key, at).mT
    for distance in range(-12, 13):
        line = scores.diagonal(distance)
        assert_close(f"distance {distance}", line, line[0].expand(line.shape))
    assert scores[0].std() > 1e-3


def test_a_score_is_the_query_with_the_key_turned_by_their_distance():
    query, key = doubles(1, 10), doubles(1, 10)
    far = ROTARY(query, torch.tensor([5])) @ ROTARY(key, torch.tensor([18])).mT
    assert_close("score", far, query @ ROTARY(key, torch.tensor([13])).mT)


def test_the_distance_has_a_direction():
    query, key = doubles(1, 10), doubles(1, 10)
    before, after = (query @ ROTARY(key, torch.tensor([at])).mT for at in (-3, 3))
    assert (before - after).abs().item() > 1e-3


def test_turning_keeps_the_length_of_a_vector():
    x = doubles(2, 7, 10)
    assert_close("norms", ROTARY(x, torch.arange(90, 97)).norm(dim=-1), x.norm(dim=-1))


def test_position_zero_is_not_turned():
    x = doubles(2, 1, 10)
    assert torch.equal(ROTARY(x, torch.tensor([0])), x)


def test_gradcheck_in_double_precision():
    x = doubles(2, 3, 10, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: ROTARY(t, torch.arange(3)), [x])


def test_angles_are_computed_in_double_precision_for_short_floats():
    x = torch.randn(1, 10)
    far = ROTARY(x, torch.tensor([50_021]))
    want = turned(x.double().numpy(), [50_021])
    assert far.dtype == torch.float32
    assert_close("turned far away", far.double(), want, atol=1e-6)


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float32, 1e-6), (torch.bfloat16, 0.03)])
def test_a_cast_of_the_whole_model_does_not_blur_the_angles(dtype, rounding):
    x = doubles(1, 10)
    far = RotaryPositions(DIMS).to(dtype)(x.to(dtype), torch.tensor([50_021]))
    assert_close("turned far away", far.double(), turned(x.numpy(), [50_021]), atol=rounding)


def test_there_is_nothing_to_learn_and_nothing_to_store():
    assert not list(ROTARY.parameters())
    assert not ROTARY.state_dict()


def test_heads_of_odd_width_are_refused():
    with pytest.raises(DimsError, match=r"rotary: heads must have an even width, got 5\."):
        RotaryPositions(Dims(d_model=15, n_heads=3))


def test_a_matrix_between_query_and_key_is_refused():
    said = "chain: rotary and general cannot meet: only a dot product of rotated vectors"
    with pytest.raises(MeetingError, match=said):
        multi_head(DIMS, chain=Chain(GeneralScore(DIMS.head())), rotary=ROTARY)


def test_the_base_may_be_another():
    x, at = doubles(2, 3, 10), torch.tensor([0, 7, 300])
    want = turned(x.numpy(), at.tolist(), lambda i, width: 500_000.0 ** (-2 * i / width))
    assert_close("turned", RotaryPositions(DIMS, base=500_000.0)(x, at), want)


def test_a_factor_slows_every_wave():
    x, at = doubles(2, 3, 10), torch.tensor([0, 7, 300])
    slowed = RotaryPositions(DIMS, factor=4.0)
    assert_close("turned", slowed(x, 4 * at), ROTARY(x, at))


def test_with_a_trained_length_only_long_waves_are_slowed():
    def wave(i, width):
        plain = 100.0 ** (-2 * i / width)
        length = 2 * np.pi / plain
        if length < 50 / 4:
            return plain
        if length > 50 / 1:
            return plain / 8
        share = (50 / length - 1) / (4 - 1)
        return (1 - share) * plain / 8 + share * plain

    x, at = doubles(2, 3, 10), torch.tensor([0, 7, 300])
    rotary = RotaryPositions(DIMS, base=100.0, factor=8.0, trained_len=50)
    lengths = 2 * torch.pi / frequencies(10, base=100.0)
    assert (lengths < 12.5).any()
    assert (lengths > 50).any()
    assert ((lengths > 12.5) & (lengths < 50)).any()
    assert_close("turned", rotary(x, at), turned(x.numpy(), at.tolist(), wave))


@pytest.mark.parametrize(
    "settings", [{"base": 1.0}, {"factor": 0.5}, {"trained_len": -1}, {"low": 4.0}, {"low": 0.0}]
)
def test_waves_that_turn_no_way_are_refused(settings):
    with pytest.raises(SettingError, match=r"rotary: expected base > 1, .* got base = "):
        RotaryPositions(DIMS, **settings)
