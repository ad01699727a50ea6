"""Residual: a sublayer adds to what comes in, with the norm before it or after the sum."""

import pytest
import torch
from torch import nn
from torch.nn.functional import layer_norm

from regard.dims import Dims
from regard.layers.norm import Norm
from regard.layers.residual import RESIDUALS, NoNorm, NoResidual, PostNorm, PreNorm
from tests.assertions import assert_close, doubles

DIMS = Dims(d_model=7)


class Sevenfold(nn.Module):
    """Stands where dropout stood and leaves a mark nobody can miss."""

    def forward(self, x):
        return 7 * x


def bent(x):
    return x.sin() + 2


def test_pre_norm_is_the_equation():
    x = doubles(2, 3, 7)
    want = x + bent(layer_norm(x, (7,)))
    assert_close("output", PreNorm(DIMS).double()(x, bent), want)


def test_post_norm_is_the_equation():
    x = doubles(2, 3, 7)
    want = layer_norm(x + bent(x), (7,))
    assert_close("output", PostNorm(DIMS).double()(x, bent), want)


def test_without_norm_it_is_the_sum_and_without_residual_the_norm_of_the_sublayer():
    x = doubles(2, 3, 7)
    assert_close("no norm", NoNorm(DIMS).double()(x, bent), x + bent(x))
    assert_close("no residual", NoResidual(DIMS).double()(x, bent), layer_norm(bent(x), (7,)))


def test_pre_norm_drops_the_sublayers_output_before_the_sum():
    residual, x = PreNorm(DIMS, dropout=0.3).double(), doubles(2, 3, 7)
    residual.dropout = Sevenfold()
    assert_close("output", residual(x, bent), x + 7 * bent(layer_norm(x, (7,))))


def test_post_norm_drops_the_sublayers_output_before_the_sum_and_the_norm():
    residual, x = PostNorm(DIMS, dropout=0.3).double(), doubles(2, 3, 7)
    residual.dropout = Sevenfold()
    assert_close("output", residual(x, bent), layer_norm(x + 7 * bent(x), (7,)))


def test_every_number_is_dropped_or_made_larger_by_as_much():
    x = doubles(2, 300, 7)
    added = PreNorm(DIMS, dropout=0.3).double()(x, bent) - x
    whole = bent(layer_norm(x, (7,))) / 0.7
    kept = added.abs() > 1e-9
    assert_close("kept numbers", added, whole * kept)
    assert kept.double().mean().item() == pytest.approx(0.7, abs=0.03)


@pytest.mark.parametrize("name", RESIDUALS)
def test_nothing_is_dropped_unless_asked_nor_at_evaluation(name):
    x = doubles(2, 3, 7)
    plain = RESIDUALS[name](DIMS).double()
    dropping = RESIDUALS[name](DIMS, dropout=0.3).double()
    assert torch.equal(plain.train()(x, bent), plain.eval()(x, bent))
    assert torch.equal(dropping.eval()(x, bent), plain(x, bent))
    assert not torch.equal(dropping.train()(x, bent), plain(x, bent))


@pytest.mark.parametrize("name", RESIDUALS)
def test_gradcheck_in_double_precision(name):
    residual = RESIDUALS[name](Dims(d_model=3)).double()
    x = doubles(2, 3, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t, *_: residual(t, bent), [x, *residual.parameters()])


def test_pre_norm_leaves_a_clear_road_for_the_gradient():
    x = doubles(1, 7, requires_grad=True)
    out = x
    for _ in range(50):
        out = PreNorm(DIMS).double()(out, torch.zeros_like)
    assert_close("gradient", torch.autograd.grad(out.sum(), x)[0], torch.ones(1, 7))


@pytest.mark.parametrize("name", ["pre_norm", "post_norm", "no_residual"])
def test_a_norm_of_ones_own_is_used(name):
    norm = Norm(DIMS, has_bias=False)
    assert RESIDUALS[name](DIMS, norm=norm).norm is norm


def test_the_table_names_all():
    forms = {"pre_norm": PreNorm, "post_norm": PostNorm, "no_norm": NoNorm}
    assert dict(RESIDUALS) == {**forms, "no_residual": NoResidual}
