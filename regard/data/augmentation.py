"""Augmenting: pictures a little different in every epoch, so that a network does not learn pixels.

    shifted    by up to `margin` pixels each way; what comes in from outside repeats the edge
    mirrored   left to right, every second one, where captions allow it: one that says "left of"
               would be wrong

What becomes of a picture follows from seed, epoch and its row number alone, never from the batch
it is in, so an interrupted run goes on as it would have.
"""

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from regard.errors import SettingError

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""Odd numbers without a pattern in their bits; a product with one spreads every bit upwards."""


def augmented(
    pictures: UInt8[Tensor, "b 3 y x"],
    rows: Int64[Tensor, " b"],
    *,
    seed: int,
    epoch: int,
    margin: int = 4,
    may_mirror: bool = False,
) -> UInt8[Tensor, "b 3 y x"]:
    """Shift pictures, and mirror half of them if they may be.

    Args:
        pictures: on any device.
        rows: the number of each picture's row in the whole data.
        seed: of the whole run.
        epoch: counted from 0.
        margin: the most pixels that a picture is shifted by; 0 shifts none.
        may_mirror: leave it off where captions tell left from right.
    """
    for name, value in (("margin", margin), ("seed", seed), ("epoch", epoch)):
        if value < 0:
            raise SettingError(f"augmenting: {name} must be at least 0, got {value}.")
    if not margin and not may_mirror:
        return pictures
    right, down, mirrored = _draws(rows.cpu().numpy(), seed, epoch)
    height, width = pictures.shape[-2:]
    wide, shown = _with_margin(pictures, margin), torch.empty_like(pictures)
    above, before = _shifts(down, margin), _shifts(right, margin)
    # whole lines at a time are copied, which is many times faster than pixel by pixel
    for each, there, y, x, is_mirrored in zip(
        wide, shown, above, before, (mirrored < 0.5).tolist(), strict=True
    ):
        part = each[:, y : y + height, x : x + width]
        there.copy_(part.flip(-1) if may_mirror and is_mirrored else part)
    return shown


def _with_margin(pictures: UInt8[Tensor, "b 3 y x"], margin: int) -> UInt8[Tensor, "b 3 y2 x2"]:
    """Every edge repeated outwards, so often."""
    for axis in (-2, -1):
        first, last = (pictures.narrow(axis, at, 1) for at in (0, pictures.shape[axis] - 1))
        pictures = torch.cat([*[first] * margin, pictures, *[last] * margin], axis)
    return pictures


def _shifts(draws: Float[np.ndarray, " b"], margin: int) -> list[int]:
    """How many pixels from the outer edge of the margin each picture begins."""
    return np.floor(draws * (2 * margin + 1)).astype(np.int64).tolist()


def _draws(rows: np.ndarray, seed: int, epoch: int) -> Float[np.ndarray, "3 b"]:
    """Three numbers from 0 up to 1 for each row."""
    run = _mixed(np.array([seed % (1 << 64)], dtype=np.uint64))
    time = _mixed(run + np.uint64(epoch))
    each = _mixed(time + rows.astype(np.uint64) * GOLDEN)
    places = np.arange(1, 4, dtype=np.uint64)[:, None] * GOLDEN
    return (_mixed(each + places) >> np.uint64(11)) / float(1 << 53)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """Numbers of 64 bits in which every bit depends on every bit of what came in."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * FIRST
    numbers = (numbers ^ (numbers >> np.uint64(27))) * SECOND
    return numbers ^ (numbers >> np.uint64(31))
