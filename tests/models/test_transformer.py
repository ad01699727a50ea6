"""The Transformer as a whole: causality, padding, caches, ties, counts, choices."""

import math
from dataclasses import replace

import pytest
import torch

from regard.attention import FULL
from regard.choices import Choice
from regard.errors import DimsError, MeetingError, SettingError, UnknownChoice
from regard.models import (
    SIZES,
    TransformerSpec,
    build_language_model,
    build_transformer,
    shapes_of,
)
from regard.models.mask_checks import check_masks
from regard.models.stepper import PAD, Stepper
from tests.assertions import assert_close

SMALL = TransformerSpec(
    d_model=16, n_heads=2, d_hidden=24, n_encoder_layers=2, n_decoder_layers=2, max_len=32
)
SPECS = {
    "post_norm": SMALL,
    "pre_norm": replace(SMALL, norm="pre_norm"),
    "gelu": replace(SMALL, feed_forward="gelu"),
    "gated": replace(SMALL, feed_forward="gated"),
    "learned": replace(SMALL, positions=Choice("learned")),
    "rotary": replace(SMALL, positions=Choice("rotary")),
    "no positions": replace(SMALL, positions=Choice("none")),
    "shaw": replace(SMALL, relation=Choice("shaw", {"clip": 3})),
    "bucketed": replace(SMALL, relation=Choice("bucketed")),
    "linear_bias": replace(SMALL, relation=Choice("linear_bias")),
    "additive": replace(SMALL, score=Choice("additive", {"d_hidden": 5})),
    "general": replace(SMALL, score=Choice("general")),
    "sparsemax": replace(SMALL, select=Choice("sparsemax")),
    "top_k": replace(SMALL, select=Choice("top_k", {"count": 3})),
    "local_monotonic": replace(SMALL, select=Choice("local_monotonic", {"half_width": 2})),
    "branches": replace(SMALL, layer="weighted_branches"),
    "branches pre_norm": replace(SMALL, layer="weighted_branches", norm="pre_norm"),
    "untied": replace(SMALL, tied="none"),
    "tied output": replace(SMALL, tied="output"),
}


def _model(spec):
    return build_transformer(spec, n_source_tokens=29, n_target_tokens=29).double().eval()


def _tokens(*shape):
    return torch.randint(4, 29, shape)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_a_later_token_changes_nothing_before_it(spec):
    model, source, target = _model(spec), _tokens(2, 7), _tokens(2, 5)
    other = target.clone()
    other[:, 3] = 4 + (other[:, 3] - 3) % 25
    assert torch.equal(model(source, other)[:, :3], model(source, target)[:, :3])
    assert not torch.equal(model(source, other)[:, 3], model(source, target)[:, 3])


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_padding_changes_nothing(spec):
    model, source, target = _model(spec), _tokens(2, 7), _tokens(2, 5)
    longer = torch.nn.functional.pad(source, (0, 4), value=PAD)
    further = torch.nn.functional.pad(target, (0, 3), value=PAD)
    assert_close("logits", model(longer, further)[:, :5], model(source, target))


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_stepping_with_a_cache_equals_the_whole_pass(spec):
    model, source, target = _model(spec), _tokens(2, 7), _tokens(2, 6)
    source[1, 4:] = PAD
    whole = model(source, target)
    state = model.start(source)
    parts = []
    for cut in (target[:, :1], target[:, 1:4], target[:, 4:]):
        logits, state = model.step(state, cut)
        parts.append(logits)
    assert_close("logits", torch.cat(parts, 1), whole)


def test_selecting_rows_of_a_state_moves_their_sentences_along():
    model, source, target = _model(SMALL), _tokens(3, 7), _tokens(3, 4)
    rows = torch.tensor([2, 0, 0])
    _, state = model.step(model.start(source), target[:, :2])
    logits, _ = model.step(model.select(state, rows), target[rows, 2:])
    assert_close("logits", logits, model(source[rows], target[rows])[:, 2:])


