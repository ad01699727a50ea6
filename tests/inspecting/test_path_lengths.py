"""The counts of `regard explain paths`, proved by gradients."""

import pytest
import torch
from torch import nn

from regard.errors import SettingError
from regard.inspecting import meetings


def _depends(layers: list[nn.Module], n: int) -> bool:
    """Whether the last output depends on the first input."""
    x = torch.rand(1, 1, n, dtype=torch.float64, requires_grad=True)
    y = x
    for layer in layers:
        y = layer(y)
    return bool(torch.autograd.grad(y[0, 0, -1], x)[0][0, 0, 0] != 0)


def _convolution(window: int, *, padding: int, dilation: int = 1) -> nn.Module:
    layer = nn.Conv1d(1, 1, window, padding=padding, dilation=dilation).double()
    nn.init.uniform_(layer.weight, 0.5, 1.0)
    return layer


@pytest.mark.parametrize(("length", "window"), [(11, 3), (23, 5), (18, 7)])
def test_two_words_meet_at_the_counted_layer_and_not_before(length, window):
    rows = {row.name.split(",")[0]: row for row in meetings(length, window, 4)}
    half = (window - 1) // 2
    deep = rows["convolution"].layers
    stack = [_convolution(window, padding=half) for _ in range(deep)]
    assert _depends(stack, length)
    assert not _depends(stack[:-1], length)
    deep = rows["dilated convolution"].layers
    stack = [
        _convolution(window, padding=half * 2**level, dilation=2**level) for level in range(deep)
    ]
    assert _depends(stack, length)
    assert not _depends(stack[:-1], length)


def test_sizes_that_make_no_sentence_are_refused():
    with pytest.raises(SettingError, match="at least 2 and width of at least 1, got 1, 5 and 8"):
        meetings(1, 5, 8)
