"""The gated feed-forward: its equation, its gradient, its limits."""

import numpy as np
import torch

from regard.dims import Dims
from regard.layers import FeedForward, GatedFeedForward
from tests.assertions import assert_close, doubles


def test_it_is_the_equation():
    layer, x = GatedFeedForward(Dims(d_model=5), d_hidden=7).double(), doubles(3, 2, 5)
    W1, W3, W2 = (w.weight.detach().numpy().T for w in (layer.W1, layer.W3, layer.W2))
    inner = x.numpy() @ W1
    want = (inner / (1 + np.exp(-inner)) * (x.numpy() @ W3)) @ W2
    assert_close("output", layer(x), want)


def test_its_gradient_is_right():
    layer = GatedFeedForward(Dims(d_model=3), d_hidden=5).double()
    assert torch.autograd.gradcheck(layer, doubles(2, 3, requires_grad=True))


def test_a_gate_of_zeros_lets_nothing_pass():
    layer = GatedFeedForward(Dims(d_model=5), d_hidden=7).double()
    torch.nn.init.zeros_(layer.W1.weight)
    assert_close("output", layer(doubles(4, 5)), torch.zeros(4, 5))


def test_it_has_as_many_weights_as_the_plain_layer():
    dims = Dims(d_model=48)
    gated = sum(p.numel() for p in GatedFeedForward(dims).parameters())
    plain = FeedForward(dims)
    assert gated == plain.inner.weight.numel() + plain.outer.weight.numel()


def test_each_position_stands_alone():
    layer, x = GatedFeedForward(Dims(d_model=5)).double(), doubles(7, 5)
    assert_close("row", layer(x)[2:3], layer(x[2:3]))


def test_a_negative_input_is_not_a_positive_one_turned_round():
    layer, x = GatedFeedForward(Dims(d_model=5)).double(), doubles(7, 5)
    assert not torch.allclose(layer(-x), -layer(x))


def test_its_gate_may_be_another_activation():
    layer = GatedFeedForward(Dims(d_model=5), d_hidden=7, activation="gelu_tanh").double()
    x = doubles(3, 2, 5)
    W1, W3, W2 = (w.weight.detach().numpy().T for w in (layer.W1, layer.W3, layer.W2))
    inner = x.numpy() @ W1
    bent = np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3))
    want = (0.5 * inner * (1 + bent) * (x.numpy() @ W3)) @ W2
    assert_close("output", layer(x), want)
