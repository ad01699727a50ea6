"""Tags and labels: as many as a text has places for, in training, answers and scores."""

import json
import re

import pytest

from regard.cli import main
from regard.errors import LengthError
from regard.runs.evaluation import EVALUATE_METRICS, ScoredAnswers
from regard.runs.evaluation_texts import texts_of_split
from tests.training.encoder_recipes import TAGS, trained


def test_a_tagger_learns_and_its_answers_have_a_tag_for_each_word(tmp_path):
    pairs = ["a b c\tX Y Z", "b a\tY X", "c c a b\tZ Z X Y", "a\tX"]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs * 8) + "\n")
    one = trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task="tags", steps=60))
    said = one.predict(["c b a", "a a a a a", "b"])
    assert [each.text for each in said] == ["Z Y X", "X X X X X", "Y"]


def test_a_label_is_one_word(tmp_path):
    pairs = ["a a b\tfirst", "b b a\tsecond"]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs * 8) + "\n")
    one = trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task="label", steps=3))
    assert {each.text for each in one.predict(["a a b", "b b a"])} <= {"first", "second"}


@pytest.mark.parametrize(
    ("task", "second", "said"),
    [
        ("label", "b b a\tsecond one", "for the whole text, but example 2 has a text of 3 and "
         "labels of 2 tokens"),
        # the longest text and the longest labels are as long as each other
        ("tags", "b b\tX", "for each token, but example 2 has a text of 2 and labels of 1 tokens"),
    ],
)  # fmt: skip
def test_another_number_of_labels_than_a_text_has_is_refused(tmp_path, capsys, task, second, said):
    first = {"label": "a a b\tfirst", "tags": "a a b\tX X Y"}[task]
    (tmp_path / "pairs.tsv").write_text(f"{first}\n{second}\n")
    recipe = TAGS.format(pairs=tmp_path / "pairs.tsv", task=task, steps=3)
    (tmp_path / "recipe.toml").write_text(recipe)
    assert main(["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"data.train: model.task = '{task}' asks for one label {said}" in told
    assert "one word for each label" in told


def test_another_number_of_labels_than_a_text_has_is_not_scored(tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("a a b\tX X Y\nb b\tY Y\n")
    trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task="tags", steps=3))
    # the longest text and the longest labels are as long as each other
    (tmp_path / "other.tsv").write_text("a a b\tX X\nb b\tY Y X\n")
    asked = ["evaluate", str(tmp_path / "run"), "--source", str(tmp_path / "other.tsv")]
    assert main([*asked, "--metrics", "loss"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "evaluate: model.task = 'tags' asks for one label for each token, but example 1" in said


@pytest.mark.parametrize(("task", "answers"), [("tags", ("X Y", "Y X Y")), ("label", ("X", "Y"))])
def test_a_validation_has_the_loss_that_an_evaluation_has(tmp_path, task, answers):
    pairs = zip(("a b", "b a b"), answers, strict=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{said}\n" for text, said in pairs) * 4)
    one = trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task=task, steps=3))
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    checked = [row["valid_loss"] for row in rows if "valid_loss" in row][-1]
    texts = texts_of_split(one.loaded.recipe, "valid")
    told, _ = EVALUATE_METRICS["loss"](ScoredAnswers(one, texts, [""] * len(texts)))
    assert checked == pytest.approx(told.value, abs=1e-5)


@pytest.fixture(scope="module")
def labellers(tmp_path_factory):
    """A run of each task, trained for a moment."""
    folder, runs = tmp_path_factory.mktemp("labellers"), {}
    for task, second in (("tags", "X Y Y"), ("label", "X")):
        place = folder / task
        place.mkdir()
        (place / "pairs.tsv").write_text(f"a b b\t{second}\n" * 4)
        runs[task] = trained(place, TAGS.format(pairs=place / "pairs.tsv", task=task, steps=2))
    return runs


@pytest.mark.parametrize("task", ["tags", "label"])
@pytest.mark.parametrize("verb", [["predict", "--text", "a b"], ["evaluate", "--split", "valid"]])
def test_labels_are_as_many_as_a_text_has_and_cannot_be_limited(labellers, capsys, task, verb):
    name, *more = verb
    assert main([name, str(labellers[task].path), *more, "--max-tokens", "1"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "no answers of a length of its own, so --max-tokens has no meaning for it." in said


@pytest.mark.parametrize(("task", "n_labels"), [("tags", 30), ("label", 1)])
def test_the_longest_text_has_all_its_labels_and_none_is_called_cut(labellers, task, n_labels):
    (said,) = labellers[task].predict(["a " * 30])
    assert len(said.text.split()) == n_labels
    assert said.note is None


def test_a_text_with_one_label_is_not_split(labellers):
    for on_long in ("error", "split"):
        with pytest.raises(LengthError, match=r"leave such texts out \(--on-long skip\)\.$"):
            labellers["label"].predict(["a " * 40], on_long=on_long)
    (said,) = labellers["tags"].predict(["a " * 40], on_long="split")
    assert len(said.text.split()) == 40


@pytest.mark.parametrize("task", ["tags", "label"])
def test_labels_are_scored_by_their_accuracy_unless_another_score_is_chosen(
    labellers, capsys, task
):
    assert main(["evaluate", str(labellers[task].path), "--split", "valid", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    names = [one["name"] for one in report["scores"]]
    assert names == [
        "token accuracy", "precision", "recall", "F1", "exact match", "loss", "perplexity",
    ]  # fmt: skip
    # the share of right places by the counts of pairs is the accuracy
    counts = report["labels"]["counts"]
    right, places = sum(row[i] for i, row in enumerate(counts)), sum(map(sum, counts))
    assert report["scores"][0]["value"] == pytest.approx(100 * right / places)
    assert len(report["labels"]["labels"]) == len(counts)


def test_a_table_tells_how_each_label_was_answered(labellers, capsys):
    run = str(labellers["tags"].path)
    assert main(["evaluate", run, "--split", "valid", "--metrics", "labels"]) == 0
    told = capsys.readouterr().out
    assert re.search(r"label +precision +recall +F1 +count +1", told)
    assert main(["evaluate", run, "--split", "valid", "--metrics", "accuracy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] is None
