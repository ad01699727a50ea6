"""Augmenting: every picture is shifted and mirrored by its own draw, and by nothing else."""

import numpy as np
import pytest
import torch

from regard.data.augmentation import Augmentation
from regard.errors import SettingError


def augmented(pictures, rows, *, epoch, **settings):
    return Augmentation(**settings).of(pictures, rows, epoch)


def _pictures(b=97, y=11, x=13):
    return torch.randint(0, 256, (b, 3, y, x), dtype=torch.uint8)


def _every_change(picture, margin, may_mirror):
    """All that may become of a picture, by padding and cutting."""
    pixels = picture.numpy()
    _, y, x = pixels.shape
    padded = np.pad(pixels, ((0, 0), (margin, margin), (margin, margin)), mode="edge")
    for down in range(2 * margin + 1):
        for right in range(2 * margin + 1):
            cut = padded[:, down : down + y, right : right + x]
            yield (down - margin, right - margin, False), cut
            if may_mirror:
                yield (down - margin, right - margin, True), cut[:, :, ::-1]


@pytest.mark.parametrize("may_mirror", [True, False])
def test_each_picture_is_cut_from_its_padded_self(may_mirror):
    pictures, rows = _pictures(), torch.arange(97)
    changed = augmented(pictures, rows, seed=5, epoch=2, margin=2, may_mirror=may_mirror)
    changes = set()
    for before, after in zip(pictures, changed, strict=True):
        every = _every_change(before, 2, may_mirror)
        found = [change for change, cut in every if np.array_equal(cut, after.numpy())]
        assert len(found) == 1
        changes.update(found)
    assert {down for down, _, _ in changes} == {-2, -1, 0, 1, 2}
    assert {right for _, right, _ in changes} == {-2, -1, 0, 1, 2}
    assert {mirrored for _, _, mirrored in changes} == ({True, False} if may_mirror else {False})


def test_what_becomes_of_a_row_does_not_depend_on_its_batch():
    pictures, rows = _pictures(), torch.arange(97)
    settings = {"seed": 1, "epoch": 3, "may_mirror": True}
    whole = augmented(pictures, rows, **settings)
    order = torch.randperm(97)[:31]
    assert torch.equal(augmented(pictures[order], rows[order], **settings), whole[order])


def test_epochs_and_seeds_differ_and_repeat():
    pictures, rows = _pictures(), torch.arange(97)
    settings = [{"seed": seed, "epoch": epoch} for seed in (0, 1) for epoch in (0, 1)]
    found = [augmented(pictures, rows, **each) for each in settings]
    for i, first in enumerate(found):
        assert torch.equal(first, augmented(pictures, rows, **settings[i]))
        same = [(first == other).flatten(1).all(1).float().mean() for other in found[i + 1 :]]
        assert all(share < 0.2 for share in same)


def test_draws_are_even_over_shifts_and_sides():
    # column 4 of 9 is marked, and each row of the picture has a colour of its own
    picture = torch.zeros(1, 3, 9, 9, dtype=torch.uint8)
    picture[0, 0, 4], picture[0, 1, :, 4], picture[0, 2, :, 5:] = 255, 255, 255
    b = 9000
    changed = augmented(
        picture.expand(b, -1, -1, -1), torch.arange(b), seed=0, epoch=0, margin=4, may_mirror=True
    )
    down = changed[:, 0, :, 0].float().argmax(1)
    is_mirrored = changed[:, 2, 0, 0] == 255
    across = changed[:, 1, 0].float().argmax(1)
    for places in (down, across):
        shares = places.bincount(minlength=9) / b
        torch.testing.assert_close(shares, torch.full((9,), 1 / 9), atol=0.015, rtol=0)
    pairs = torch.corrcoef(torch.stack([down.float(), across.float(), is_mirrored.float()]))
    assert (pairs - torch.eye(3))[:2, :2].abs().max() < 0.05


def test_without_margin_and_mirror_nothing_happens():
    pictures = _pictures()
    assert augmented(pictures, torch.arange(97), seed=0, epoch=0, margin=0) is pictures


def test_impossible_settings_are_refused():
    with pytest.raises(SettingError, match="augmentation: margin must be at least 0, got -1"):
        augmented(_pictures(), torch.arange(97), seed=0, epoch=0, margin=-1)
