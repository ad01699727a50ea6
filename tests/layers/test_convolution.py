"""The gated convolution: its equation, its cache, its padding, its reach."""

import pytest
import torch
from torch.nn.functional import conv1d, glu, pad

from regard.dims import Dims
from regard.errors import SettingError
from regard.layers.convolution import GatedConvolution
from tests.assertions import assert_close, assert_same_gradients, doubles, gradients
from tests.oracles.convolution import block

WINDOWS = {
    "symmetric": {"kernel": 3},
    "wide": {"kernel": 5},
    "of one word": {"kernel": 1},
    "dilated": {"kernel": 3, "dilation": 2},
    "causal": {"kernel": 3, "is_causal": True},
    "causal, even": {"kernel": 4, "is_causal": True},
    "causal, dilated": {"kernel": 3, "dilation": 4, "is_causal": True},
}
CAUSAL = {name: window for name, window in WINDOWS.items() if "is_causal" in window}


def _layer(window, width=5):
    layer = GatedConvolution(Dims(d_model=width), **window).double()
    torch.nn.init.normal_(layer.W.bias)
    return layer


def _named(layer, x):
    return {"x": x, **dict(layer.named_parameters())}


def _valid(lengths, n):
    return torch.arange(n) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_it_is_the_equation_with_its_gradients(window):
    layer, x, lengths = _layer(window), doubles(3, 11, 5, requires_grad=True), (11, 7, 2)
    rows = [
        block(
            x[b],
            layer.W.weight,
            layer.W.bias,
            kernel=layer.kernel,
            dilation=layer.dilation,
            n_before=layer.n_before,
            length=length,
        )
        for b, length in enumerate(lengths)
    ]
    want, got = torch.stack(rows), layer(x, _valid(lengths, 11))
    assert_close("output", got, want.detach())
    assert_same_gradients(got, want, _named(layer, x))


@pytest.mark.parametrize("dilation", [1, 3])
def test_it_is_torch_s_convolution_with_the_same_weights(dilation):
    layer, x = _layer({"kernel": 3, "dilation": dilation}), doubles(2, 11, 5, requires_grad=True)
    weight = layer.W.weight.unflatten(1, (3, 5)).mT
    both = conv1d(x.mT, weight, layer.W.bias, padding=dilation, dilation=dilation).mT
    want = (x + glu(both)) / 2**0.5
    assert_close("output", layer(x), want.detach())
    assert_same_gradients(layer(x), want, _named(layer, x))


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_padding_changes_no_output_and_no_gradient(window):
    layer, x = _layer(window), doubles(2, 7, 5, requires_grad=True)
    # what stands in the padding must not matter either
    longer = torch.cat([x, 100 * doubles(2, 6, 5)], 1)
    got = layer(longer, _valid((7, 7), 13))[:, :7]
    assert_close("output", got, layer(x).detach())
    assert_same_gradients(got, layer(x), _named(layer, x))


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_padding_gets_no_gradient(window):
    layer, x = _layer(window), doubles(2, 9, 5, requires_grad=True)
    got = layer(x, _valid((9, 4), 9))
    assert torch.equal(gradients(got[1, :4], {"x": x})["x"][1, 4:], torch.zeros(5, 5).double())


@pytest.mark.parametrize("window", CAUSAL.values(), ids=CAUSAL)
@pytest.mark.parametrize("cuts", [(1, 1, 1, 1, 1, 1, 1), (4, 1, 2), (7,)], ids=str)
def test_going_on_from_a_cache_is_the_whole_pass(window, cuts):
    layer, x = _layer(window), doubles(2, 7, 5, requires_grad=True)
    past, parts = layer.start(2), []
    for part in x.split(cuts, 1):
        out, past = layer.step(part, past)
        assert past.shape == (2, layer.n_before, 5)
        parts.append(out)
    got = torch.cat(parts, 1)
    assert_close("output", got, layer(x).detach())
    assert_same_gradients(got, layer(x), _named(layer, x))


@pytest.mark.parametrize("window", CAUSAL.values(), ids=CAUSAL)
def test_a_later_word_changes_nothing_before_it(window):
    layer, x = _layer(window), doubles(2, 9, 5)
    other = x.clone()
    other[:, 4] += 1
    assert torch.equal(layer(other)[:, :4], layer(x)[:, :4])
    assert not torch.equal(layer(other)[:, 4], layer(x)[:, 4])


def test_its_gradient_is_right():
    layer = _layer({"kernel": 3, "dilation": 2}, width=2)
    valid = _valid((5, 3), 5)
    assert torch.autograd.gradcheck(lambda x: layer(x, valid), doubles(2, 5, 2, requires_grad=True))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_new_layer_keeps_the_variance_also_under_dropout(dropout):
    layer = GatedConvolution(Dims(d_model=256), kernel=3, dropout=dropout)
    x = 0.1 * torch.randn(8, 100, 256)
    ratio = float((layer(x).var() / x.var()).detach())
    assert 0.95 < ratio < 1.05


def test_what_is_read_is_dropped_and_what_is_added_is_not():
    layer = _layer({"kernel": 3, "is_causal": True, "dropout": 0.5})
    x = doubles(2, 9, 5)
    torch.nn.init.zeros_(layer.W.weight)
    torch.nn.init.zeros_(layer.W.bias)
    assert_close("output", layer(x), x / 2**0.5)
    _, past = layer.step(x, layer.start(2))
    kept = past != 0
    assert 0 < kept.sum() < kept.numel(), "the cache holds what the window read"
    assert_close("cache", past[kept], (2 * x[:, -2:])[kept])


MISTAKES = {
    "kernel and dilation must be at least 1, got 0 and 1": {"kernel": 0},
    "kernel and dilation must be at least 1, got 3 and 0": {"dilation": 0},
    "needs a word in its middle, got kernel 4. Take 3 or 5, or is_causal=True": {"kernel": 4},
    "dropout: p must lie in [0, 1), got 1.0": {"dropout": 1.0},
}


@pytest.mark.parametrize(("text", "settings"), MISTAKES.items(), ids=MISTAKES)
def test_a_window_that_cannot_be_is_refused(text, settings):
    with pytest.raises(SettingError) as said:
        GatedConvolution(Dims(d_model=4), **settings)
    assert text in str(said.value)


def test_a_symmetric_window_cannot_go_on_without_the_words_ahead():
    layer = _layer({"kernel": 5})
    with pytest.raises(SettingError, match="this one looks 2 ahead"):
        layer.step(doubles(2, 1, 5), layer.start(2))


def test_zeros_before_a_sentence_are_what_a_cache_begins_with():
    layer, x = _layer({"kernel": 3, "is_causal": True}), doubles(2, 4, 5)
    assert_close("output", layer.step(x, layer.start(2))[0], layer(pad(x, (0, 0, 3, 0)))[:, 3:])
