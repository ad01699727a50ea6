"""A run: what it writes, that it refuses to overwrite, and that a kill loses nothing."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from regard.cli import main
from regard.cli.train import STOPPED
from regard.data.subword_kinds import UNKNOWN
from regard.errors import CheckpointError, DataError, LengthError, RunError
from regard.hardware.hardware import Hardware
from regard.models import build_transformer
from regard.recipes import read_recipe
from regard.training import run
from regard.training.checkpoints import checkpoints
from regard.training.events import Step
from regard.training.preparation import Prepared, prepare
from regard.training.run import Finished, Notice, Validated
from regard.training.validation import UNANSWERABLE, decoded
from regard.training.workers import SINGLE_PROCESS
from tests.small_recipe import RECIPE

ROOT = Path(__file__).parents[2]


def _sha(run_dir):
    return hashlib.sha256((run_dir / "model.safetensors").read_bytes()).hexdigest()


def _environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}


def _command(recipe, out, *words):
    return [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(out), *words]


def test_a_run_directory_holds_everything_that_was_made(recipe, tmp_path):
    events = list(run(read_recipe(recipe), tmp_path / "run"))
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(e, Step) for e in events) == 24
    assert [e.step for e in events if isinstance(e, Validated)] == [8, 16, 24]
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {"recipe.toml", "environment.json", "tokenizer.json", "corpus", "checkpoints",
                     "metrics.jsonl", "samples.jsonl", "model.safetensors", "report.html",
                     "card.md"}  # fmt: skip
    assert read_recipe(tmp_path / "run" / "recipe.toml") == read_recipe(recipe)
    rows = [json.loads(x) for x in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [r["step"] for r in rows if "train_loss" in r] == list(range(1, 25))
    assert all(0 <= r["exact_match"] <= 1 for r in rows if "exact_match" in r)
    first = next(e for e in events if isinstance(e, Step))
    last = [e for e in events if isinstance(e, Step)][-1]
    assert last.nll < first.nll
    kept = {path.name for path in checkpoints(tmp_path / "run" / "checkpoints")}
    best = [e for e in events if isinstance(e, Validated) and e.is_best][-1].step
    assert kept == {"step-000020", "step-000024", f"step-{best:06d}"}


def test_a_run_with_frozen_branches_is_stopped_and_resumed_to_the_same_weights(recipe, tmp_path):
    frozen = read_recipe(
        recipe, ["model.layer=weighted_branches", "model.has_frozen_branches=true"]
    )
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    list(run(frozen, whole))
    for event in run(frozen, stopped):
        if isinstance(event, Step) and event.progress.step == 5:
            break
    list(run(frozen, stopped, resume=True))
    assert _sha(stopped) == _sha(whole)


KILLED_WHILE_SAVING = """
import os, signal, sys
from regard.training import checkpoints
written = checkpoints.write_tensors
def killed(path, tensors):
    if "optimiser" in path.name and "step-000012" in str(path):
        path.with_name(path.name + ".partial").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)
    written(path, tensors)
