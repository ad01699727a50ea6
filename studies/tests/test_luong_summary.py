"""The study of Luong's mechanisms: the script that learns, and the one that sums up."""

import argparse
import json
from pathlib import Path

import pytest

from regard.data import Example
from regard.evaluating import AlignmentCounts, Gold, Resampling, bleu
from regard.models import build_model
from studies.luong.all_parts import BEST, gold_sides, parts, write_gold_sides
from studies.luong.german import KINDS
from studies.luong.german import recipe_of as recipe_of_german
from studies.luong.study import GERMAN, SLIP, SYSTEMS, german_gold, pending, recipe_of
from studies.luong.summary import (
    by_place,
    german,
    read_test,
    summary,
    tagging,
    with_costs,
    written,
)
from studies.luong.tagging import SYSTEMS as TAGGERS
from studies.luong.tagging import recipe_of as recipe_of_tagger
from studies.side_by_side import history_of

ROOT = Path(__file__).parents[2]
QUICK = Resampling(samples=20, trials=20)


@pytest.mark.parametrize("study", SYSTEMS)
def test_every_system_is_a_recipe_and_none_is_another(study, tmp_path):
    given = argparse.Namespace(data=tmp_path, out=tmp_path, set=[])
    recipes = [recipe_of(study, name, given, seed=3) for name in SYSTEMS[study]]
    models = [one.model for one in recipes]
    assert all(one not in models[:place] for place, one in enumerate(models))
    assert {one.training.seed for one in recipes} == {3}
    first = recipes[0]
    for one in recipes:
        assert (one.data, one.tokens, one.training) == (first.data, first.tokens, first.training)


@pytest.mark.parametrize("name", ["general, soft", "Bahdanau", "convolution", "transformer"])
def test_the_parameters_are_those_of_the_model(name, tmp_path):
    kept = json.loads((ROOT / "studies" / "luong" / "results.json").read_text())
    given = argparse.Namespace(data=tmp_path, out=tmp_path, set=[])
    recipe = recipe_of("multi30k", name, given, seed=1)
    size = recipe.tokens.size
    model = build_model(recipe.model, n_source_tokens=size, n_target_tokens=size)
    counted = kept["studies"]["multi30k"]["systems"][name]["parameters"]
    assert sum(parameter.numel() for parameter in model.parameters()) == counted


def test_what_is_done_is_not_done_again(tmp_path):
    lines = [{"study": "a", "system": "x", "seed": 1}, {"study": "a", "system": "x"}]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    wanted = [("x", 1), ("x", 2), ("x", None), ("y", None)]
    left = pending(tmp_path / "results.jsonl", "a", wanted)
    assert list(left) == [("x", 2), ("y", None)]
    assert list(pending(tmp_path / "none.jsonl", "a", wanted)) == wanted


WORDS = ["the", "old", "man", "reads", "a", "long", "book", "near", "his", "house"]
TEST = [Example(" ".join(WORDS[: 4 + n]), (" ".join(WORDS[: 4 + n]),)) for n in range(6)]
VIEWS = [
    {"layer": layer, "head": head, "row": row, "error_rate": rate + (row == "next") / 2}
    for layer, head, rate in ((1, 1, 0.4), (1, 2, 0.3), (1, None, 0.35), (None, None, 0.36))
    for row in ("predicting", "next")
]
ALIGNED = {
    "sentences": 6,
    "views": VIEWS,
    "best_head": {
        "layer": 1, "head": 2, "row": "predicting",
        "chosen_on": {"error_rate": 0.28}, "reported_on": {"error_rate": 0.32},
    },
}  # fmt: skip


def _made(system, seed, forgets):
    texts = [" ".join(example.source.split()[forgets:]) for example in TEST]
    return {
        "study": "multi30k", "system": system, "seed": seed, "target_tokens": 40, "seconds": 1.0,
        "losses": [[2, 1.5], [4, 1.25]], "hypotheses": texts,
        "scores": {"BLEU": bleu(texts, [list(example.targets) for example in TEST]).value},
        "signatures": {"BLEU": "as ever"}, "alignment": {"short": ALIGNED} if seed == 1 else {},
    }  # fmt: skip


MADE = [
    _made("no attention", 1, 2),
    _made("general, soft", 2, 1),
    _made("general, soft", 1, 0),
    {"study": "multi30k", "system": "general, soft", "parameters": 7, "operations_per_word": 42.0,
     "words_per_second": 80.0, "peak_bytes": 9},
]  # fmt: skip


