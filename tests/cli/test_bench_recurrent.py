"""regard bench train --model recurrent: both toolkits build one model and meet the same batches."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

from regard.bench import contests, joeynmt_worker
from regard.bench.contestants import build_regard, epoch_rows
from regard.bench.contests import CONTESTS
from regard.bench.joeynmt_worker import GivenBatches, do_without
from regard.bench.race import Plan, race
from regard.bench.sentences import write_for_joeynmt
from regard.bench.sizes import RecurrentSize
from regard.bench.training_race import PEERS, Setting, race_report
from regard.bench.training_report import training_text
from regard.cli import main
from regard.data.batches import collate

TINY = RecurrentSize(d_hidden=6, n_layers=2, n_tokens=300, batch_tokens=90)


def _count(parts):
    return sum(weight.numel() for part in parts for weight in part.parameters())


@pytest.mark.parametrize("n_layers", [1, 2, 3])
def test_the_two_models_differ_in_bridge_and_biases_alone(n_layers):
    d, n = 6, 300
    size = RecurrentSize(d_hidden=d, n_layers=n_layers, n_tokens=n)
    encoder, decoder = size.joeynmt()
    theirs = [
        nn.Embedding(n, encoder["embeddings"]["embedding_dim"]),
        nn.LSTM(d, encoder["hidden_size"], encoder["num_layers"], bidirectional=True),
        nn.LSTM(d + d, decoder["hidden_size"], decoder["num_layers"]),
        nn.Linear(2 * d, d, bias=False),
        nn.Linear(3 * d, d),
        nn.Linear(2 * d, d),
    ]
    one_matrix_and_bias, matrices = 2 * d * d + d, 2 * n_layers * d * d
    second_biases, bias_of_readout = 3 * n_layers * 4 * d, d
    rest = _count(theirs) - one_matrix_and_bias - second_biases - bias_of_readout
    assert _count([build_regard(size)]) == rest + matrices


def test_joeynmt_is_asked_for_luongs_model(corpus, tmp_path):
    asked = json.loads(write_for_joeynmt(corpus, TINY, tmp_path / "joey").read_text())
    encoder, decoder = asked["model"]["encoder"], asked["model"]["decoder"]
    assert encoder["bidirectional"]
    assert (decoder["attention"], decoder["input_feeding"]) == ("luong", True)
    assert {encoder["rnn_type"], decoder["rnn_type"]} == {"lstm"}
    assert encoder["dropout"] == decoder["dropout"] == TINY.spec().dropout
    assert decoder["hidden_dropout"] == TINY.spec().readout_dropout
    assert asked["training"]["batch_size"] == 90
    assert (asked["use_cuda"], asked["fp16"]) == (False, False)
    assert "batches" not in asked


def test_joeynmt_may_be_given_regards_batches(corpus, tmp_path):
    folder = tmp_path / "joey"
    epochs = [epoch_rows(corpus, TINY, epoch) for epoch in range(2)]
    written = write_for_joeynmt(corpus, TINY, folder, device="cuda", epochs=epochs)
    asked = json.loads(written.read_text())
    assert (asked["use_cuda"], asked["fp16"]) == (True, True)
    for epoch, given in enumerate(asked["batches"]):
        assert sorted(row for rows in given for row in rows) == list(range(40))
        batches = [collate(corpus, rows) for rows in epochs[epoch]]
        assert [batch.rows.tolist() for batch in batches] == given
    assert asked["batches"][0] != asked["batches"][1]


def test_given_batches_come_again_after_the_last_epoch(monkeypatch):
    monkeypatch.setattr(GivenBatches, "epochs", [[[1, 2], [3]], [[2, 3], [1]]])
    sampler = GivenBatches(None, batch_size=5, drop_last=False, seed=1)
    sampler.set_seed(5)
    assert [list(sampler) for _ in range(3)] == [[[1, 2], [3]], [[2, 3], [1]], [[1, 2], [3]]]


def test_what_a_step_does_not_need_may_be_missing(monkeypatch):
    for name in ("no_such_plots", "no_such_plots.pdf"):
        monkeypatch.setitem(sys.modules, name, None)
    assert do_without(("json", "no_such_plots", "no_such_plots.pdf")) == [
        "no_such_plots",
        "no_such_plots.pdf",
    ]
    assert sys.modules["json"] is json
    from no_such_plots import rcParams  # noqa: F401 - that it can be imported is what is tested
    from no_such_plots.pdf import Pages

    assert Pages("a file") is not None


JOEY = {
    "config": """
def parse_global_args(cfg, rank, mode):
    from types import SimpleNamespace as N
    import torch
    return N(device=torch.device("cpu"), model_dir=None, n_gpu=0, num_workers=0, autocast={},
             seed=1, test=None, train=N(label_smoothing=0.0))
def set_validation_args(args):
    return args
""",
    "datasets": """
from types import SimpleNamespace as N
class TokenBatchSampler:
    def __init__(self, *args, **kwargs):
        raise RuntimeError("its own batches")
def make_iter():
    from torch.utils.data import DataLoader
    sampler = TokenBatchSampler("a sampler", batch_size=4, drop_last=False, seed=1)
    return DataLoader([10, 20, 30], batch_sampler=sampler,
                      collate_fn=lambda rows: N(ntokens=sum(rows)))
""",
    "prediction": """
