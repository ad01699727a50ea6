"""Choices are tried before anything is read: what is wrong is told with its key."""

import pytest
import torch

from regard.attention import RELATIONS, SCORES, SELECTIONS
from regard.choices import Choice
from regard.layers.vision import ENCODERS
from regard.models import (
    KINDS,
    BartSpec,
    CaptionerSpec,
    ConvolutionalSpec,
    EncoderSpec,
    Gpt2Spec,
    LanguageSpec,
    LlamaSpec,
    MarianSpec,
    RecurrentSpec,
    T5Spec,
    TransformerSpec,
)
from regard.models.convolutional.network import ADDED_POSITIONS
from regard.models.encoders.spec import READING_PATTERNS
from regard.models.published.bart import BART_POSITIONS
from regard.models.self_attention import ATTENDING
from regard.models.spec_choices import frozen_encoder, wrong_choices
from regard.positions import POSITIONS

TABLES = {
    TransformerSpec: {
        "score": SCORES, "select": SELECTIONS, "relation": RELATIONS, "encoder_attends": ATTENDING,
        "positions": {**POSITIONS, "none": None},
    },
    LanguageSpec: {
        "score": SCORES, "select": SELECTIONS, "relation": RELATIONS,
        "attends": [name for name, part in ATTENDING.items() if not part.cannot_write],
        "positions": {**POSITIONS, "none": None},
    },
    RecurrentSpec: {"score": SCORES, "select": SELECTIONS},
    ConvolutionalSpec: {"score": SCORES, "select": SELECTIONS, "positions": ADDED_POSITIONS},
    CaptionerSpec: {"encoder": ENCODERS},
    BartSpec: {"positions": BART_POSITIONS},
    LlamaSpec: {"positions": ["rotary"]},
}  # fmt: skip
"""The choices of each kind, and what they may name."""
CASES = [
    (spec, key, name)
    for spec, tables in TABLES.items()
    for key, table in tables.items()
    for name in sorted(table)
]


def _chosen(spec, key, choice):
    return spec(**{key: (choice,) if key.endswith("attends") else choice})


@pytest.mark.parametrize(("spec", "key", "name"), CASES, ids=str)
def test_a_setting_that_nobody_has_is_told_with_the_key_of_its_choice(spec, key, name):
    found = dict(wrong_choices(_chosen(spec, key, Choice(name, {"nobody_s": 3}))))
    assert found[f"model.{key}"].startswith(f"'{name}' has no setting 'nobody_s'; it takes ")


@pytest.mark.parametrize(("spec", "key", "name"), CASES, ids=str)
def test_a_choice_without_settings_can_be_made(spec, key, name):
    assert f"model.{key}" not in dict(wrong_choices(_chosen(spec, key, Choice(name))))


def test_every_kind_with_choices_is_known():
    without = (MarianSpec(), T5Spec(), Gpt2Spec())
    assert {spec.kind for spec in (*TABLES, EncoderSpec, *without)} == set(KINDS)
    assert [list(wrong_choices(spec)) for spec in without] == [[], [], []]


VALUES = {
    ("select", "local_predictive", "half_width"): "local_predictive: half_width must be at least 1",
    ("select", "top_k", "count"): "top_k: count must be at least 1, got 0.",
    ("score", "additive", "d_hidden"): "additive: d_hidden must be at least 1, got 0.",
    ("encoder_attends", "blocks", "size"): "blocks: size must be at least 1, got 0.",
    ("encoder_attends", "linformer", "slots"): "linformer: slots must be at least 1, got 0.",
    ("relation", "bucketed", "n_buckets"): "bucketed: 0 buckets cannot reach distance",
}


@pytest.mark.parametrize(("given", "said"), VALUES.items(), ids=str)
def test_a_value_that_a_part_refuses_is_told_with_the_key_of_its_choice(given, said):
    key, name, setting = given
    ((where, what),) = wrong_choices(_chosen(TransformerSpec, key, Choice(name, {setting: 0})))
    assert (where, what[: len(said)]) == (f"model.{key}", said)


def test_an_encoder_tries_positions_relation_and_pattern():
    sizes = {"d_model": 12, "n_heads": 2, "task": "tags"}
    wrong = Choice("structural", {"clip": -1})
    assert dict(wrong_choices(EncoderSpec(**sizes, relation=wrong))) == {
        "model.relation": "structural: clip must be at least 0, got -1."
    }
    for name in READING_PATTERNS:
        pattern = Choice(name, {"nobody_s": 1})
        assert list(dict(wrong_choices(EncoderSpec(**sizes, pattern=pattern)))) == ["model.pattern"]
    narrow = EncoderSpec(d_model=15, n_heads=3, positions=Choice("sinusoidal"))
    assert list(dict(wrong_choices(narrow))) == ["model.positions"]


def test_links_that_cannot_meet_are_told_too():
    additive = TransformerSpec(score=Choice("additive"), positions=Choice("rotary"))
    ((where, what),) = wrong_choices(additive)
    assert (where, what.split(":")[1]) == ("model", " rotary and additive cannot meet")
    ways = (Choice("full"), Choice("memory_compressed"))
    ((where, what),) = wrong_choices(LanguageSpec(attends=ways, relation=Choice("linear_bias")))
    assert "linear_bias and memory_compressed cannot meet" in what


def test_trying_takes_no_room_and_no_chance():
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    sizes = {"d_model": 1 << 16, "n_heads": 2, "max_len": 1 << 24}
    links = {"score": Choice("location"), "select": Choice("local_predictive")}
    assert list(wrong_choices(TransformerSpec(**sizes, **links, positions=Choice("learned")))) == []
    slots = (Choice("linformer", {"slots": 1 << 12}),)
    assert list(wrong_choices(TransformerSpec(**sizes, encoder_attends=slots))) == []
    assert torch.equal(torch.rand(1), expected)


def test_an_encoder_of_pictures_that_stays_as_published_is_known_without_its_weights():
    frozen = Choice("efficientnet_lite0", {"is_frozen": True})
    assert frozen_encoder(CaptionerSpec(encoder=frozen)) == frozen.name
    assert frozen_encoder(CaptionerSpec()) is None
    assert frozen_encoder(RecurrentSpec()) is None