def test_a_summary_keeps_numbers_and_no_translation():
    found = summary(MADE, {"multi30k": TEST}, QUICK)
    study = found["studies"]["multi30k"]
    assert "long book" not in json.dumps(found)
    assert list(study["systems"]) == ["general, soft", "no attention"]
    good = study["systems"]["general, soft"]
    assert (good["parameters"], good["words_per_second"]) == (7, 80.0)
    assert good["peak_bytes"] == 9
    assert list(good["runs"]) == ["1", "2"]
    assert good["runs"]["1"]["BLEU"] == pytest.approx(100)
    assert good["runs"]["1"]["tokens_per_update"] == 10
    assert good["runs"]["1"]["alignment"]["short"] == {
        "sentences": 6, "heads": 2, "layer": 1, "head": 2, "row": "predicting",
        "odd_lines": 0.28, "even_lines": 0.32, "all_lines": 0.3,
        "best_layer_mean": 0.35, "mean_of_all": 0.36,
    }  # fmt: skip
    assert "parameters" not in study["systems"]["no attention"]
    down, up = study["neighbours"][0]["difference"], study["questions"][0]["difference"]
    assert down == pytest.approx(-up)
    assert down == pytest.approx(MADE[0]["scores"]["BLEU"] - 100)
    assert sum(study["by_length"]["sentences"]) == len(TEST)
    assert study["by_length"]["systems"]["general, soft"] == pytest.approx([100] * 5)


def test_costs_measured_again_replace_those_of_a_summary_and_nothing_else():
    found = summary(MADE, {"multi30k": TEST}, QUICK)
    before = json.loads(json.dumps(found))
    again = {"study": "multi30k", "system": "general, soft", "peak_bytes": 11}
    elsewhere = {"study": "hansards", "system": "general, soft", "peak_bytes": 13}
    after = with_costs(found, [again, elsewhere])
    changed = after["studies"]["multi30k"]["systems"]["general, soft"]
    assert (changed["peak_bytes"], changed["words_per_second"]) == (11, 80.0)
    before["studies"]["multi30k"]["systems"]["general, soft"]["peak_bytes"] = 11
    assert after == before


def test_a_summary_refuses_scores_of_two_makes():
    other = {**MADE[1], "signatures": {"BLEU": "otherwise"}}
    with pytest.raises(SystemExit, match="expected one and the same"):
        summary([MADE[0], other], {"multi30k": TEST}, QUICK)


def test_links_by_place_are_the_diagonal_of_equal_lengths():
    gold = Gold(sure=frozenset({(0, 0), (1, 1)}))
    swapped = Gold(sure=frozenset({(0, 1), (1, 0)}))
    assert by_place([("a b", "c d")], [gold])["short"] == 0
    assert by_place([("a b", "c d")], [swapped])["short"] == 1
    long = " ".join("w" * 19)
    both = by_place([("a b", "c d"), (long, "x")], [gold, Gold(frozenset({(0, 0)}))])
    assert both["short"] == 0
    wrong = AlignmentCounts.of(frozenset({(9, 0)}), Gold(frozenset({(0, 0)})))
    assert both["all"] == (AlignmentCounts.of(gold.sure, gold) + wrong).error_rate


def test_the_german_links_are_english_first_with_the_slip_put_right(tmp_path):
    lines = ["0-1 1-0"] * GERMAN
    place, wrong, right = SLIP
    lines[place] = f"0-0 {wrong[1]}-{wrong[0]}"
    (tmp_path / "links").write_text("\n".join(lines) + "\n")
    golds = german_gold(tmp_path / "links")
    assert golds[0].sure == {(1, 0), (0, 1)}
    assert golds[place].sure == {(0, 0), right}
    lines[1] = "0-1"
    (tmp_path / "links").write_text("\n".join(lines) + "\n")
    assert german_gold(tmp_path / "links")[1].sure == {(1, 0)}


def _halves(layer, head, row, odd, even):
    return {
        "layer": layer, "head": head, "row": row,
        "chosen_on": {"error_rate": odd}, "reported_on": {"error_rate": even},
    }  # fmt: skip


