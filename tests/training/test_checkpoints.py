"""Checkpoints come in the order of their updates, however many digits the numbers have."""

import errno
import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.recipes import read_recipe
from regard.training import run
from regard.training.checkpoint_hashes import write_hashes
from regard.training.checkpoints import (
    Progress,
    checkpoints,
    load_checkpoint,
    prune,
    save_checkpoint,
)
from regard.training.events import Step

MILLION = 1_000_000


def saved(folder, *steps):
    """A checkpoint for each step, and what it was written from."""
    model = nn.Linear(2, 1)
    optimiser = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    for step in steps:
        save_checkpoint(folder, model, optimiser, Progress(step=step))
    return model, optimiser


def numbers(folder):
    return [int(path.name.removeprefix("step-")) for path in checkpoints(folder)]


def test_the_newest_comes_last_past_a_million_updates(tmp_path):
    saved(tmp_path, MILLION, 999_999, 99_999, 10 * MILLION)
    assert numbers(tmp_path) == [99_999, 999_999, MILLION, 10 * MILLION]


def test_pruning_keeps_the_newest_and_the_best_past_a_million_updates(tmp_path):
    saved(tmp_path, 999_000, 999_500, MILLION, MILLION + 500, MILLION + 1000)
    prune(tmp_path, keep=2, best_step=MILLION)
    assert numbers(tmp_path) == [MILLION, MILLION + 500, MILLION + 1000]


def test_what_is_no_checkpoint_is_left_alone(tmp_path):
    model, optimiser = saved(tmp_path, 4, 8)
    for name in ("step-000012.partial", "step-000012-copy", "step-best"):
        (tmp_path / name).mkdir()
    (tmp_path / "step-000016").write_text("a file")
    assert numbers(tmp_path) == [4, 8]
    prune(tmp_path, keep=1, best_step=8)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step-000008", "step-000012-copy", "step-000012.partial", "step-000016", "step-best",
    ]  # fmt: skip
    assert load_checkpoint(checkpoints(tmp_path)[-1], model, optimiser).step == 8


def test_a_run_goes_on_from_its_newest_checkpoint_past_a_million_updates(recipe, tmp_path):
    plan, out = read_recipe(recipe), tmp_path / "run"
    list(run(plan, out))
    (out / "model.safetensors").unlink()
    # a short run takes the numbers of a long one
    for path, step in zip(checkpoints(out / "checkpoints"), (MILLION - 4, MILLION), strict=True):
        state = {**json.loads((path / "state.json").read_text()), "step": step}
        (path / "state.json").write_text(json.dumps(state))
        write_hashes(path, {})
        path.rename(path.with_name(f"step-{step}"))
    longer = replace(plan, training=replace(plan.training, steps=MILLION + 4))
    steps = [one.progress.step for one in run(longer, out, resume=True) if isinstance(one, Step)]
    assert steps == [MILLION + 1, MILLION + 2, MILLION + 3, MILLION + 4]
    assert numbers(out / "checkpoints") == [MILLION, MILLION + 4]


def test_numbers_are_on_disk_before_the_checkpoint_that_knows_of_them(
    recipe, tmp_path, monkeypatch
):
    metrics, synced, saved = tmp_path / "run" / "metrics.jsonl", {}, []
    rename = os.replace

    def fsync(handle):
        synced[os.fstat(handle).st_ino] = os.fstat(handle).st_mtime_ns

    def replacing(source, target):
        if Path(target).parent.name == "checkpoints":
            assert synced[metrics.stat().st_ino] == metrics.stat().st_mtime_ns
            saved.append(target)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replacing)
    list(run(read_recipe(recipe), tmp_path / "run"))
    assert len(saved) == 24 // 4


def test_an_older_checkpoint_of_the_name_stays_until_the_new_one_is_on_disk(tmp_path, monkeypatch):
    saved(tmp_path, 4, 8)
    whole = []

    def full(handle):
        # the disk is full once every file has its name
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            whole.append((tmp_path / "step-000008.partial" / "state.json").exists())
        elif any(whole):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = (
        r"checkpoint '.*step-000008' cannot be written \(\[Errno 28\] No space .*\); the last "
        r"whole one is 'step-000008'\. Make room and go on with --resume\."
    )
    with pytest.raises(OSError, match=said):
        saved(tmp_path, 8)
    assert numbers(tmp_path) == [4, 8]
    assert not (tmp_path / "step-000008.partial").exists()


def test_a_checkpoint_is_replaced_by_one_of_the_same_update(tmp_path):
    saved(tmp_path, 4)
    model, _ = saved(tmp_path, 4)
    read = nn.Linear(2, 1)
    load_checkpoint(tmp_path / "step-000004", read, torch.optim.Adam(read.parameters()))
    assert torch.equal(read.weight, model.weight)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000004"]
