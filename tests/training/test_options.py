"""Options of a recipe, each on a small run: what it changes, and what is refused."""

import json

import pytest
import torch
from safetensors.torch import load_file

from regard.cli import main
from regard.data import GENERATORS
from regard.data.corpus import Corpus
from regard.data.subwords import Subwords
from regard.errors import RecipeError, RunError
from regard.models import Transformer
from regard.recipes import read_recipe
from regard.training import run
from regard.training.checkpoints import checkpoints
from regard.training.events import Finished, Notice, Step, Validated
from regard.training.preparation import prepare
from regard.training.workers import SINGLE_PROCESS

RECIPE = """\
[data]
train = { name = "reverse", count = 60 }
valid = { name = "reverse", count = 8 }

[tokens]
kind = "bpe"
size = 270

[model]
size = "tiny"
d_model = 8
n_heads = 2
d_hidden = 8
n_encoder_layers = 1
n_decoder_layers = 1

[training]
steps = 6
target_tokens_per_update = 300
target_tokens_per_batch = 300
warmup_steps = 2
checkpoint_every = 2
keep_checkpoints = 9
validate_every = 2
validate_examples = 4
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def _rows(out):
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]


def test_the_moving_average_is_what_is_validated_and_what_remains(recipe, tmp_path):
    out, plain = tmp_path / "run", tmp_path / "plain"
    short = ["training.steps=3", "training.validate_every=3"]
    averaged = list(run(read_recipe(recipe, [*short, "training.ema_decay=0.5"]), out))
    own = list(run(read_recipe(recipe, short), plain))
    assert [e.nll for e in averaged if isinstance(e, Step)] == [
        e.nll for e in own if isinstance(e, Step)
    ], "what learns is not the average"
    losses = [[e.loss for e in some if isinstance(e, Validated)] for some in (averaged, own)]
    assert losses[0][-1] != losses[1][-1]
    kept = load_file(checkpoints(out / "checkpoints")[-1] / "average.safetensors")
    final, last = (load_file(each / "model.safetensors") for each in (out, plain))
    assert all(torch.equal(final[name], kept[name]) for name in kept)
    assert not all(torch.equal(final[name], last[name]) for name in last)


def test_two_means_at_once_are_refused(recipe):
    with pytest.raises(RecipeError, match=r"ema_decay and training\.average_last are two means"):
        read_recipe(recipe, ["training.ema_decay=0.5", "training.average_last=3"])


MISTAKES = {
    "training.ema_decay=1.0": r"training\.ema_decay must lie in \[0, 1\), got 1\.0",
    "training.r_drop=-1": r"training\.r_drop must be at least 0, got -1\.0",
    "training.stop_on=bleau": "There is no 'bleau' here. Did you mean 'bleu'",
    "training.validate_bleu=maybe": "must be true or false, got 'maybe'",
    "tokens.dropout=1.5": r"tokens\.dropout must lie in \[0, 1\), got 1\.5",
    "training.start_from=7": "must be a path, got 7",
}


@pytest.mark.parametrize(("change", "said"), MISTAKES.items())
def test_a_value_that_cannot_be_is_refused(change, said, recipe):
    with pytest.raises(RecipeError, match=said):
        read_recipe(recipe, [change])


def test_dropout_of_merges_is_for_bpe_alone(recipe):
    changes = ["tokens.dropout=0.1", "tokens.kind=unigram"]
    with pytest.raises(RecipeError, match="leaves out merges, which unigram does not have; take"):
        read_recipe(recipe, changes)


def test_bleu_is_recorded_with_its_signature_and_decides_which_is_best(recipe, tmp_path):
    out = tmp_path / "run"
    # nothing is learned, so that BLEU stands still while the loss cannot matter
    changes = ["training.stop_on=bleu", "training.learning_rate=0.0", "training.patience=1"]
    events = list(run(read_recipe(recipe, changes), out))
    checked = [e for e in events if isinstance(e, Validated)]
    assert [e.is_best for e in checked] == [True, False]
    assert any(
        isinstance(e, Notice) and "no better bleu in 1 validations" in e.text for e in events
    )
    rows = [row for row in _rows(out) if "valid_loss" in row]
    assert [row["bleu"] for row in rows] == [e.bleu for e in checked]
    assert rows[0]["bleu_signature"].startswith("nrefs:1|case:mixed|")
    tokens = int(Corpus.open(out / "corpus" / "valid").target_lengths.sum())
    characters = sum(len(e.targets[0]) for e in GENERATORS["reverse"]("valid", 8))
    expected = rows[0]["valid_loss"] * tokens / characters
    assert rows[0]["valid_loss_per_character"] == pytest.approx(expected)
    assert isinstance(events[-1], Finished)
    assert events[-1].progress.step == 4


def test_texts_are_cut_anew_in_every_epoch_but_never_those_of_the_validation(recipe, tmp_path):
    plan, out = read_recipe(recipe, ["tokens.dropout=0.5"]), tmp_path / "run"
    out.mkdir()
    prepared = prepare(plan, out, SINGLE_PROCESS)

    def targets(material):
        corpus = material.corpus
        return [corpus.target(row).tolist() for row in range(len(corpus))]

    first, second = (targets(prepared.of_epoch(epoch)) for epoch in (0, 1))
    assert first != second
    assert {p.name for p in (out / "corpus").iterdir()} == {"train", "valid", "train-epoch-1"}
    assert targets(prepared.of_epoch(0)) == first, "a pure function of seed and epoch"
    words = Subwords.load(out / "tokenizer.json")
    plain = targets(prepared.train)
    assert [words.decode(ids) for ids in first] == [words.decode(ids) for ids in plain]
    assert sum(map(len, first)) > sum(map(len, plain))
    valid = Corpus.open(out / "corpus" / "valid")
    assert words.encode(words.decode(valid.target(0).tolist())) == valid.target(0).tolist()[:-1]
    other = prepare(
        read_recipe(recipe, ["tokens.dropout=0.5", "training.seed=2"]), out, SINGLE_PROCESS
    )
    assert targets(other.of_epoch(1)) != first


@pytest.fixture
def parent(recipe, tmp_path):
    out = tmp_path / "parent"
    list(run(read_recipe(recipe, ["training.steps=2", "data.train.count=40"]), out))
    return out


def test_training_starts_from_the_weights_and_sub_words_of_another_run(recipe, parent, tmp_path):
    changes = [f"training.start_from={parent}", "training.learning_rate=0.0"]
    out = tmp_path / "child"
    events = list(run(read_recipe(recipe, changes), out))
    assert [e.progress.step for e in events if isinstance(e, Step)] == list(range(1, 7))
    assert any(isinstance(e, Notice) and "starting from the weights of" in e.text for e in events)
    assert (out / "tokenizer.json").read_text() == (parent / "tokenizer.json").read_text()
    before, after = (load_file(each / "model.safetensors") for each in (parent, out))
    # a rate of nothing changes nothing
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_run_that_cannot_be_started_from_says_why(recipe, parent, tmp_path, capsys):
    def said(*changes):
        words = [word for change in changes for word in ("--set", change)]
        out = tmp_path / f"child-{len(list(tmp_path.iterdir()))}"
        assert main(["train", str(recipe), "--out", str(out), *words]) == 2
        return " ".join(capsys.readouterr().err.split())

    start = f"training.start_from={parent}"
    nowhere = said("training.start_from=nowhere")
    assert "training.start_from: 'nowhere' is not a finished run" in nowhere
    assert "has tokens of kind bpe, size 270, joint, this recipe asks for kind bpe, size 280, " in (
        said(start, "tokens.size=280")
    )
    wider = said(start, "model.d_model=16")
    assert "training.start_from: " in wider
    assert "must be (" in wider
    assert "Expected a finished run whose [model] and tokens are this recipe's." in wider


def test_a_batch_that_does_not_fit_is_spoken_of_once_and_counted(recipe, tmp_path, monkeypatch):
    honest = Transformer.loss_inputs

    def loss_inputs(self, source, target):
        if len(source) > 20:
            raise torch.OutOfMemoryError("injected")
        return honest(self, source, target)

    monkeypatch.setattr(Transformer, "loss_inputs", loss_inputs)
    monkeypatch.setattr("regard.training.validation.summed_loss", lambda *_, **__: (1.0, 1))
    out = tmp_path / "run"
    events = list(run(read_recipe(recipe), out))
    said = [e.text for e in events if isinstance(e, Notice) and "did not fit" in e.text]
    assert len(said) == 1
    assert "2 cuts made it fit, and nothing is left out" in said[0]
    assert sum(row.get("splits", 0) for row in _rows(out)) > 1


def test_one_example_too_large_for_the_memory_exits_with_2(recipe, tmp_path, monkeypatch, capsys):
    def loss_inputs(self, source, target):
        raise torch.OutOfMemoryError("injected")

    monkeypatch.setattr(Transformer, "loss_inputs", loss_inputs)
    assert main(["train", str(recipe), "--out", str(tmp_path / "run")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "Lower data.max_tokens, or take a smaller model" in said
    assert "Traceback" not in said


def test_start_from_needs_a_finished_run(recipe, parent, tmp_path):
    (parent / "model.safetensors").unlink()
    plan = read_recipe(recipe, [f"training.start_from={parent}"])
    with pytest.raises(RunError, match=r"training\.start_from: .* there is no model\.safetensors"):
        list(run(plan, tmp_path / "child"))
