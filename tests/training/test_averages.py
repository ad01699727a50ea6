"""Averages: the formula by hand, and the model's own weights back to the bit."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from regard.errors import CheckpointError
from regard.training.averages import MovingAverage, mean_of
from tests.assertions import assert_close


def test_the_average_follows_by_its_formula():
    model = nn.Linear(3, 2).double()
    average = MovingAverage(model, 0.9)
    expected = model.weight.detach().clone()
    for step in (1, 2, 150):
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 3, dtype=torch.float64))
        average.follow(step)
        decay = {1: 2 / 11, 2: 3 / 12, 150: 0.9}[step]
        expected = decay * expected + (1 - decay) * model.weight.detach()
    assert_close("average", average.weights["weight"], expected)


def test_the_model_has_its_own_weights_back_even_after_an_error():
    model = nn.Linear(3, 2)
    average = MovingAverage(model, 0.9)
    with torch.no_grad():
        model.weight.mul_(3)
    own, mean = model.weight.detach().clone(), average.weights["weight"].clone()
    seen = []

    def fails():
        with average.in_place():
            seen.append(model.weight.detach().clone())
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert torch.equal(seen[0], mean)
    assert torch.equal(model.weight, own)
    assert torch.equal(average.weights["weight"], mean)


def test_shared_weights_are_averaged_once():
    model = nn.ModuleDict({"one": nn.Linear(2, 2, bias=False), "two": nn.Linear(2, 2, bias=False)})
    model["two"].weight = model["one"].weight
    assert list(MovingAverage(model, 0.5).weights) == ["one.weight"]


def test_an_average_of_something_else_is_refused(tmp_path):
    average = MovingAverage(nn.Linear(3, 2), 0.9)
    save_file({"weight": torch.zeros(2, 2)}, tmp_path / "x")
    with pytest.raises(CheckpointError, match=r"x': the average of 'weight' is missing, or"):
        average.load(tmp_path / "x")


def test_the_mean_of_files_is_the_mean(tmp_path):
    for number in (1.0, 2.0, 6.0):
        save_file({"w": torch.tensor([number])}, tmp_path / f"{number}.safetensors")
    assert mean_of(sorted(tmp_path.iterdir()))["w"].tolist() == [3.0]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10])
def test_the_mean_of_equal_files_is_that_file_to_the_bit(tmp_path, count):
    awkward = [0.1, -0.0, 1e-45, 3.4e38, 1 / 3, 0.9999999, -7e-12]
    values = torch.cat([torch.tensor(awkward), torch.randn(1000)])
    paths = [tmp_path / f"{number}.safetensors" for number in range(count)]
    for path in paths:
        save_file({"w": values}, path)
    mean = mean_of(paths)["w"]
    assert mean.dtype == values.dtype
    assert torch.equal(mean.view(torch.int32), values.view(torch.int32))
