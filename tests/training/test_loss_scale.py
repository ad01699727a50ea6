"""float16: gradients are those of float32, overflow skips an update, and a resume is exact."""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.data import Example
from regard.data.batches import collate
from regard.data.corpus import write_corpus
from regard.data.subword_kinds import KINDS
from regard.data.subwords import Subwords
from regard.errors import RunError
from regard.hardware.hardware import CPU, Hardware
from regard.models import TransformerSpec, build_transformer
from regard.recipes import read_recipe
from regard.training import run
from regard.training.accumulation import Accumulator
from regard.training.checkpoints import read_tensors
from regard.training.events import Notice, Step
from regard.training.loss_scale import FIRST, GROWTH_EVERY, LEAST, LossScale
from regard.training.losses import Objective, token_loss

HALF = Hardware(precision=torch.float16)
SPEC = TransformerSpec(
    d_model=16, n_heads=2, d_hidden=16, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0
)


@pytest.fixture
def corpus(tmp_path):
    draws = np.random.default_rng(3)
    texts = [" ".join(draws.choice(list("abcdef"), size=draws.integers(2, 9))) for _ in range(32)]
    words = Subwords.train(texts, kind=KINDS["words"], size=20)
    return write_corpus(tmp_path / "corpus", [Example(t, (t,)) for t in texts], words, words)


def _gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize("n_batches", [1, 4])
def test_the_unscaled_gradient_is_that_of_float32_over_one_batch_and_several(corpus, n_batches):
    model = build_transformer(SPEC, n_source_tokens=10, n_target_tokens=10)
    batches = [collate(corpus, rows) for rows in np.array_split(np.arange(32), n_batches)]
    tokens = int(corpus.target_lengths.sum())
    Accumulator(model, Objective(0.1), CPU).gather(batches, tokens)
    exact = _gradient(model)
    scaled = LossScale(2.0**10)
    Accumulator(model, Objective(0.1), HALF).gather(batches, tokens, loss_scale=scaled.factor)
    assert float(_gradient(model).norm() / exact.norm()) == pytest.approx(2.0**10, rel=0.01)
    scaled.unscale(model.parameters())
    assert float((_gradient(model) - exact).norm() / exact.norm()) < 0.01


def test_a_small_gradient_vanishes_without_the_scale_and_not_with_it(corpus):
    model = build_transformer(SPEC, n_source_tokens=10, n_target_tokens=10)
    batch = collate(corpus, np.arange(32))
    found = []
    for factor in (1.0, FIRST):
        Accumulator(model, Objective(), HALF).gather([batch], 10**7, loss_scale=factor)
        found.append(int((_gradient(model) == 0).sum()))
    assert found[0] > found[1]


def test_the_losses_of_a_large_vocabulary_stay_finite_in_float16():
    hidden, output = torch.randn(1, 3, 8), torch.randn(20_000, 8)
    with HALF.products():
        loss = token_loss(hidden, output, torch.tensor([[4, 5, 6]]), smoothing=0.1)
    exact = token_loss(hidden, output, torch.tensor([[4, 5, 6]]), smoothing=0.1)
    assert float(loss.total) == pytest.approx(float(exact.total), rel=0.01)


def test_an_overflow_halves_the_scale_and_many_updates_without_one_double_it():
    scale = LossScale()
    skipped = scale.after(1, is_skipped=True)
    assert skipped == LossScale(FIRST / 2, 0, 1)
    grown = replace(skipped, since=GROWTH_EVERY - 1).after(2, is_skipped=False)
    assert grown == LossScale(FIRST, 0, 1)
    assert scale.after(1, is_skipped=False) == LossScale(FIRST, 1, 0)


def test_a_gradient_that_overflows_at_the_least_scale_ran_away():
    with pytest.raises(RunError) as caught:
        LossScale(LEAST).after(7, is_skipped=True)
    assert str(caught.value) == (
        "training: at step 7 the gradient overflows float16 even with its loss scaled by 6.1e-05: "
        "it ran away. Lower training.learning_rate or raise training.warmup_steps, or take "
        "--precision bfloat16 or float32, whose numbers are larger."
    )


