"""regard bench train: the race is fair, the rows are right, and mistakes are told apart."""

import io
import json
import math
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, kl_div

from regard.bench import contestants, contests, training_gpu
from regard.bench.contestants import CONTESTANTS, marian_loss, training_recipe
from regard.bench.joeynmt_worker import Asked, ProcessMeter, entropy
from regard.bench.race import (
    Course,
    Round,
    joeynmt_command,
    loss_problem,
    own_command,
    race,
    ratio,
)
from regard.bench.sentences import english_german, write_for_joeynmt
from regard.bench.sizes import TransformerSize
from regard.bench.training_gpu import TrainingWork, gpu_report
from regard.bench.training_race import PEERS, Setting, race_report
from regard.bench.training_report import training_text
from regard.cli import main
from regard.data.batches import collate
from regard.errors import DataError, MissingExtra, SettingError
from regard.hardware.hardware import Hardware
from regard.training.loop import epoch_updates

TINY = TransformerSize(d_model=8, n_heads=2, d_hidden=12, n_layers=1, n_tokens=300)


def _worker(tmp_path, name, speeds, losses=(5.6, 5.0)):
    """A contestant that has learned its answers by heart."""
    path = tmp_path / f"{name}.py"
    path.write_text(
        "import sys, json\n"
        f"speeds, losses = iter({list(speeds)}), {list(losses)}\n"
        "for line in sys.stdin:\n"
        "    n = int(line)\n"
        "    said = dict(tokens=100 * n, seconds=100 * n / next(speeds),\n"
        "                loss=losses[0], peak_bytes=7)\n"
        "    losses = losses[1:] or losses\n"
        "    print(json.dumps(said), flush=True)\n"
    )
    return [sys.executable, str(path)]


def test_a_race_compares_round_by_round_and_takes_the_median(tmp_path):
    # the machine is ten times slower in the second round, for both
    slow = _worker(tmp_path, "slow", [1, 1, 100, 10, 100])
    fast = _worker(tmp_path, "fast", [1, 1, 200, 30, 500])
    shares = []
    found = race(
        {"slow": slow, "fast": fast}, n_tokens=270, seconds=0, threads=1, each_round=shares.append
    )
    assert ratio(found["fast"], found["slow"]) == pytest.approx(3.0)
    assert found["fast"].speed == pytest.approx(200)
    assert len(found["slow"].rounds) == 3 == len(shares)
    assert shares[-1] == 1.0
    assert found["slow"].problem is None


def test_a_worker_that_dies_is_quoted(tmp_path):
    path = tmp_path / "dies.py"
    path.write_text("raise SystemExit('no such kernel')\n")
    with pytest.raises(ChildProcessError, match="poor failed: no such kernel"):
        race({"poor": [sys.executable, str(path)]}, n_tokens=9, seconds=0, threads=1)


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (12.0, 5.0, "begins at 12.00, not near 5.60"),
        (5.6, 5.7, "goes from 5.60 to 5.70"),
        (5.6, math.nan, "goes from 5.60 to nan"),
    ],
)
def test_a_speed_without_learning_means_nothing(first, last, text):
    rounds = (Round(10, 1.0, last, 0),)
    assert text in Course(Round(10, 1.0, first, 0), rounds, 270).problem
    assert loss_problem(5.6, 5.5, 270) is None


def test_the_corpus_is_both_files_in_one_vocabulary(folder, corpus):
    assert len(corpus) == 40
    assert corpus.fingerprints[0] == corpus.fingerprints[1]


def test_missing_data_are_named_with_where_to_get_them(tmp_path, capsys):
    with pytest.raises(DataError, match=r"has no train\.en\.gz and train\.de\.gz.*multi30k"):
        english_german(tmp_path, tmp_path / "corpus")
    assert main(["bench", "train", "--device", "cpu"]) == 2
    assert "--data takes a folder with train.en.gz and train.de.gz" in capsys.readouterr().err


def test_joeynmt_reads_the_same_pieces(corpus, tmp_path):
    written = write_for_joeynmt(corpus, TINY, tmp_path / "joey")
    lines = (tmp_path / "joey" / "train.trg").read_text().splitlines()
    assert [[int(word[1:]) for word in line.split()] for line in lines] == [
        corpus.target(row)[:-1].tolist() for row in range(len(corpus))
    ]
    words = (tmp_path / "joey" / "vocabulary.txt").read_text().split()
    # its four special tokens take the place of ours
    assert len(words) + 4 == TINY.n_tokens
    assert {word for line in lines for word in line.split()} <= set(words)
    asked = json.loads(written.read_text())
    assert asked["model"]["encoder"]["ff_size"] == 12
    assert asked["training"]["batch_size"] == 4096
    assert asked["training"]["scheduling"] != "plateau"