checkpoints.write_tensors = killed
from regard.cli import main
sys.exit(main(sys.argv[1:]))
"""


EVERYTHING = RECIPE.replace('kind = "words"\nsize = 32', 'kind = "bpe"\nsize = 270\ndropout = 0.2')
EVERYTHING += 'r_drop = 1.0\nema_decay = 0.9\nstop_on = "bleu"\n'


@pytest.mark.processes
def test_killed_three_times_and_resumed_the_weights_are_the_same_to_the_bit(recipe, tmp_path):
    recipe.write_text(EVERYTHING)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(_command(recipe, whole), env=_environment(), check=True, capture_output=True)

    killed.mkdir()
    for lines in (3, 9):
        child = subprocess.Popen(
            _command(recipe, killed, "--resume"), env=_environment(), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        metrics, deadline = killed / "metrics.jsonl", time.monotonic() + 60
        while time.monotonic() < deadline and (
            not metrics.exists() or len(metrics.read_bytes().splitlines()) < lines
        ):
            time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert not (killed / "model.safetensors").exists()

    words = ["train", str(recipe), "--out", str(killed), "--resume"]
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING, *words], env=_environment(), capture_output=True
    )
    assert done.returncode == -signal.SIGKILL
    assert (killed / "checkpoints" / "step-000012.partial").exists()
    assert checkpoints(killed / "checkpoints")[-1].name == "step-000008"

    subprocess.run(
        _command(recipe, killed, "--resume"), env=_environment(), check=True, capture_output=True
    )
    assert _sha(killed) == _sha(whole)
    steps = [json.loads(x)["step"] for x in (killed / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps)
    assert steps.count(5) == 1


def test_a_plain_run_goes_on_to_the_bit_too(recipe, tmp_path):
    whole, stopped, plan = tmp_path / "whole", tmp_path / "stopped", read_recipe(recipe)
    list(run(plan, whole))
    for event in run(plan, stopped):
        if isinstance(event, Step) and event.progress.step == 10:
            break
    assert sum(isinstance(event, Step) for event in run(plan, stopped, resume=True)) == 24 - 8
    assert _sha(stopped) == _sha(whole)


@pytest.mark.processes
def test_a_terminated_run_saves_stops_and_can_go_on(recipe, tmp_path):
    out, text = tmp_path / "run", RECIPE.replace("steps = 24", "steps = 5000")
    recipe.write_text(text)
    child = subprocess.Popen(_command(recipe, out), env=_environment(), stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    while not checkpoints(out / "checkpoints"):
        assert child.poll() is None, "it ended before its first checkpoint"
        time.sleep(0.01)
    child.send_signal(signal.SIGTERM)
    said, _ = child.communicate(timeout=60)
    assert child.returncode == STOPPED == 130
    assert "go on with --resume" in said
    newest = checkpoints(out / "checkpoints")[-1]
    assert f"stopped at step {int(newest.name.removeprefix('step-'))};" in said


def test_a_run_is_never_overwritten(recipe, tmp_path, capsys):
    out = tmp_path / "run"
    out.mkdir()
    (out / "precious.txt").write_text("mine")
    with pytest.raises(RunError, match="is not empty, and a run is never overwritten"):
        next(run(read_recipe(recipe), out))
    assert main(["train", str(recipe), "--out", str(out)]) == 2
    assert "Add --resume" in capsys.readouterr().err
    assert [p.name for p in out.iterdir()] == ["precious.txt"]


def test_resuming_a_finished_run_says_so_and_changes_nothing(recipe, tmp_path, capsys):
    out = tmp_path / "run"
    words = ["train", str(recipe), "--out", str(out), "--set", "training.steps=4"]
    assert main(words) == 0
    before = _sha(out)
    capsys.readouterr()
    assert main([*words, "--resume"]) == 0
    assert "finished at step 4" in capsys.readouterr().out
    assert _sha(out) == before
    assert main(words) == 2


def test_long_examples_are_an_error_or_are_counted(recipe, tmp_path):
    text = RECIPE.replace("[tokens]", "max_tokens = 6\n\n[tokens]")
    recipe.write_text(text)
    with pytest.raises(
        LengthError, match=r"examples have more than 6 tokens \(the first is number"
    ):
        list(run(read_recipe(recipe), tmp_path / "a"))
    plan = read_recipe(recipe, ["data.on_long=skip", "training.steps=2"])
    said = [e.text for e in run(plan, tmp_path / "b") if isinstance(e, Notice)]
    (left_out,) = (text for text in said if "train:" in text and "are left out" in text)
    (counted,) = (text for text in said if text.endswith("training examples"))
    n_read = len(prepare(plan, tmp_path / "b", SINGLE_PROCESS).train.corpus)
    n_left = int(left_out.removeprefix("train: ").split()[0])
    assert n_left > 0
    assert f" {n_read - n_left:,} training examples" in counted


def test_one_process_at_a_time_trains_a_run(recipe, tmp_path):
    plan, out = read_recipe(recipe), tmp_path / "run"
    first = run(plan, out)
    next(event for event in first if isinstance(event, Step))
    before = sorted(path.name for path in out.iterdir())
    with pytest.raises(RunError, match=r"'.*run' is being trained in already\. Wait until that"):
        next(run(plan, out, resume=True))
    assert sorted(path.name for path in out.iterdir()) == before
    first.close()
    assert isinstance(list(run(plan, out, resume=True))[-1], Finished)


def test_a_model_that_fits_nowhere_is_told_in_a_sentence(recipe, tmp_path, monkeypatch, capsys):
    def no_room(*_, **__):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:127] can't allocate memory: you tried")

    monkeypatch.setattr(Prepared, "build", no_room)
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "train: there is not enough memory for the model. Make it smaller; regard plan" in said
    assert not (tmp_path / "run").exists()


def test_a_run_cannot_be_made_inside_a_file(recipe, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    assert main(["train", str(recipe), "--out", str(tmp_path / "file" / "run")]) == 2
    assert "file' is a file, so that" in capsys.readouterr().err


def test_data_of_which_nothing_is_left_are_refused(recipe, tmp_path):
    short = read_recipe(recipe, ["data.max_tokens=2", "data.on_long=skip"])
    with pytest.raises(DataError, match=r"data.train: there is no example to use: .* Raise it"):
        list(run(short, tmp_path / "run"))


def test_the_final_weights_can_be_the_mean_of_the_last_checkpoints(recipe, tmp_path):
    from safetensors.torch import load_file

    out = tmp_path / "run"
    changes = ["training.average_last=3", "training.steps=12"]
    list(run(read_recipe(recipe, changes), out))
    last = [load_file(path / "model.safetensors") for path in checkpoints(out / "checkpoints")[-3:]]
    for name, tensor in load_file(out / "model.safetensors").items():
        torch.testing.assert_close(tensor, torch.stack([each[name] for each in last]).mean(0))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", b"\x80\x04\x95pickle"),
        ("optimiser.safetensors", b""),
        ("state.json", b'{"step": '),
    ],
)
def test_a_damaged_checkpoint_is_refused_by_name(name, content, recipe, tmp_path):
    out, plan = tmp_path / "run", read_recipe(recipe, ["training.steps=8"])
    for event in run(plan, out):
        if isinstance(event, Step) and event.progress.step == 6:
            break
    newest = checkpoints(out / "checkpoints")[-1]
    (newest / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=newest.name):
        list(run(plan, out, resume=True))


SMALL_DISK = """
import resource, signal, sys
from regard.training import checkpoints
written = checkpoints.write_tensors
def full(path, tensors):
    if "step-000008" in str(path):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
    written(path, tensors)