def test_every_model_that_writes_is_a_stepper():
    assert isinstance(_model(SMALL), Stepper)
    assert isinstance(build_language_model(SMALL, n_tokens=11), Stepper)


def test_the_language_model_s_cache_equals_its_whole_pass():
    model = build_language_model(SPECS["pre_norm"], n_tokens=29).double().eval()
    tokens = _tokens(2, 9)
    logits, _ = model.step(model.start(tokens[:, :4]), tokens[:, 4:])
    assert_close("logits", logits, model.output(model.read(tokens))[:, 4:])
    other = tokens.clone()
    other[:, 5] = 4 + (other[:, 5] - 3) % 25
    assert torch.equal(model.read(other)[:, :5], model.read(tokens)[:, :5])


def test_without_positions_the_encoder_is_permutation_equivariant():
    model, source, order = _model(SPECS["no positions"]), _tokens(1, 7), torch.randperm(7)
    assert_close("states", model.encode(source[:, order]), model.encode(source)[:, order])
    with_positions = _model(SMALL)
    moved = with_positions.encode(source[:, order.flip(0)])
    assert not torch.allclose(moved, with_positions.encode(source)[:, order.flip(0)])


@pytest.mark.parametrize(("tied", "n_free"), [("none", 2), ("output", 1), ("all", 0)])
def test_ties_leave_as_many_tables_as_they_say(tied, n_free):
    count = {
        name: sum(p.numel() for p in _model(replace(SMALL, tied=name)).parameters())
        for name in ("all", tied)
    }
    assert count[tied] - count["all"] == n_free * 29 * 16


def test_the_base_model_has_the_paper_s_number_of_parameters():
    with torch.device("meta"):
        spec = TransformerSpec(**SIZES["base"])
    V, d, f = 37000, 512, 2048
    model = build_transformer(spec, n_source_tokens=V, n_target_tokens=V)
    encoder = 4 * d * d + 2 * d * f + f + d + 4 * d
    decoder = 8 * d * d + 2 * d * f + f + d + 6 * d
    assert sum(p.numel() for p in model.parameters()) == V * d + 6 * encoder + 6 * decoder
    assert sum(p.numel() for p in model.parameters()) == 63_045_632


def test_the_big_model_has_as_many_parameters_as_its_formula_says():
    V, d, f = 37000, 1024, 4096
    shapes = shapes_of(TransformerSpec(**SIZES["big"]), n_source_tokens=V, n_target_tokens=V)
    encoder = 4 * d * d + 2 * d * f + f + d + 4 * d
    decoder = 8 * d * d + 2 * d * f + f + d + 6 * d
    assert sum(map(math.prod, shapes.values())) == V * d + 6 * encoder + 6 * decoder
    assert sum(map(math.prod, shapes.values())) == 214_171_648


def test_branches_cost_two_numbers_each_and_save_one_norm_in_every_layer():
    plain, branched = (
        shapes_of(TransformerSpec(layer=layer), n_source_tokens=37000, n_target_tokens=37000)
        for layer in ("plain", "weighted_branches")
    )
    count = {name: sum(map(math.prod, s.values())) for name, s in (("p", plain), ("b", branched))}
    # the paper says 192 for 12 layers of 8 branches; a residual's norm is 2 numbers a channel
    assert count["b"] - count["p"] == 192 - 12 * 2 * 512


@pytest.mark.parametrize("norm", ["pre_norm", "post_norm"])
def test_the_loss_before_training_is_near_log_v(norm):
    spec = replace(SMALL, d_model=64, norm=norm)
    model = build_transformer(spec, n_source_tokens=500, n_target_tokens=500).eval()
    source, target = torch.randint(4, 500, (2, 16, 12))
    logits = model(source, target)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), source.flatten())
    assert abs(float(loss.detach()) - math.log(500)) < 0.7


