"""Tags and labels: as many as a text has places for, in training, answers and scores."""

import json
import math
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.cli import main
from regard.data.published_subwords import WORDPIECE
from regard.data.subword_kinds import EOS, SPECIALS, WORDS
from regard.data.subwords import Subwords
from regard.decoding import Beam, Sentence
from regard.errors import LengthError, SettingError
from regard.recipes import read_recipe
from regard.runs.evaluation import EVALUATE_METRICS, ScoredAnswers
from regard.runs.evaluation_texts import texts_of_split
from regard.training.events import Step
from regard.training.run import run
from tests.training.encoder_recipes import TAGS, trained


def test_a_tagger_learns_and_its_answers_have_a_tag_for_each_word(tmp_path):
    pairs = ["a b c\tX Y Z", "b a\tY X", "c c a b\tZ Z X Y", "a\tX"]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs * 8) + "\n")
    one = trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task="tags", steps=60))
    said = one.predict(["c b a", "a a a a a", "b"])
    assert [each.text for each in said] == ["Z Y X", "X X X X X", "Y"]


def test_a_label_of_several_words_is_one_label(tmp_path):
    pairs = ["a a b\tvery good", "b b a\tvery bad ", "a a a\t very good"]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs * 8) + "\n")
    one = trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task="label", steps=40))
    good, bad = one.predict(["a a b", "b b a"])
    assert (good.text, good.tokens, bad.text) == ("very good", ("very good",), "very bad")
    assert one.model.output.weight.shape[0] == 2
    report = one.evaluate(split="valid")
    assert report.labels.labels == ("very bad", "very good")
    assert {score.name: score.value for score in report.scores}["token accuracy"] == 100


@pytest.mark.parametrize(
    ("task", "second", "said"),
    [
        ("label", "b b a\t ", "for the whole text, but example 2 has 0 labels. Write one; it may"),
        ("tags", "b b\tX", "for each word, but example 2 has 2 words and 1 label. Write a label"),
    ],
)
def test_another_number_of_labels_than_a_text_has_is_refused(tmp_path, capsys, task, second, said):
    first = {"label": "a a b\tfirst", "tags": "a a b\tX X Y"}[task]
    (tmp_path / "pairs.tsv").write_text(f"{first}\n{second}\n")
    recipe = TAGS.format(pairs=tmp_path / "pairs.tsv", task=task, steps=3)
    (tmp_path / "recipe.toml").write_text(recipe)
    assert main(["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"data.train: model.task = '{task}' asks for one label {said}" in told


@pytest.mark.parametrize("kind", ["bpe", "unigram", "characters", "words"])
def test_words_of_several_pieces_have_a_label_each(tmp_path, kind):
    pairs = ["ab  cde f\tX Y Z", "cde ab\tY X", "f f ab cde\tZ Z X Y", "ab\tX"]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs * 8) + "\n")
    recipe = TAGS.format(pairs=tmp_path / "pairs.tsv", task="tags", steps=80)
    recipe = recipe.replace('kind = "words"\nsize = 60', f'kind = "{kind}"\nsize = 300')
    one = trained(tmp_path, recipe)
    said = one.predict(["f  cde ab", "ab ab ab", "cde"])
    assert [each.text for each in said] == ["Z Y X", "X X X", "Y"]
    assert one.model.output.weight.shape[0] == 3
    report = one.evaluate(split="valid", metrics=["accuracy", "exact", "loss"])
    assert [score.value for score in report.scores][:2] == [100, 100]
    # the attention is over the pieces
    assert one.look("f cde").target == "Z Y"


def test_pieces_that_hide_where_words_begin_are_refused_with_the_kinds_to_take():
    pieces = {piece: number for number, piece in enumerate((*SPECIALS, "a", "##b"))}
    settings = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                "strip_accents": None, "lowercase": True}  # fmt: skip
    tokenizer = WORDPIECE.rebuild({"vocab": pieces, "normalizer": settings})
    with pytest.raises(
        SettingError, match=r"kind wordpiece do not show .* Take tokens.kind = 'bpe"
    ):
        Subwords(WORDPIECE, tokenizer).for_tagging()


