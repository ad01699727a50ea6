"""Several processes: the same updates as one, one voice, and a stop that all agree on."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from regard.cli.train import STOPPED
from regard.errors import RunError
from regard.recipes import read_recipe
from regard.training import run
from regard.training.checkpoints import checkpoints, read_progress
from regard.training.run_folder import locked
from regard.training.workers import SINGLE_PROCESS, Workers, joined, local_device

ROOT = Path(__file__).parents[2]

RECIPE = """\
[data]
train = { name = "reverse", count = 80 }
valid = { name = "reverse", count = 6 }

[tokens]
kind = "bpe"
size = 270
dropout = 0.1

[model]
size = "tiny"
d_model = 16
d_hidden = 16
dropout = 0.0

[training]
steps = 6
target_tokens_per_update = 250
target_tokens_per_batch = 100
warmup_steps = 2
checkpoint_every = 3
validate_every = 6
validate_examples = 4
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def _free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _start(recipe, out, *words, count=2):
    """What torchrun does, without its watchman."""
    shared = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT),
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()),
              "WORLD_SIZE": str(count)}  # fmt: skip
    command = [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(out), *words]
    return [
        subprocess.Popen(command, env={**shared, "RANK": str(i), "LOCAL_RANK": str(i)}, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for i in range(count)
    ]  # fmt: skip


def _said(processes, codes=(0, 0)):
    said = [process.communicate(timeout=120) for process in processes]
    assert [process.returncode for process in processes] == list(codes), said
    return said


@pytest.mark.processes
def test_two_processes_learn_what_one_does_and_the_first_speaks(recipe, tmp_path):
    alone, both = tmp_path / "alone", tmp_path / "both"
    list(run(read_recipe(recipe), alone))
    first, second = _said(_start(recipe, both))
    one, two = (load_file(each / "model.safetensors") for each in (alone, both))
    for name, tensor in one.items():
        assert float((two[name] - tensor).norm() / tensor.norm()) < 1e-5, name
    assert "finished at step 6" in first[0]
    assert second == ("", "")
    marks = [read_progress(checkpoints(each / "checkpoints")[-1]) for each in (alone, both)]
    assert [mark.environment["processes"] for mark in marks] == ["1", "2"]
    assert marks[0].target_tokens == marks[1].target_tokens
    kept = load_file(checkpoints(both / "checkpoints")[-1] / "optimiser.safetensors")
    assert not torch.equal(kept["random.cpu"], kept["random.cpu.1"]), "they drop out differently"
    card = (both / "card.md").read_text()
    assert "| processes | 2 |" in card
    assert "| seeds of dropout | 1, 1000004 |" in card
    assert "torchrun --nproc-per-node 2 -m regard train" in card


@pytest.mark.processes
def test_a_run_that_is_being_trained_in_is_refused_to_all(recipe, tmp_path):
    with locked(tmp_path / "run"):
        said = _said(_start(recipe, tmp_path / "run"), codes=(2, 2))
    (_, first), (_, second) = said
    assert "run' is being trained in already." in " ".join(first.split())
    assert "Traceback" not in first + second


@pytest.mark.processes
def test_a_recipe_that_leaves_weights_unmoved_is_refused_to_all(recipe, tmp_path):
    said = _said(
        _start(recipe, tmp_path / "run", "--set", "model.select=top_k:count=1"), codes=(2, 2)
    )
    (_, first), (_, second) = said
    assert "the loss gives no gradient to 12 of 61 weights" in " ".join(first.split())
    assert "Traceback" not in first + second
    assert not (tmp_path / "run").exists()


@pytest.mark.processes
def test_asking_one_process_to_stop_stops_all(recipe, tmp_path):
    out = tmp_path / "run"
    processes = _start(recipe, out, "--set", "training.steps=9000")
    while not checkpoints(out / "checkpoints"):
        assert all(each.poll() is None for each in processes)
        time.sleep(0.01)
    processes[1].send_signal(signal.SIGTERM)
    (said, _), _ = _said(processes, codes=(STOPPED, 0))
    step = read_progress(checkpoints(out / "checkpoints")[-1]).step
    assert f"stopped at step {step}; go on with --resume" in said


def test_shares_hold_every_row_once_and_nobody_is_idle_without_need():
    batches = [np.arange(7), np.arange(7, 9)]
    for count in (1, 2, 3, 5, 20):
        shares = [Workers(rank, count).share(batches) for rank in range(count)]
        rows = [int(row) for share in shares for batch in share for row in batch]
        assert sorted(rows) == list(range(9))
        assert sum(bool(share) for share in shares) == min(count, 9)
    assert [part.tolist() for part in SINGLE_PROCESS.share(batches)] == [
        b.tolist() for b in batches
    ]


def test_one_worker_sums_and_agrees_with_itself():
    assert SINGLE_PROCESS.sums(2, 0.5) == [2.0, 0.5]
    assert SINGLE_PROCESS.any_of(False, True) == [False, True]
    assert SINGLE_PROCESS.seed(7) == 7
    assert len({Workers(rank, 4).seed(7) for rank in range(4)}) == 4
    with joined(torch.device("cpu")) as workers:
        assert workers is SINGLE_PROCESS


def test_what_the_first_one_fails_at_all_fail_at(monkeypatch):
    def refused():
        raise RunError("train: no")

    with pytest.raises(RunError, match="train: no"):
        SINGLE_PROCESS.first_does(refused)
    heard = []
    monkeypatch.setattr(Workers, "any_of", lambda self, *wishes: heard.append(wishes) or [True])
    with pytest.raises(RunError, match="train: no"):
        Workers(0, 2).first_does(refused)
    with pytest.raises(RunError, match=r"train: the first process failed; it says why\."):
        Workers(1, 2).first_does(refused)
    assert heard == [(True,), (False,)]


def test_a_process_takes_the_gpu_of_its_number(monkeypatch):
    assert local_device("cuda") == "cuda"
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert local_device("cuda") == "cuda:3"
    assert local_device("cpu") == "cpu"
    assert local_device("cuda:1") == "cuda:1"
