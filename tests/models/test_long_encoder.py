"""Encoders that read long sources sparsely or shortened, under a full decoder."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import pad

from regard.choices import Choice
from regard.errors import LengthError, MeetingError, SettingError, UnknownChoice
from regard.models import TransformerSpec, build_transformer
from regard.models.stepper import PAD
from tests.assertions import assert_close

SMALL = TransformerSpec(
    d_model=16, n_heads=2, d_hidden=24, n_encoder_layers=2, n_decoder_layers=2, max_len=40
)
LONG = {
    "big_bird": Choice("big_bird", {"block": 2, "n_random": 1}),
    "linformer": Choice("linformer", {"slots": 5}),
    "linformer, layerwise": Choice("linformer", {"slots": 5, "sharing": "layerwise"}),
    "sliding_window": Choice("sliding_window", {"size": 3}),
    "memory_compressed": Choice("memory_compressed"),
}


def model(*ways, **changes):
    spec = replace(SMALL, encoder_attends=ways or SMALL.encoder_attends, **changes)
    return build_transformer(spec, n_source_tokens=29, n_target_tokens=29).double().eval()


def tokens(*shape):
    return torch.randint(4, 29, shape)


@pytest.mark.parametrize("way", LONG.values(), ids=LONG)
def test_padding_behind_a_source_changes_nothing(way):
    reader, source, target = model(way), tokens(2, 12), tokens(2, 4)
    source[1, 7:] = PAD
    here = reader(source, target)
    assert_close("row", reader(source[1:, :7], target[1:]), here[1:])
    assert_close("logits", reader(pad(source, (0, 5)), target), here)


@pytest.mark.parametrize("way", LONG.values(), ids=LONG)
def test_the_decoder_stays_full_and_steps_as_it_reads_at_once(way):
    reader, source, target = model(way), tokens(2, 12), tokens(2, 5)
    for layer in reader.decoder:
        assert layer.attention.chain.memory is None
        assert layer.cross_attention.chain.memory is None
    state, parts = reader.start(source), []
    for place in range(5):
        logits, state = reader.step(state, target[:, place : place + 1])
        parts.append(logits)
    assert_close("logits", torch.cat(parts, 1), reader(source, target))


@pytest.mark.parametrize("way", LONG.values(), ids=LONG)
def test_training_and_evaluation_are_one_function_without_dropout(way):
    reader, source, target = model(way, dropout=0.0), tokens(2, 12), tokens(2, 4)
    source[1, 7:] = PAD
    assert torch.equal(reader.train()(source, target), reader.eval()(source, target))
    reader.train()(source, target)[1].sum().backward()
    together = {name: weight.grad.clone() for name, weight in reader.named_parameters()}
    reader.zero_grad()
    reader(source[1:, :7], target[1:])[0].sum().backward()
    for name, weight in reader.named_parameters():
        assert_close(name, weight.grad, together[name])


def test_enough_random_blocks_and_a_wide_window_are_the_full_encoder():
    torch.manual_seed(2)
    full, source, target = model(), tokens(2, 12), tokens(2, 4)
    for way in (
        Choice("big_bird", {"block": 2, "n_random": 9}),
        Choice("sliding_window", {"size": 12}),
    ):
        other = model(way)
        other.load_state_dict(full.state_dict())
        assert_close(way.name, other(source, target), full(source, target))


def test_as_many_slots_as_tokens_and_identity_mixtures_are_the_full_encoder():
    torch.manual_seed(2)
    full, source, target = model(), tokens(2, 8), tokens(2, 4)
    short = model(Choice("linformer", {"slots": 8}))
    short.load_state_dict(full.state_dict(), strict=False)
    with torch.no_grad():
        for layer in short.encoder:
            layer.attention.chain.memory.E.zero_()
            layer.attention.chain.memory.E[0, :, :8] = torch.eye(8)
    assert_close("logits", short(source, target), full(source, target))


def test_layers_take_their_ways_in_turn():
    reader = model(Choice("full"), LONG["linformer"], n_encoder_layers=3)
    found = [layer.attention.chain.memory is not None for layer in reader.encoder]
    assert found == [False, True, False]


LAYERWISE = LONG["linformer, layerwise"]


def test_layers_with_one_memory_in_common_have_one_storage_that_learns_from_all():
    reader = model(LAYERWISE, Choice("full"), LAYERWISE, n_encoder_layers=4)
    first, full, third, fourth = (layer.attention.chain.memory for layer in reader.encoder)
    assert full is None
    assert {first.E.data_ptr(), first.F.data_ptr()} == {third.E.data_ptr()} == {fourth.E.data_ptr()}
    assert sum(name.endswith("memory.E") for name, _ in reader.named_parameters()) == 1
    apart = model(Choice("linformer", {"slots": 5}), n_encoder_layers=2)
    one = model(LAYERWISE, n_encoder_layers=2)
    apart.load_state_dict(one.state_dict())
    source, target = tokens(2, 12), tokens(2, 4)
    assert_close("logits", one(source, target), apart(source, target))
    one(source, target).sum().backward()
    apart(source, target).sum().backward()
    grads = [layer.attention.chain.memory.E.grad for layer in apart.encoder]
    assert_close("E", one.encoder[0].attention.chain.memory.E.grad, grads[0] + grads[1])


def test_two_ways_that_differ_have_a_memory_each():
    wider = replace(LAYERWISE, settings={**LAYERWISE.settings, "slots": 7})
    reader = model(LAYERWISE, wider, n_encoder_layers=4)
    found = [layer.attention.chain.memory.E.shape[-2] for layer in reader.encoder]
    assert found == [5, 7, 5, 7]


def test_a_source_beyond_linformer_s_longest_is_refused():
    reader = model(LONG["linformer"])
    with pytest.raises(LengthError, match="41 keys, but max_len is 40"):
        reader.encode(tokens(1, 41))


def test_an_unknown_way_and_one_that_cannot_meet_the_relation_are_refused():
    with pytest.raises(UnknownChoice, match=r"model\.encoder_attends: There is no 'bigbird'"):
        model(Choice("bigbird"))
    with pytest.raises(MeetingError, match="cannot meet"):
        model(LONG["linformer"], relation=Choice("shaw"))


def test_frozen_branches_stay_as_they_are_to_the_bit_while_the_rest_learns():
    from regard.layers import project_all
    from regard.recipes.training_recipe import TrainingRecipe
    from regard.training.loop import make_optimiser

    reader = model(layer="weighted_branches", has_frozen_branches=True).train()
    optimiser = make_optimiser(reader, TrainingRecipe(steps=1, weight_decay=0.1))
    before = {name: tensor.clone() for name, tensor in reader.state_dict().items()}
    for _ in range(3):
        reader(tokens(2, 5), tokens(2, 4)).logsumexp(-1).sum().backward()
        for parameter in reader.parameters():
            # where work is replayed every weight has a place for its gradient
            parameter.grad = (
                torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            )
        optimiser.step()
        project_all(reader)
    after = reader.state_dict()
    fixed = [name for name in after if name.endswith(("kappa", "alpha"))]
    assert len(fixed) == 8
    assert all(torch.equal(after[name], before[name]) for name in fixed)
    moved = [name for name in after if not torch.equal(after[name], before[name])]
    assert any("W1" in name for name in moved)


def test_frozen_branches_need_branches():
    with pytest.raises(SettingError, match="layers of kind 'plain' have no branches"):
        replace(SMALL, has_frozen_branches=True)
