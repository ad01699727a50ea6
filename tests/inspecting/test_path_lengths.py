"""The counts of `regard explain paths`, proved by gradients through the real layers."""

import pytest
import torch
from torch import nn
from torch.nn.functional import pad

from regard.dims import Dims
from regard.errors import SettingError
from regard.inspecting import meetings
from regard.layers.convolution import GatedConvolution
from regard.models.convolutional.spec import DILATIONS, ConvolutionalSpec
from tests.assertions import doubles

KINDS = {
    "convolution": ("constant", False),
    "causal convolution": ("constant", True),
    "dilated convolution": ("doubling", False),
    "causal dilated convolution": ("doubling", True),
}


def _stack(kernel, n_layers, dilations, *, is_causal):
    return nn.Sequential(
        *(
            GatedConvolution(
                Dims(d_model=3),
                kernel=kernel,
                dilation=DILATIONS[dilations].at(layer),
                is_causal=is_causal,
            )
            for layer in range(n_layers)
        )
    ).double()


def _seen(stack, n, i):
    """Which of n words the output at word i depends on, by its gradient."""
    x = doubles(1, n, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(stack(x)[0, i].sum(), x)
    return (gradient[0] != 0).any(-1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("kernel", "n_layers"), [(3, 1), (3, 4), (5, 3), (7, 2)])
def test_an_output_depends_on_words_as_far_as_counted_and_on_none_beyond(kind, kernel, n_layers):
    dilations, is_causal = KINDS[kind]
    spec = ConvolutionalSpec(
        kernel=kernel, n_encoder_layers=n_layers, n_decoder_layers=n_layers, dilations=dilations
    )
    field = spec.receptive_field[is_causal]
    before = field - 1 if is_causal else (field - 1) // 2
    n, i = 2 * field + 1, field
    seen = _seen(_stack(kernel, n_layers, dilations, is_causal=is_causal), n, i)
    outside = torch.ones(n, dtype=torch.bool)
    outside[i - before : i - before + field] = False
    assert not seen[outside].any(), "exactly zero beyond the reach"
    assert seen[i - before]
    assert seen[i - before + field - 1]
    # a deeper stack than one dilated layer leaves no hole between its ends
    assert seen.sum() == field


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("length", "window"), [(2, 3), (11, 3), (23, 5), (18, 7)])
def test_two_words_meet_at_the_counted_layer_and_not_before(kind, length, window):
    dilations, is_causal = KINDS[kind]
    row = {row.name: row for row in meetings(length, window, 4)}[f"{kind}, window {window}"]
    stack = _stack(window, row.layers, dilations, is_causal=is_causal)
    assert _seen(stack, length, length - 1)[0]
    assert not _seen(stack[:-1], length, length - 1)[0]
    spec = ConvolutionalSpec(kernel=window, dilations=dilations)
    assert spec.layers_to_meet(length - 1)[is_causal] == row.layers


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_row_says_it_sees_is_what_its_layers_see(kind):
    dilations, is_causal = KINDS[kind]
    row = {row.name: row for row in meetings(12, 3, 4)}[f"{kind}, window 3"]
    stack = _stack(3, row.layers, dilations, is_causal=is_causal)
    field = row.receptive_field
    assert _seen(stack, 2 * field + 1, field).sum() == field


@pytest.mark.parametrize("window", [2, 4, 6])
def test_an_even_window_is_counted_by_its_longer_side(window):
    row = {row.name: row for row in meetings(14, window, 4)}[f"convolution, window {window}"]
    layer = nn.Conv1d(1, 1, window).double()
    nn.init.uniform_(layer.weight, 0.5, 1.0)

    def depends(n_layers):
        x = torch.rand(1, 1, 14, dtype=torch.float64, requires_grad=True)
        y = x
        for _ in range(n_layers):
            y = layer(pad(y, (window // 2, (window - 1) // 2)))
        return bool(torch.autograd.grad(y[0, 0, -1], x)[0][0, 0, 0] != 0)

    assert depends(row.layers)
    assert not depends(row.layers - 1)


def test_what_sees_everything_has_no_count():
    rows = {row.name: row.receptive_field for row in meetings(20, 3, 4)}
    assert rows["attention"] is None
    assert rows["recurrence"] is None
    assert rows["attention within ±3"] == 1 + 2 * 3 * 7


def test_a_long_text_is_counted_at_once():
    rows = {row.name: row for row in meetings(10**9, 3, 4)}
    assert rows["convolution, window 3"].layers == 10**9 - 1
    assert rows["dilated convolution, window 3"].layers == 30


def test_sizes_that_make_no_sentence_are_refused():
    with pytest.raises(SettingError, match="at least 2 and width of at least 1, got 1, 5 and 8"):
        meetings(1, 5, 8)
