"""Dims: the sizes a part is given by its surroundings."""

import dataclasses

import pytest

from regard.dims import Dims
from regard.errors import DimsError


def test_widths_are_the_models_unless_given():
    plain = Dims(d_model=15)
    assert (plain.query, plain.key, plain.value) == (15, 15, 15)
    given = Dims(d_model=15, d_query=2, d_key=3, d_value=5)
    assert (given.query, given.key, given.value) == (2, 3, 5)


def test_heads_share_the_width_equally():
    assert Dims(d_model=15, n_heads=3).d_head == 5
    assert Dims(d_model=15).d_head == 15


def test_the_dims_of_a_head_are_those_its_links_see():
    head = Dims(d_model=15, n_heads=3, d_query=2, d_key=7, d_value=11, max_len=13).head()
    assert (head.query, head.key, head.value) == (5, 5, 5)
    assert (head.n_heads, head.max_len) == (3, 13)


def test_dims_do_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dims(d_model=15).d_model = 16


@pytest.mark.parametrize("name", ["d_model", "n_heads", "d_query", "d_key", "d_value", "max_len"])
@pytest.mark.parametrize("size", [0, -3])
def test_sizes_below_one_are_refused(name, size):
    with pytest.raises(DimsError, match=rf"dims: {name} must be at least 1, got {size}\."):
        Dims(**{"d_model": 15, name: size})


@pytest.mark.parametrize(
    ("d_model", "n_heads", "said"),
    [
        (64, 3, r"would be 21\.33 wide\. Take 2 heads of 32, or d_model = 66\."),
        (15, 4, r"would be 3\.75 wide\. Take 3 heads of 5, or d_model = 16\."),
        (7, 10, r"would be 0\.70 wide\. Take 7 heads of 1, or d_model = 10\."),
    ],
)
def test_heads_that_do_not_divide_the_width_are_refused_with_a_way_out(d_model, n_heads, said):
    start = rf"dims: n_heads \({n_heads}\) must divide d_model \({d_model}\): a head "
    with pytest.raises(DimsError, match=start + said):
        _ = Dims(d_model=d_model, n_heads=n_heads).d_head


def test_the_way_out_leads_out():
    for d_model in range(1, 40):
        for n_heads in range(1, 40):
            if d_model % n_heads:
                with pytest.raises(DimsError) as refusal:
                    Dims(d_model=d_model, n_heads=n_heads).head()
                words = str(refusal.value).replace(",", "").rstrip(".").split()
                heads, width = int(words[words.index("Take") + 1]), int(words[-1])
                assert d_model % heads == 0
                assert width % n_heads == 0
                assert width >= d_model
