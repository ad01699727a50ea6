"""The study of long sequences: what is asked, what is cut, and what is summed up."""

import json
import math
import random
import statistics
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from regard.data.batches import collate
from regard.data.corpus import Corpus
from regard.hardware.hardware import Hardware
from studies.log_curves import log_curves
from studies.long import page
from studies.long.cells import by_place, guesses, shares, surprise
from studies.long.data import listops_recipe, rows_of, text_recipe
from studies.long.listops import LONGEST, SHORTEST, expressions, tree, turned
from studies.long.study import STUDIES, batches, cell, pending
from studies.long.summary import costs, losses, slope, summary
from studies.long.systems import MODELS, READ_BEFORE, SIZES, SYSTEMS, TAUGHT, System

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def _value(tokens):
    """What an expression is worth, read from left to right."""
    token = tokens.pop(0)
    if not token.startswith("["):
        return int(token)
    values = []
    while tokens[0] != "]":
        values.append(_value(tokens))
    tokens.pop(0)
    return {
        "[MIN": min(values), "[MAX": max(values), "[SM": sum(values) % 10,
        "[MED": math.floor(statistics.median(values)),
    }[token]  # fmt: skip


def test_an_expression_has_its_value_and_its_length():
    made = list(islice(expressions(3), 6))
    for text, value in made:
        tokens = text.split()
        assert SHORTEST <= len(tokens) <= LONGEST
        assert _value(tokens) == value
        assert tokens == []
    assert len({text for text, _ in made}) == 6
    assert made == list(islice(expressions(3), 6))


def test_short_trees_have_every_operator_and_no_more_tokens_than_allowed():
    draws = random.Random(5)
    found = [one for one in (tree(draws, 40) for _ in range(300)) if one is not None]
    assert max(len(tokens) for tokens, _ in found) <= 40
    assert {token for tokens, _ in found for token in tokens} >= {"[MIN", "[MAX", "[MED", "[SM"}
    for tokens, value in found:
        assert _value(list(tokens)) == value


def test_a_file_with_values_first_is_turned(tmp_path):
    (tmp_path / "f.tsv").write_text("9\t[MAX 2 9 ]\n0\t[MIN 0 7 ]\n")
    assert list(turned(tmp_path / "f.tsv")) == [("[MAX 2 9 ]", 9), ("[MIN 0 7 ]", 0)]


def test_rows_are_whole_begin_apart_and_have_no_end():
    corpus = rows_of(np.arange(4, 27, dtype=np.uint16), 7, every=3)
    batch = collate(corpus, np.arange(len(corpus)))
    assert batch.target.tolist() == [list(range(n, n + 7)) for n in range(4, 21, 3)]
    assert batch.source.shape == (6, 0)


@pytest.fixture
def narrow(monkeypatch):
    """The same systems, small enough for a test."""
    for key, value in (("d_model", 16), ("d_hidden", 24)):
        monkeypatch.setitem(SIZES, key, value)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_reads_rows_of_the_length_it_is_made_for(name):
    system, n_tokens = SYSTEMS[name], 11
    length = 13 - READ_BEFORE[system.kind]
    model = MODELS[system.kind](system, 13, n_tokens)
    ids = np.random.default_rng(0).integers(4, n_tokens, 2 * length + 3)
    nats, asked = surprise(model, ids, length, Hardware())
    wanted = len(ids) if system.kind != "masked" else 2 + 2 + 1
    assert asked.sum() == wanted
    assert 0.5 < nats.sum() / asked.sum() < 6.0


@pytest.mark.usefixtures("narrow")
def test_surprise_is_the_cross_entropy_of_each_row_by_itself():
    torch.manual_seed(0)
    model = MODELS["causal"](System("causal", ("full",)), 12, 11)
    ids = np.random.default_rng(0).integers(4, 11, 29)
    nats, asked = surprise(model, ids, 12, Hardware())
    target = torch.from_numpy(ids)
    want = torch.zeros(12, dtype=torch.float64)
    for row in (target[:12], target[12:24], target[24:]):
        read = torch.cat([torch.tensor([1]), row[:-1]])
        with torch.no_grad():
            want[: len(row)] += cross_entropy(model(read[None])[0], row, reduction="none").double()
    torch.testing.assert_close(nats, want, rtol=1e-5, atol=1e-5)
    assert asked.tolist() == [3] * 5 + [2] * 7


