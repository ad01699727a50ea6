"""Sinusoidal positions: waves of many lengths, so that a shift is a rotation."""

import math

import pytest
import torch

from regard.dims import Dims
from regard.errors import DimsError
from regard.positions.sinusoidal import SinusoidalPositions
from tests.assertions import assert_close

WAVES = SinusoidalPositions(Dims(d_model=14))


def test_every_channel_is_the_equation():
    want = torch.zeros(11, 14, dtype=torch.float64)
    for p in range(11):
        for i in range(7):
            want[p, 2 * i] = math.sin(p / 10000 ** (2 * i / 14))
            want[p, 2 * i + 1] = math.cos(p / 10000 ** (2 * i / 14))
    assert_close("code", WAVES(torch.arange(11)), want)


def test_any_shape_of_positions_is_coded_place_by_place():
    at = torch.tensor([[3, 1, 4], [1, 5, 9]])
    assert torch.equal(WAVES(at), WAVES(torch.arange(10))[at])


@pytest.mark.parametrize("k", [-7, 0, 1, 97])
def test_a_shift_is_one_matrix_for_all_positions(k):
    at = torch.arange(7, 30)
    assert_close("shifted", WAVES(at) @ WAVES.shift(k).T, WAVES(at + k))


@pytest.mark.parametrize("k", [-7, 1, 97])
def test_a_shift_is_a_rotation(k):
    turn = WAVES.shift(k)
    assert_close("T Tᵀ", turn @ turn.T, torch.eye(14))
    assert torch.linalg.det(turn).item() == pytest.approx(1)


def test_shifts_add_up():
    assert_close("T(3) T(8)", WAVES.shift(3) @ WAVES.shift(8), WAVES.shift(11))
    assert_close("T(5) T(-5)", WAVES.shift(5) @ WAVES.shift(-5), torch.eye(14))


def test_every_code_has_the_same_length():
    assert_close(
        "norms",
        WAVES(torch.arange(101)).norm(dim=-1),
        torch.full((101,), 7**0.5, dtype=torch.float64),
    )


def test_dot_products_depend_on_the_distance_alone_and_not_on_its_sign():
    codes = WAVES(torch.arange(23))
    products = codes @ codes.T
    for distance in range(23):
        want = sum(math.cos(distance / 10000 ** (2 * i / 14)) for i in range(7))
        for side in (distance, -distance):
            line = products.diagonal(side)
            assert_close(f"distance {side}", line, torch.full_like(line, want))


def test_no_two_positions_share_a_code():
    codes = WAVES(torch.arange(101))
    apart = torch.cdist(codes, codes) + torch.eye(101) * 97
    assert apart.min() > 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_cast_of_the_whole_model_does_not_blur_the_waves(dtype):
    at = torch.tensor([50_021])
    cast = SinusoidalPositions(Dims(d_model=14)).to(dtype)
    assert_close("code", cast(at).double(), WAVES(at), atol=0.01)


def test_there_is_nothing_to_learn_and_nothing_to_store():
    assert not list(WAVES.parameters())
    assert not WAVES.state_dict()


def test_an_odd_width_is_refused():
    said = r"sinusoidal: d_model must be even \(sine and cosine\), got 13\."
    with pytest.raises(DimsError, match=said):
        SinusoidalPositions(Dims(d_model=13))
