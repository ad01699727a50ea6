"""Validating: what is decoded, and how long that will take."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.data.batches import collate
from regard.decoding.rules import ForcedPrefix
from regard.hardware.hardware import Hardware
from regard.models import build_model
from regard.recipes import read_recipe
from regard.training import run
from regard.training import validation as validating
from regard.training.events import Validated
from regard.training.preparation import prepare
from regard.training.validation import decodes_at_validation, seconds_per_validation
from regard.training.workers import SINGLE_PROCESS

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
STACK = "d_model = 8\nn_heads = 2\nd_hidden = 8\nn_layers = 1"
WRITERS = {
    "running": f'kind = "language_model"\nrows = "running"\n{STACK}',
    "continued": f'kind = "language_model"\nrows = "continued"\n{STACK}',
    "gpt2": f'kind = "gpt2"\n{STACK}',
}
TEXT = """\
[data]
train = {{ name = "running_text", path = "{path}", words = 8{more} }}
valid = {{ name = "running_text", path = "{path}", words = 8{more} }}

[tokens]
kind = "words"
size = 40

[model]
{model}
max_len = 30

[training]
steps = 2
warmup_steps = 1
validate_every = 1
"""


def _validations(tmp_path, model, *changes, more=""):
    (tmp_path / "a.txt").write_text("the cat saw the dog and the dog ran\n" * 8)
    text = TEXT.format(path=tmp_path / "a.txt", model=model, more=more)
    (tmp_path / "recipe.toml").write_text(text)
    events = run(read_recipe(tmp_path / "recipe.toml", changes), tmp_path / "run")
    return [event for event in events if isinstance(event, Validated)]


@pytest.mark.parametrize("more", ["", ", context = 4"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_running_text_is_validated_by_its_loss_alone(name, more, tmp_path, monkeypatch):
    monkeypatch.setattr(validating, "greedy", lambda *_, **__: pytest.fail("it was decoded"))
    first, second = _validations(tmp_path, WRITERS[name], more=more)
    assert (first.step, second.step) == (1, 2)
    assert first.exact_match is None and first.bleu is None
    assert second.loss > second.per_character > 0
    assert "greedy decoding" not in (tmp_path / "run" / "card.md").read_text()


def test_it_is_decoded_where_the_recipe_asks_for_bleu(tmp_path):
    asked = _validations(tmp_path, WRITERS["running"], "training.validate_bleu=true")
    assert all(found.bleu is not None and found.exact_match is not None for found in asked)
    assert "greedy decoding" in (tmp_path / "run" / "card.md").read_text()


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_every_recipe_but_those_of_running_text_is_decoded(path):
    assert decodes_at_validation(read_recipe(path)) != path.stem.startswith("wikitext2")


@pytest.fixture
def prepared(recipe, tmp_path):
    changes = ["data.valid.count=700", "training.validate_examples=600"]
    return prepare(read_recipe(recipe, changes), tmp_path, SINGLE_PROCESS)


def _model(prepared):
    return build_model(
        prepared.recipe.model,
        n_source_tokens=len(prepared.source),
        n_target_tokens=len(prepared.target),
    )


def test_the_answers_that_are_timed_are_the_references(prepared):
    torch.manual_seed(1)
    batch = collate(prepared.valid.corpus, np.arange(30))
    said = validating._answers(
        _model(prepared), prepared, Hardware(), batch, [ForcedPrefix(batch.target)]
    )
    assert said == [prepared.target.decode(row.tolist()) for row in batch.target]


def test_a_part_of_a_large_validation_stands_for_all_of_it(prepared, monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(validating.time, "perf_counter", lambda: clock.now)
    lengths, read = prepared.valid.corpus.target_lengths, []

    def summed_loss(model, corpus, *, target_tokens, hardware, rows):
        read.append(len(rows))
        clock.now += float(lengths[rows].sum())
        return 1.0, 1

    def answers(model, prepared, hardware, batch, rules):
        read.append(len(batch.rows))
        clock.now += 10.0 * len(batch.rows)
        return []

    monkeypatch.setattr(validating, "summed_loss", summed_loss)
    monkeypatch.setattr(validating, "_answers", answers)
    found = seconds_per_validation(_model(prepared), prepared, Hardware())
    assert found == pytest.approx(float(lengths.sum()) + 10.0 * 600)
    assert 0 < read[0] < 100 and read[1] == validating.AT_ONCE
