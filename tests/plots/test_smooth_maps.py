"""Smoothing for display: as the authors drew it, and no weight is lost or moved."""

import math

import numpy as np
import pytest

from regard.plots.smooth_maps import POINTS, SIGMA, smooth


def _by_hand(line):
    """One row: straight lines between centres, then a mean of neighbours, mirrored at the ends."""
    count = len(line)
    fine = math.ceil(POINTS / count)
    size = count * fine
    up = []
    for point in range(size):
        place = min(max((point + 0.5) / fine - 0.5, 0), count - 1)
        left = min(int(place), count - 2) if count > 1 else 0
        right = min(left + 1, count - 1)
        up.append(line[left] + (line[right] - line[left]) * (place - left))
    mirrored = [*reversed(up), *up, *reversed(up)]
    out = []
    for point in range(size, 2 * size):
        gauss = [math.exp(-(((q - point) / (SIGMA * size)) ** 2) / 2) for q in range(3 * size)]
        out.append(sum(g * m for g, m in zip(gauss, mirrored, strict=True)) / sum(gauss))
    return out


@pytest.mark.parametrize("line", [[0.0, 1.0, 0.0, 0.5], [1.0, 0.0]])
def test_a_row_is_smoothed_as_by_hand(line):
    got = smooth(np.array([line]))
    np.testing.assert_allclose(got[0], _by_hand(line), atol=1e-6)
    np.testing.assert_allclose(got, np.repeat(got[:1], len(got), axis=0), atol=1e-12)


def test_a_flat_map_stays_flat():
    np.testing.assert_allclose(smooth(np.full((3, 5), 0.2)), 0.2)
    np.testing.assert_allclose(smooth(np.array([[0.7]])), 0.7)


def test_no_weight_is_lost():
    cells = np.random.default_rng(1).random((5, 7))
    assert smooth(cells).mean() == pytest.approx(cells.mean(), rel=1e-6)


@pytest.mark.parametrize("row", range(5))
@pytest.mark.parametrize("column", range(7))
def test_the_peak_stays_in_its_cell(row, column):
    cells = np.zeros((5, 7))
    cells[row, column] = 1
    fine = smooth(cells)
    y, x = np.unravel_index(fine.argmax(), fine.shape)
    assert (y * 5 // fine.shape[0], x * 7 // fine.shape[1]) == (row, column)


def test_rows_and_columns_are_treated_alike():
    cells = np.random.default_rng(2).random((4, 6))
    np.testing.assert_allclose(smooth(cells.T), smooth(cells).T)
    np.testing.assert_allclose(smooth(cells[::-1, ::-1]), smooth(cells)[::-1, ::-1], atol=1e-12)
