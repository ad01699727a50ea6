"""The residual network: its equation, its symmetries, its settings."""

import pytest
import torch

from regard.errors import SettingError
from regard.layers.vision import ResidualNetwork
from tests.assertions import assert_close, assert_same_gradients
from tests.layers.vision.plain import residual


def _network(**settings):
    """In float64, with norms that do something."""
    network = ResidualNetwork(**settings).double()
    for name, weight in network.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(weight, mean=1.0 if name.endswith("weight") else 0.0, std=0.3)
    return network


def _pictures(n, height, width):
    return torch.randint(0, 256, (n, 3, height, width), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({"n_stages": 2, "n_blocks": 1, "width": 8}, (24, 40)),
        ({"n_stages": 1, "n_blocks": 2, "width": 16}, (13, 22)),
        ({"n_stages": 3, "n_blocks": 1, "width": 8}, (32, 17)),
    ],
)
def test_it_is_the_equation_with_its_gradients(settings, size):
    network, pictures = _network(**settings), _pictures(2, *size)
    weights = dict(network.named_parameters())
    n_stages, n_blocks = settings["n_stages"], settings["n_blocks"]
    want = residual(pictures, weights, n_stages=n_stages, n_blocks=n_blocks)
    got = network(pictures)
    assert_close("annotations", got.detach(), want.detach())
    assert_same_gradients(got, want, weights, atol=1e-9)


def test_a_thing_that_moves_by_a_cell_moves_its_annotations_by_a_cell():
    network = _network()
    thing = _pictures(1, 12, 12)

    def looked_at(y, x):
        picture = torch.full((1, 3, 200, 216), 90, dtype=torch.uint8)
        picture[:, :, y : y + 12, x : x + 12] = thing
        return network(picture).detach().view(25, 27, -1)

    here, there = looked_at(88, 88), looked_at(96, 104)
    # what stands near the edge sees it, and stays where it is
    assert_close("moved", there[6:20, 7:21], here[5:19, 5:19], atol=1e-9)
    assert_close("edge", there[0], here[0], atol=1e-9)
    assert not torch.allclose(there[11:14, 11:15], here[11:14, 11:15], atol=1e-2)


def test_a_mirrored_picture_has_mirrored_annotations_if_the_kernels_are_their_own_mirror():
    network = _network(n_blocks=2)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.ndim == 4:
                weight.copy_((weight + weight.flip(-1)) / 2)
    picture = _pictures(1, 40, 72)
    got = network(picture.flip(-1)).detach().view(5, 9, -1)
    assert_close("mirrored", got, network(picture).detach().view(5, 9, -1).flip(1))


@pytest.mark.parametrize(
    ("settings", "sees"), [({}, 58), ({"last_kernel": 1}, 26), ({"n_stages": 1}, 22)]
)
def test_a_cell_sees_so_many_pixels(settings, sees):
    network = _network(**settings)
    # a norm's mean is of the whole picture: without norms a cell knows what convolutions show it
    for part in list(network.modules()):
        for name in [name for name, _ in part.named_children() if name.startswith("norm")]:
            setattr(part, name, torch.nn.Identity())
    side = 96 // network.pixels_per_cell
    # one picture is grey, and of the others each has one column of white
    pictures = torch.full((97, 3, 32, 96), 200, dtype=torch.uint8)
    for x in range(96):
        pictures[x, ..., x] = 255
    with torch.no_grad():
        for weight in network.parameters():
            # nothing is rectified away
            weight.abs_()
        *lit, grey = network(pictures)[:, side // 2]
    seen = [not torch.allclose(each, grey, rtol=1e-9) for each in lit]
    assert sum(seen) == sees
    assert all(seen[seen.index(True) : seen.index(True) + sees]), "without a gap"


def test_an_annotation_ends_with_where_its_cell_is():
    plain, placed = _network(), _network(has_places=True)
    placed.load_state_dict(plain.state_dict())
    picture = _pictures(2, 16, 32)
    got = placed(picture).detach()
    assert placed.d_annotation == plain.d_annotation + 2 == got.shape[-1]
    assert_close("annotations", got[..., :-2], plain(picture).detach())
    column, row = [-0.75, -0.25, 0.25, 0.75], [-0.5, 0.5]
    want = torch.tensor([[x, y] for y in row for x in column], dtype=torch.float64)
    assert_close("places", got[..., -2:], want.expand(2, -1, -1))


def test_nothing_is_kept_beside_the_weights():
    network = ResidualNetwork()
    assert list(network.state_dict()) == [name for name, _ in network.named_parameters()]
    weights = {k: v.clone() for k, v in network.state_dict().items()}
    network.load_published()
    assert all(torch.equal(v, weights[k]) for k, v in network.state_dict().items())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"width": 20}, r"residual: width must be a multiple of 8, .* got 20\. Take 24\."),
        ({"width": 0}, r"residual: width must lie between 1 and 1024, got 0\."),
        ({"n_stages": 9}, r"residual: n_stages must lie between 1 and 8, got 9\."),
        ({"n_blocks": 0}, r"residual: n_blocks must lie between 1 and 64, got 0\."),
        ({"last_kernel": 2}, r"residual: last_kernel must be one of \(3, 1\): .* got 2\."),
    ],
)
def test_settings_that_make_no_network_are_refused(settings, said):
    with pytest.raises(SettingError, match=said):
        ResidualNetwork(**settings)
