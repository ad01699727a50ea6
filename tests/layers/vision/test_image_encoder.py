"""What every image encoder promises: its grid, its order of cells, one function, no batch."""

import pytest
import torch

from regard.choices import Choice
from regard.dims import Dims
from regard.errors import ShapeError, UnknownChoice
from regard.layers.vision import ENCODERS
from regard.layers.vision.image_encoder import GridSize, as_annotations, freeze, standardise
from tests.assertions import assert_close

CHOICES = {
    "residual": Choice("residual"),
    "residual, cells of 16": Choice("residual", {"n_stages": 3, "width": 8, "n_blocks": 2}),
    "lite0, coarse": Choice("efficientnet_lite0"),
    "lite0, fine": Choice("efficientnet_lite0", {"grid": "fine"}),
    "lite0, dilated": Choice("efficientnet_lite0", {"grid": "dilated"}),
    "lite0, learning": Choice("efficientnet_lite0", {"is_frozen": False}),
}
FROZEN = ("lite0, coarse", "lite0, fine", "lite0, dilated")
ANNOTATION = {"residual": (8, 64), "residual, cells of 16": (16, 64), "lite0, coarse": (32, 1280),
              "lite0, fine": (16, 112), "lite0, dilated": (16, 1280),
              "lite0, learning": (32, 1280)}  # fmt: skip


def _encoder(name):
    return CHOICES[name].build(ENCODERS, Dims(d_model=16))


def _pictures(n, height, width=None):
    return torch.randint(0, 256, (n, 3, height, width or height), dtype=torch.uint8)


@pytest.mark.parametrize("name", CHOICES)
def test_it_says_how_wide_and_how_large_its_cells_are(name):
    encoder = _encoder(name)
    assert (encoder.pixels_per_cell, encoder.d_annotation) == ANNOTATION[name]
    assert encoder.is_frozen == (name in FROZEN)


@pytest.mark.parametrize("size", [(64, 64), (96, 96), (136, 136), (224, 224), (65, 131)])
@pytest.mark.parametrize("name", ["residual", "lite0, coarse", "lite0, dilated"])
def test_the_grid_it_announces_is_the_grid_it_makes(name, size):
    encoder = _encoder(name)
    cells = encoder.grid_of(*size)
    p = encoder.pixels_per_cell
    assert cells == GridSize(-(-size[0] // p), -(-size[1] // p))
    got = encoder(_pictures(1, *size))
    assert got.shape == (1, cells.n_cells, encoder.d_annotation)
    assert torch.isfinite(got).all()


@pytest.mark.parametrize("name", CHOICES)
def test_a_picture_has_the_same_annotations_in_any_company(name):
    encoder, pictures = _encoder(name), _pictures(3, 64)
    together = encoder(pictures).detach()
    alone = torch.cat([encoder(picture[None]).detach() for picture in pictures])
    scale = float(together.abs().max())
    assert_close("annotations", alone / scale, together / scale, atol=1e-5)


@pytest.mark.parametrize("name", CHOICES)
def test_training_and_evaluation_are_one_function_that_leaves_nothing_behind(name):
    encoder, pictures = _encoder(name), _pictures(2, 64)
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    training = encoder.train()(pictures).detach()
    assert torch.equal(training, encoder.eval()(pictures).detach())
    for key, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, before[key]), key


@pytest.mark.parametrize("name", CHOICES)
def test_gradients_reach_every_weight_or_none(name):
    encoder = _encoder(name)
    out = encoder(_pictures(2, 64))
    assert out.requires_grad == (not encoder.is_frozen)
    assert bool(list(encoder.parameters())) == (not encoder.is_frozen)
    if out.requires_grad:
        out.square().mean().backward()
        for key, weight in encoder.named_parameters():
            assert weight.grad is not None and weight.grad.abs().sum() > 0, key


@pytest.mark.parametrize("name", CHOICES)
def test_a_picture_smaller_than_a_cell_is_refused(name):
    encoder = _encoder(name)
    p = encoder.pixels_per_cell
    said = rf"a picture must be at least {p} x {p} pixels, the size of one cell, got {p} x {p - 1}"
    with pytest.raises(ShapeError, match=said):
        encoder(_pictures(1, p, p - 1))
    assert encoder.grid_of(p) == GridSize(1, 1)
    assert encoder(_pictures(1, p)).shape[1] == 1


@pytest.mark.parametrize("name", CHOICES)
def test_its_shape_is_known_without_a_number(name):
    with torch.device("meta"):
        outline = _encoder(name)
    assert all(tensor.is_meta for tensor in outline.state_dict().values())


def test_cells_are_numbered_row_by_row():
    grid = torch.arange(2 * 3 * 5 * 7.0).view(2, 3, 5, 7)
    annotations = as_annotations(grid)
    assert torch.equal(annotations[1, 4 * 7 + 6], grid[1, :, 4, 6])
    assert torch.equal(annotations[0, 2 * 7 + 1], grid[0, :, 2, 1])


def test_pictures_that_are_no_whole_numbers_are_refused():
    with pytest.raises(ShapeError, match=r"whole numbers from 0 to 255 \(torch.uint8\), got torch"):
        standardise(torch.rand(1, 3, 8, 8), mean=0.0, spread=1.0, dtype=torch.float32)


def test_a_frozen_part_keeps_its_names_its_numbers_and_its_function():
    part, x = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.PReLU()), torch.randn(2, 3)
    before, want = {k: v.clone() for k, v in part.state_dict().items()}, part(x).detach()
    freeze(part)
    assert not list(part.parameters())
    assert sorted(part.state_dict()) == sorted(before)
    assert torch.equal(part(x), want)


def test_an_unknown_encoder_is_named_with_those_there_are():
    with pytest.raises(UnknownChoice, match="Did you mean 'residual'"):
        Choice("residuals").build(ENCODERS, Dims(d_model=8))