import yaml, matplotlib.pyplot, sacrebleu.metrics
def prepare(args, rank, mode):
    import torch
    model = torch.nn.Linear(3, 4)
    model.trg_vocab = range(9)
    return model, None, None, None
""",
    "training": """
class TrainManager:
    def __init__(self, *, model, model_dir, device, n_gpu, rank, num_workers, autocast, seed,
                 train_args, dev_args):
        self.steps = 0
    def _train_step(self, batch):
        self.steps += 1
        print("a library speaks")
        return 5.0 - self.steps, 0
    def train_and_validate(self, train_data, valid_data):
        from joeynmt.datasets import make_iter
        loader = make_iter()
        for epoch in range(9):
            loader.batch_sampler.set_seed(epoch)
            for batch in loader:
                self._train_step(batch)
""",
}


@pytest.mark.processes
def test_joeynmts_loop_is_driven_over_the_given_batches(tmp_path):
    package = tmp_path / "joeynmt"
    package.mkdir()
    for name, text in {"__init__": "", **JOEY}.items():
        (package / f"{name}.py").write_text(text)
    asked = tmp_path / "asked.json"
    asked.write_text(json.dumps({"batches": [[[0, 1], [2]], [[1], [2, 0]]]}))
    found = subprocess.run(
        [sys.executable, joeynmt_worker.__file__, str(asked)],
        input="1\n3\n\n",
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
    )
    first, then = (json.loads(line) for line in found.stdout.splitlines())
    assert (first["tokens"], first["loss"], first["parameters"]) == (30, 4.0, 16)
    # the rest of the first epoch, and all of the second
    assert (then["tokens"], then["loss"]) == (30 + 20 + 40, 1.0)


def test_regard_alone_warms_up_for_its_graphs(tmp_path):
    commands = {}
    for name in ("regard", "peer"):
        path = tmp_path / f"{name}.py"
        path.write_text(
            "import sys, json\n"
            "for line in sys.stdin:\n"
            f"    open({str(tmp_path / name)!r}, 'a').write(line)\n"
            "    print(json.dumps(dict(tokens=1, seconds=1.0, loss=5.0, peak_bytes=7,\n"
            "                          parameters=9)), flush=True)\n"
        )
        commands[name] = [sys.executable, str(path)]
    plan = Plan(updates=6, rounds=2, warm_up=3, warm_up_of_regard=50)
    found = race(commands, n_tokens=150, seconds=0, threads=1, plan=plan)
    assert (tmp_path / "regard").read_text().split() == ["1", "53", "6", "6"]
    assert (tmp_path / "peer").read_text().split() == ["1", "3", "6", "6"]
    assert found["peer"].rounds[-1].parameters == 9


@pytest.mark.processes
def test_a_real_recurrent_worker_learns(folder):
    report = race_report(folder, size=TINY, peers=[], seconds=0, threads=1)
    (row,) = report["rows"]
    assert row["problem"] is None
    assert row["parameters"] == _count([build_regard(TINY)])
    assert (report["model"], report["batch_tokens"]) == ("recurrent", 90)
    shown = training_text({"regard": "1", "torch": "2", "device": "cpu", **report})
    assert "2 + 2 LSTM layers of 6, the source read both ways, general score" in shown
    assert f"Parameters: regard {row['parameters']:,}." in shown


def test_every_contest_has_its_own_peers():
    assert set(CONTESTS) == {"transformer", "recurrent"}
    for devices in CONTESTS.values():
        assert set(devices) == {"cpu", "cuda"}
        assert {name for contest in devices.values() for name in contest.peers} <= set(PEERS)
    assert "marian" not in CONTESTS["recurrent"]["cuda"].peers


def test_both_peers_of_joeynmt_are_started(corpus, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    setting = Setting(corpus, TINY, tmp_path, python)
    for name in ("joeynmt", "joeynmt_same_batches"):
        interpreter, script, asked = PEERS[name](setting)
        assert (interpreter, script) == (str(python), joeynmt_worker.__file__)
        has_batches = "batches" in json.loads(Path(asked).read_text())
        assert has_batches == (name == "joeynmt_same_batches")


MISTAKES = {
    "--model recurent": "Did you mean 'recurrent'",
    "--model recurrent --peers marian": "'marian'",
}


@pytest.mark.parametrize(("words", "text"), MISTAKES.items())
def test_a_mistake_exits_with_2_and_says_what_to_do(words, text, capsys):
    assert main(["bench", "train", "--device", "cpu", *words.split()]) == 2
    said = capsys.readouterr()
    assert text in said.err
    assert said.out == ""


def test_the_race_runs_without_the_command_line(folder, monkeypatch, capsys):
    seen = {}

    def measured(data, **asked):
        seen.update(asked, data=data)
        return {"precision": "float32", "threads": 1, "described": "a model", "rows": []}

    monkeypatch.setattr(contests, "race_report", measured)
    monkeypatch.setattr(sys, "argv", ["-c", "recurrent", str(folder), "7"])
    contests.main()
    table, _, report = capsys.readouterr().out.rstrip().rpartition("\n")
    assert "a model, float32" in table
    assert json.loads(report)["precision"] == "float32"
    assert (seen["data"], seen["seconds"], seen["device"]) == (folder, 7.0, "cpu")
    assert seen["size"].d_hidden == 512
    assert list(seen["peers"]) == ["joeynmt", "joeynmt_same_batches"]