def test_the_entropy_turns_joeynmts_loss_into_a_cross_entropy():
    n, eps, gold = 11, 0.2, 3
    target = torch.full((n,), eps / (n - 2), dtype=torch.float64)
    target[gold], target[1] = 1 - eps, 0.0
    logs = torch.randn(n, dtype=torch.float64).log_softmax(-1)
    wanted = -(target * logs).sum()
    got = kl_div(logs, target, reduction="sum") + entropy(eps, n)
    assert float(got) == pytest.approx(float(wanted), rel=1e-12)


def test_joeynmts_updates_are_counted_between_questions(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdin", io.StringIO("2\n1\n"))
    asked = Asked(out, ProcessMeter(), 7)
    for tokens, loss in ((10, 3.0), (20, 2.5), (40, 2.0)):
        asked.wait()
        asked.count(tokens, loss)
    said = json.loads(out.getvalue())
    assert (said["tokens"], said["loss"], said["parameters"]) == (30, 2.5, 7)
    assert asked.tokens == 40
    assert asked.left == 0


def test_regard_and_marian_meet_the_same_batches(corpus, monkeypatch):
    met = []
    monkeypatch.setattr(contestants, "build_marian", lambda size: _Pretender(size, met))
    regard, marian = (CONTESTANTS[name](corpus, TINY, Hardware()) for name in ("regard", "marian"))
    batches = [
        collate(corpus, rows)
        for update in epoch_updates(corpus, training_recipe(4096), 0)
        for rows in update
    ]
    tokens = [int(batch.target_lengths.sum()) for batch in batches]
    assert [next(regard.updates).tokens for _ in batches] == tokens
    assert [next(marian.updates).tokens for _ in batches] == tokens
    assert torch.equal(met[0], batches[0].source)
    assert marian.parameters == 300 * 300


class _Pretender(nn.Module):
    """Takes and gives what Hugging Face's models do."""

    def __init__(self, size, met):
        super().__init__()
        self.table, self.met = nn.Embedding(size.n_tokens, size.n_tokens), met
        nn.init.zeros_(self.table.weight)

    def forward(self, *, input_ids, attention_mask, decoder_input_ids, use_cache):
        assert attention_mask is None or torch.equal(attention_mask, (input_ids != 0).long())
        assert not use_cache
        self.met.append(input_ids)
        return SimpleNamespace(logits=self.table(decoder_input_ids))


def test_marians_loss_leaves_padding_out():
    target = torch.tensor([[5, 6, 2, 0], [7, 2, 0, 0]])
    model = _Pretender(TransformerSize(8, 2, 8, 1, 9), [])
    nn.init.normal_(model.table.weight)
    got = marian_loss(model, target, target, (target != 0).long())
    read = torch.tensor([1, 5, 6, 1, 7])
    wanted = cross_entropy(
        model.table(read), torch.tensor([5, 6, 2, 7, 2]), label_smoothing=0.1
    )  # fmt: skip
    assert got.item() == pytest.approx(wanted.item(), rel=1e-6)


def test_a_peer_that_is_not_installed_is_a_mistake_with_a_remedy(corpus, tmp_path, monkeypatch):
    with pytest.raises(SettingError, match=r"there is no interpreter '.*nowhere'"):
        joeynmt_command(tmp_path / "nowhere", tmp_path / "c.json")
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\nexit 1\n")
    bare.chmod(0o755)
    with pytest.raises(MissingExtra, match="named by --joeynmt-python, or name other --peers"):
        joeynmt_command(bare, tmp_path / "c.json")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match="'marian' needs transformers"):
        PEERS["marian"](Setting(corpus, TINY, tmp_path))


@pytest.mark.processes
def test_a_real_worker_learns_and_the_report_has_its_ratios(folder):
    report = race_report(folder, size=TINY, peers=[], seconds=0, threads=1)
    (row,) = report["rows"]
    assert row["name"] == "regard"
    assert row["problem"] is None
    assert row["regard_is_faster"] == 1.0
    assert row["peak_bytes"] > 0
    assert row["first_loss"] == pytest.approx(math.log(300), abs=1)
    shown = training_text({"regard": "1", "torch": "2", "device": "cpu", **report})
    assert "width 8, 2 heads, 1 + 1 layers, inner width 12, 300 tokens, float32" in shown


