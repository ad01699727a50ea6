"""A packed layer is the layer it was made of, whatever the number of rows."""

import pytest
import torch
from torch import nn

from regard.decoding.cpu.packed_linear import FEW, HUGE, PackedLinear, can_pack


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("rows", [(1,), (7,), (3, 5), (2, 33), (64, 1)])
def test_a_packed_layer_gives_what_the_plain_one_gives(rows, has_bias):
    plain = nn.Linear(37, 53, bias=has_bias)
    x = torch.randn(*rows, 37)
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(plain)(x), plain(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("n_rows", [FEW, FEW + 1])
@pytest.mark.parametrize("shape", [(1024, 4096), (1024, 4097)])
def test_few_rows_and_many_usual_weights_and_huge_give_the_same(shape, n_rows):
    # MKL's blocks are taken on one side of both borders only
    assert (shape[0] * shape[1] <= HUGE) == (shape[1] == 4096)
    plain, x = nn.Linear(*shape), torch.randn(n_rows, shape[0])
    with torch.inference_mode():
        torch.testing.assert_close(PackedLinear(plain)(x), plain(x), atol=1e-5, rtol=1e-5)


def test_a_row_gives_the_same_alone_and_among_others():
    packed, x = PackedLinear(nn.Linear(64, 96)), torch.randn(40, 64)
    with torch.inference_mode():
        together = packed(x)
        for count in (1, 4, 17):
            torch.testing.assert_close(packed(x[:count]), together[:count], atol=1e-5, rtol=1e-5)


def test_one_layer_takes_one_small_number_of_rows_after_another():
    # MKL's blocks fit one number of rows each
    plain = nn.Linear(512, 1536)
    packed = PackedLinear(plain)
    with torch.inference_mode():
        for count in (4, 7, 3, 4, FEW):
            x = torch.randn(count, 512)
            torch.testing.assert_close(packed(x), plain(x), atol=1e-4, rtol=1e-4)


def test_double_precision_and_other_devices_are_left_alone():
    assert can_pack(nn.Linear(4, 4))
    assert not can_pack(nn.Linear(4, 4).double())
    assert not can_pack(nn.Linear(4, 4, device="meta"))
