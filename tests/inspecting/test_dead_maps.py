"""A map is dead when it is flat for every word, or the same for every word."""

import math

import pytest
import torch
from torch.testing import assert_close

from regard.inspecting.dead_maps import STILL, UNIFORM, dead_maps, entropies, spreads, stirs

CELLS = 49
FLAT = torch.full((5, CELLS), 1 / CELLS)


def _pointed(words, cells, peak=0.5):
    """Maps with a peak that wanders."""
    maps = torch.full((words, cells), (1 - peak) / (cells - 1))
    maps[torch.arange(words), torch.arange(words) * 7 % cells] = peak
    return maps


def test_entropy_is_that_of_the_definition():
    maps = torch.rand(3, 11)
    shares = maps / maps.sum(-1, keepdim=True)
    by_hand = [-sum(p * math.log(p) for p in row) for row in shares.tolist()]
    assert_close(entropies(maps), torch.tensor(by_hand, dtype=torch.float64), rtol=1e-5, atol=0)


def test_entropy_of_one_cell_is_nothing_and_of_all_alike_the_logarithm():
    assert entropies(torch.eye(4)).tolist() == [0, 0, 0, 0]
    assert_close(entropies(FLAT), torch.full((5,), math.log(CELLS)).double())


def test_a_map_over_half_the_cells_is_spread_over_half_of_them():
    half = torch.cat([torch.ones(1, 10), torch.zeros(1, 10)], -1)
    assert_close(spreads(half), torch.tensor([0.5]).double())


def test_maps_that_share_nothing_stir_most():
    assert_close(stirs(torch.eye(4)), torch.full((4,), 0.75).double())
    assert_close(stirs(FLAT), torch.zeros(5).double())


def test_flat_maps_are_dead_and_the_sentence_says_why():
    told = dead_maps(FLAT)
    assert told == (
        "The maps are dead: every word looks at the whole picture alike (entropy at least 3.89 of "
        "3.89 nats)."
    )


def test_flat_maps_with_a_little_noise_are_dead_too():
    assert "whole picture" in dead_maps(FLAT * (1 + 0.2 * torch.rand(5, CELLS)))


def test_one_word_that_looks_somewhere_is_enough_to_be_alive():
    maps = FLAT.clone()
    maps[2] = _pointed(1, CELLS)[0]
    assert dead_maps(maps) == ""


def test_a_peak_that_never_moves_is_dead():
    still = _pointed(1, CELLS).repeat(6, 1)
    assert dead_maps(still) == (
        "The maps are dead: they do not change from word to word (at most 0.0 % of a word's weight "
        "lies elsewhere than on average)."
    )
    assert dead_maps(still * (1 + 0.05 * torch.rand(6, CELLS))) != ""


def test_a_peak_that_wanders_slowly_is_alive():
    # each word differs little from the last, but the first and the last have little in common
    place = torch.arange(CELLS)
    maps = torch.stack([(-(((place - 10 - t) / 4) ** 2)).float().softmax(-1) for t in range(20)])
    assert dead_maps(maps) == ""


def test_one_word_that_looks_elsewhere_is_enough_to_be_alive():
    maps = _pointed(1, CELLS).repeat(30, 1)
    assert dead_maps(maps) != ""
    maps[12] = maps[12].roll(3)
    assert dead_maps(maps) == ""


def test_a_single_word_cannot_change_and_is_judged_by_its_spread():
    assert dead_maps(_pointed(1, CELLS)) == ""
    assert dead_maps(FLAT[:1]) != ""


def test_no_words_have_no_maps():
    assert dead_maps(torch.empty(0, CELLS)) == ""


@pytest.mark.parametrize("over", [False, True])
def test_the_limits_are_those_that_are_said(over):
    # weight spread evenly over a share of the cells: the spread is that share
    count = 1000
    kept = round(UNIFORM * count) - (0 if over else 1)
    maps = (torch.arange(count) < kept).float().repeat(2, 1)
    assert ("whole picture" in dead_maps(maps)) is over
    # two maps that move so much from one cell to another: half of it away from the mean
    moved = 2 * STILL * (0.99 if over else 1.01)
    pair = torch.tensor([[1.0, 0.0, 0.0], [1 - moved, moved, 0.0]])
    assert ("do not change" in dead_maps(pair)) is over


def test_maps_need_not_sum_to_one():
    assert dead_maps(7 * FLAT) == dead_maps(FLAT)
    assert_close(entropies(3 * _pointed(4, CELLS)), entropies(_pointed(4, CELLS)))