@pytest.mark.parametrize(("task", "labels"), [("tags", "X Y Z"), ("label", "X")])
def test_the_probabilities_of_all_labels_sum_to_one(tmp_path, capsys, task, labels):
    pairs = [f"a b c\t{labels}", f"c b a\t{labels[::-1]}", f"b b a\t{labels.replace('X', 'Y')}"]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs * 4) + "\n")
    one = trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task=task, steps=3))
    run = str(one.path)
    assert main(["predict", run, "--text", "a b", "--text", "c", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    n_places = {"tags": [2, 1], "label": [1, 1]}[task]
    assert [len(row["candidates"]) for row in rows] == n_places
    for place in (place for row in rows for place in row["candidates"]):
        assert sorted(each["text"] for each in place) == ["X", "Y", "Z"][: len(place)]
        assert sum(each["probability"] for each in place) == pytest.approx(1, abs=1e-9)
        assert place[0]["probability"] == max(each["probability"] for each in place)
    assert main(["predict", run, "--text", "c"]) == 0
    line = capsys.readouterr().out.rstrip("\n").split("\t")
    best = rows[1]["candidates"][0][0]
    sure = [f"{best['probability']:.4f}"] if task == "label" else []
    assert line == [best["text"], *sure]
    assert main(["predict", run, "--text", "c", "--probabilities"]) == 0
    shown = capsys.readouterr().out.rstrip("\n").split("\t")
    wanted = ", ".join(
        f"{one['text']} {one['probability']:.4f}" for one in rows[1]["candidates"][0]
    )
    assert shown == [best["text"], wanted]


def test_several_answers_are_the_likeliest_labels(tmp_path):
    pairs = ["a a b\tX", "b b a\tY", "c c\tZ"]
    (tmp_path / "pairs.tsv").write_text("\n".join(pairs * 4) + "\n")
    one = trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task="label", steps=3))
    (said,) = one.predict(["a a b"], search=Beam(width=5, n_best=5))
    assert sorted(each.text for each in said.n_best) == ["X", "Y", "Z"]
    assert sum(math.exp(each.score) for each in said.n_best) == pytest.approx(1)
    # the search over the model's steps finds the same
    source = [*one.loaded.source.encode("a a b"), EOS]
    (found,) = Beam(width=3, n_best=3)(one.stepper, [Sentence(source)])
    assert [(one.loaded.target.decode(each.tokens)) for each in found] == [
        each.text for each in said.n_best
    ]


