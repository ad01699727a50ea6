"""Samples: the same three validation examples, answered at every validation, with their links."""

import json
import sys
from itertools import pairwise

from regard.recipes import read_recipe
from regard.training import run
from regard.training.events import Step, Validated
from regard.training.report import write_report
from tests.captioning import trained_captioner
from tests.training.encoder_recipes import TAGS, WORDS, trained
from tests.training.test_language_run import RECIPE as LANGUAGE
from tests.training.test_language_run import TEXT

SOME = ["training.steps=4", "training.validate_every=2", "training.checkpoint_every=2"]


def _rows(folder):
    lines = (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def _check_links(rows):
    """Each word has its strongest links first; weights are shares."""
    links = [word["at"] for row in rows for word in row["looked"]]
    assert links
    for at in links:
        assert 1 <= len(at) <= 2
        assert all(0 < one["weight"] <= 1.0001 for one in at)
        assert all(a["weight"] >= b["weight"] for a, b in pairwise(at))


def test_three_examples_are_answered_at_every_validation(recipe, tmp_path):
    events = list(run(read_recipe(recipe, SOME), tmp_path / "run"))
    rows = _rows(tmp_path / "run")
    assert [(row["step"], row["example"]) for row in rows] == [
        (step, number) for step in (2, 4) for number in (1, 2, 3)
    ]
    examples = [(row["source"], row["reference"]) for row in rows]
    assert examples[:3] == examples[3:]
    assert len({source for source, _ in examples}) == 3
    told = [row for e in events if isinstance(e, Validated) for row in e.sample_records()]
    assert json.loads(json.dumps(told)) == rows
    _check_links(rows)
    # a word of the answer after the other looked at words of the source
    row = next(row for row in rows if row["answer"])
    assert [word["word"] for word in row["looked"]] == row["answer"].split()
    assert {one["word"] for word in row["looked"] for one in word["at"]} <= {*row["source"].split()}


def test_samples_change_nothing_of_a_training(recipe, tmp_path, monkeypatch):
    list(run(read_recipe(recipe, SOME), tmp_path / "with"))
    monkeypatch.setattr(sys.modules["regard.training.trainer"], "sample_answers", lambda *_: ())
    list(run(read_recipe(recipe, SOME), tmp_path / "without"))
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("with", "without")]
    assert weights[0] == weights[1]
    assert not (tmp_path / "without" / "samples.jsonl").exists()


def test_a_resumed_training_writes_no_sample_twice(recipe, tmp_path):
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    list(run(read_recipe(recipe, SOME), whole))
    started = run(read_recipe(recipe, [*SOME, "training.checkpoint_every=3"]), stopped)
    for event in started:
        if isinstance(event, Validated) and event.step == 4:
            started.close()
        elif isinstance(event, Step) and event.progress.step == 3:
            with (stopped / "samples.jsonl").open("a") as file:
                file.write('{"step": 4, "example": 1}\n')
    list(run(read_recipe(recipe, SOME), stopped, resume=True))
    assert _rows(stopped) == _rows(whole)


def test_a_report_shows_the_answers_and_their_links(recipe, tmp_path):
    list(run(read_recipe(recipe, SOME), tmp_path / "run"))
    row = {"step": 9, "example": 1, "source": "a <b>", "reference": "c", "answer": "d & e",
           "looked": [{"word": "d", "at": [{"word": "<b>", "weight": 0.625}]}]}  # fmt: skip
    with (tmp_path / "run" / "samples.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    page = write_report(tmp_path / "run").read_text()
    assert "<h2>Sample answers</h2>" in page
    assert "<h3>a &lt;b&gt;</h3>" in page
    assert "<td>d &amp; e</td>" in page
    assert 'd ← &lt;b&gt; 0.62<i style="width:62%">' in page
    (tmp_path / "run" / "samples.jsonl").write_text("{broken\n")
    assert "Sample answers" not in write_report(tmp_path / "run").read_text()


def test_a_label_is_read_off_the_begin_token_and_tags_off_their_words(tmp_path):
    for task, labels in (("label", ("X", "Y")), ("tags", ("X Y", "Y X"))):
        folder = tmp_path / task
        folder.mkdir()
        pairs = zip(("a b", "b a"), labels, strict=True)
        (folder / "pairs.tsv").write_text("".join(f"{text}\t{one}\n" for text, one in pairs) * 4)
        trained(folder, TAGS.format(pairs=folder / "pairs.tsv", task=task, steps=2))
        rows = _rows(folder / "run")
        _check_links(rows)
        assert [(row["source"], row["reference"]) for row in rows[:2]] == [
            ("a b", labels[0]), ("b a", labels[1]),
        ]  # fmt: skip
        words = [one["word"] for one in rows[0]["looked"]]
        assert words == ([rows[0]["answer"]] if task == "label" else ["a", "b"])


def test_a_hidden_word_is_guessed_and_tells_what_it_looked_at(tmp_path):
    (tmp_path / "text").write_text("the cat sat on the mat and the dog ran home\n" * 20)
    trained(tmp_path, WORDS.format(text=tmp_path / "text", kind="words"))
    rows = _rows(tmp_path / "run")
    _check_links(rows)
    assert all("[MASK]" in row["source"] and "[MASK]" not in row["answer"] for row in rows)
    assert [len(row["looked"]) for row in rows] == [1] * len(rows)


def test_a_language_model_goes_on_with_the_first_half_of_a_row(tmp_path):
    (tmp_path / "text").write_text(TEXT)
    text = LANGUAGE.format(text=tmp_path / "text", kind="words", attends='"full"')
    text = text.replace("steps = 60", "steps = 2").replace("context = 6", "context = 0")
    trained(tmp_path, text)
    rows = _rows(tmp_path / "run")
    _check_links(rows)
    assert (rows[0]["source"], rows[0]["reference"]) == ("the cat saw", "the dog ¶")


def test_a_caption_tells_the_cells_that_its_words_looked_at(tmp_path):
    rows = _rows(trained_captioner(tmp_path))
    _check_links(rows)
    assert all(row["reference"] for row in rows)
