"""The report: the run's own numbers, one file, no request, hostile text stays text."""

import json
import re

from regard.training.report import write_report


def _run(tmp_path, rows, recipe="[training]\nsteps = 3\n"):
    run = tmp_path / "run <b>"
    run.mkdir()
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (run / "recipe.toml").write_text(recipe)
    return run


def _step(step, loss):
    return {"step": step, "train_loss": loss, "learning_rate": 0.1, "target_tokens": 9 * step,
            "target_tokens_per_second": 1234.0}  # fmt: skip


def test_it_draws_a_point_for_every_measurement(tmp_path):
    rows = [_step(1, 4.0), _step(2, 3.0), {"step": 2, "valid_loss": 3.5, "exact_match": 0.25}]
    page = write_report(_run(tmp_path, rows)).read_text()
    lines = re.findall(r'<polyline[^>]*points="([^"]*)"', page)
    assert [len(points.split()) for points in lines] == [2, 1, 1, 2]
    high, low = (float(p.split(",")[1]) for p in lines[0].split())
    assert high < low, "a larger loss stands higher, which is a smaller y"
    assert "3.5000 at update 2" in page
    assert "0.2500" in page


def test_bleu_is_drawn_where_it_was_measured(tmp_path):
    checked = {"step": 2, "valid_loss": 3.5, "exact_match": 0.25, "bleu": 31.234,
               "bleu_signature": "nrefs:1|tok:13a"}  # fmt: skip
    page = write_report(_run(tmp_path, [_step(1, 4.0), checked])).read_text()
    assert "BLEU, greedy (nrefs:1|tok:13a)" in page
    assert "<th>last BLEU</th><td>31.23</td>" in page
    assert page.count("<polyline") == 5


def test_a_loss_that_was_no_number_leaves_a_gap(tmp_path):
    rows = [_step(1, 4.0), _step(2, None), {"step": 2, "valid_loss": None, "exact_match": 0.0}]
    page = write_report(_run(tmp_path, rows)).read_text()
    lines = re.findall(r'<polyline[^>]*points="([^"]*)"', page)
    assert [len(points.split()) for points in lines] == [1, 0, 1, 2]
    assert "best validation loss" not in page


def test_it_is_one_file_that_asks_nothing_of_the_network(tmp_path):
    page = write_report(_run(tmp_path, [_step(1, 4.0)])).read_text()
    assert not re.search(r"https?://|<script|<link|url\(", page)


def test_hostile_names_and_recipes_stay_text(tmp_path):
    page = write_report(_run(tmp_path, [], recipe='x = "<script>alert(1)</script>"')).read_text()
    assert "<script>" not in page
    assert "<b>" not in page


def test_thousands_of_updates_are_thinned(tmp_path):
    page = write_report(_run(tmp_path, [_step(n, 1 / n) for n in range(1, 5001)])).read_text()
    assert len(page) < 60_000