def test_losses_by_place_sum_up_to_the_whole():
    nats, asked = torch.arange(600.0).double(), torch.full((600,), 2.0).double()
    parts = by_place(nats, asked)
    assert [end for end, *_ in parts] == [128, 512, 600]
    assert sum(loss * count for _, loss, count in parts) == pytest.approx(float(nats.sum()))
    assert parts[0][1] == pytest.approx(127 / 4)


def test_an_lstm_of_six_layers_has_the_matrices_of_four_layers_of_attention():
    models = [MODELS[SYSTEMS[name].kind](SYSTEMS[name], 16, 5) for name in ("full", "LSTM")]
    full, recurrent = (sum(p.numel() for p in m.parameters() if p.dim() > 1) for m in models)
    assert full == recurrent


def test_shares_tell_long_expressions_from_short_ones():
    parts = shares([600, 1024, 1025, 1900], [True, False, True, True])
    assert parts["short"] == {"expressions": 2, "accuracy": 0.5}
    assert parts["long"] == {"expressions": 2, "accuracy": 1.0}
    assert parts["all"]["accuracy"] == 0.75
    assert shares([600], [True])["long"]["accuracy"] is None


def test_guesses_know_the_commonest_value_and_that_of_the_first_operator():
    operators, values = [5, 5, 5, 6, 6], [9, 9, 8, 7, 7]
    begins = np.arange(0, 11, 2)
    sources = np.array([x for one in operators for x in (one, 2)], dtype=np.uint16)
    targets = np.array([x for one in values for x in (one, 2)], dtype=np.uint16)
    corpus = Corpus(Path(), sources, targets, begins, begins, np.arange(5), ("", ""))
    assert guesses(corpus) == {"commonest": 0.4, "first operator": 0.8}


def test_the_recipes_take_every_way_to_look(tmp_path):
    assert text_recipe(tmp_path).tokens.kind == "bpe"
    for system in TAUGHT.values():
        kind, key = {"causal": ("causal", "attends"), "masked": ("encoder", "encoder_attends")}[
            system.kind
        ]
        ways = json.dumps(list(system.attends))
        recipe = listops_recipe(kind, tmp_path, [f"model.{key}={ways}"])
        assert getattr(recipe.model, key) == system.choices


def test_what_is_done_is_not_done_again_and_a_system_is_timed_in_one_process(tmp_path):
    results = tmp_path / "results.jsonl"
    results.write_text(json.dumps({"study": "cost", "system": "full", "length": 512}) + "\n")
    left = pending(results, "cost", STUDIES["cost"])
    assert len(left) == len(STUDIES["cost"]) - 1
    assert [{name for name, _ in work} for work in batches("cost", left)] == [{n} for n in SYSTEMS]
    assert max(n for name, n in left if name == "LSTM") == 16384
    assert batches("listops", STUDIES["listops"]) == [[(name, None)] for name in TAUGHT]
    assert (cell("full, both ways/512"), cell("full/")) == (
        ("full, both ways", 512),
        ("full", None),
    )


def test_a_slope_is_the_power_of_the_length_where_it_is_fitted():
    lengths = [512, 2048, 8192, 16384]
    assert slope(lengths, [9, *(3e-9 * n**2 for n in lengths[1:])]) == pytest.approx(2)
    assert slope(lengths, [9, *(5e-3 * n for n in lengths[1:])]) == pytest.approx(1)
    assert slope(lengths[:2], [1, 2]) is None


def _cost(name, length, seconds, peak=None):
    return {
        "study": "cost", "system": name, "length": length, "rows": 65536 // length,
        "seconds": seconds, "peak_bytes": peak, "held_bytes": None if peak is None else 100,
        "device": "H", "precision": "bfloat16",
    }  # fmt: skip