checkpoints.write_tensors = full
from regard.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.processes
def test_a_full_disk_leaves_the_checkpoint_before_it_loadable(recipe, tmp_path):
    out = tmp_path / "run"
    words = ["train", str(recipe), "--out", str(out)]
    done = subprocess.run([sys.executable, "-c", SMALL_DISK, *words], env=_environment(),
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 1
    assert "step-000008' cannot be written" in done.stderr
    assert "the last whole one is 'step-000004'. Make room and go on with --resume" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in (out / "checkpoints").iterdir()] == ["step-000004"]
    subprocess.run(_command(recipe, out, "--resume"), env=_environment(), check=True,
                   capture_output=True)  # fmt: skip
    assert (out / "model.safetensors").exists()


MISTAKES = {
    ("[training]", "[trainig]"): "Did you mean 'training'",
    ("warmup_steps = 5", "warmup_steps = -5"): "training.warmup_steps must be at least 0, got -5",
    ('{ name = "reverse", count = 300 }', '{ name = "tsv", path = "nowhere.tsv" }'): "nowhere.tsv",
    ("d_hidden = 16", 'score = "additive"\nrelation = "shaw"'): "shaw cannot meet",
    ("d_hidden = 16", 'positions = "rotary"\nscore = "general"'): "rotary and general cannot meet",
}


