"""Planning: the numbers of a plan are those of the training it speaks of."""

import errno
import os
import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.batches import padding_share
from regard.errors import DataError, LengthError
from regard.hardware.hardware import Hardware
from regard.hardware.memory import in_a_fork, resident, start_counting
from regard.models import build_transformer
from regard.recipes.recipe import parse_recipe
from regard.recipes.training_recipe import TrainingRecipe
from regard.runs import plan as planning
from regard.runs import plan_trial
from regard.runs.plan import TrainingPlan, plan
from regard.training.checkpoints import Progress, save_checkpoint
from regard.training.loop import epoch_updates, make_optimiser
from regard.training.preparation import prepare
from regard.training.validation import ValidationCost
from regard.training.workers import SINGLE_PROCESS

MODEL = {"d_model": 12, "n_heads": 3, "d_hidden": 20, "n_encoder_layers": 1, "n_decoder_layers": 1}
TRAINING = {
    "steps": 100,
    "warmup_steps": 10,
    "target_tokens_per_update": 300,
    "target_tokens_per_batch": 110,
    "checkpoint_every": 10,
    "keep_checkpoints": 2,
}


def _recipe(training=None, data=None, model=None):
    table = {
        "data": {"train": "copy:count=400", "valid": "copy:count=50", **(data or {})},
        "tokens": {"kind": "words", "size": 32},
        "model": {**MODEL, **(model or {})},
        "training": {**TRAINING, **(training or {})},
    }
    return parse_recipe(table, "test", {})


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(plan_trial, "MAX_TIMED_UPDATES", 2)
    monkeypatch.setattr(plan_trial, "WARM_UPDATES", 1)


def _planned(recipe, out=Path()):
    *doing, found = plan(recipe, hardware=Hardware(), out=out)
    assert all(isinstance(each, str) for each in doing)
    assert isinstance(found, TrainingPlan)
    return found


def test_a_plan_says_what_training_would_do(tmp_path):
    recipe = _recipe()
    found = _planned(recipe)
    prepared = prepare(recipe, tmp_path, SINGLE_PROCESS)
    corpus = prepared.train.corpus
    updates = epoch_updates(corpus, recipe.training, 0)
    batches = [batch for update in updates for batch in update]
    assert found.updates.per_epoch == len(updates)
    assert found.updates.epochs == pytest.approx(100 / len(updates))
    assert found.updates.batches == pytest.approx(len(batches) / len(updates))
    assert found.updates.target_tokens == pytest.approx(corpus.target_lengths.sum() / len(updates))
    assert found.updates.padding == pytest.approx(padding_share(corpus, batches))
    assert (found.examples.training, found.examples.read, found.examples.validation) == (
        400, 400, 50,
    )  # fmt: skip
    assert found.examples.source_vocabulary == len(prepared.source)


def test_the_parameters_are_those_of_the_model():
    found = _planned(_recipe())
    n = found.examples.source_vocabulary
    model = build_transformer(_recipe().model, n_source_tokens=n, n_target_tokens=n)
    assert found.parameters.total == sum(p.numel() for p in model.parameters())
    assert found.parameters.embeddings == n * MODEL["d_model"]
    assert found.parameters.parts["decoder"] == sum(p.numel() for p in model.decoder.parameters())
    assert sum(found.parameters.parts.values()) == found.parameters.total


def test_a_recurrent_model_s_embeddings_are_counted_too():
    table = _recipe().as_table()
    table["model"] = {"kind": "recurrent", "d_embedding": 6, "d_hidden": 8, "n_layers": 1}
    found = _planned(parse_recipe(table, "test", {}))
    assert found.parameters.embeddings == 2 * 6 * found.examples.source_vocabulary


def test_a_checkpoint_is_as_large_as_planned(tmp_path):
    found = _planned(_recipe())
    n = found.examples.source_vocabulary
    model = build_transformer(_recipe().model, n_source_tokens=n, n_target_tokens=n)
    optimiser = make_optimiser(model, _recipe().training)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    optimiser.step()
    path = save_checkpoint(tmp_path, model, optimiser, Progress())
    files = path.glob("*.safetensors")
    numbers = sum(each.stat().st_size for each in files)
    # names, counters and random states come on top
    assert found.disk.checkpoint < numbers < found.disk.checkpoint + 30_000
    # the newest two, the best, and the one that is being written
    assert found.disk.checkpoints == 4
    assert found.disk.total == 4 * found.disk.checkpoint + found.disk.model + found.disk.corpus


def test_fewer_checkpoints_are_planned_than_are_kept_if_fewer_are_made():
    assert _planned(_recipe({"checkpoint_every": 60})).disk.checkpoints == 2


def test_a_moving_average_is_counted():
    plain, averaged = _planned(_recipe()), _planned(_recipe({"ema_decay": 0.9}))
    assert averaged.memory.average == plain.memory.weights
    assert averaged.disk.checkpoint == plain.disk.checkpoint + plain.disk.model