def test_german_runs_are_summed_up_with_the_best_head_of_each_row(tmp_path):
    (tmp_path / "de-en").mkdir()
    for language in ("en", "de"):
        (tmp_path / "de-en" / f"test.{language}").write_text("a b\n" * GERMAN)
    place, wrong, _ = SLIP
    links = ["0-0 1-1"] * GERMAN
    links[place] += f" {wrong[1]}-{wrong[0]}"
    (tmp_path / "de-en" / "de-en.wa").write_text("\n".join(links) + "\n")
    best = {
        "predicting": _halves(1, 2, "predicting", 0.28, 0.32),
        "next": _halves(1, 1, "next", 0.9, 0.8),
    }
    aligned = {**ALIGNED, "best_of_row": best}
    rows = [
        {
            **_made("luong", seed, 1),
            "parameters": 5,
            "alignment": {"all": aligned, "short": aligned},
        }
        for seed in (2, 1)
    ]
    found = german(rows, tmp_path)
    assert found["sentences"] == {"all": 6, "short": 6}
    assert list(found["systems"]["luong"]["runs"]) == ["1", "2"]
    run = found["systems"]["luong"]["runs"]["1"]
    assert run["losses"] == [[2, 1.5], [4, 1.25]]
    assert run["alignment"]["all"]["all_lines"] == 0.3
    assert run["alignment"]["all"]["best_of_row"] == {
        "predicting": {"layer": 1, "head": 2, "odd_lines": 0.28, "even_lines": 0.32},
        "next": {"layer": 1, "head": 1, "odd_lines": 0.9, "even_lines": 0.8},
    }
    # the diagonal, but for the link of the slip, which no head draws
    assert found["by_place"]["all"] == pytest.approx(1 - 4 * GERMAN / (4 * GERMAN + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_german_models_learn_by_their_recipes_from_the_form_of_the_gold(kind, tmp_path):
    recipe = recipe_of_german(kind, 4, argparse.Namespace(data=tmp_path, set=["tokens.size=77"]))
    assert (recipe.training.seed, recipe.tokens.size) == (4, 77)
    assert recipe.data.valid.settings == {
        "path": f"{tmp_path}/en-de.dev.tsv.xz", "normalise": "europarl",
    }  # fmt: skip


def test_a_summary_is_written_with_a_list_of_numbers_in_one_line():
    assert written({"a": [[1, 2], [3, 4]]}) == '{\n "a": [\n  [ 1, 2 ],\n  [ 3, 4 ]\n ]\n}\n'


def test_test_texts_are_read_in_the_recipe_s_form(tmp_path):
    (tmp_path / "en").write_text("Is it so?\n")
    (tmp_path / "fr").write_text("L'avis du Québec.\n")
    read = read_test("hansards", [str(tmp_path / "en"), str(tmp_path / "fr")])
    assert [(one.source, one.targets) for one in read] == [
        ("is it so ?", ("le avis de le quebec .",))
    ]


def test_one_command_runs_every_part_and_sums_up_what_they_wrote(tmp_path):
    data, out = tmp_path / "data", tmp_path / "runs"
    (data / "alignment").mkdir(parents=True)
    (data / "alignment" / "enfr.src-tgt").write_text("a  b ||| c\nd ||| e f\n")
    out.mkdir()
    write_gold_sides(data, out)
    assert [one.read_text() for one in gold_sides(out)] == ["a b\nd\n", "c\ne f\n"]
    done = list(parts(data, out, 3))
    assert [words[1] for words in done] == [
        "studies.luong.study", "studies.luong.study", "studies.luong.study", "regard", "regard",
        "studies.luong.german", "studies.luong.tagging", "studies.luong.summary",
    ]  # fmt: skip
    assert set(BEST) <= set(SYSTEMS["multi30k"])
    assert {str(out / "results.jsonl"), str(out / "german.jsonl")} <= set(done[-1])
    assert str(out / "tagging" / "results.jsonl") in done[-1]


def test_a_resumed_run_has_its_whole_history(tmp_path):
    rows = [
        {"step": 1, "target_tokens": 10}, {"step": 1, "valid_loss": 3.0},
        {"step": 2, "target_tokens": 21}, {"step": 2, "valid_loss": 2.5},
        {"step": 2, "target_tokens": 20}, {"step": 2, "valid_loss": 2.0},
    ]  # fmt: skip
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert history_of(tmp_path) == ([(1, 3.0), (2, 2.0)], 20)


def test_taggers_differ_in_where_they_look_alone(tmp_path):
    given = argparse.Namespace(data=tmp_path, set=["training.steps=7"])
    recipes = [recipe_of_tagger(name, 2, given) for name in TAGGERS]
    tables = [one.as_table() for one in recipes]
    assert all(
        one["model"] not in [other["model"] for other in tables[:n]] for n, one in enumerate(tables)
    )
    for table in tables:
        for key in ("select", "attends", "attends_to_end", "score"):
            table["model"].pop(key, None)
        assert table == tables[0]
    assert (recipes[0].training.seed, recipes[0].training.steps) == (2, 7)


def test_tags_are_summed_up_by_seed_the_best_mean_first():
    found = [("x", 2, 90.0), ("y", 1, 93.0), ("x", 1, 91.0), ("y", 2, 89.5)]
    rows = [{"system": name, "seed": seed, "accuracy": value} for name, seed, value in found]
    assert list(tagging(rows).items()) == [
        ("y", {"1": 93.0, "2": 89.5}), ("x", {"1": 91.0, "2": 90.0}),
    ]  # fmt: skip
