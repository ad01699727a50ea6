"""The scripts that compare two ways on equal terms."""

import argparse
import json
import math
from collections import Counter

import pytest

from regard.data.parsed_words import heads_of
from regard.data.treebanks import Treebank
from regard.models import shapes_of
from studies.comparisons.study import (
    BRANCHES,
    CONTROL,
    PAIRS,
    PLAIN,
    STRUCTURAL,
    folder_of,
    recipe_of,
    shuffle_trees,
)
from studies.comparisons.summary import differences, summary, updates_table, updates_to
from studies.side_by_side import rows_of, side_by_side

WORDS = ["From", "the", "AP", "comes", "this", "story", ":"]
HEADS = [3, 3, 4, 0, 6, 4, 4]
SENTENCE = "# text = From the AP\n" + "".join(
    f"{n}\t{word}\t_\tX\t_\t_\t{head}\t_\t_\t_\n"
    for n, (word, head) in enumerate(zip(WORDS, HEADS, strict=True), 1)
)


def _given(pair, tmp_path):
    return argparse.Namespace(pair=pair, data=tmp_path / "data", out=tmp_path / "out", set=[])


def _differing(one, other):
    """The keys at which two recipes are not the same."""
    first, second = one.as_table(), other.as_table()
    return {
        f"{section}.{key}"
        for section in first
        for key in {**first[section], **second[section]}
        if first[section].get(key) != second[section].get(key)
    }


def test_the_plain_transformer_differs_from_the_branched_in_its_layers_alone(tmp_path):
    given = _given("branches", tmp_path)
    for number, keys in enumerate([{"model.layer"}, {"model.layer", "model.has_frozen_branches"}]):
        plain, branched = (recipe_of(given, arm, number, 2) for arm in (PLAIN, BRANCHES))
        start = {"training.start_from"} if number else set()
        assert _differing(plain, branched) == keys | start
        assert plain.training.seed == branched.training.seed == 2
    assert branched.model.has_frozen_branches
    assert str(branched.training.start_from).endswith("branches-weighted-branches-2-1")


def test_both_have_as_many_parameters(tmp_path):
    given = _given("branches", tmp_path)
    counts = [
        sum(
            math.prod(shape)
            for shape in shapes_of(
                recipe_of(given, arm, 0, 1).model, n_source_tokens=8000, n_target_tokens=8000
            ).values()
        )
        for arm in (PLAIN, BRANCHES)
    ]
    assert counts[1] == pytest.approx(counts[0], rel=1e-3)


def test_trees_are_all_that_the_arms_of_the_treebank_differ_in(tmp_path):
    given = _given("trees", tmp_path)
    plain, structural, control = (recipe_of(given, arm, 0, 1) for arm in PAIRS["trees"].arms)
    files = {"data.train", "data.valid", "data.test"}
    known = {"tokens.kind", "model.positions", "model.relation"}
    assert _differing(plain, structural) == files | known
    assert _differing(structural, control) == files
    assert structural.data.train.settings["has_trees"]
    assert control.data.train.settings["path"].startswith(str(given.out / "shuffled"))


def test_a_shuffled_tree_keeps_its_shape_and_hangs_from_other_words(tmp_path):
    path, out = tmp_path / "a.conllu", tmp_path / "new" / "a.conllu.xz"
    path.write_text(f"{SENTENCE}\n" * 20)
    shuffle_trees(path, out)
    first = out.read_bytes()
    shuffle_trees(path, out)
    assert out.read_bytes() == first
    before, after = (list(Treebank(each, has_trees=True).examples()) for each in (path, out))
    assert [each.targets for each in after] == [each.targets for each in before]
    seen = {tuple(heads_of(each.source)) for each in after}
    # many trees of one shape: each head has as many words below it as one had before
    assert len(seen) > 10
    for heads in seen:
        assert sorted(Counter(heads).values()) == sorted(Counter(HEADS).values())
        assert sorted(_depths(heads)) == sorted(_depths(HEADS))


def _depths(heads):
    def depth(word):
        return 0 if not heads[word - 1] else 1 + depth(heads[word - 1])

    return [depth(word) for word in range(1, len(heads) + 1)]


def test_folders_of_arms_have_no_spaces_and_differ():
    names = [folder_of(pair, arm) for pair, own in PAIRS.items() for arm in own.arms]
    assert len(set(names)) == len(names)
    assert not any(" " in name or "," in name for name in names)


def test_updates_are_counted_on_a_line_between_two_validations():
    losses = [(100, 4.0), (200, 3.0), (300, 3.5), (400, 2.0)]
    assert updates_to(losses, 3.25) == 175.0
    assert updates_to(losses, 4.5) == 100
    assert updates_to(losses, 2.75) == 350.0
    assert updates_to(losses, 1.9) == math.inf


def _row(arm, seed, score, last, pair="trees"):
    losses = [(10, 3.0), (20, last)]
    kept = ["updates", "target_tokens", "parameters", "branches", "test_texts", "device", "torch"]
    return {"pair": pair, "arm": arm, "seed": seed, "losses": losses, "signatures": {}} | {
        "scores": {"accuracy": score}, **dict.fromkeys(kept, 0),
    }  # fmt: skip


def test_the_summary_says_how_far_arms_and_seeds_are_apart():
    rows = [
        _row(arm, seed, score + seed, 2.0)
        for arm, score in ((CONTROL, 80.0), (PLAIN, 81.0), (STRUCTURAL, 85.0))
        for seed in (3, 1)
    ]
    found = summary(rows)
    assert list(found) == ["trees"]
    assert list(found["trees"]["arms"]) == [PLAIN, STRUCTURAL, CONTROL]
    assert list(found["trees"]["arms"][PLAIN]) == ["1", "3"]
    told = found["trees"]["differences"]
    assert told == differences(found["trees"]["arms"])
    assert told[STRUCTURAL]["accuracy"] == {
        "difference": 4.0, "range": 2.0, "range_of_first": 2.0,
    }  # fmt: skip
    assert told[CONTROL]["accuracy"]["difference"] == -1.0


def test_losses_that_are_counted_are_reached_by_every_run():
    arms = {"a": {"1": _row("a", 1, 0.0, 1.93)}, "b": {"1": _row("b", 1, 0.0, 1.5)}}
    counted = updates_table(arms)
    assert list(counted) == ["2.65", "2.25", "2.05", "1.95"]
    assert all(
        math.isfinite(n) for by_arm in counted.values() for ns in by_arm.values() for n in ns
    )
    assert counted["1.95"]["b"][0] < counted["1.95"]["a"][0]


def test_work_is_kept_as_it_comes_and_what_fails_or_is_late_leaves_no_line(tmp_path, capfd):
    results = tmp_path / "results.jsonl"
    results.write_text(json.dumps({"n": 0}) + "\n")
    said = [["-c", f"print('{{\"n\": {n}}}')"] for n in (1, 2)]
    broken = ["-c", "print('{\"n\": 9}'); raise SystemExit(3)"]
    side_by_side([*said, broken], results, at_once=2, seconds=math.inf)
    side_by_side([["-c", "import time; time.sleep(60)"]], results, at_once=1, seconds=0.2)
    assert sorted(row["n"] for row in rows_of(results)) == [0, 1, 2]
    err = capfd.readouterr().err
    assert "ended with 3" in err
    assert "is left out: there is no time" in err
    with results.open("a") as file:
        file.write('{"n": 3')
    assert len(rows_of(results)) == 3
