"""Augmentation: pictures changed a little in every epoch, so that a network memorises no pixels.

    shifted    by up to `margin` pixels each way; pixels from outside the picture repeat the edge
    mirrored   left to right, every second one, where captions allow it: one that says "left of"
               would be wrong

The change to a picture depends on seed, epoch and its row number alone, never on its batch, so
that a resumed run sees the same pictures as an uninterrupted one.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor

from regard.errors import SettingError

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""Odd multipliers of the hash: a product with one carries every bit into the higher bits."""


@final
@dataclass(frozen=True)
class Augmentation:
    """How pictures differ from epoch to epoch."""

    seed: int
    """Of the whole run."""
    margin: int = 4
    """The most pixels that a picture is shifted by; 0 shifts none."""
    may_mirror: bool = False
    """Leave it off where captions tell left from right."""

    def of(
        self, pictures: UInt8[Tensor, "b 3 y x"], rows: Int64[Tensor, " b"], epoch: int
    ) -> UInt8[Tensor, "b 3 y x"]:
        """The changed pictures of these rows (numbers in the whole data) in an epoch, from 0."""
        for name, value in (("margin", self.margin), ("seed", self.seed), ("epoch", epoch)):
            if value < 0:
                raise SettingError(f"augmentation: {name} must be at least 0, got {value}.")
        if not self.margin and not self.may_mirror:
            return pictures
        right, down, mirrored = _draws(rows.cpu().numpy(), self.seed, epoch)
        height, width = pictures.shape[-2:]
        wide, shown = _with_margin(pictures, self.margin), torch.empty_like(pictures)
        # offset of each picture from the outer edge of the margin, in pixels
        above, before = (
            np.floor(draws * (2 * self.margin + 1)).astype(np.int64).tolist()
            for draws in (down, right)
        )
        # whole lines at a time are copied, which is many times faster than pixel by pixel
        for each, there, y, x, is_mirrored in zip(
            wide, shown, above, before, (mirrored < 0.5).tolist(), strict=True
        ):
            part = each[:, y : y + height, x : x + width]
            there.copy_(part.flip(-1) if self.may_mirror and is_mirrored else part)
        return shown


def _with_margin(pictures: UInt8[Tensor, "b 3 y x"], margin: int) -> UInt8[Tensor, "b 3 y2 x2"]:
    """The pictures with every edge repeated outwards `margin` times."""
    for axis in (-2, -1):
        first, last = (pictures.narrow(axis, at, 1) for at in (0, pictures.shape[axis] - 1))
        pictures = torch.cat([*[first] * margin, pictures, *[last] * margin], axis)
    return pictures


def _draws(rows: np.ndarray, seed: int, epoch: int) -> Float[np.ndarray, "3 b"]:
    """Three numbers from 0 up to 1 for each row."""
    run = _mixed(np.array([seed % (1 << 64)], dtype=np.uint64))
    time = _mixed(run + np.uint64(epoch))
    each = _mixed(time + rows.astype(np.uint64) * GOLDEN)
    places = np.arange(1, 4, dtype=np.uint64)[:, None] * GOLDEN
    return (_mixed(each + places) >> np.uint64(11)) / float(1 << 53)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """A hash of 64 bits in which every output bit depends on every input bit."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * FIRST
    numbers = (numbers ^ (numbers >> np.uint64(27))) * SECOND
    return numbers ^ (numbers >> np.uint64(31))
