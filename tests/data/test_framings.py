"""Framing: what a square shows of a picture, and the way back to the original's pixels."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from regard.data.boxes import Box
from regard.data.framings import FRAMINGS, Framing
from regard.data.pictures import Picture, read_picture
from regard.errors import SettingError
from tests.oracles.boxes import area, cell_box, shared


def _marked(width, height, mark):
    """Black, with one white rectangle."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    left, top, right, bottom = mark
    pixels[top:bottom, left:right] = 255
    return pixels


def test_a_crop_shows_the_middle_and_a_squeeze_the_whole():
    assert Framing.cropped(301, 200, 64).box == Box(50.5, 0.0, 250.5, 200.0)
    assert Framing.cropped(200, 301, 64).box == Box(0.0, 50.5, 200.0, 250.5)
    assert Framing.squeezed(301, 200, 64).box == Box(0.0, 0.0, 301.0, 200.0)


# the corner of each picture that its square shows, marked by 20 x 20 pixels
CORNERS = {
    ("crop", 300, 200): (50, 0, 70, 20),
    ("crop", 200, 300): (180, 230, 200, 250),
    ("squeeze", 300, 200): (280, 180, 300, 200),
    ("squeeze", 200, 300): (0, 280, 20, 300),
}


@pytest.mark.parametrize("case", CORNERS, ids=str)
@pytest.mark.parametrize("grid", [5, 10])
def test_the_cells_that_see_a_marked_corner_lie_on_it_in_the_original(case, grid):
    name, width, height = case
    mark = Box(*map(float, CORNERS[case]))
    framing = FRAMINGS[name](width, height, 100)
    square = framing.square(Picture("marked", _marked(width, height, CORNERS[case]), width, height))
    cell = 100 // grid
    # how white each cell of the square is, and how much of it the mark covers in the original
    white = square[0].reshape(grid, cell, grid, cell).mean((1, 3)) / 255
    boxes = [
        [cell_box(framing, row, column, grid) for column in range(grid)] for row in range(grid)
    ]
    covered = [[shared(mark, box) / area(box) for box in row] for row in boxes]
    np.testing.assert_allclose(white, covered, atol=0.02)
    assert np.argmax(white) == np.argmax(covered)


@pytest.mark.parametrize("name", FRAMINGS)
def test_cells_tile_what_the_square_shows(name):
    framing = FRAMINGS[name](97, 61, 32)
    cells = [cell_box(framing, row, column, 7) for row in range(7) for column in range(7)]
    assert sum(area(cell) for cell in cells) == pytest.approx(area(framing.box))
    assert all(shared(cell, framing.box) == pytest.approx(area(cell)) for cell in cells)
    assert cells[0][:2] == pytest.approx(framing.box[:2])
    assert cells[-1][2:] == pytest.approx(framing.box[2:])
    # one row down is further down, one column on further right
    assert cells[7].top > cells[0].top
    assert cells[7].left == cells[0].left
    assert cells[1].left > cells[0].left


@given(
    width=st.integers(8, 900),
    height=st.integers(8, 900),
    name=st.sampled_from(list(FRAMINGS)),
    x=st.floats(-50, 150),
    y=st.floats(-50, 150),
)
def test_the_way_there_and_back_ends_where_it_began(width, height, name, x, y):
    framing = FRAMINGS[name](width, height, 100)
    point = np.array([[x, y]])
    left, top, right, bottom = framing.box
    there = framing.to_original(point) - [left, top]
    np.testing.assert_allclose(100 * there / [right - left, bottom - top], point, atol=1e-9)
    np.testing.assert_allclose(framing.to_original(np.array([50.0, 50.0])), [width / 2, height / 2])


def test_a_picture_of_the_right_size_is_not_touched():
    pixels = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    for make in FRAMINGS.values():
        square = make(64, 64, 64).square(Picture("a", pixels, 64, 64))
        assert np.array_equal(square, pixels.transpose(2, 0, 1))


def test_a_photograph_that_was_decoded_small_keeps_its_geometry():
    file = io.BytesIO()
    Image.fromarray(_marked(1600, 1200, (1300, 1100, 1400, 1200))).save(file, "JPEG", quality=95)
    small = read_picture(file.getvalue(), enough=60)
    assert small.pixels.shape == (150, 200, 3)
    framing = Framing.cropped(small.width, small.height, 60)
    square = framing.square(small)
    # the mark is the lower right corner of the middle 1200 x 1200
    assert square[:, -4:, -4:-1].min() > 250
    assert square[:, :-6].max() < 9
    assert framing.to_original(np.array([55.0, 55.0])).tolist() == [1300.0, 1100.0]


def test_what_cannot_be_framed_is_refused():
    with pytest.raises(SettingError, match="framing: size must be at least 1, got 0"):
        Framing.cropped(10, 10, 0)