def test_time_and_memory_are_measured_and_scale_with_the_steps():
    found = _planned(_recipe({"validate_every": 50}))
    assert found.memory.peak >= found.memory.weights
    assert found.time.measured_updates == 2
    assert found.time.per_validation > 0
    assert found.problems == () == found.notes


@pytest.mark.parametrize(
    ("training", "count"),
    [
        ({"validate_every": 25}, 4),
        ({"validate_every": 30}, 4),
        ({"validate_every": 500}, 1),
        ({"validate_every": 25, "average_last": 2}, 5),
    ],
)
def test_validations_are_counted_into_the_time(training, count, monkeypatch):
    monkeypatch.setattr(plan_trial, "validation_cost", lambda *_: ValidationCost(3.0))
    took = _planned(_recipe(training)).time
    assert (took.validations, took.per_validation) == (count, 3.0)
    rest = took.start + took.preparing + took.checkpoints * took.per_checkpoint + took.finishing
    assert took.total == pytest.approx(100 * took.per_update + 3.0 * count + rest)


def test_everything_that_a_training_does_is_in_the_time():
    recipe = _recipe({"average_last": 2})
    *_, found = plan(recipe, hardware=Hardware(), out=Path(), start_s=5.0)
    took = found.time
    assert took.start == 5.0
    assert took.checkpoints == 10
    assert min(took.preparing, took.per_checkpoint, took.finishing) > 0
    assert took.finishing > took.per_checkpoint
    parts = (
        took.start, took.preparing, 100 * took.per_update,
        took.validations * took.per_validation, 10 * took.per_checkpoint, took.finishing,
    )  # fmt: skip
    assert took.total == pytest.approx(sum(parts))


def test_a_plan_chooses_how_many_examples_are_decoded_as_the_training_does(monkeypatch):
    cost = ValidationCost(1.0, ((32, 1.0), (218, 2.0)), 800)
    monkeypatch.setattr(plan_trial, "validation_cost", lambda *_: cost)

    def decoded(seconds, **training):
        monkeypatch.setattr(TrainingRecipe, "validation_seconds", lambda *_: seconds)
        took = _planned(_recipe(training)).time
        assert took.per_validation == pytest.approx(cost.seconds(took.decoded_examples))
        return took.decoded_examples

    assert decoded(2.6) == 5
    # 5 s pay for 545 examples, were all of them decoded in large batches
    assert decoded(6.0) == 500
    assert decoded(60.0) == 800
    assert decoded(0.1) == 1
    assert decoded(0.1, validate_examples=70) == 70


def test_validations_that_take_more_than_their_share_are_noted(monkeypatch):
    cost = ValidationCost(1.0, ((32, 1000.0),), 50)
    monkeypatch.setattr(plan_trial, "validation_cost", lambda *_: cost)
    notes = _planned(_recipe({"validate_examples": 32})).notes
    (note,) = (one for one in notes if one.startswith("validations take"))
    assert re.fullmatch(
        r"validations take about \d+ % of the time, more than training.validation_share = "
        r"0.1: raise training.validate_every = 500, or lower training.validate_examples = 32",
        note,
    )


def test_a_plan_says_what_it_does_while_it_measures():
    *doing, _ = plan(_recipe(), hardware=Hardware(), out=Path())
    assert doing == [
        "reading the training examples",
        "learning sub-words and encoding 400 examples",
        "building the model",
        "trying how many threads are fastest",
        "measuring a few updates",
        "measuring an update on the largest batch",
        "measuring a validation",
        "measuring a checkpoint",
    ]


def test_a_large_corpus_is_planned_from_a_sample_that_is_said_to_be_one(monkeypatch):
    whole = _planned(_recipe())
    monkeypatch.setattr(planning, "MAX_READ_EXAMPLES", 150)
    found = _planned(_recipe())
    assert found.examples.training == 400
    assert found.examples.read == 134
    assert "134 of 400 training examples" in found.notes[0]
    assert found.updates.per_epoch == pytest.approx(whole.updates.per_epoch, rel=0.25)
    assert found.updates.epochs == pytest.approx(100 / found.updates.per_epoch)


def test_what_does_not_fit_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr(plan_trial, "available_memory", lambda: 1 << 25)
    found = _planned(_recipe(model={"d_hidden": 1 << 18}), tmp_path / "not" / "there")
    assert found.memory.peak is None
    assert found.time.total is None
    assert "an update does not fit" in found.problems[0]


def test_too_little_memory_or_disk_is_said(monkeypatch):
    monkeypatch.setattr(planning, "available_memory", lambda: 1 << 10)
    usage = type("Usage", (), {"free": 1 << 10})
    monkeypatch.setattr(planning.shutil, "disk_usage", lambda path: usage)
    memory, disk = _planned(_recipe()).problems
    assert memory.startswith("memory: 0.")
    assert "training.target_tokens_per_batch" in memory
    assert disk.startswith("disk: 0.0 GiB are needed, 0.0 GiB are free")


