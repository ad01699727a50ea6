"""EfficientNet-Lite0: its equation by plain sums, its three grids, what learns and what stays."""

import pytest
import torch

from regard.errors import UnknownChoice
from regard.layers.vision import EfficientNetLite0
from regard.layers.vision.published_weights import load_lite0, their_name
from tests.assertions import assert_close, assert_same_gradients
from tests.layers.vision.plain import lite0, lite0_shapes, random_lite0


def _pictures(n, height, width):
    return torch.randint(0, 256, (n, 3, height, width), dtype=torch.uint8)


def _loaded(published, **settings):
    encoder = EfficientNetLite0(**settings).to(published["_bn0.bias"].dtype)
    load_lite0(encoder, published)
    return encoder


@pytest.mark.parametrize("size", [(64, 96), (45, 50)])
@pytest.mark.parametrize(("grid", "n_stages"), [("coarse", 7), ("fine", 5)])
def test_it_is_the_equation(grid, n_stages, size):
    published, pictures = random_lite0(torch.float64), _pictures(2, *size)
    got = _loaded(published, grid=grid)(pictures)
    assert_close("annotations", got, lite0(pictures, published, n_stages=n_stages))


def test_all_that_may_learn_has_the_gradient_of_the_equation():
    published, pictures = random_lite0(torch.float64), _pictures(1, 32, 64)
    encoder = _loaded(published, is_frozen=False)
    learning = dict(encoder.named_parameters())
    got = encoder(pictures)
    with_ours = published | {their_name(name): weight for name, weight in learning.items()}
    want = lite0(pictures, with_ours, n_stages=7)
    assert_same_gradients(got, want, learning, atol=1e-9)


def test_every_published_tensor_but_the_classifier_has_its_place():
    held = {
        their_name(name): tuple(t.shape) for name, t in EfficientNetLite0().state_dict().items()
    }
    classifier = {"_fc.weight", "_fc.bias"}
    assert held == {k: shape for k, shape in lite0_shapes().items() if k not in classifier}


def test_every_other_dilated_cell_is_a_coarse_one():
    published, pictures = random_lite0(torch.float64), _pictures(1, 128, 64)
    coarse = _loaded(published)(pictures).view(4, 2, 1280)
    dilated = _loaded(published, grid="dilated")(pictures).view(8, 4, 1280)
    assert_close("every other", dilated[1::2, 1::2], coarse)


def test_a_picture_that_moves_by_a_cell_moves_its_annotations_by_a_cell():
    encoder = _loaded(random_lite0(), grid="fine")
    wide = _pictures(1, 384, 400)
    here = encoder(wide[..., :384]).view(24, 24, 112)
    there = encoder(wide[..., 16:]).view(24, 24, 112)
    # a cell sees 170 pixels on each side; nearer to the edge the padding is seen as well
    assert_close("moved", there[11:13, 10:12], here[11:13, 11:13], atol=1e-4)
    assert not torch.allclose(there[11:13, 11:13], here[11:13, 11:13], atol=0.1)


def test_statistics_are_no_parameters_and_frozen_weights_neither():
    learning, frozen = EfficientNetLite0(is_frozen=False), EfficientNetLite0()
    assert {name.rsplit(".")[-1] for name, _ in learning.named_parameters()} == {
        "W",
        "gain",
        "bias",
    }
    assert not list(frozen.parameters())
    # a frozen one can go on as a learning one
    assert sorted(learning.state_dict()) == sorted(frozen.state_dict())
    learning.load_state_dict(frozen.state_dict())
    pictures = _pictures(1, 64, 64)
    assert torch.equal(learning(pictures).detach(), frozen(pictures))


def test_an_unknown_grid_is_named_with_those_there_are():
    said = r"efficientnet_lite0\.grid: There is no 'corse' here\. Did you mean 'coarse'\?"
    with pytest.raises(UnknownChoice, match=said):
        EfficientNetLite0(grid="corse")
