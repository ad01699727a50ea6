"""Feed-forward: the same two-layer network at every position."""

import math

import numpy as np
import pytest
import torch

from regard.dims import Dims
from regard.errors import UnknownChoice
from regard.layers.feed_forward import FeedForward, NoFeedForward
from tests.assertions import assert_close, doubles

DIMS = Dims(d_model=5)

BENDS = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
}


@pytest.mark.parametrize("activation", BENDS)
def test_each_position_goes_through_the_equation(activation):
    network = FeedForward(DIMS, d_hidden=7, activation=activation).double()
    network.inner.bias.data.normal_()
    network.outer.bias.data.normal_()
    W1, b1, W2, b2 = (p.detach().numpy() for p in network.parameters())
    x = doubles(2, 3, 5)
    want = np.zeros((2, 3, 5))
    for b in range(2):
        for i in range(3):
            hidden = [BENDS[activation](z) for z in W1 @ x[b, i].numpy() + b1]
            want[b, i] = W2 @ np.array(hidden) + b2
    assert_close("output", network(x), want)


@pytest.mark.parametrize("activation", BENDS)
def test_gradcheck_in_double_precision(activation):
    network = FeedForward(Dims(d_model=2), d_hidden=3, activation=activation).double()
    x = doubles(2, 2, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t, *_: network(t), [x, *network.parameters()])


def test_positions_do_not_see_each_other():
    network = FeedForward(DIMS).double()
    x = doubles(1, 7, 5, requires_grad=True)
    grad = torch.autograd.grad(network(x)[0, 3].sum(), x)[0]
    assert grad[0, 3].abs().max() > 0
    assert grad[0, [0, 1, 2, 4, 5, 6]].abs().max() == 0


def test_without_a_bend_below_zero_it_is_linear():
    network = FeedForward(DIMS, d_hidden=7).double()
    network.inner.bias.data.fill_(97.0)
    x, y = doubles(3, 5) / 10, doubles(3, 5) / 10
    middle = network((x + y) / 2)
    assert_close("middle", middle, (network(x) + network(y)) / 2)


def test_the_inner_width_is_four_times_the_models_unless_given():
    numbers = [
        sum(p.numel() for p in FeedForward(DIMS, d_hidden=d).parameters()) for d in (None, 7)
    ]
    assert numbers == [2 * 5 * 20 + 20 + 5, 2 * 5 * 7 + 7 + 5]


def test_dropout_stands_on_the_inner_activations():
    network = FeedForward(DIMS, d_hidden=7, dropout=0.5).double()
    seen = []
    network.dropout.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    x = doubles(3, 5)
    network(x)
    assert_close("what is dropped", seen[0], network.inner(x).relu())


def test_nothing_is_dropped_unless_asked_nor_at_evaluation():
    plain, dropping = FeedForward(DIMS).double(), FeedForward(DIMS, dropout=0.5).double()
    dropping.load_state_dict(plain.state_dict())
    x = doubles(3, 5)
    assert torch.equal(plain.train()(x), plain.eval()(x))
    assert torch.equal(dropping.eval()(x), plain(x))
    assert not torch.equal(dropping.train()(x), plain(x))


def test_an_unknown_activation_is_refused():
    said = r"There is no 'rellu' here\. Did you mean 'relu'\? Known: relu, gelu, gelu_tanh, swish\."
    with pytest.raises(UnknownChoice, match=said):
        FeedForward(DIMS, activation="rellu")


def test_no_feed_forward_adds_nothing_and_learns_nothing():
    none, x = NoFeedForward(Dims(d_model=6), d_hidden=9), doubles(2, 3, 6)
    assert not none(x).any()
    assert not list(none.parameters())