GROWING = replace(
    SMALL, norm="no_norm", feed_forward="gated", n_encoder_layers=3, n_decoder_layers=3
)
"""Without a norm, gates square what comes in, layer after layer."""


@pytest.mark.parametrize(
    "leaky",
    [SMALL, replace(SMALL, layer="weighted_branches"), GROWING],
    ids=["plain", "faint", "huge"],
)
def test_the_self_check_notices_a_mask_that_hides_nothing(leaky, monkeypatch):
    model = build_transformer(leaky, n_source_tokens=29, n_target_tokens=29)
    check_masks(model, 29)
    monkeypatch.setattr("regard.models.transformer.padding", lambda valid: valid.new_ones(1, 1))
    with pytest.raises(AssertionError, match=r"padding changes states by .* of their size"):
        check_masks(model, 29)


def test_the_self_check_notices_a_future_that_is_seen(monkeypatch):
    monkeypatch.setattr("regard.layers.decoder_layer.CAUSAL", FULL)
    for spec in (SMALL, GROWING):
        with pytest.raises(AssertionError, match="a later token changes earlier states by"):
            build_transformer(spec, n_source_tokens=29, n_target_tokens=29)


@pytest.mark.parametrize("seed", range(5))
def test_a_model_of_huge_numbers_passes_the_self_check_and_stays_as_it_was(seed):
    torch.manual_seed(seed)
    model = build_transformer(GROWING, n_source_tokens=29, n_target_tokens=29)
    assert float(model(_tokens(2, 7), _tokens(2, 5)).detach().abs().max()) > 1e6
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    check_masks(model, 29)
    assert all(weight.dtype == torch.float32 for weight in model.parameters())
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())


def test_a_model_whose_first_numbers_overflow_is_refused_with_a_remedy():
    deep = replace(GROWING, n_encoder_layers=5, n_decoder_layers=5)
    with pytest.raises(SettingError, match="it should give finite numbers, got") as said:
        build_transformer(deep, n_source_tokens=29, n_target_tokens=29)
    assert "Choose norm = 'pre_norm' or 'post_norm' in [model], or fewer layers." in str(said.value)


MISTAKES = {
    "model.dropout must lie in [0, 1), got 1.0": (SettingError, {"dropout": 1.0}),
    "model.n_heads must lie between 1 and 1,024, got 0": (SettingError, {"n_heads": 0}),
    "model.d_model must lie between 1 and 65,536, got 99999": (SettingError, {"d_model": 99999}),
    "n_heads (3) must divide d_model (512)": (DimsError, {"n_heads": 3}),
    "Did you mean 'pre_norm'": (UnknownChoice, {"norm": "prenorm"}),
    "Did you mean 'plain'": (UnknownChoice, {"layer": "plane"}),
    "Did you mean 'all'": (UnknownChoice, {"tied": "alll"}),
    "Did you mean 'additive'": (UnknownChoice, {"score": Choice("aditive")}),
    "Did you mean 'rotary'": (UnknownChoice, {"positions": Choice("rotray")}),
}


@pytest.mark.parametrize(("text", "case"), MISTAKES.items(), ids=MISTAKES)
def test_a_wrong_setting_is_refused_by_its_full_name(text, case):
    kind, settings = case
    with pytest.raises(kind) as said:
        TransformerSpec(**settings)
    assert text in str(said.value)


def test_two_vocabularies_cannot_share_one_table():
    with pytest.raises(SettingError, match="got 10 source and 12 target tokens"):
        build_transformer(SMALL, n_source_tokens=10, n_target_tokens=12)


def test_links_that_cannot_meet_are_refused_when_the_model_is_built():
    spec = replace(SMALL, score=Choice("additive"), positions=Choice("rotary"))
    with pytest.raises(MeetingError, match="rotary and additive cannot meet"):
        build_transformer(spec, n_source_tokens=9, n_target_tokens=9)
