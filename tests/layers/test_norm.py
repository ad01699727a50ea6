"""Layer norm: every position brought to mean zero and variance one, then stretched and moved."""

import numpy as np
import pytest
import torch

from regard.dims import Dims
from regard.layers.norm import Norm
from tests.assertions import assert_close, assert_same_gradients, doubles

DIMS = Dims(d_model=7)


@pytest.mark.parametrize("has_gain", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_the_norm_is_the_equation(has_gain, has_bias):
    norm = Norm(DIMS, has_gain=has_gain, has_bias=has_bias, eps=0.01).double()
    for parameter in norm.parameters():
        parameter.data.normal_()
    x = doubles(2, 3, 7).numpy() * 5 + 11
    gain = norm.gain.detach().numpy() if has_gain else np.ones(7)
    bias = norm.bias.detach().numpy() if has_bias else np.zeros(7)
    want = np.zeros_like(x)
    for b, i in np.ndindex(2, 3):
        mean = x[b, i].sum() / 7
        variance = ((x[b, i] - mean) ** 2).sum() / 7
        want[b, i] = gain * (x[b, i] - mean) / np.sqrt(variance + 0.01) + bias
    assert_close("normed", norm(torch.from_numpy(x)), want)


def test_it_begins_as_the_outside_witness_with_its_gradient():
    x = doubles(2, 3, 7, requires_grad=True)
    got, want = Norm(DIMS).double()(x), torch.nn.LayerNorm(7, dtype=torch.float64)(x)
    assert_close("normed", got, want)
    assert_same_gradients(got, want, {"x": x})


def test_gradcheck_in_double_precision():
    norm = Norm(Dims(d_model=3)).double()
    x = doubles(2, 3, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t, *_: norm(t), [x, norm.gain, norm.bias])


def test_neither_scale_nor_shift_of_a_position_matters():
    norm, x = Norm(DIMS, eps=0.0).double(), doubles(2, 3, 7)
    assert_close("normed", norm(13 * x - 17), norm(x))


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({}, ["gain", "bias"]),
        ({"has_gain": False}, ["bias"]),
        ({"has_bias": False}, ["gain"]),
        ({"has_gain": False, "has_bias": False}, []),
    ],
)
def test_gain_and_bias_can_each_be_left_out(settings, names):
    assert [name for name, _ in Norm(DIMS, **settings).named_parameters()] == names


def test_a_constant_position_is_not_a_division_by_zero():
    x = torch.full((1, 7), 3.0, dtype=torch.float64, requires_grad=True)
    normed = Norm(DIMS).double()(x)
    assert normed.abs().max() == 0
    assert torch.autograd.grad(normed.sum(), x)[0].isfinite().all()


@pytest.mark.parametrize("has_bias", [True, False])
def test_a_norm_that_is_not_centred_divides_by_the_root_of_the_mean_square(has_bias):
    norm = Norm(DIMS, has_bias=has_bias, is_centred=False, eps=0.01).double()
    for parameter in norm.parameters():
        parameter.data.normal_()
    x = doubles(2, 3, 7).numpy() * 5 + 11
    want = np.zeros_like(x)
    for b, i in np.ndindex(2, 3):
        root = np.sqrt(sum(one * one for one in x[b, i]) / 7 + 0.01)
        want[b, i] = norm.gain.detach().numpy() * x[b, i] / root
        want[b, i] += norm.bias.detach().numpy() if has_bias else 0
    assert_close("normed", norm(torch.from_numpy(x)), want)


def test_gradcheck_of_a_norm_that_is_not_centred():
    norm = Norm(Dims(d_model=3), is_centred=False).double()
    x = doubles(2, 3, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t, *_: norm(t), [x, norm.gain, norm.bias])


def test_a_norm_that_is_not_centred_is_the_layer_norm_of_what_has_mean_zero():
    x = doubles(2, 3, 7)
    centred = x - x.mean(-1, keepdim=True)
    plain = Norm(DIMS, is_centred=False).double()
    assert_close("normed", plain(centred), Norm(DIMS).double()(x))
