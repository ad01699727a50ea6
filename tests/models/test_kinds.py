"""What every kind of model owes, over the whole table: loss, gradients, padding, shapes."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy, pad

from regard.attention import FULL
from regard.choices import Choice
from regard.errors import SettingError
from regard.layers.feed_forward import ACTIVATIONS
from regard.layers.weighted_branches import project_all
from regard.models import (
    AttentionSpec,
    EncoderSpec,
    LanguageSpec,
    Trainable,
    TransformerSpec,
    build_model,
    shapes_of,
)
from regard.models.mask_checks import check_future, check_hidden, check_padding
from regard.models.parts import LAYER_KINDS
from regard.models.spec import LAYERS
from regard.models.stepper import PAD
from tests.assertions import assert_close

V = 29
SMALL = TransformerSpec(
    d_model=16, n_heads=2, d_hidden=24, n_encoder_layers=2, n_decoder_layers=2, max_len=32
)
SPECS = {
    "pre_norm, learned": replace(SMALL, norm="pre_norm", positions=Choice("learned")),
    "gated, rotary, top_k": replace(
        SMALL,
        feed_forward="gated",
        positions=Choice("rotary"),
        select=Choice("top_k", {"count": 3}),
    ),
    "additive, no positions": replace(
        SMALL, score=Choice("additive", {"d_hidden": 5}), positions=Choice("none")
    ),
    "shaw": replace(SMALL, relation=Choice("shaw", {"clip": 3})),
    "general, bucketed, sparsemax": replace(
        SMALL, score=Choice("general"), relation=Choice("bucketed"), select=Choice("sparsemax")
    ),
    "chains of their own, shared": replace(
        SMALL,
        relation=Choice("bucketed"),
        shares_relation=True,
        n_groups=1,
        encoder=AttentionSpec(attends=(Choice("blocks", {"size": 3}),)),
        decoder=AttentionSpec(n_heads=4, attends=(Choice("sliding_window", {"size": 3}),)),
        cross=AttentionSpec(score=Choice("additive"), attends=(Choice("memory_compressed"),)),
    ),
    "branches, linear_bias": replace(
        SMALL, layer="weighted_branches", feed_forward="gelu", relation=Choice("linear_bias")
    ),
    "branches, pre_norm, local": replace(
        SMALL,
        layer="weighted_branches",
        norm="pre_norm",
        select=Choice("local_monotonic", {"half_width": 2}),
    ),
}


def encoder(task):
    """What turns a Transformer's spec into that of an encoder with the choices that it shares."""

    def spec_of(spec):
        activation = spec.feed_forward if spec.feed_forward in ACTIVATIONS else "swish"
        return EncoderSpec(
            task=task, d_model=spec.d_model, n_heads=spec.n_heads, d_hidden=spec.d_hidden,
            n_layers=spec.n_encoder_layers, dropout=spec.dropout, norm=spec.norm,
            feed_forward=activation, positions=spec.positions, relation=spec.relation,
            max_len=spec.max_len, has_bias=False,
        )  # fmt: skip

    return spec_of


KINDS = {
    "transformer": lambda spec: spec,
    "language_model": LanguageSpec.like,
    "words": encoder("words"),
    "label": encoder("label"),
    "tags": encoder("tags"),
}
STACKS = [(kind, layer) for kind in ("transformer", "language_model") for layer in LAYERS]
ALL_LAYERS = [*STACKS, *((kind, "plain") for kind in ("words", "label", "tags"))]


def build(kind, spec=SMALL, n=V):
    return build_model(KINDS[kind](spec), n_source_tokens=n, n_target_tokens=n)


def batch(rows=3, width=7, n=V):
    return torch.randint(4, n, (2, rows, width))


def loss(model, source, target):
    inputs = model.loss_inputs(source, target)
    hidden, gold = inputs
    logits = model.output(hidden).flatten(0, 1)
    # padding, whose row may be missing, has no loss
    return cross_entropy(logits, (gold - inputs.first).flatten(), ignore_index=PAD - inputs.first)


