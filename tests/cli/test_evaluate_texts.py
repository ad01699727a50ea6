"""regard evaluate: which texts count, in which form, tags, and unknown words."""

import json
import re

import pytest

from regard.cli import main
from regard.evaluating.accuracy import measured_token_accuracy
from tests.factories import make_run

TEXTS = {"a b": "b a", "c d e a": "c d e", "e": "a b c d", "zebra a": "a zebra"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    make_run(folder / "run", "a b c d e", kind="words")
    make_run(folder / "letters")
    (folder / "source").write_text("".join(f"{text}\n" for text in TEXTS))
    (folder / "wanted").write_text("".join(f"{text}\n" for text in TEXTS.values()))
    (folder / "gold").write_text("0-1 1-0\n0-0\n0-3\n1-0 0-1\n")
    return folder


def _report(files, capsys, *words, code=0, run="run"):
    texts = ["--source", files / "source", "--reference", files / "wanted", "--beam", "1"]
    assert main(["evaluate", *map(str, [files / run, *texts, *words, "--json"])]) == code
    said = capsys.readouterr()
    return json.loads(said.out) if code == 0 else said.err


def test_short_texts_alone_are_scored_and_aligned(files, capsys):
    words = ["--metrics", "exact", "--alignment", files / "gold"]
    every = _report(files, capsys, *words)
    assert (every["sentences"], every["alignment"]["sentences"]) == (4, 4)
    assert not any("more words" in note for note in every["notes"])
    short = _report(files, capsys, *words, "--max-source-words", 2)
    assert (short["sentences"], short["alignment"]["sentences"]) == (3, 3)
    assert short["notes"][0] == "1 of 4 texts have more words than asked for and do not count"
    both = _report(files, capsys, *words, "--max-source-words", 2, "--max-target-words", 2)
    assert both["sentences"] == 2
    # the first line chooses the head, the fourth one reports it
    assert both["alignment"]["best_head"] is not None
    assert "must be at least 1, got 0" in _report(files, capsys, "--max-target-words", 0, code=2)
    (files / "long").write_text("a b c\n")
    words = ["--source", files / "long", "--reference", files / "long", "--max-source-words", 2]
    assert main(["evaluate", *map(str, [files / "run", *words])]) == 2
    assert (
        "all 1 have more words than --max-source-words or --max-target-words allows"
        in capsys.readouterr().err
    )


def test_token_accuracy_is_told_when_asked_for(files, capsys, tmp_path):
    out = tmp_path / "scored"
    report = _report(files, capsys, "--metrics", "accuracy", "--out", out)
    texts = (out / "hypotheses.txt").read_text().split("\n")[:-1]
    score = report["scores"][0]
    assert score["name"] == "token accuracy"
    wanted = [[text] for text in TEXTS.values()]
    assert score["value"] == pytest.approx(measured_token_accuracy(texts, wanted).score.value)


def test_unknown_words_are_replaced_when_asked_for(files, capsys, monkeypatch):
    report = _report(files, capsys, "--metrics", "exact", "--replace-unknown")
    said = json.loads((files / "run" / "dictionary.json").read_text())["words"]
    told = f"unknown words are replaced by a dictionary of {len(said)} words, or copied"
    assert report["notes"][0] == told
    err = _report(files, capsys, "--replace-unknown", code=2, run="letters")
    assert "kind characters, which has no unknown words" in err
    # nobody may wish for an unknown word, but here one must come
    monkeypatch.setattr("regard.tasks.searched_texts._check_are_known", lambda *given: None)
    words = ["predict", files / "run", "--text", "zebra a", "--prefix", "qq", "--beam", 1]
    assert main([*map(str, words)]) == 0
    assert "\N{REPLACEMENT CHARACTER}" in capsys.readouterr().out
    assert main([*map(str, words), "--replace-unknown"]) == 0
    assert "\N{REPLACEMENT CHARACTER}" not in capsys.readouterr().out


def test_a_form_of_the_training_data_is_that_of_the_test_texts_and_told(files, capsys, tmp_path):
    run = make_run(tmp_path / "formed", "ce est vrai", kind="words")
    recipe = (run / "recipe.toml").read_text()
    train = '{ name = "tsv", path = "gone.tsv", normalise = "hansards" }'
    (run / "recipe.toml").write_text(re.sub(r'\{ name = "copy", count = \d+ \}', train, recipe))
    (tmp_path / "raw").write_text("C'est vrai\n")
    (tmp_path / "formed.txt").write_text("ce est vrai\n")
    reports = []
    for name in ("raw", "formed.txt"):
        words = ["--source", tmp_path / name, "--reference", tmp_path / name]
        assert main(["evaluate", *map(str, [run, *words, "--metrics", "bleu,loss", "--json"])]) == 0
        reports.append(json.loads(capsys.readouterr().out))
    assert reports[0]["scores"] == reports[1]["scores"]
    assert "texts and references are in the form 'hansards'" in reports[0]["notes"][0]
