"""Every picture shows something that was computed, and always the same."""

import pytest
import torch

from regard.catalogue import mechanisms
from regard.inspecting import example
from regard.inspecting.mechanism_pictures import N

NAMES = [entry.name for entry in mechanisms()]


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_always_the_same_and_leaves_the_generator_alone(name):
    before = torch.get_rng_state()
    first = example(name)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.numbers, example(name).numbers)
    assert len(first.numbers) == N
    assert first.numbers.abs().max() > 0


def test_the_causal_picture_is_a_triangle():
    assert torch.equal(example("causal").numbers, torch.ones(N, N).tril())


def test_a_feed_forward_depends_on_its_own_position_alone():
    influence = example("feed_forward").numbers
    assert torch.equal(influence != 0, torch.eye(N).bool())


def test_a_decoder_layer_depends_on_no_later_position():
    influence = example("decoder_layer").numbers
    assert torch.all(influence.triu(1) == 0)
    assert torch.all(influence[torch.ones(N, N).tril().bool()] > 0)


def test_the_linformer_s_picture_has_slots_for_columns():
    picture = example("linformer")
    assert picture.columns == "memory slots"
    assert picture.numbers.shape == (N, 6)