@pytest.mark.parametrize(("change", "text"), MISTAKES.items(), ids=MISTAKES.values())
def test_a_mistake_in_the_recipe_exits_with_2_and_says_what_to_do(
    change, text, recipe, tmp_path, capsys
):
    recipe.write_text(RECIPE.replace(*change))
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert text in said
    assert "Traceback" not in said


def test_files_of_different_length_are_refused_with_both_counts(recipe, tmp_path, capsys):
    (tmp_path / "a.en").write_text("one\ntwo\nthree\n")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    files = f'{{ name = "parallel", source = "{tmp_path}/a.en", target = "{tmp_path}/a.de" }}'
    recipe.write_text(RECIPE.replace('{ name = "reverse", count = 300 }', files))
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "a.en' has 3" in said
    assert "a.de' has 2" in said


def test_a_device_that_is_not_there_is_refused(recipe, tmp_path, capsys):
    words = ["train", str(recipe), "--out", str(tmp_path / "run")]
    assert main([*words, "--device", "cuda"]) == 2
    assert "torch sees only cpu" in capsys.readouterr().err
    assert main([*words, "--precision", "bfloat16", "--device", "cpu"]) == 2
    assert "bfloat16 is for GPUs; on the CPU take float32" in capsys.readouterr().err
    assert main([*words, "--precision", "float23"]) == 2
    assert "Did you mean 'float32'" in capsys.readouterr().err


def test_a_run_goes_on_by_its_own_data_tokens_and_model(recipe, tmp_path):
    out = tmp_path / "run"
    begun = run(read_recipe(recipe), out)
    while not isinstance(next(begun), Step):
        pass
    begun.close()
    with pytest.raises(RunError, match=r"was begun with another tokens.size: 32, not 20"):
        list(run(read_recipe(recipe, ["tokens.size=20"]), out, resume=True))
    said = list(run(read_recipe(recipe, ["training.steps=4"]), out, resume=True))
    assert said[0] == Notice("training.steps is 4 from here on; the run was begun with 24")
    with pytest.raises(RunError, match=r"is finished with another training.steps: 4, not 3"):
        list(run(read_recipe(recipe, ["training.steps=3"]), out, resume=True))
    longer = read_recipe(recipe, ["training.steps=9", "tokens.size=20"])
    with pytest.raises(RunError, match=r"was begun with another tokens.size: 32, not 20"):
        list(run(longer, out, resume=True))


def test_a_training_that_runs_away_says_so_and_leaves_json(recipe, tmp_path):
    wild = ["learning_rate=1e30", "schedule=constant", "clip_norm=0", "warmup_steps=0"]
    changed = read_recipe(recipe, [f"training.{change}" for change in wild])
    with pytest.raises(RunError, match=r"it ran away. Lower training.learning_rate"):
        list(run(changed, tmp_path / "run"))
    lines = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert "NaN" not in lines
    assert "Infinity" not in lines


def test_a_stop_leaves_no_mark_on_the_mean_of_the_last_checkpoints(recipe, tmp_path):
    plan = read_recipe(recipe, ["training.steps=16", "training.average_last=3"])
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    list(run(plan, straight))
    for event in run(plan, stopped):
        if isinstance(event, Step) and event.progress.step == 13:
            os.kill(os.getpid(), signal.SIGINT)
    assert isinstance(event, Finished)
    assert not event.is_complete
    list(run(plan, stopped, resume=True))
    assert _sha(stopped) == _sha(straight)
    assert [p.name for p in checkpoints(stopped / "checkpoints")] == [
        p.name for p in checkpoints(straight / "checkpoints")
    ]


def test_a_word_that_the_vocabulary_does_not_know_is_never_answered_right(recipe, tmp_path):
    plan = read_recipe(recipe, ["tokens.size=6"])
    prepared = prepare(plan, tmp_path, SINGLE_PROCESS)
    size = len(prepared.source)
    model = build_transformer(plan.model, n_source_tokens=size, n_target_tokens=size)
    _, references = decoded(model, prepared, Hardware(), 10, 0.0)
    texts = " ".join(text for answers in references for text in answers)
    assert UNKNOWN not in texts
    assert UNANSWERABLE in texts
