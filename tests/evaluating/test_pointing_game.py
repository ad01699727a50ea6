"""The pointing game counts peaks and mass in boxes, and says what chance would earn."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from regard.data.boxes import Box
from regard.errors import ShapeError
from regard.evaluating.pointing_game import Pointing, grid_cells, pointing_game, together
from tests.oracles.boxes import area, cell_box, shared

# 2 rows and 3 columns over the right part of a picture: cells of 20 by 30 pixels from x = 40
SHOWN = Box(40.0, 0.0, 100.0, 60.0)
CELLS = grid_cells(2, 3, SHOWN)
LAST = Box(80.0, 30.0, 100.0, 60.0)


def _one(weights, box, cells=CELLS):
    (found,) = pointing_game(torch.tensor([weights]), [box], ["shape"], cells).values()
    return found


def test_cells_come_row_by_row_and_cover_what_was_shown():
    assert CELLS.tolist() == [
        [40, 0, 60, 30], [60, 0, 80, 30], [80, 0, 100, 30],
        [40, 30, 60, 60], [60, 30, 80, 60], [80, 30, 100, 60],
    ]  # fmt: skip


def test_cells_are_those_of_the_framing():
    from regard.data.framings import Framing

    framing = Framing.cropped(300, 200, 64)
    want = [cell_box(framing, row, column, 4) for row in range(4) for column in range(4)]
    assert_close(grid_cells(4, 4, framing.box), torch.tensor(want, dtype=torch.float64))


def test_a_peak_in_the_box_is_a_hit_and_its_mass_is_counted():
    got = _one([0.1, 0.1, 0.1, 0.1, 0.1, 0.5], LAST)
    assert (got.words, got.hits, got.reachable) == (1, 1.0, 1)
    assert got.mass == pytest.approx(0.5)
    assert got.chance_hits == pytest.approx(1 / 6)
    assert got.chance_mass == pytest.approx(1 / 6)


def test_a_peak_beside_the_box_is_a_miss():
    got = _one([0.5, 0.1, 0.1, 0.1, 0.1, 0.1], LAST)
    assert got.hits == 0
    assert got.mass == pytest.approx(0.1)


def test_rows_are_not_columns():
    upper_right = Box(80.0, 0.0, 100.0, 30.0)
    assert _one([0.0, 0.0, 1.0, 0.0, 0.0, 0.0], upper_right).hits == 1
    assert _one([0.0, 0.0, 0.0, 0.0, 1.0, 0.0], upper_right).hits == 0


def test_mass_counts_by_how_much_of_a_cell_the_box_covers():
    # a quarter of cell 0 and half of cell 1, and neither centre
    box = Box(50.0, 0.0, 80.0, 15.0)
    got = _one([0.4, 0.6, 0.0, 0.0, 0.0, 0.0], box)
    assert got.mass == pytest.approx(0.4 / 4 + 0.6 / 2)
    assert got.chance_mass == pytest.approx(area(box) / area(SHOWN))
    assert (got.hits, got.reachable) == (0, 0)


def test_left_and_upper_edges_belong_to_the_box():
    first = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    assert _one(first, Box(50.0, 15.0, 60.0, 20.0)).hits == 1
    assert _one(first, Box(40.0, 0.0, 50.0, 30.0)).hits == 0
    assert _one(first, Box(40.0, 0.0, 60.0, 15.0)).hits == 0


def test_cells_that_share_the_peak_share_the_hit():
    got = _one([0.0, 0.0, 0.0, 0.0, 0.5, 0.5], LAST)
    assert got.hits == 0.5


def test_a_map_need_not_sum_to_one():
    one, twice = _one([0.2, 0.0, 0.0, 0.0, 0.0, 0.3], LAST), _one([2.0, 0, 0, 0, 0, 3.0], LAST)
    assert one.mass == pytest.approx(twice.mass) == pytest.approx(0.6)


sides = st.floats(0, 120).map(lambda side: round(side, 1))


@settings(max_examples=40)
@given(sides, sides, sides, sides)
def test_a_map_that_is_the_same_everywhere_earns_what_chance_earns(x, y, right, bottom):
    box = Box(min(x, right), min(y, bottom), max(x, right), max(y, bottom))
    got = _one([0.7] * 6, box)
    assert got.hits == pytest.approx(got.chance_hits)
    assert got.mass == pytest.approx(got.chance_mass)
    assert got.chance_mass == pytest.approx(shared(box, SHOWN) / area(SHOWN))


def test_chance_is_what_random_maps_earn_on_average():
    torch.manual_seed(3)
    maps = torch.rand(1000, 6).square()
    box = Box(55.0, 0.0, 100.0, 40.0)
    got = pointing_game(maps, [box] * 1000, ["shape"] * 1000, CELLS)["shape"]
    assert got.per_word(got.hits) == pytest.approx(got.per_word(got.chance_hits), abs=0.05)
    assert got.per_word(got.mass) == pytest.approx(got.per_word(got.chance_mass), abs=0.03)


def test_words_are_counted_by_class_and_those_that_name_nothing_are_left_out():
    maps = torch.eye(6)[[5, 5, 0, 0]]
    boxes = [None, LAST, LAST, LAST]
    got = pointing_game(maps, boxes, ["article", "colour", "shape", "shape"], CELLS)
    assert list(got) == ["colour", "shape"]
    assert (got["colour"].words, got["colour"].per_word(got["colour"].hits)) == (1, 1)
    assert (got["shape"].words, got["shape"].per_word(got["shape"].hits)) == (2, 0)
    assert sum(got.values(), Pointing()).hits == 1


def test_captions_add_up():
    first = pointing_game(torch.eye(6)[[5]], [LAST], ["shape"], CELLS)
    second = pointing_game(torch.eye(6)[[0, 5]], [LAST, LAST], ["shape", "size"], CELLS)
    both = together([first, second])
    assert both["shape"] == first["shape"] + second["shape"]
    assert (both["shape"].words, both["shape"].per_word(both["shape"].hits)) == (2, 0.5)
    assert both["size"] == second["size"]


def test_a_caption_that_names_nothing_changes_nothing():
    assert pointing_game(torch.eye(6)[[0]], [None], ["article"], CELLS) == {}
    assert Pointing().per_word(Pointing().hits) == Pointing().per_word(Pointing().mass) == 0


def test_scores_are_per_cent_with_chance_beside_them():
    pointing, mass = _one([0.25, 0, 0, 0, 0, 0.75], LAST).scores()
    assert (pointing.value, mass.value) == (100, 75)
    assert pointing.signature == "words:1|peak:centre|chance:16.67|percent"
    assert mass.signature == "words:1|chance:16.67|percent"


def test_what_does_not_pair_up_is_refused():
    with pytest.raises(ShapeError, match="each of 1 maps and 6 cells, got 2 boxes, 1 classes and"):
        pointing_game(torch.eye(6)[[0]], [LAST, None], ["shape"], CELLS)


@pytest.mark.parametrize("wrong", [[0.0] * 6, [-0.1, 1.1, 0, 0, 0, 0], [float("nan")] * 6])
def test_what_is_no_map_is_refused(wrong):
    maps = torch.tensor([[1.0, 0, 0, 0, 0, 0], wrong])
    with pytest.raises(ShapeError, match="the map of word 2 is no map"):
        pointing_game(maps, [None, LAST], ["article", "shape"], CELLS)
    assert pointing_game(maps, [LAST, None], ["shape", "article"], CELLS)["shape"].words == 1
