"""The windowed path's own: the form its kernel computes, and windows that are read in blocks."""

import pytest
import torch

from regard.attention import Chain
from regard.attention.engine import windowed
from regard.attention.links import LocalRows
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.attention.selections.local_predictive import LocalPredictiveSelection
from regard.attention.selections.soft import SoftSelection
from regard.dims import Dims
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles

DIMS = Dims(d_model=5, n_heads=3)
SELECTIONS = {
    "local_monotonic": LocalMonotonicSelection(half_width=3),
    "local_predictive": LocalPredictiveSelection(DIMS, half_width=3).double(),
    "local_predictive, narrow": LocalPredictiveSelection(DIMS, half_width=4, sigma=0.7).double(),
}


def faded_softmax(scores, mask, rows, rate, half_width):
    """What the kernel computes, written out."""
    away = torch.arange(scores.shape[-1]) - rows.centre
    inside = mask & ((torch.arange(scores.shape[-1]) - rows.centre.floor()).abs() <= half_width)
    shares = scores.masked_fill(~inside, -torch.inf).softmax(-1).nan_to_num(0.0)
    return shares * (-rate * away**2).exp()


@pytest.mark.parametrize("name", SELECTIONS)
def test_a_window_that_fades_is_the_selection(name):
    select, places = SELECTIONS[name], Places.between(9, 31)
    scores, query = doubles(2, 3, 9, 31), doubles(2, 3, 9, 5)
    mask = torch.rand(2, 1, 9, 31) > 0.2
    rows = select.summarise(scores, mask, query, places)
    rate = select.as_faded_softmax()
    assert type(rows) is LocalRows and rate is not None
    wanted = select.weigh(scores, mask, rows, places)
    assert_close(
        "weights", faded_softmax(scores, mask, rows, rate, select.half_width), wanted.detach()
    )


def test_other_selections_have_no_window_that_fades():
    assert SoftSelection().as_faded_softmax() is None


@pytest.mark.parametrize("name", SELECTIONS)
def test_windows_in_blocks_are_windows(name, monkeypatch):
    # three vectors of five numbers in a block: blocks end inside a head
    monkeypatch.setattr(windowed, "CACHED", 15)
    x = {name: doubles(2, 3, 17, 5, requires_grad=True) for name in ("query", "key", "value")}
    select = SELECTIONS[name]
    got = Chain(select=select, path="windowed")(*x.values())
    want = Chain(select=select, path="dense")(*x.values())
    assert_close("context", got.context, want.context)
    assert_same_gradients(got.context, want.context, {**x, **dict(select.named_parameters())})


@pytest.mark.parametrize("width", [1, 5, 7])
def test_dots_and_sums_of_windows_pass_gradcheck(width):
    index = torch.tensor([[[[0, 1], [1, 1], [2, 0]]]])
    rows, source = (doubles(1, 1, 3, width, requires_grad=True) for _ in range(2))
    weights = doubles(1, 1, 3, 2, requires_grad=True)
    assert torch.autograd.gradcheck(windowed._Dots.apply, (rows, source, index))
    assert torch.autograd.gradcheck(windowed._Gathered.apply, (weights, source, index))
