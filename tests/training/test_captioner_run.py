"""Runs of captioners: pictures on disk, bit-equal resuming, frozen encoders, what is left out."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import regard
from regard.choices import Choice
from regard.data import Example
from regard.data.annotation_store import AnnotationStore
from regard.errors import DataError, RecipeError, RunError, SettingError
from regard.hardware.hardware import CPU
from regard.layers.vision import EfficientNetLite0
from regard.recipes import read_recipe
from regard.recipes.data_paths import data_files
from regard.runs.plan import plan
from regard.runs.verification import Check, verify
from regard.tasks import task_of
from regard.training import run
from regard.training.card_json import file_hash
from regard.training.events import Notice, Step, Validated
from regard.training.preparation import prepare
from regard.training.workers import SINGLE_PROCESS
from tests.captioning import RECIPE, draw, trained_captioner

FROZEN = (
    RECIPE.replace('"residual", width = 8, n_stages = 1', '"efficientnet_lite0", grid = "fine"')
    .replace("picture_size = 16", "picture_size = 32")
    .replace("margin = 2", 'framing = "squeeze"')
    .replace('"hard"', '"soft"')
)


def _recipe(folder, text=RECIPE):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.toml").write_text(text)
    return read_recipe(folder / "recipe.toml")


def _sha(path):
    return hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()


def _stopped(recipe, out, step):
    for event in run(recipe, out):
        if isinstance(event, Step) and event.progress.step == step:
            return


@pytest.fixture
def published(monkeypatch):
    """Weights as if somebody had published them; whoever asks is counted."""
    asked = []

    def load(self):
        asked.append(self)
        draws = torch.Generator().manual_seed(5)
        for name, weight in self.named_buffers():
            # means and variances stay what they are, so that no number runs away
            if weight.dim() > 1:
                weight.copy_(0.2 * torch.randn(weight.shape, generator=draws))
            assert name

    monkeypatch.setattr(EfficientNetLite0, "load_published", load)
    return asked


def test_hard_focus_and_shifted_pictures_go_on_to_the_bit(tmp_path):
    recipe = _recipe(tmp_path)
    events = list(run(recipe, tmp_path / "whole"))
    assert [event.step for event in events if isinstance(event, Validated)] == [4, 8]
    _stopped(recipe, tmp_path / "stopped", 6)
    again = list(run(recipe, tmp_path / "stopped", resume=True))
    assert sum(isinstance(event, Step) for event in again) == 4
    assert _sha(tmp_path / "stopped") == _sha(tmp_path / "whole")
    weights = load_file(tmp_path / "whole" / "model.safetensors")
    assert any(name.endswith("baseline") for name in weights)
    checks = [each for each in verify(tmp_path / "whole") if isinstance(each, Check)]
    assert {"loss", "exact match"} <= {each.what for each in checks}
    assert all(each.is_repeated for each in checks)


def test_a_batch_holds_the_pictures_of_its_rows_and_every_epoch_shifts_them(tmp_path):
    prepared = prepare(_recipe(tmp_path), tmp_path, SINGLE_PROCESS)
    corpus = prepared.train.corpus
    assert corpus.source_lengths.tolist() == [1] * 24
    first, second = (
        regard.data.collate(prepared.of_epoch(epoch).corpus, torch.tensor([3, 1]).numpy())
        for epoch in (0, 1)
    )
    assert first.source.dtype == torch.uint8
    assert first.source.shape == (2, 3, 16, 16)
    assert not torch.equal(first.source, second.source)
    plain = regard.data.collate(prepared.of_epoch(0).corpus, torch.tensor([3, 1]).numpy())
    assert torch.equal(first.source, plain.source), "an epoch is a pure function"
    valid = prepared.valid.corpus
    rows = torch.tensor([5, 0]).numpy()
    wanted = valid.sources.read(rows)
    assert torch.equal(regard.data.collate(valid, rows).source, wanted)


def test_a_frozen_encoder_sees_each_picture_once_and_a_finished_run_asks_nobody(
    tmp_path, published
):
    recipe = _recipe(tmp_path, FROZEN)
    said = [event.text for event in run(recipe, tmp_path / "run") if isinstance(event, Notice)]
    assert any(each.startswith("the frozen encoder looks at every picture once") for each in said)
    assert len(published) == 1
    store = AnnotationStore.open(tmp_path / "run" / "annotations" / "train")
    assert store.numbers.shape == (24, 4, 112)
    _stopped(recipe, tmp_path / "stopped", 6)
    assert len(published) == 2
    list(run(recipe, tmp_path / "stopped", resume=True))
    assert len(published) == 2, "a checkpoint brings its own weights"
    assert _sha(tmp_path / "stopped") == _sha(tmp_path / "run")
    weights = load_file(tmp_path / "run" / "model.safetensors")
    kept = load_file(tmp_path / "run" / "checkpoints" / "step-000008" / "model.safetensors")
    assert weights.keys() == kept.keys()
    assert sum(name.startswith("encoder.stem") for name in weights) > 0
    trained = regard.load(tmp_path / "run")
    assert trained.predict(["scene:0-1"])[0].n_best
    assert len(published) == 2
    encoder = trained.loaded.model.encoder
    pictures = prepare(recipe, tmp_path / "run", SINGLE_PROCESS).train.corpus.sources
    wanted = encoder(pictures.read(torch.tensor([7]).numpy()))
    got = store.annotations(torch.tensor([7]).numpy()).float()
    torch.testing.assert_close(got, wanted, rtol=1e-2, atol=1e-3)


def test_a_plan_says_what_it_does_not_know_of_a_frozen_encoder(tmp_path, published):
    *_, found = plan(_recipe(tmp_path, FROZEN), hardware=CPU, out=tmp_path)
    assert any(note.startswith("the frozen encoder looks") for note in found.notes)
    *_, found = plan(_recipe(tmp_path), hardware=CPU, out=tmp_path)
    assert not any(note.startswith("the frozen encoder looks") for note in found.notes)
    assert not published, "nobody's weights are needed to measure"


def test_pictures_that_cannot_be_read_are_left_out_and_named(tmp_path):
    (tmp_path / "photos").mkdir()
    rows = [{"image": f"{n}.png", "captions": [draw(tmp_path / "photos" / f"{n}.png", n), "It ."]}
            for n in range(5)]  # fmt: skip
    (tmp_path / "photos" / "text.jpg").write_text("no picture")
    rows.insert(2, {"image": "text.jpg", "captions": ["a text"]})
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "captions.jsonl").write_text(lines)
    choice = (
        f'{{ name = "caption_lines", path = "{tmp_path}/captions.jsonl", '
        f'pictures = "{tmp_path}/photos", normalise = "captions" }}'
    )
    text = RECIPE
    for split, count in (("train", 24), ("valid", 6), ("test", 4)):
        old = f'{split} = {{ name = "scenes", count = {count} }}'
        text = text.replace(old, f"{split} = {choice}")
    recipe = _recipe(tmp_path, text)
    events = list(run(recipe, tmp_path / "run"))
    said = [event.text for event in events if isinstance(event, Notice)]
    assert "train: 1 picture cannot be read and is left out" in said
    assert any("text.jpg' is no picture that can be read" in each for each in said)
    card = (tmp_path / "run" / "card.md").read_text()
    assert "6 files, SHA-256 of their names and sizes" in card
    assert "0.png" not in card
    corpus = prepare(recipe, tmp_path / "run", SINGLE_PROCESS).train.corpus
    assert corpus.examples.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert regard.load(tmp_path / "run").loaded.target.decode(corpus.target(1).tolist()) == "it"


def test_only_captions_are_brought_to_a_form_never_addresses(tmp_path):
    choice = '{ name = "caption_lines", path = "a.jsonl", pictures = "b", normalise = "captions" }'
    text = RECIPE.replace('{ name = "scenes", count = 24 }', choice)
    text = text.replace('{ name = "scenes", count = 6 }', choice)
    recipe = _recipe(tmp_path, text.replace('test = { name = "scenes", count = 4 }\n', ""))
    found = task_of(recipe).as_trained(recipe, [Example("My Photos/Dog.JPG", ("A Dog .",))])
    assert found == [Example("My Photos/Dog.JPG", ("a dog",))]


MISTAKES = {
    ('kind = "captioner"\n', ""): "model.picture_size: There is no 'picture_size' here",
    ('valid = { name = "scenes", count = 6 }', 'valid = { name = "copy", count = 6 }'): (
        ":3: data.valid: 'copy' gives texts, but a model of kind 'captioner' reads pictures"
    ),
    ("size = 40", "size = 40\nis_joint = false"): ":9: tokens.is_joint: means nothing",
    ("margin = 2", "margin = -1"): ":11: pictures.margin must be at least 0, got -1",
    ("margin = 2", 'framing = "crops"'): "Did you mean 'crop'?",
    ('"residual", width = 8, n_stages = 1', '"efficientnet_lite0"'): (
        ":11: pictures.margin: would do nothing: the encoder 'efficientnet_lite0' is frozen"
    ),
}


@pytest.mark.parametrize(("change", "text"), MISTAKES.items(), ids=MISTAKES.values())
def test_a_mistake_about_pictures_says_where_and_what_to_do(change, text, tmp_path):
    with pytest.raises(RecipeError) as said:
        _recipe(tmp_path, RECIPE.replace(*change))
    assert text in str(said.value)


def test_a_text_model_takes_no_pictures(tmp_path):
    head, _, rest = RECIPE.partition("[model]")
    text = f"{head}[model]\nd_model = 16\n[training]{rest.partition('[training]')[2]}"
    with pytest.raises(RecipeError) as said:
        _recipe(tmp_path, text)
    assert "'scenes' gives pictures, but a model of kind 'transformer' reads texts" in str(
        said.value
    )
    assert "pictures: a model of kind 'transformer' looks at none" in str(said.value)


def test_a_run_goes_on_with_the_pictures_it_was_begun_with(tmp_path):
    _stopped(_recipe(tmp_path), tmp_path / "run", 2)
    other = _recipe(tmp_path, RECIPE.replace("margin = 2", "margin = 1"))
    with pytest.raises(RunError, match=r"with another pictures\.margin: 2, not 1"):
        list(run(other, tmp_path / "run", resume=True))


def test_a_run_without_one_good_picture_is_refused(tmp_path):
    (tmp_path / "a.jpg").write_text("no picture")
    (tmp_path / "captions.jsonl").write_text('{"image": "a.jpg", "captions": ["x"]}\n')
    files = f'path = "{tmp_path}/captions.jsonl", pictures = "{tmp_path}"'
    choice = f'{{ name = "caption_lines", {files} }}'
    text = RECIPE.replace('{ name = "scenes", count = 24 }', choice)
    with pytest.raises(DataError, match=r"none of 1 pictures .*a\.jpg' is no picture"):
        list(run(_recipe(tmp_path, text), tmp_path / "run"))


def test_what_needs_the_words_of_a_source_is_refused(tmp_path):
    trained = regard.load(trained_captioner(tmp_path))
    with pytest.raises(SettingError, match="look: this run looks at pictures"):
        trained.look("scene:0-1")
    with pytest.raises(SettingError, match="unknown words: this run looks at pictures"):
        trained.predict(["scene:0-1"], dictionary={})


def test_a_card_knows_a_folder_of_pictures_by_names_and_sizes(tmp_path):
    photos = tmp_path / "photos"
    (photos / "deep").mkdir(parents=True)
    (photos / "deep" / "a.jpg").write_bytes(b"123")
    mark = file_hash(photos)
    (photos / "deep" / "a.jpg").write_bytes(b"456")
    assert file_hash(photos) == mark
    (photos / "deep" / "a.jpg").write_bytes(b"4567")
    assert file_hash(photos) not in (mark, None)
    settings = {"path": "a.json", "pictures": str(photos)}
    named = [name for name, _ in data_files(Choice("karpathy", settings), tmp_path)]
    assert named == [Path("a.json"), photos]


def test_a_look_shows_every_word_of_the_caption_over_the_original(tmp_path):
    trained = regard.load(trained_captioner(tmp_path))
    draw(tmp_path / "wide.png", 4, size=48)
    record = trained.look_at_picture(str(tmp_path / "wide.png"))
    assert record.caption == trained.predict([str(tmp_path / "wide.png")])[0].text
    assert (record.picture.width, record.framing.size) == (48, 16)
    given = trained.look_at_picture("scene:3-4", "a small red circle")
    assert given.words == ("a", "small", "red", "circle")
    assert given.maps().shape[0] == 4
    with pytest.raises(DataError, match="there is no file"):
        trained.look_at_picture("nowhere.png")
