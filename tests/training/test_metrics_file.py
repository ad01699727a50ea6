"""Metrics: whole lines, cut back to a step, and the same numbers on TensorBoard's board."""

import json
import math

from regard.training import metrics_file
from regard.training.checkpoints import Progress
from regard.training.events import Notice, Step, Validated
from regard.training.metrics_file import Metrics, open_board, rows


class FakeBoard:
    def __init__(self):
        self.written, self.is_closed = [], False

    def add_scalar(self, tag, scalar_value, global_step):
        self.written.append((tag, scalar_value, global_step))

    def close(self):
        self.is_closed = True


def _step(number):
    return Step(Progress(step=number, target_tokens=9), 2.5, 0.1, 1.5, 7, 9, 0.5, splits=1)


def test_every_number_is_on_the_board_too(tmp_path, monkeypatch):
    board, asked = FakeBoard(), []
    monkeypatch.setattr(
        metrics_file,
        "open_board",
        lambda folder, step: asked.append((folder.name, step)) or board,
    )
    metrics = Metrics(tmp_path)
    metrics.go_on(4)
    metrics.record(_step(5))
    metrics.record(Notice("nothing in numbers"))
    metrics.record(Validated(5, 3.0, 0.25, True, bleu=12.5, signature="nrefs:1"))
    metrics.close()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert asked == [("tensorboard", 4)]
    assert (rows[0]["train_loss"], rows[0]["splits"]) == (2.5, 1)
    assert (rows[0]["source_tokens_per_second"], rows[0]["target_tokens_per_second"]) == (14, 18)
    assert rows[1] == {"step": 5, "valid_loss": 3.0, "exact_match": 0.25, "bleu": 12.5,
                       "bleu_signature": "nrefs:1", "is_best": True, "seconds": 0.0}  # fmt: skip
    assert ("bleu", 12.5, 5) in board.written
    assert ("train_loss", 2.5, 5) in board.written
    assert all(math.isfinite(value) for _, value, _ in board.written)
    assert board.is_closed


def test_without_tensorboard_nothing_happens(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.training.metrics_file.find_spec", lambda name: None)
    assert open_board(tmp_path / "tensorboard", 0) is None
    metrics = Metrics(tmp_path)
    metrics.go_on(0)
    metrics.record(_step(1))
    metrics.close()
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_going_on_forgets_what_is_trained_again_and_half_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics_file, "open_board", lambda folder, step: None)
    lines = [json.dumps({"step": n}) + "\n" for n in (1, 2, 3)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines) + '{"step": 2, "tr')
    metrics = Metrics(tmp_path)
    metrics.go_on(2)
    assert (tmp_path / "metrics.jsonl").read_text() == "".join(lines[:2])


def test_each_line_is_parsed_once(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": n}) + "\n" for n in (1, 2, 3)))
    parsed, parse = [], json.loads
    monkeypatch.setattr(metrics_file, "open_board", lambda folder, step: None)
    monkeypatch.setattr(json, "loads", lambda text: parsed.append(text) or parse(text))
    assert rows(path) == [{"step": 1}, {"step": 2}, {"step": 3}]
    Metrics(tmp_path).go_on(2)
    assert len(parsed) == 6
    assert path.read_text() == '{"step": 1}\n{"step": 2}\n'