def _text(name, length, kind, asked):
    return {
        "study": "text", "system": name, "kind": kind, "length": length, "parameters": 7,
        "loss": 4.0, "nats": 4.0 * asked, "asked": asked, "words": 800, "valid_tokens": 1000,
        "train_tokens": 9, "updates": 3, "seed": 1, "tokens": 48, "losses": [[48, 4.0]],
        "by_place": [[128, 4.5, 10.0], [512, 3.9, 30.0]], "peak_bytes": None,
    }  # fmt: skip


LISTOPS = {
    "study": "listops", "system": "full", "kind": "causal", "length": None, "parameters": 7,
    "updates": 5, "rows": 40, "guesses": {"commonest": 0.2, "first operator": 0.4},
    "accuracies": [[5, 0.3]], "losses": [2.0, 1.9],
    "accuracy": shares([600, 1900], [True, False]),
}  # fmt: skip
MADE = [
    _cost("full", 2048, 1.0, 420), _cost("full", 8192, 1.0, 180), _cost("window", 2048, 2.0, 420),
    _text("full", 512, "causal", 1000), _text("full", 16384, "causal", 1000),
    _text("Linformer", 512, "masked", 150), LISTOPS,
]  # fmt: skip


def test_costs_are_those_of_one_row():
    found = costs([MADE[1], MADE[0]])
    assert found["lengths"] == [2048, 8192]
    assert found["row_seconds"] == [1 / 32, 1 / 8]
    assert found["tokens_per_second"] == [65536, 65536]
    assert found["row_bytes"] == [10, 10]
    assert found["time_slope"] == pytest.approx(1)
    assert found["memory_slope"] == pytest.approx(0)
    assert "row_bytes" not in costs([_cost("full", 2048, 1.0)])


def test_a_perplexity_per_word_needs_every_token_of_the_text():
    found = losses([MADE[3]])["lengths"]["512"]
    assert found["word_perplexity"] == pytest.approx(math.exp(4 * 1000 / 800))
    assert losses([MADE[5]])["lengths"]["512"]["word_perplexity"] is None


def test_a_summary_refuses_unequal_budgets_and_its_page_can_be_made_of_parts(monkeypatch, tmp_path):
    with pytest.raises(SystemExit, match="expected one and the same"):
        summary([*MADE, {**MADE[3], "updates": 4}])
    found = summary(MADE)
    assert list(found["cost"]) == ["full", "window"]
    (tmp_path / "long.json").write_text(json.dumps(found))
    monkeypatch.setattr(page, "RESULTS", tmp_path / "long.json")
    made = page.tables()
    assert "| full | 66 | 66 | 1.00 |" in made["speed"]
    assert "| window | 33 | | |" in made["speed"]
    assert "| full | next word | 4.000 / **148** | 4.000 / **148** |" in made["text"]
    assert "| Linformer | hidden words | 4.000 | |" in made["text"]
    assert "| full | 4.500 | 3.900 |" in made["places"]
    assert "| full | 0.0 | 50.0 | 100.0 | 0.0 | 1.90 |" in made["listops"]
    drawn = {path.stem: text for path, text in page.pictures().items()}
    assert set(drawn) == {"long-time", "long-memory", "long-places", "long-listops"}
    assert "full: 1.00" in drawn["long-time"]


def test_a_power_is_a_straight_line_on_two_logarithmic_axes():
    drawn = log_curves({"a": [(n, 3e-7 * n**1.5) for n in (10, 100, 1000)]}, title="t", x_title="x")
    path = drawn.partition('points="')[2].partition('"')[0]
    (a, b), (c, d), (e, f) = (map(float, point.split(",")) for point in path.split())
    assert (c - a, d - b) == (pytest.approx(e - c, abs=0.2), pytest.approx(f - d, abs=0.2))
    assert "10<" in drawn and "1,000<" in drawn
