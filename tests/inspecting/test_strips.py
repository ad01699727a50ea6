"""Strips: of few queries and many keys nothing is left out, whatever the height of a pixel."""

import numpy as np
import pytest
import torch

from regard.attention import Chain
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.inspecting import strips as strips_module
from regard.inspecting.strips import strip
from tests.inspecting.hand_made import Dense


def heaviest(cells, down, across):
    """By plain loops over the matrix."""
    return np.array(
        [
            [cells[i : i + down, j : j + across].max() for j in range(0, cells.shape[1], across)]
            for i in range(0, cells.shape[0], down)
        ]
    )


@pytest.mark.parametrize(("down", "across"), [(1, 1), (1, 64), (2, 16), (5, 7)])
@pytest.mark.parametrize("pattern", [None, CausalPattern(), SlidingWindowPattern(size=9)])
def test_a_pixel_is_the_heaviest_of_its_cells_and_knows_what_is_masked(
    pattern, down, across, monkeypatch
):
    # several blocks, the last of them short
    monkeypatch.setattr(strips_module, "BLOCK", 3000)
    query, key = torch.randn(1, 2, 23, 4), torch.randn(1, 2, 301, 4)
    weights = Chain(**({} if pattern is None else {"pattern": pattern}))(query, key, key).map
    found = strip(weights, 1, down=down, across=across)
    dense, seen = weights.dense()[0, 1].numpy(), weights.may_hold(slice(23), slice(301), size=1)
    np.testing.assert_allclose(found.values, heaviest(dense, down, across), atol=1e-6)
    np.testing.assert_array_equal(found.visible, heaviest(seen.numpy(), down, across))
    each = seen.sum(1).float().numpy()
    wanted = [each[i : i + down].mean() for i in range(0, 23, down)]
    np.testing.assert_allclose(found.allowed, wanted)


def test_weights_that_were_written_down_hide_nothing():
    written = torch.rand(1, 1, 3, 10)
    found = strip(Dense(written), 0, down=1, across=4)
    np.testing.assert_allclose(found.values, heaviest(written[0, 0].numpy(), 1, 4))
    assert found.visible.all()
    assert found.allowed.tolist() == [10.0] * 3
