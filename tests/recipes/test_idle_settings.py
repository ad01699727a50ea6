"""Settings that change nothing are said, by the training and by the plan, with what to do."""

import json
import shutil

import pytest

from regard.cli import main
from regard.recipes import read_recipe
from regard.recipes.data_paths import Start, write_start
from regard.recipes.idle_settings import idle_settings
from regard.training import run
from regard.training.events import Notice
from tests.small_recipe import RECIPE

SETTINGS = {
    "training.target_tokens_per_update=60": (
        "training.target_tokens_per_update = 60 changes nothing: an update learns from whole "
        "batches, one at least, and a batch holds up to training.target_tokens_per_batch = 100. "
        "Set target_tokens_per_batch = 60, or leave the other out."
    ),
    "training.warmup_steps=25": (
        "training.warmup_steps = 25 is longer than the training (training.steps = 24): the "
        "learning rate only rises, and never reaches its peak. Lower warmup_steps, to a tenth of "
        "the steps for instance, or train longer."
    ),
}
SPOILED = {
    ("training.validate_every=25", "training.checkpoint_every=30"): (
        "training.validate_every = 25 and training.checkpoint_every = 30: more than the training "
        "has updates (training.steps = 24), so that the model is validated and has a checkpoint at "
        "the end alone. Take a tenth of the steps for instance."
    ),
    ("training.checkpoint_every=25",): (
        "training.checkpoint_every = 25: more than the training has updates (training.steps = 24), "
        "so that the model has a checkpoint at the end alone. Take a tenth of the steps for "
        "instance."
    ),
    ("training.patience=3",): (
        "training.patience = 3 never ends this training early: it has 3 validations. Lower "
        "patience or validate_every, or leave it out."
    ),
    ("training.average_last=7",): (
        "training.average_last = 7: the training makes 6 checkpoints, and the final weights are "
        "the mean of no more. Lower checkpoint_every or average_last."
    ),
    ("training.learning_rate=0",): (
        "training.learning_rate = 0: no weight will change. Give one, such as 0.001."
    ),
    ("training.learning_rate=10",): (
        "training.learning_rate = 10 is very high: Adam moves every weight by about so much in an "
        "update. Usual are 0.0001 to 0.003."
    ),
    ("model.dropout=0.6",): (
        "model.dropout = 0.6 leaves out 60 % of what every layer gives: little is learned. Usual "
        "are 0 to 0.3."
    ),
    ("model.dropout=0", "training.r_drop=5"): (
        "training.r_drop = 5 changes nothing without dropout: both passes are the same, and take "
        "twice the time. Set model.dropout, or r_drop = 0."
    ),
}
USUAL = [
    "training.patience=2",
    "training.average_last=6",
    "training.validate_every=24",
    "training.learning_rate=0.09",
    "model.dropout=0.5",
    "training.r_drop=5",
]
SAME = (
    "data.valid reads what data.train reads: the validations say how well the training examples "
    "are remembered, and nothing of others. Give data.valid files of its own."
)


@pytest.mark.parametrize(("change", "said"), SETTINGS.items())
def test_a_setting_that_changes_nothing_is_said_before_the_first_update(
    change, said, recipe, tmp_path
):
    assert list(idle_settings(read_recipe(recipe))) == []
    assert next(run(read_recipe(recipe, [change]), tmp_path / "run")) == Notice(said)


@pytest.mark.parametrize(
    ("changes", "said"), SPOILED.items(), ids=[" ".join(each) for each in SPOILED]
)
def test_a_setting_that_spoils_a_training_is_told(changes, said, recipe):
    assert list(idle_settings(read_recipe(recipe, changes))) == [said]


@pytest.mark.parametrize("change", USUAL)
def test_a_setting_at_its_limit_is_not(change, recipe):
    assert list(idle_settings(read_recipe(recipe, [change]))) == []


def test_the_rate_of_noam_is_a_factor(recipe):
    changes = ["training.schedule=noam", "training.learning_rate=2"]
    assert list(idle_settings(read_recipe(recipe, changes))) == []


