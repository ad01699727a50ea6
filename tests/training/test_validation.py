"""Validating: what is decoded, and how long that will take."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.data.batches import collate
from regard.decoding.rules import ForcedPrefix
from regard.errors import CheckpointError, SettingError
from regard.hardware.hardware import Hardware
from regard.models import build_model
from regard.recipes import read_recipe
from regard.recipes.training_recipe import TrainingRecipe
from regard.runs.verification import Check, verify
from regard.tasks import task_of
from regard.training import run
from regard.training import validation as validating
from regard.training.checkpoints import checkpoints
from regard.training.events import Notice, Validated
from regard.training.preparation import prepare
from regard.training.validation import (
    ValidationTime,
    batch_places,
    chosen_examples,
    decodes_at_validation,
    excess_note,
    validation_cost,
)
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


@pytest.mark.parametrize(
    ("name", "expected", "has_bleu"),
    [
        ("multi30k-luong", ["bleu"], True),
        ("flickr8k-soft", ["bleu"], True),
        ("tagging", ["accuracy"], False),
        ("tagging-luong", ["accuracy"], False),
        ("scitldr", ["rouge"], False),
        ("wikitext2-lm", [], False),
        ("wikitext2-mlm", [], False),
        ("copy", [], False),
        ("scenes-soft", [], False),
    ],
)
def test_a_validation_scores_what_suits_the_task(name, expected, has_bleu):
    recipe = read_recipe(RECIPES[0].parent / f"{name}.toml")
    assert list(task_of(recipe).validation_scores(recipe)) == expected
    assert validating._asks_for_bleu(recipe) == has_bleu
    training = replace(recipe.training, validate_bleu=False, stop_on="loss")
    never = replace(recipe, training=training)
    assert not validating._asks_for_bleu(never)


def test_labels_are_validated_by_their_accuracy_and_documents_by_rouge():
    texts, references = ["DET NOUN", "VERB"], [["DET VERB"], ["VERB PUNCT"]]
    assert validating.SCORES["accuracy"](texts, references) == ("accuracy", 0.5)
    name, value = validating.SCORES["rouge"](["the cat sat"], [["the cat sat down"]])
    assert (name, round(value, 1)) == ("rouge_l", 85.7)


def test_the_scores_of_answers_are_printed_and_written():
    found = Validated(
        step=3, loss=0.5, exact_match=0.25, is_best=True, decoded_examples=4,
        scores={"accuracy": 0.75}, bleu=12.345, signature="s",
    )  # fmt: skip
    assert found.matched() == ", exact match 0.2500, accuracy 0.7500, BLEU 12.35"
    row = found.record()
    assert (row["accuracy"], row["decoded_examples"], row["bleu"]) == (0.75, 4, 12.345)
    silent = Validated(step=3, loss=0.5, exact_match=None, is_best=True)
    assert silent.matched() == ""


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
    monkeypatch.setattr(validating, "MAX_TIMED_BATCH_S", 1e9)
    found = validation_cost(_model(prepared), prepared, Hardware())
    assert found.seconds(600) == pytest.approx(float(lengths.sum()) + 10.0 * 600)
    assert 0 < read[0] < 100 and read[1:] == [4, 28, 218]
    read.clear()
    monkeypatch.setattr(validating, "MAX_TIMED_BATCH_S", 100.0)
    found = validation_cost(_model(prepared), prepared, Hardware())
    assert found.seconds(600) == pytest.approx(float(lengths.sum()) + 10.0 * 600)
    assert read[1:] == [4, 28]


@pytest.mark.parametrize(
    ("seconds", "expected", "sizes"),
    [
        # a batch takes 1 s for its steps, and 10 ms an example: 1.04, 1.28 and 3.18 s
        (0.05, 1, [4]),
        (1.32, 5, [4]),
        (5.0, 100, [4, 28]),
        (5.5, 200, [4, 28, 218]),
        (8.0, 500, [4, 28, 218]),
        (20.0, 700, [4, 28, 218]),
    ],
)
def test_as_many_examples_are_chosen_as_the_time_pays_for(seconds, expected, sizes):
    timed = []

    def batch(begin, end):
        timed.append(end - begin)
        return 1.0 + 0.01 * (end - begin)

    assert chosen_examples(batch, 700, seconds) == expected
    assert timed == sizes


def test_fewer_examples_than_the_time_pays_for_are_all_decoded():
    assert chosen_examples(lambda begin, end: 0.001, 7, 1.0) == 7
    assert chosen_examples(lambda begin, end: 1.0, 7, 0.01) == 1
    assert batch_places(3) == [(0, 3)]


def test_the_time_of_a_validation_is_a_share_of_all_the_time():
    training = TrainingRecipe(steps=1000, validate_every=300, validation_share=0.2)
    time = ValidationTime(training)
    time.add(50.0)
    assert time.per_update == 50.0
    for seconds in (0.9, 1.1):
        time.add(seconds)
    assert time.per_update == pytest.approx(1.0)
    # 1000 s of updates and 250 s of validations, of which there are four
    assert time.seconds == pytest.approx(250 / 4)


@pytest.mark.parametrize(
    ("each", "count", "expected"),
    [
        (2.0, 200, None),
        (0.9, 200, None),
        (
            30.0, 200,
            "validations take about 23 % of the time, more than training.validation_share = 0.1: "
            "raise training.validate_every = 10, or lower training.validate_examples = 200",
        ),
        (
            30.0, None,
            "validations take about 23 % of the time, more than training.validation_share = 0.1: "
            "raise training.validate_every = 10",
        ),
    ],
)  # fmt: skip
def test_validations_that_take_more_than_their_share_are_told(each, count, expected):
    training = TrainingRecipe(steps=100, validate_every=10, validate_examples=count)
    assert excess_note(training, 10.0, each) == expected


def test_short_validations_are_not_worth_a_word():
    training = TrainingRecipe(steps=100, validate_every=10)
    assert excess_note(training, 0.001, 0.9) is None


@pytest.fixture
def chosen(recipe, monkeypatch):
    """A recipe that leaves the choice to the training, for which the time pays for five."""
    text = recipe.read_text().replace("validate_examples = 10\n", "")
    recipe.write_text(text)
    made = []

    def choose(timed, n_there, seconds):
        made.append((n_there, seconds))
        return 5

    monkeypatch.setattr(validating, "chosen_examples", choose)
    return SimpleNamespace(recipe=read_recipe(recipe), made=made)


def _decoded(events):
    return [event.decoded_examples for event in events if isinstance(event, Validated)]


def test_the_first_validation_chooses_how_many_examples_all_decode(chosen, tmp_path):
    events = list(run(chosen.recipe, tmp_path / "run"))
    assert _decoded(events) == [5, 5, 5]
    ((n_there, seconds),) = chosen.made
    assert n_there == 20 and 0 < seconds < 10
    held = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert held["decoded_examples"] == "5"
    said = [event.text for event in events if isinstance(event, Notice)]
    assert (
        "each validation decodes 5 examples, for which training.validation_share = 0.1 of the time "
        "pays here; training.validate_examples = 5 decodes as many anywhere" in said
    )
    rows = map(json.loads, (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    assert [row["decoded_examples"] for row in rows if "valid_loss" in row] == [5, 5, 5]
    assert "greedy decoding of 5 validation examples" in (tmp_path / "run/card.md").read_text()
    checks = [one for one in verify(tmp_path / "run") if isinstance(one, Check)]
    assert all(check.is_repeated for check in checks)
    assert len(chosen.made) == 1


def test_a_resumed_run_decodes_as_many_examples_even_of_an_older_checkpoint(chosen, tmp_path):
    begun = run(chosen.recipe, tmp_path / "run")
    # the checkpoint of this update is not written yet
    while not isinstance(event := next(begun), Notice) or "decodes" not in event.text:
        pass
    begun.close()
    assert [path.name for path in checkpoints(tmp_path / "run" / "checkpoints")] == ["step-000004"]
    assert _decoded(run(chosen.recipe, tmp_path / "run", resume=True)) == [5, 5, 5]
    assert len(chosen.made) == 1


def test_a_damaged_count_is_refused(chosen, tmp_path):
    list(run(chosen.recipe, tmp_path / "run"))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    (tmp_path / "run" / "model.safetensors").unlink()
    (tmp_path / "run" / "environment.json").write_text('{"decoded_examples": "-3"}')
    with pytest.raises(CheckpointError, match=r"must hold a count as 'environment.decoded_ex"):
        list(run(chosen.recipe, tmp_path / "run", resume=True))


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5])
def test_a_share_is_between_nothing_and_everything(share):
    with pytest.raises(SettingError, match=r"training.validation_share must lie between 0 and 1"):
        TrainingRecipe(steps=1, validation_share=share)