def test_examples_past_the_limit_stop_a_plan_as_they_would_stop_the_training():
    with pytest.raises(LengthError, match="have more than 5 tokens"):
        _planned(_recipe(data={"max_tokens": 5}))
    found = _planned(_recipe(data={"max_tokens": 5, "on_long": "skip"}))
    assert 0 < found.examples.left_out < 400


def test_sub_word_dropout_is_spoken_of():
    recipe = parse_recipe(
        {
            "data": {"train": "copy:count=60", "valid": "copy:count=9"},
            "tokens": {"kind": "bpe", "size": 300, "dropout": 0.1},
            "model": MODEL,
            "training": TRAINING,
        },
        "test",
        {},
    )
    assert "dropout" in _planned(recipe).notes[0]


def test_the_largest_batch_has_the_most_numbers(tmp_path):
    recipe = _recipe()
    prepared = prepare(recipe, tmp_path, SINGLE_PROCESS)
    updates = epoch_updates(prepared.train.corpus, recipe.training, 0)
    largest = planning._largest(prepared, updates)
    corpus = prepared.train.corpus
    sizes = [
        len(rows) * (corpus.source_lengths[rows].max() + corpus.target_lengths[rows].max())
        for update in updates
        for rows in update
    ]
    size = len(largest) * (
        corpus.source_lengths[largest].max() + corpus.target_lengths[largest].max()
    )
    assert size == max(sizes)


def test_a_fork_gives_back_what_it_was_asked_and_no_memory():
    assert in_a_fork(lambda: {"answer": 42}) == {"answer": 42}

    def held():
        before = start_counting()
        kept = np.ones(1 << 22)
        return {"bytes": resident("VmHWM") - before, "sum": kept.sum()}

    said = in_a_fork(held)
    assert said["bytes"] >= 8 << 22
    assert said["sum"] == 1 << 22


def _raise(error):
    raise error


WITHOUT_MEMORY = {
    "Python's": lambda: bytearray(1 << 60),
    "numpy's": lambda: np.ones(1 << 50),
    "torch's": lambda: torch.ones(1 << 50),
    "a GPU's": lambda: _raise(torch.OutOfMemoryError("CUDA out of memory.")),
    "C++'s": lambda: _raise(RuntimeError("std::bad_alloc")),
    "the system's": lambda: _raise(OSError(errno.ENOMEM, "Cannot allocate memory")),
    "the kernel's": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


@pytest.mark.parametrize("whose", WITHOUT_MEMORY)
def test_a_fork_for_which_there_is_no_memory_says_nothing(whose):
    assert in_a_fork(WITHOUT_MEMORY[whose]) is None


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (DataError("no example to learn from."), DataError, "no example to learn from."),
        (ZeroDivisionError("on purpose"), RuntimeError, "ZeroDivisionError: on purpose"),
        (RuntimeError("mat1 and mat2"), RuntimeError, "RuntimeError: mat1 and mat2"),
        (OSError(errno.ENOSPC, "full"), RuntimeError, "OSError: [Errno 28] full"),
    ],
)
def test_whatever_else_a_fork_fails_of_is_told_as_it_is(error, kind, text):
    with pytest.raises(kind) as caught:
        in_a_fork(lambda: _raise(error))
    assert str(caught.value) == text
    assert "in _raise" in caught.value.__notes__[0]


def test_a_fork_that_crashes_is_told_by_its_signal():
    with pytest.raises(ChildProcessError, match="was ended by SIGTERM"):
        in_a_fork(lambda: os.kill(os.getpid(), signal.SIGTERM) or time.sleep(60))
    with pytest.raises(ChildProcessError, match="was ended before it could say why"):
        in_a_fork(lambda: os._exit(3))


def test_only_what_lacks_memory_is_said_not_to_fit(monkeypatch):
    monkeypatch.setattr(plan_trial, "learn", lambda *_, **__: _raise(KeyError("a fault")))
    with pytest.raises(RuntimeError, match="KeyError: 'a fault'"):
        _planned(_recipe())
    monkeypatch.setattr(plan_trial, "learn", lambda *_, **__: _raise(MemoryError()))
    assert _planned(_recipe()).memory.peak is None


def test_on_a_gpu_too_only_what_lacks_memory_does_not_fit(monkeypatch, tmp_path):
    recipe = _recipe()
    prepared = prepare(recipe, tmp_path, SINGLE_PROCESS)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 0)
    gpu = Hardware(device=torch.device("cuda"))
    rows = np.arange(3)
    full = torch.OutOfMemoryError("CUDA out of memory.")
    monkeypatch.setattr(plan_trial, "timed_trial", lambda *_: _raise(full))
    assert _result(plan_trial.run_trial(prepared, gpu, rows)) == plan_trial.Trial()
    fault = RuntimeError("CUDA error: an illegal memory access was encountered")
    monkeypatch.setattr(plan_trial, "timed_trial", lambda *_: _raise(fault))
    with pytest.raises(RuntimeError, match="illegal memory access"):
        _result(plan_trial.run_trial(prepared, gpu, rows))


def _result(steps):
    """What a generator gives back at its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