@pytest.mark.parametrize("as_json", [False, True])
def test_the_training_says_it_to_people_and_beside_the_lines_for_programs(
    as_json, recipe, tmp_path, capsys
):
    words = ["--set", "training.steps=1", "--set", "training.target_tokens_per_update=60"]
    words += ["--json"] if as_json else []
    assert main(["train", str(recipe), "--out", str(tmp_path / "run"), *words]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "training.target_tokens_per_update = 60 changes nothing" in said
    assert "training.warmup_steps = 5 is longer than the training (training.steps = 1)" in said


def test_a_plan_says_it_as_notes(recipe, capsys):
    changes = [word for change in SETTINGS for word in ("--set", change)]
    assert main(["plan", str(recipe), "--json", *changes]) == 0
    assert json.loads(capsys.readouterr().out)["notes"][1:] == list(SETTINGS.values())


def test_a_warm_up_as_long_as_the_training_reaches_its_peak(recipe):
    assert list(idle_settings(read_recipe(recipe, ["training.warmup_steps=24"]))) == []


def _files(tmp_path):
    """Two files of pairs, two folders with a copy of the first, and a text."""
    (tmp_path / "train.tsv").write_text("a b\tb a\nc d e\te d c\n" * 9)
    (tmp_path / "other.tsv").write_text("a c\tc a\nd b e\te b d\n" * 9)
    (tmp_path / "folder").mkdir()
    shutil.copy(tmp_path / "train.tsv", tmp_path / "folder" / "copy.tsv")
    shutil.copytree(tmp_path / "folder", tmp_path / "again")
    (tmp_path / "rows.jsonl").write_text('{"source": "a", "target": "b", "other": "c"}\n')
    (tmp_path / "text.txt").write_text("the cat sat on the mat\n" * 9)


DATA = {
    "the same file": ('"tsv", path = "train.tsv"', '"tsv", path = "train.tsv"', True),
    "another name": ('"tsv", path = "train.tsv"', '"tsv", path = "folder/../train.tsv"', True),
    "a copy": ('"tsv", path = "train.tsv"', '"tsv", path = "folder/copy.tsv"', True),
    "another file": ('"tsv", path = "train.tsv"', '"tsv", path = "other.tsv"', False),
    "a copied folder": ('"shards", folder = "folder"', '"shards", folder = "again"', True),
    "two sides": (
        '"parallel", source = "train.tsv", target = "other.tsv"',
        '"parallel", source = "folder/copy.tsv", target = "other.tsv"',
        True,
    ),
    "one side": (
        '"parallel", source = "train.tsv", target = "train.tsv"',
        '"parallel", source = "train.tsv", target = "other.tsv"',
        False,
    ),
    "cut otherwise": (
        '"running_text", path = "text.txt", words = 9, every = 3',
        '"running_text", path = "text.txt", words = 9',
        True,
    ),
    "two parts of a file": (
        '"caption_lines", path = "train.tsv", pictures = "folder", split = "train"',
        '"caption_lines", path = "train.tsv", pictures = "folder", split = "valid"',
        False,
    ),
    "other keys": (
        '"jsonl", path = "rows.jsonl"', '"jsonl", path = "rows.jsonl", target = "other"', False,
    ),
    "the same keys": (
        '"jsonl", path = "rows.jsonl"', '"jsonl", path = "rows.jsonl", target = "target"', True,
    ),
    "other files of a folder": (
        '"shards", folder = "folder", suffixes = ["en", "de"]',
        '"shards", folder = "folder", suffixes = ["en", "fr"]',
        False,
    ),
    "generated": ('"reverse", count = 20', '"reverse", count = 20', False),
}  # fmt: skip


@pytest.mark.parametrize("name", DATA)
def test_validation_on_what_is_learned_from_is_said(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _files(tmp_path)
    train, valid, is_same = DATA[name]
    text = RECIPE.replace('"reverse", count = 300', train).replace('"reverse", count = 20', valid)
    if "pictures" in train:
        text = text.replace('size = "tiny"\nd_model = 16\n', 'kind = "captioner"\n')
    (tmp_path / "recipe.toml").write_text(text)
    assert list(idle_settings(read_recipe(tmp_path / "recipe.toml"))) == [SAME] * is_same


def test_the_files_of_a_run_are_compared_where_they_are_found(tmp_path, monkeypatch):
    folder, run_folder = tmp_path / "project", tmp_path / "project" / "run"
    run_folder.mkdir(parents=True)
    _files(folder)
    train, valid, _ = DATA["a copy"]
    text = RECIPE.replace('"reverse", count = 300', train).replace('"reverse", count = 20', valid)
    (run_folder / "recipe.toml").write_text(text)
    write_start(run_folder, Start(folder, run_folder))
    monkeypatch.chdir(tmp_path)
    assert list(idle_settings(read_recipe(run_folder / "recipe.toml"), run_folder)) == [SAME]
    # a run goes on without the files from which its corpora were written
    (folder / "train.tsv").unlink()
    assert list(idle_settings(read_recipe(run_folder / "recipe.toml"), run_folder)) == []
