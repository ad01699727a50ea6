"""A stand-in for torchvision.models: networks of the same outline with next to no weights."""

from itertools import pairwise
from types import SimpleNamespace

import torch
from torch import nn


class SmallResNet(nn.Module):
    """The layers of a ResNet-18 by name; 512 channels at a 32nd of the size."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Conv2d(4, 4, 3, padding=1)
        self.layer2 = nn.Conv2d(4, 4, 3, stride=2, padding=1)
        self.layer3 = nn.Conv2d(4, 4, 3, stride=2, padding=1)
        self.layer4 = nn.Conv2d(4, 512, 3, stride=2, padding=1)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, 10)


class SmallVgg(nn.Module):
    """Five groups of a convolution, a rectifier and a pooling."""

    def __init__(self):
        super().__init__()
        widths = [3, 4, 4, 4, 4, 512]
        parts = []
        for d_in, d_out in pairwise(widths):
            parts += [nn.Conv2d(d_in, d_out, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        self.features = nn.Sequential(*parts)
        self.classifier = nn.Linear(512, 10)


NETWORKS = {"resnet18": SmallResNet, "vgg16": SmallVgg}


class Weights:
    """What torchvision knows of published weights: an address, and how to get them."""

    url = "https://nowhere.example/network-0123abcd.pth"

    def __init__(self, name):
        self.name, self.asked = name, {}

    def get_state_dict(self, **asked):
        """The same numbers every time; what was asked is noted."""
        self.asked.update(asked)
        torch.manual_seed(7)
        return NETWORKS[self.name]().state_dict()


def models():
    """A fresh stand-in for the module torchvision.models."""
    published = {name: Weights(name) for name in NETWORKS}
    return SimpleNamespace(
        get_model=lambda name, weights: NETWORKS[name](),
        get_model_weights=lambda name: SimpleNamespace(DEFAULT=published[name]),
        published=published,
    )
