"""Dropout: who is dropped is chance, how many and by how much the rest grows is not."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import Chain
from regard.attention.dropout import Dropout
from regard.errors import SettingError


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_a_share_p_becomes_zero_and_the_rest_grows_so_that_the_mean_stays(p):
    torch.manual_seed(3)
    n = 400_003
    y = Dropout(p)(torch.ones(n))
    dropped = int((y == 0).sum())
    # four standard deviations of a binomial count
    assert abs(dropped - p * n) < 4 * math.sqrt(n * p * (1 - p))
    assert set(y[y != 0].tolist()) == {torch.tensor(1 / (1 - p)).item()}


def test_neighbours_are_dropped_independently():
    torch.manual_seed(4)
    kept = (Dropout(0.5)(torch.ones(400_000)) != 0).double().view(-1, 4)
    together = torch.corrcoef(kept.T) - torch.eye(4, dtype=torch.float64)
    assert together.abs().max() < 4 / math.sqrt(len(kept))


def test_what_is_dropped_gets_no_gradient_and_the_rest_gets_the_scale():
    x = torch.randn(7, 13, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.3)(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(grad * x.detach(), y.detach())

    def again(x):
        torch.manual_seed(0)
        return Dropout(0.3)(x)

    assert gradcheck(again, x, fast_mode=True)


def test_the_same_seed_drops_the_same_and_no_dropout_draws_nothing():
    def draw():
        torch.manual_seed(5)
        return Dropout(0.4)(torch.ones(3, 5))

    assert torch.equal(draw(), draw())
    x = torch.randn(4)
    state = torch.get_rng_state()
    assert Dropout(0.0)(x) is x
    assert Dropout(0.4).eval()(x) is x
    assert torch.equal(torch.get_rng_state(), state)


def test_a_probability_that_is_none_is_refused():
    with pytest.raises(SettingError, match=r"p must lie in \[0, 1\), got 1.0"):
        Dropout(1.0)


def test_a_call_decides_its_share_of_dropped_weights_where_it_gives_one():
    x, ones = torch.randn(1, 1, 9, 4), torch.ones(1, 1, 9, 4)
    chain = Chain(dropout=0.5)
    assert torch.allclose(chain(x, x, ones, dropout=0.0).context, ones)
    assert not torch.allclose(chain.eval()(x, x, ones, dropout=0.5).context, ones)
    assert torch.allclose(chain(x, x, ones).context, ones)