def test_a_worker_is_started_with_its_name_corpus_and_size(tmp_path):
    command = own_command("marian", tmp_path, TINY)
    assert command[0] == sys.executable
    assert command[3:6] == ["marian", str(tmp_path), "transformer"]
    assert TransformerSize(**json.loads(command[6])) == TINY
    assert command[7] == "cpu"


def test_the_gpu_report_has_full_batches_a_peer_and_real_sentences(folder, monkeypatch):
    monkeypatch.setattr(training_gpu, "build_marian", lambda size: _Pretender(size, []))
    shares = []
    report = gpu_report(
        folder,
        device=torch.device("cpu"),
        size=TINY,
        work=TrainingWork(rows=6, length=5, real_tokens=200, warm_up=1, repeats=3),
        each_part=shares.append,
    )
    names = ["regard", "marian, compiled", "regard, real", "regard, real, whole loop"]
    assert [row["name"] for row in report["rows"]] == names
    regard, marian, real, loop = report["rows"]
    assert marian["regard_is_faster"] == pytest.approx(
        regard["tokens_per_second"] / marian["tokens_per_second"]
    )
    assert report["real_share"] == real["tokens_per_second"] / regard["tokens_per_second"]
    assert report["real_loop_share"] == loop["tokens_per_second"] / regard["tokens_per_second"]
    assert all(row["problem"] is None for row in report["rows"])
    assert shares == [0.3, 0.6, 1.0]
    shown = training_text({"regard": "1", "torch": "2", "device": "a card", **report})
    assert "% of the speed of full batches" in shown
    assert "marian, compiled" in shown


def test_what_is_wrong_is_shown_under_the_table():
    row = {"name": "regard", "tokens_per_second": 2.0, "peak_bytes": 1 << 20, "first_loss": 1.0,
           "last_loss": 2.0, "regard_is_faster": None, "regard_memory": None,
           "problem": "wrong: it forgets"}  # fmt: skip
    report = {"regard": "1", "torch": "2", "device": "cpu", "threads": 2, "precision": "float32",
              "described": "a model", "rows": [row]}  # fmt: skip
    assert training_text(report).endswith("regard: wrong: it forgets")


MISTAKES = {
    "--device cpu --peers marain": "Did you mean 'marian'",
    "--device cuda": "torch sees only cpu",
    "--device cpu --data nowhere": "'nowhere' has no train.en.gz and train.de.gz",
}


@pytest.mark.parametrize(("words", "text"), MISTAKES.items())
def test_a_mistake_exits_with_2_and_says_what_to_do(words, text, capsys):
    assert main(["bench", "train", *words.split()]) == 2
    said = capsys.readouterr()
    assert text in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize("verb", ["attention", "train"])
def test_every_benchmark_has_help_with_an_example(verb, capsys):
    assert main(["bench", verb, "--help"]) == 0
    assert f"Example: regard bench {verb}" in capsys.readouterr().out


def test_the_verb_prints_and_writes_what_was_measured(folder, tmp_path, monkeypatch, capsys):
    def measured(data, *, size, peers, seconds, threads, device, joeynmt_python, each_round):
        assert (data, list(peers), seconds, device) == (folder, [], 3.0, "cpu")
        each_round(1.0)
        found = {"name": "regard", "tokens_per_second": 2.0, "peak_bytes": 1 << 20,
                 "first_loss": 5.0, "last_loss": 4.0, "regard_is_faster": 1.0,
                 "regard_memory": 1.0, "problem": None}  # fmt: skip
        return {"precision": "float32", "threads": threads, "described": "a model", "rows": [found]}

    monkeypatch.setattr(contests, "race_report", measured)
    out = tmp_path / "out.json"
    words = f"bench train --device cpu --data {folder} --peers none --seconds 3 --out {out}"
    assert main(words.split()) == 0
    assert "regard" in capsys.readouterr().out
    written = json.loads(out.read_text())
    assert written["rows"][0]["tokens_per_second"] == 2.0
    assert {"date", "torch", "processor", "cores", "device", "packages"} <= set(written)
