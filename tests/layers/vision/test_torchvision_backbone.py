"""Torchvision's networks through the adapter, with a stand-in for torchvision itself."""

import sys

import pytest
import torch

from regard.errors import DataError, MissingExtra, UnknownChoice
from regard.layers.vision import TorchvisionBackbone
from tests.asserting import assert_close
from tests.layers.vision.standing_in import NETWORKS, models


@pytest.fixture
def torchvision(monkeypatch):
    stand_in = models()
    monkeypatch.setitem(sys.modules, "torchvision", stand_in)
    monkeypatch.setitem(sys.modules, "torchvision.models", stand_in)
    return stand_in


def _standardised(pictures):
    mean, spread = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    return (pictures / 255 - mean[:, None, None]) / spread[:, None, None]


def _resnet(network, x):
    x = network.maxpool(network.relu(network.bn1(network.conv1(x))))
    return network.layer4(network.layer3(network.layer2(network.layer1(x))))


def _vgg(network, x):
    for part in network.features[:14]:
        x = part(x)
    return x


@pytest.mark.parametrize(
    ("name", "grid", "run"), [("resnet18", (7, 7), _resnet), ("vgg16", (14, 14), _vgg)]
)
def test_the_annotations_are_the_last_grid_of_the_published_network(torchvision, name, grid, run):
    encoder = TorchvisionBackbone(backbone=name)
    encoder.load_published()
    pictures = torch.randint(0, 256, (2, 3, 224, 224), dtype=torch.uint8)
    torch.manual_seed(7)
    network = NETWORKS[name]().eval()
    want = run(network, _standardised(pictures)).detach()
    assert want.shape[-2:] == encoder.grid_of(224) == grid
    assert_close("annotations", encoder(pictures), want.flatten(2).mT, atol=1e-4)
    assert torchvision.published[name].asked["weights_only"] is True


def test_a_learning_backbone_keeps_the_statistics_of_its_norms(torchvision):
    encoder = TorchvisionBackbone(backbone="resnet18", is_frozen=False).train()
    assert encoder.training and not encoder.trunk.bn1.training
    encoder(torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8)).sum().backward()
    assert encoder.trunk.conv1.weight.grad.abs().sum() > 0
    assert torch.equal(encoder.trunk.bn1.running_mean, torch.zeros(4))


def test_weights_that_cannot_be_fetched_say_where_to_put_them(torchvision):
    def unreachable(**asked):
        raise OSError("no route to host")

    torchvision.published["vgg16"].get_state_dict = unreachable
    said = r"the weights of vgg16 cannot be fetched: no route to host\. Put 'network-0123abcd\.pth'"
    with pytest.raises(DataError, match=said):
        TorchvisionBackbone(backbone="vgg16").load_published()


def test_without_torchvision_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(MissingExtra, match=r"cannot be imported: .* Run pip install torchvision"):
        TorchvisionBackbone()


def test_an_unknown_backbone_is_named_with_those_there_are(torchvision):
    with pytest.raises(UnknownChoice, match=r"torchvision\.backbone: .* Did you mean 'resnet50'\?"):
        TorchvisionBackbone(backbone="resnet5")