def _trained(recipe, out, *, stop_after=None, resume=False, steps=6):
    changes = [f"training.steps={steps}", "training.checkpoint_every=1", "model.dropout=0.1",
               "training.validate_every=50", "training.keep_checkpoints=9"]  # fmt: skip
    events = run(read_recipe(recipe, changes), out, hardware=HALF, resume=resume)
    found = []
    for event in events:
        found.append(event)
        if isinstance(event, Step) and event.progress.step == stop_after:
            events.close()
            break
    return found


@pytest.fixture
def overflows_at(monkeypatch):
    """Makes the gradient of these updates infinite, by their number."""

    def at(*numbers):
        honest, count = Accumulator.gather, iter(range(1, 1000))

        def gather(self, batches, tokens, *, loss_scale=1.0):
            found = honest(self, batches, tokens, loss_scale=loss_scale)
            # the search for unreached weights reads a single batch of a copy before
            if len(batches) > 1 and next(count) in numbers:
                next(self.model.parameters()).grad[0] = math.inf
            return found

        monkeypatch.setattr(Accumulator, "gather", gather)

    return at


def test_an_update_that_overflows_changes_no_weight_and_is_told_and_counted(
    recipe, tmp_path, overflows_at
):
    out = tmp_path / "run"
    overflows_at(2, 4)
    events = _trained(recipe, out)
    steps = [event for event in events if isinstance(event, Step)]
    assert [step.is_skipped for step in steps] == [False, True, False, True, False, False]
    assert steps[-1].progress.loss_scale == LossScale(FIRST / 4, 2, 2)
    told = [each.text for each in events if isinstance(each, Notice) and "float16" in each.text]
    assert told == [
        "step 2: the gradient overflowed float16, so that this update was skipped and the loss "
        "scale is 32,768 from here on. That is how it finds its size; skipped updates are counted "
        "in metrics.jsonl and card.md."
    ]
    first, second, third = (
        read_tensors(out / "checkpoints" / f"step-00000{n}" / "model.safetensors")
        for n in (1, 2, 3)
    )
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(second[name], third[name]) for name in first)
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row.get("skipped")] == [2, 4]
    assert "| updates skipped in float16 | 2 |" in (out / "card.md").read_text()


def test_a_resumed_training_in_float16_ends_with_the_same_weights_and_scale(
    recipe, tmp_path, overflows_at
):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    overflows_at(2)
    _trained(recipe, whole)
    overflows_at(2)
    _trained(recipe, stopped, stop_after=4)
    assert not (stopped / "model.safetensors").exists()
    overflows_at()
    _trained(recipe, stopped, resume=True)
    ends = [read_tensors(out / "model.safetensors") for out in (whole, stopped)]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    states = [
        json.loads((out / "checkpoints" / "step-000006" / "state.json").read_text())["loss_scale"]
        for out in (whole, stopped)
    ]
    assert states[0] == states[1] == {"factor": FIRST / 2, "since": 4, "skipped": 1}


def test_a_resume_in_another_precision_is_told(recipe, tmp_path):
    out = tmp_path / "run"
    _trained(recipe, out, stop_after=2)
    events = list(run(read_recipe(recipe, ["training.steps=3"]), out, resume=True))
    told = [event.text for event in events if isinstance(event, Notice)]
    assert "precision changed since the run was begun; it goes on, but not to the bit" in told


def test_a_damaged_scale_in_a_checkpoint_is_told(recipe, tmp_path):
    out = tmp_path / "run"
    _trained(recipe, out, stop_after=2)
    state = out / "checkpoints" / "step-000001" / "state.json"
    shutil.rmtree(out / "checkpoints" / "step-000002", ignore_errors=True)
    content = json.loads(state.read_text())
    content["loss_scale"]["factor"] = -1.0
    state.write_text(json.dumps(content))
    (state.parent / "hashes.json").unlink()
    with pytest.raises(RunError.__base__, match="loss_scale"):
        list(run(read_recipe(recipe, ["training.steps=3"]), out, resume=True, hardware=HALF))
