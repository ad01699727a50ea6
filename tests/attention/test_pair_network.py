"""The pair network: large maps in tiles give the numbers and gradients of small ones."""

import pytest
import torch

from regard.attention import pair_network
from regard.attention.pair_network import ACTIVATIONS, pair_numbers
from tests.assertions import assert_close, assert_same_gradients, doubles


def pairs_one_by_one(rows, columns, v, activation):
    out = torch.zeros(*rows.shape[:-1], columns.shape[-2], dtype=rows.dtype)
    for i in range(rows.shape[-2]):
        for j in range(columns.shape[-2]):
            out[..., i, j] = (activation(rows[..., i, :] + columns[..., j, :]) * v).sum(-1)
    return out


@pytest.fixture(params=[(1, 1), (16, 4), (40, 8), (1 << 20, 64)], ids=str)
def tiles(request, monkeypatch):
    numbers, side = request.param
    monkeypatch.setattr(pair_network, "FEW_NUMBERS", 0)
    monkeypatch.setattr(pair_network, "TILE_NUMBERS", numbers)
    monkeypatch.setattr(pair_network, "TILE_SIDE", side)


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize(("n_rows", "n_columns"), [(7, 11), (1, 13), (17, 1)])
def test_tiles_give_every_pair_and_gradient(name, n_rows, n_columns):
    x = {
        "rows": doubles(2, 3, n_rows, 5, requires_grad=True),
        "columns": doubles(2, 3, n_columns, 5, requires_grad=True),
        "v": doubles(3, 5, requires_grad=True),
    }
    got = pair_numbers(*x.values(), ACTIVATIONS[name])
    want = pairs_one_by_one(*x.values(), ACTIVATIONS[name])
    assert_close("numbers", got, want)
    assert_same_gradients(got, want, x)


def test_an_activation_without_a_known_slope_is_kept_whole(monkeypatch):
    monkeypatch.setattr(pair_network, "FEW_NUMBERS", 0)
    rows, columns, v = (doubles(*shape, requires_grad=True) for shape in
                        ((2, 3, 7, 5), (2, 3, 11, 5), (3, 5)))  # fmt: skip
    x = {"rows": rows, "columns": columns, "v": v}
    got = pair_numbers(rows, columns, v, torch.sin)
    assert_same_gradients(got, pairs_one_by_one(rows, columns, v, torch.sin), x)
