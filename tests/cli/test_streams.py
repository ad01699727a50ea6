"""A reader that goes away, as with `| head`: real processes, real pipes, the exit codes kept."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]

RECIPE = """\
[data]
train = { name = "copy", count = 30 }
valid = { name = "copy", count = 4 }

[tokens]
kind = "words"
size = 20

[model]
size = "tiny"
d_model = 8
n_heads = 2
d_hidden = 8

[training]
steps = 3
target_tokens_per_update = 100
validate_examples = 2
"""

EACH = """
import json, os, sys
import torch._dynamo
from regard.cli import main

codes = {}
for name, (words, places) in json.loads(sys.argv[1]).items():
    reader, gone = os.pipe()
    os.close(reader)
    full = os.open("/dev/full", os.O_WRONLY)
    child = os.fork()
    if child == 0:
        for stream, place in places.items():
            os.dup2({"gone": gone, "full": full}[place], int(stream))
        os._exit(main(words))
    os.close(gone)
    os.close(full)
    codes[name] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(codes))
"""
"""One import for many processes: each verb runs in a fork, with streams that lead elsewhere."""

OUT_GONE, BOTH_GONE, FULL = {1: "gone"}, {1: "gone", 2: "gone"}, {1: "full"}
"""Pipes whose readers are gone, and a disk without room."""


def _environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run whose training was read for one line, and texts."""
    folder = tmp_path_factory.mktemp("streams")
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "source").write_text("a b\nc d\n")
    words = ["train", folder / "recipe.toml", "--out", folder / "run", "--json", "--device", "cpu"]
    child = subprocess.Popen(
        [sys.executable, "-m", "regard", *map(str, words)],
        env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert json.loads(child.stdout.readline())["event"] == "threads"
    assert json.loads(child.stdout.readline())["step"] == 1
    child.stdout.close()
    said = child.stderr.read()
    child.stderr.close()
    assert child.wait() == 0
    assert "Traceback" not in said
    return folder


def test_a_training_whose_reader_goes_away_goes_on_to_its_end(folder):
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["step"] for row in rows if "train_loss" in row] == [1, 2, 3]
    assert (folder / "run" / "model.safetensors").is_file()


@pytest.fixture(scope="module")
def done(folder):
    """The exit codes of many verbs, and all that stood on standard error."""
    run, texts = str(folder / "run"), ["--source", str(folder / "source")]
    texts += ["--reference", str(folder / "source"), "--beam", "1"]
    other = ["--hypotheses", f"right={folder / 'source'}", "--samples", "9", "--trials", "9"]
    other += ["--out", str(folder / "page.html")]
    spoilt = folder / "spoilt"
    spoilt.mkdir()
    for file in (folder / "run").glob("*.*"):
        (spoilt / file.name).write_bytes(file.read_bytes())
    card = (spoilt / "card.md").read_text()
    (spoilt / "card.md").write_text(card.replace('"loss": ', '"loss": 9'))
    train = ["train", str(folder / "recipe.toml"), "--out", str(folder / "quiet")]
    commands = {
        "look": (["look", run, "a b"], OUT_GONE),
        "verify": (["verify", run], OUT_GONE),
        "verify spoilt": (["verify", str(spoilt)], OUT_GONE),
        "evaluate": (["evaluate", run, *texts, "--out", str(folder / "scores")], OUT_GONE),
        "compare": (["compare", run, *texts, *other], OUT_GONE),
        "train": (train, BOTH_GONE),
        "list": (["list"], OUT_GONE),
        "help": (["look", "--help"], OUT_GONE),
        "mistake": (["look", str(folder / "nowhere"), "a"], BOTH_GONE),
        "full": (["list"], FULL),
    }
    done = subprocess.run(
        [sys.executable, "-c", EACH, json.dumps(commands)],
        env=_environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("verb", ["look", "verify", "evaluate", "compare", "train", "list", "help"])
def test_a_verb_that_nobody_reads_has_not_failed(done, verb):
    assert done[0][verb] == 0


def test_the_exit_code_is_the_same_whoever_reads(done):
    assert done[0]["verify spoilt"] == 1
    assert done[0]["mistake"] == 2


def test_files_are_written_and_standard_error_is_heard_whoever_reads_the_output(done, folder):
    assert (folder / "scores" / "scores.json").is_file()
    assert (folder / "quiet" / "model.safetensors").is_file()
    assert f"wrote {folder / 'page.html'}" in done[1]
    assert "Traceback" not in done[1]


def test_a_disk_without_room_for_what_is_said_is_a_failure(done):
    assert done[0]["full"] == 1
    assert "regard: [Errno 28]" in done[1]


def test_answers_to_an_endless_stream_end_with_their_reader(folder):
    command = f"yes 'a b' | {sys.executable} -m regard predict {folder / 'run'} --beam 1 | head -1"
    ran = subprocess.run(
        ["bash", "-c", f'{command}; echo "${{PIPESTATUS[1]}}"'],
        env=_environment(), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert len(ran.stdout.splitlines()) == 2
    assert ran.stdout.endswith("\n0\n")
    assert not {"Fatal", "Traceback"} & set(ran.stderr.split())
