"""Learned positions: a table with one vector for each position, and none after the last."""

import pytest
import torch

from regard.dims import Dims
from regard.errors import LengthError
from regard.positions.learned import LearnedPositions
from tests.assertions import assert_close, doubles

DIMS = Dims(d_model=5, max_len=11)


def test_a_position_is_its_row_of_the_table():
    positions = LearnedPositions(DIMS).double()
    at = torch.tensor([[3, 1, 4], [1, 5, 10]])
    codes = positions(at)
    for b in range(2):
        for i in range(3):
            assert torch.equal(codes[b, i], positions.P.weight[at[b, i]])


def test_a_row_learns_from_every_place_that_used_it():
    positions = LearnedPositions(DIMS).double()
    push = doubles(4, 5)
    (positions(torch.tensor([2, 7, 2, 0])) * push).sum().backward()
    want = torch.zeros(11, 5, dtype=torch.float64)
    want[2], want[7], want[0] = push[0] + push[2], push[1], push[3]
    assert_close("gradient of P", positions.P.weight.grad, want)


def test_gradcheck_of_the_table():
    positions = LearnedPositions(Dims(d_model=2, max_len=3)).double()
    at = torch.tensor([2, 0, 2])
    assert torch.autograd.gradcheck(lambda _: positions(at), [positions.P.weight])


def test_the_table_begins_small():
    table = LearnedPositions(Dims(d_model=64, max_len=128)).P.weight
    assert table.std().item() == pytest.approx(0.02, rel=0.05)
    assert table.mean().item() == pytest.approx(0, abs=0.001)


def test_no_positions_need_no_table():
    assert LearnedPositions(DIMS)(torch.zeros(2, 0, dtype=torch.int64)).tolist() == [[], []]


def test_a_position_beyond_the_table_is_refused():
    said = (
        r"learned: position 11 was asked for, but the table has 11 \(0 to 10\)\. "
        "Raise max_len and train again, or take sinusoidal or rotary"
    )
    with pytest.raises(LengthError, match=said):
        LearnedPositions(DIMS)(torch.tensor([[0, 11]]))


def test_a_program_can_be_exported():
    positions = LearnedPositions(Dims(d_model=4, max_len=9))
    at = torch.arange(5)[None]
    program = torch.export.export(positions, (at,))
    assert torch.equal(program.module()(at), positions(at))
