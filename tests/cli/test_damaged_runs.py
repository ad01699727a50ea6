"""A damaged run: every file, every damage, every verb that reads it; a sentence, no traceback.

Each case is run through the command line's own entry, in which anything but an error of ours would
be raised here. What waits for ever is ended by an alarm.
"""

import json
import os
import random
import shutil
import signal
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from regard.cli import main
from regard.errors import RegardError
from regard.serving.app import build_app
from regard.serving.registry import open_runs

RECIPE = """\
[data]
train = { name = "reverse", count = 40 }
valid = { name = "reverse", count = 4 }

[tokens]
kind = "words"
size = 32

[model]
size = "tiny"
d_model = 8
n_heads = 2
d_hidden = 8
n_encoder_layers = 1
n_decoder_layers = 1

[training]
steps = 4
target_tokens_per_update = 400
target_tokens_per_batch = 400
checkpoint_every = 2
validate_every = 2
validate_examples = 2
ema_decay = 0.5
"""
PATIENCE_S = 30


def _halved(path):
    content = path.read_bytes()
    # within a line, since some files are whole at the end of each
    middle = content.find(b"=", len(content) // 2) + 1 or len(content) // 2
    path.write_bytes(content[:middle])


def _randomised(path):
    path.write_bytes(random.Random(1).randbytes(path.stat().st_size))


def _holding(content):
    return lambda path: path.write_bytes(content)


def _with_values(change):
    """The JSON of a file, or of each of its lines, with other values."""

    def damage(path):
        text = path.read_text(errors="replace")
        parts = text.splitlines() if path.suffix == ".jsonl" else [text]
        path.write_text("".join(json.dumps(change(json.loads(one))) + "\n" for one in parts))

    return damage


def _deeply(change):
    """The same change to every number and text."""

    def changed(value):
        if isinstance(value, dict):
            return {key: changed(each) for key, each in value.items()}
        return [changed(each) for each in value] if isinstance(value, list) else change(value)

    return changed


def _instead(make):
    def damage(path):
        path.unlink()
        make(path)

    return damage


ANY = {
    "emptied": _holding(b""),
    "halved": _halved,
    "random": _randomised,
    "not UTF-8": _holding("é = 1\n".encode("latin-1")),
    "NULs": _holding(b"\0" * 64 + b"\n"),
    "a folder": _instead(lambda path: path.mkdir()),
    "a FIFO": _instead(os.mkfifo),
    "a device": _instead(lambda path: path.symlink_to("/dev/zero")),
    "a circle of links": _instead(lambda path: path.symlink_to(path.name)),
    "a link to nothing": _instead(lambda path: path.symlink_to("nowhere")),
}
OF_JSON = {
    "null": _holding(b"null\n"),
    "a list": _holding(b"[[1]]\n"),
    "an empty object": _holding(b"{}\n"),
    "digits": _holding(b'{"step": ' + b"9" * 5000 + b"}\n"),
    "nesting": _holding(b"[" * 100_000 + b"]" * 100_000 + b"\n"),
    "infinity": _holding(b'{"step": 1e999}\n'),
    "texts": _with_values(_deeply(lambda value: "x")),
    "nulls": _with_values(_deeply(lambda value: None)),
    "below 0": _with_values(_deeply(lambda value: -7)),
}
LINKS = {"a circle of links", "a link to nothing"}

PREDICT, LOOK = ["predict", "{run}", "--text", "a b"], ["look", "{run}", "a b"]
TRANSLATE = ["predict", "{run}", "--text", "a zz", "--replace-unknown"]
EVALUATE = ["evaluate", "{run}", "--metrics", "loss", "--split", "valid"]
COMPARE = ["compare", "{run}", "{whole}", "--split", "valid", "--samples", "9", "--trials", "9"]
AVERAGE = ["average", "{run}", "{whole}", "--out", "{out}"]
LAST = ["average", "{run}", "--last", "2", "--out", "{out}"]
EXPORT = ["export", "{run}", "--to", "huggingface", "--out", "{out}"]
VERIFY, PLAN = ["verify", "{run}"], ["plan", "{run}/recipe.toml"]
RESUME = ["train", "{recipe}", "--out", "{run}", "--resume"]
START = ["train", "{recipe}", "--out", "{out}", "--set", "training.start_from='{run}'"]
SERVE = ["serve", "{run}"]

CHECKPOINT = "checkpoints/step-000002"
CORPUS = [f"{side}.{end}" for side in ("source", "target") for end in ("bin", "npy")]
FINISHED = {
    "recipe.toml": (PREDICT, LOOK, EVALUATE, COMPARE, AVERAGE, EXPORT, PLAN, START, SERVE),
    "model.safetensors": (PREDICT, LOOK, COMPARE, AVERAGE, EXPORT, RESUME, START, SERVE),
    "tokenizer.json": (PREDICT, LOOK, AVERAGE, EXPORT, START, SERVE),
    "card.md": (VERIFY,),
    "dictionary.json": (TRANSLATE,),
    "metrics.jsonl": (SERVE,),
    f"{CHECKPOINT}/model.safetensors": (LAST,),
}
BEGUN = [
    "recipe.toml", "tokenizer.json", "metrics.jsonl",
    *(f"{CHECKPOINT}/{each}.safetensors" for each in ("model", "optimiser", "average")),
    f"{CHECKPOINT}/state.json",
    *(f"corpus/train/{name}" for name in ("examples.npy", *CORPUS)), "corpus/valid/corpus.json",
]  # fmt: skip
CASES = [
    *((True, file, damage, verb) for file, verbs in FINISHED.items() for damage in ANY
      for verb in (verbs if damage in ("halved", "a FIFO") else verbs[:1])),
    *((False, file, damage, RESUME) for file in BEGUN for damage in ANY),
    *((True, "dictionary.json", damage, TRANSLATE) for damage in OF_JSON),
    *((True, "tokenizer.json", damage, PREDICT) for damage in OF_JSON),
    *((True, "metrics.jsonl", damage, SERVE) for damage in OF_JSON),
    *((False, file, damage, RESUME) for damage in OF_JSON
      for file in ("metrics.jsonl", f"{CHECKPOINT}/state.json", "corpus/train/corpus.json")),
]  # fmt: skip


GOOD = [
    # a kill leaves the last line cut
    *(("metrics.jsonl", damage, verb) for damage in ("emptied", "halved", *LINKS)
      for verb in (RESUME, SERVE)),
    # what is not there is made anew
    *(("dictionary.json", damage, TRANSLATE) for damage in LINKS),
    *((file, damage, RESUME) for file in ("recipe.toml", "tokenizer.json") for damage in LINKS),
]  # fmt: skip
"""After these damages a verb does what it did before."""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damaged")
    recipe, whole, begun = folder / "recipe.toml", folder / "whole", folder / "begun"
    recipe.write_text(RECIPE)
    assert main(["train", str(recipe), "--out", str(whole), "--device", "cpu"]) == 0
    assert main(["predict", str(whole), "--text", "a zz", "--replace-unknown"]) == 0
    shutil.copytree(whole, begun)
    (begun / "model.safetensors").unlink()
    shutil.rmtree(begun / "checkpoints" / "step-000004")
    return {"recipe": recipe, "whole": whole, "begun": begun}


@pytest.fixture(autouse=True)
def _an_end_to_waiting():
    def ended(*_):
        raise TimeoutError("it waited for ever")

    before = signal.signal(signal.SIGALRM, ended)
    signal.alarm(PATIENCE_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _served(run):
    """What the server says at its start, or when it is asked for the curves."""
    try:
        registry = open_runs([run], device="cpu")
    except RegardError as error:
        return 2, str(error)
    client = TestClient(
        build_app(registry), base_url="http://127.0.0.1", raise_server_exceptions=False
    )
    answer = client.get(f"/api/runs/{run.name}/curves")
    return {200: 0, 400: 2}[answer.status_code], answer.text


def _said(words, places, run, capsys):
    if words is SERVE:
        return _served(run)
    capsys.readouterr()
    named = {**places, "run": run, "out": run.with_name("out")}
    code = main([word.format(**named) for word in words])
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("is_finished", "file", "damage", "words"),
    CASES,
    ids=[f"{'' if done else 'begun '}{f} {d} {w[0]}" for done, f, d, w in CASES],
)
def test_a_damaged_file_is_named_and_no_verb_fails_or_waits(
    places, tmp_path, capsys, is_finished, file, damage, words
):
    run = tmp_path / "run"
    shutil.copytree(places["whole" if is_finished else "begun"], run)
    {**ANY, **OF_JSON}[damage](run / file)
    code, said = _said(words, places, run, capsys)
    if (file, damage, words) in GOOD:
        assert code == 0
    else:
        assert code == 2
        assert file.rpartition("/")[2] in said
        assert not (run.with_name("out")).exists()


@pytest.mark.parametrize("name", ["checkpoints", "corpus", "corpus/train", "corpus/valid"])
@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, lambda path: path.symlink_to(path.name)])
def test_what_stands_where_a_folder_belongs_is_named(places, tmp_path, capsys, name, make):
    run = tmp_path / "run"
    shutil.copytree(places["begun"], run)
    shutil.rmtree(run / name)
    make(run / name)
    code, said = _said(RESUME, places, run, capsys)
    assert code == 2
    assert f"train: '{run / name}' must be a folder. Put back a whole copy, or delete it" in said


@pytest.mark.parametrize("damage", ANY)
@pytest.mark.parametrize("file", ["recipe.toml", "tokenizer.json", "model.safetensors"])
def test_verify_finds_what_is_damaged(places, tmp_path, capsys, file, damage):
    run, is_missing = tmp_path / "run", file == "model.safetensors" and damage in LINKS
    shutil.copytree(places["whole"], run)
    ANY[damage](run / file)
    # a run without weights is none
    assert main(["verify", str(run)]) == (2 if is_missing else 1)
    said = capsys.readouterr()
    assert file in (said.err if is_missing else said.out)