def test_a_label_that_training_never_had_is_told_and_counts_as_wrong(tmp_path, capsys):
    (tmp_path / "train.tsv").write_text("a a b\tX\nb b a\tY\n" * 8)
    (tmp_path / "valid.tsv").write_text("a a b\tX\nb b a\tnew one\na b\tnew one\n")
    recipe = TAGS.format(pairs=tmp_path / "train.tsv", task="label", steps=3)
    text = recipe.replace("train.tsv", "valid.tsv").replace("valid.tsv", "train.tsv", 1)
    (tmp_path / "recipe.toml").write_text(text)
    assert main(["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]) == 0
    told = " ".join(capsys.readouterr().err.split())
    assert "2 labels: X 50 %, Y 50 %" in told
    assert (
        "valid: 2 labels of 1 kinds that training never had (new one); they count as wrong, and "
        "the loss leaves them out"
    ) in told
    assert main(["evaluate", str(tmp_path / "run"), "--split", "valid", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["scores"][0]["value"] <= 100 / 3 + 1e-6
    assert "tokens:1" in next(s["signature"] for s in report["scores"] if s["name"] == "loss")
    assert any("that training never had (new one)" in note for note in report["notes"])


def test_labels_that_are_all_the_same_are_refused(tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("a a b\tX\nb b a\tX\n")
    recipe = TAGS.format(pairs=tmp_path / "pairs.tsv", task="label", steps=3)
    (tmp_path / "recipe.toml").write_text(recipe)
    assert main(["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "data.train: all labels of the training data are the same, so that there is" in said
    assert not (tmp_path / "run").exists()


def test_an_update_has_so_many_tokens_of_texts_and_not_all_texts(tmp_path):
    (tmp_path / "pairs.tsv").write_text("a a b b a a b\tX\nb b a a b b a\tY\n" * 64)
    recipe = TAGS.format(pairs=tmp_path / "pairs.tsv", task="label", steps=2)
    (tmp_path / "recipe.toml").write_text(recipe + "target_tokens_per_batch = 128\n")
    events = run(read_recipe(tmp_path / "recipe.toml"), tmp_path / "run")
    steps = [event for event in events if isinstance(event, Step)]
    # texts of 7 tokens and an end, 16 of them an update
    assert [step.source_tokens for step in steps] == [128, 128]
    assert [step.target_tokens for step in steps] == [32, 32]


@pytest.mark.parametrize("task", ["tags", "label"])
def test_a_run_of_an_earlier_version_answers_as_it_did(tmp_path, task):
    second = {"tags": ("X Y", "Y X"), "label": ("X", "Y")}[task]
    pairs = zip(("a b", "b a"), second, strict=True)
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{said}\n" for text, said in pairs) * 8)
    one = trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task=task, steps=40))
    want = one.predict(["a b", "b a"])
    # as it was: two vocabularies of texts, and a row of weights for each special piece
    folder = tmp_path / "run"
    (folder / "tokenizer.json").rename(folder / "tokenizer.source.json")
    (folder / "labels.json").unlink()
    Subwords.train(["X Y X"], kind=WORDS, size=60).save(folder / "tokenizer.target.json")
    weights = load_file(folder / "model.safetensors")
    name = next(name for name in weights if name.endswith("output.weight"))
    rows = weights[name]
    order = [one.loaded.target.encode(label)[0] - 4 for label in ("X", "Y")]
    weights[name] = torch.cat([torch.full((4, rows.shape[1]), 9.0), rows[order]])
    save_file(weights, folder / "model.safetensors")
    old = regard.load(folder, device="cpu")
    assert [each.text for each in old.predict(["a b", "b a"])] == [each.text for each in want]


def test_an_unfinished_run_of_an_earlier_version_is_refused(tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("a b\tX\nb a\tY\n" * 4)
    trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task="label", steps=2))
    for name in ("labels.json", "model.safetensors"):
        (tmp_path / "run" / name).unlink()
    asked = ["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "run"), "--resume"]
    assert main(asked) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "was begun by an earlier version, in which labels had no set of their own" in said


def test_another_number_of_labels_than_a_text_has_is_not_scored(tmp_path, capsys):
    (tmp_path / "pairs.tsv").write_text("a a b\tX X Y\nb b\tY Y\n")
    trained(tmp_path, TAGS.format(pairs=tmp_path / "pairs.tsv", task="tags", steps=3))
    # the longest text and the longest labels are as long as each other
    (tmp_path / "other.tsv").write_text("a a b\tX X\nb b\tY Y X\n")
    asked = ["evaluate", str(tmp_path / "run"), "--source", str(tmp_path / "other.tsv")]
    assert main([*asked, "--metrics", "loss"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "evaluate: model.task = 'tags' asks for one label for each word, but example 1" in said


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
    for task, labels in (("tags", ("X Y Y", "Y X X")), ("label", ("X", "Y"))):
        place = folder / task
        place.mkdir()
        pairs = zip(("a b b", "b a a"), labels, strict=True)
        (place / "pairs.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs) * 4)
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


def test_references_that_no_label_can_be_are_refused(labellers, tmp_path, capsys):
    folder = labellers["label"].path
    (tmp_path / "pairs.tsv").write_text("a b b\tein Hund\nb a a\teine Katze\n")
    texts = ["--source", str(tmp_path / "pairs.tsv")]
    told = (
        "answers with 'X', 'Y', but the references have none of these: 'ein Hund', 'eine Katze'. "
        "Give texts with such labels, or another run."
    )
    assert main(["evaluate", str(folder), *texts]) == 2
    assert f"evaluate: this run {told}" in " ".join(capsys.readouterr().err.split())
    given = ["--hypotheses", f"other={tmp_path / 'other.txt'}"]
    (tmp_path / "other.txt").write_text("ein Hund\neine Katze\n")
    assert main(["compare", str(folder), *texts, *given]) == 2
    assert f"compare: '{folder}' {told}" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("metric", ["bleu", "chrf", "ter", "rouge", "captions"])
def test_scores_of_parts_of_texts_are_refused_for_labels(labellers, metric):
    told = f"{metric} has no meaning for a run that gives labels: it counts equal parts of texts"
    with pytest.raises(SettingError, match=told):
        labellers["label"].evaluate(split="valid", metrics=[metric])