def states(kind, model, tokens):
    """What a model makes of one text, whatever else it reads."""
    return model.read(tokens) if kind == "language_model" else model.hidden(tokens, tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_taught(kind):
    model = build(kind)
    assert isinstance(model, Trainable)
    assert model.output.bias is None
    source, target = batch()
    inputs = model.loss_inputs(source, target)
    hidden, gold = inputs
    assert hidden.shape[:2] == gold.shape
    assert gold.max() - inputs.first < model.output.out_features


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("kind", KINDS)
def test_padding_never_leaks(kind, spec):
    model, (text, _) = build(kind, spec).double().eval(), batch()
    text[1, 4:] = PAD
    here, there = states(kind, model, text), states(kind, model, pad(text, (0, 4), value=PAD))
    for row, length in enumerate((7, 4, 7)):
        assert_close("states", there[row, :length], here[row, :length])


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_learns(kind, spec):
    model = build(kind, spec)
    loss(model, *batch(rows=8, width=9)).backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


@pytest.mark.parametrize("norm", ["pre_norm", "post_norm"])
@pytest.mark.parametrize(("kind", "layer"), ALL_LAYERS)
def test_the_loss_begins_near_log_v(kind, norm, layer):
    spec = replace(SMALL, d_model=64, n_heads=4, d_hidden=128, norm=norm, layer=layer)
    model, n = build(kind, spec, 2000).eval(), 2000
    with torch.no_grad():
        began = float(loss(model, *batch(rows=48, width=20, n=n)))
    assert began == pytest.approx(math.log(n), rel=0.1)


@pytest.mark.parametrize("labels", [6, 7])
@pytest.mark.parametrize("kind", ["label", "tags"])
def test_the_loss_begins_near_log_v_for_a_handful_of_labels(kind, labels):
    model = build_model(KINDS[kind](SMALL), n_source_tokens=V, n_target_tokens=labels).eval()
    with torch.no_grad():
        began = float(loss(model, batch(32, 5)[0], batch(32, 5, labels)[1]))
    assert began == pytest.approx(math.log(model.output.out_features), rel=0.05)


@pytest.mark.parametrize(("kind", "layer"), ALL_LAYERS)
def test_every_kind_learns_a_small_batch(kind, layer):
    model = build(kind, replace(SMALL, norm="pre_norm", dropout=0.0, layer=layer))
    source, target = batch(rows=4, width=5)
    if kind == "label":
        # BERT's first embeddings are faint: a label, read off one state, would take long to learn
        with torch.no_grad():
            model.encoder.embedding.E.weight.mul_(10)
            model.output.weight.mul_(10)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    # evaluation, so that the same words are hidden every time
    model.eval()
    before = float(loss(model, source, target).detach())
    for _ in range(25):
        optimiser.zero_grad()
        loss(model, source, target).backward()
        optimiser.step()
        project_all(model)
    assert float(loss(model, source, target).detach()) < 0.3 * before


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_are_those_of_the_model_without_a_number_made(kind):
    spec = SPECS["branches, linear_bias"]
    wanted = {name: tuple(p.shape) for name, p in build(kind, spec).named_parameters()}
    assert shapes_of(KINDS[kind](spec), n_source_tokens=V, n_target_tokens=V) == wanted


@pytest.mark.parametrize("kind", KINDS)
def test_building_a_model_leaves_it_in_training(kind):
    assert all(part.training for part in build(kind).modules())


def test_the_self_check_of_a_language_model_notices_a_future_that_is_seen(monkeypatch):
    model = build("language_model")
    check_future(model, model.read, V)
    check_padding(model, model.read, V)
    monkeypatch.setattr("regard.models.language_model.CAUSAL", FULL)
    with pytest.raises(AssertionError, match="a later token changes earlier states by"):
        build("language_model")


def test_the_self_check_of_a_language_model_notices_padding_that_is_read():
    model = build("language_model")
    with pytest.raises(AssertionError, match="padding changes states by"):
        check_padding(model, lambda tokens: model.read(tokens.flip(1)).flip(1), V)


def test_the_self_check_tells_rounding_from_a_leak():
    model = torch.nn.Linear(1, 1)

    def read():
        one = model.weight.new_ones(1, 1, 1)
        return one, one + 1e8 - 1e8

    assert read()[0] != read()[1], "in single precision the one is lost"
    check_hidden(model, read, leak="rounding changes states")
    assert model.weight.dtype == torch.float32
    with pytest.raises(AssertionError, match=r"a leak changes states by 2\.0e-03 of their size"):
        check_hidden(model, lambda: (read()[0], 0.998 * read()[0]), leak="a leak changes states")


def test_the_self_check_counts_the_numbers_that_are_lost():
    lost = torch.tensor([[[1.0, math.inf, math.nan]]])
    with pytest.raises(SettingError, match="got 2 of 3 that are infinite or not a number"):
        check_hidden(torch.nn.Linear(1, 1), lambda: (lost, lost), leak="nothing")


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_the_self_check_of_states_knows_no_size(size):
    model = build("language_model")
    check_future(model, lambda tokens: size * model.read(tokens), V)
    check_padding(model, lambda tokens: size * model.read(tokens), V)
    with pytest.raises(AssertionError, match="padding changes states by"):
        check_padding(model, lambda tokens: size * model.read(tokens.flip(1)).flip(1), V)
    with pytest.raises(AssertionError, match="a later token changes earlier states by"):
        check_future(model, lambda tokens: size * model.read(tokens.flip(1)).flip(1), V)


def test_both_tables_of_layers_name_the_same_kinds():
    assert set(LAYER_KINDS) == set(LAYERS)


def test_a_feed_forward_that_branches_cannot_hold_is_refused():
    said = (
        r"model.layer = 'weighted_branches' cannot hold a feed-forward 'gated': take relu or gelu"
    )
    with pytest.raises(SettingError, match=said):
        TransformerSpec(layer="weighted_branches", feed_forward="gated")
