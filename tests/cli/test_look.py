"""regard look: coloured words, pictures and pages of a run, and mistakes that are told."""

import io
import json
import re
import sys

import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from regard.cli import main
from regard.decoding import Beam, Limits
from regard.inspecting import load_record
from regard.inspecting.capture import look_at
from regard.inspecting.panels import View
from regard.plots import plain_words
from regard.runs.trained import Trained, load, load_run
from tests.factories import TRANSFORMER, make_run

TEXT, ANSWER = "a b cd", "cd a"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    return make_run(
        tmp_path_factory.mktemp("look") / "run",
        TEXT,
        model=TRANSFORMER.replace("n_decoder_layers = 2", "n_decoder_layers = 3"),
    )


@pytest.fixture(scope="module")
def record(finished):
    loaded = load_run(finished)
    return look_at(loaded.model, loaded.source, loaded.target, TEXT, loaded.target.encode(ANSWER))


@pytest.fixture
def look(finished):
    return lambda *words: main(["look", str(finished), *words])


def test_words_are_printed_without_colours_where_there_is_no_terminal(look, record, capsys):
    assert look(TEXT, "--target", ANSWER) == 0
    assert capsys.readouterr().out == plain_words(record) + "\n"


def test_kind_layer_head_and_pieces_choose_what_is_shown(look, record, capsys):
    assert look(TEXT, "--target", ANSWER, "--kind", "decoder", "--layer", "3", "--head", "2",
                "--pieces") == 0  # fmt: skip
    assert capsys.readouterr().out == plain_words(record, View("decoder", 2, 1, "pieces")) + "\n"


def test_no_color_is_obeyed_even_in_a_terminal(look, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert look(TEXT, "--target", ANSWER) == 0
    assert "\x1b[" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert look(TEXT, "--target", ANSWER) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_the_model_s_own_answer_is_looked_at_unless_one_is_given(look, finished, capsys):
    assert look(TEXT, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["target"] == load(finished).predict([TEXT])[0].text != ANSWER


def test_an_answer_is_no_longer_than_was_asked_for(look, finished, capsys):
    said = {}
    for most in ("1", "2"):
        assert look(TEXT, "--json", "--max-tokens", most) == 0
        captured = capsys.readouterr()
        shown = json.loads(captured.out)
        said[most] = shown["target"]
        search = Beam(width=5, limits=Limits(max_tokens=int(most)))
        predicted = load(finished).predict([TEXT], search=search)[0]
        assert said[most] == predicted.text
        assert shown["note"] == predicted.note == "the answer was cut at the longest allowed"
        assert captured.err == f"look: {predicted.note}\n"
    assert said["1"] != said["2"]
    assert look(TEXT, "--target", ANSWER, "--json") == 0
    captured = capsys.readouterr()
    assert (json.loads(captured.out)["note"], captured.err) == (None, "")


def test_json_on_standard_output_and_in_a_file_are_the_record_s_numbers(
    look, record, tmp_path, capsys
):
    words = [TEXT, "--target", ANSWER, "--layer", "2"]
    assert look(*words, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert look(*words, "--out", str(tmp_path / "x.json")) == 0
    assert json.loads((tmp_path / "x.json").read_text()) == said
    assert said["shown"]["title"] == "cross attention, layer 2, mean of 2 heads"
    shown = torch.tensor(said["shown"]["weights"])
    assert_close(shown, record.words("cross", 1), atol=1e-6, rtol=0)
    held = torch.tensor(said["attention"]["cross"]["weights"][1][0])
    assert_close(held, record.weights("cross", 1, 0), atol=1e-6, rtol=0)


def test_pages_texts_and_pictures_are_written(look, record, tmp_path, capsys):
    for name, extra in (
        ("x.html", ["--layer", "3"]), ("x.txt", []), ("x.png", []), ("heads.png", ["--heads"]),
    ):  # fmt: skip
        assert look(TEXT, "--target", ANSWER, "--out", str(tmp_path / name), *extra) == 0
        printed = capsys.readouterr()
        assert printed.out == ""
        assert str(tmp_path / name) in printed.err
    assert '"layer":2' in (tmp_path / "x.html").read_text()
    assert (tmp_path / "x.txt").read_text() == plain_words(record) + "\n"
    sizes = [_size(tmp_path / name) for name in ("x.png", "heads.png")]
    assert sizes[0] != sizes[1]
    assert min(sizes[0]) > 300


def test_a_record_is_kept_whole(look, record, tmp_path, capsys):
    kept = tmp_path / "x.safetensors"
    assert look(TEXT, "--target", ANSWER, "--out", str(kept)) == 0
    assert f"wrote {kept}" in capsys.readouterr().err
    read = load_record(kept)
    assert (read.source, read.target) == (record.source, record.target)
    assert_close(read.weights("cross", 1, 0), record.weights("cross", 1, 0))


def test_more_weights_than_json_should_hold_are_refused_with_other_ways(
    look, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("regard.inspecting.record.MAX_JSON_WEIGHTS", 10)
    for words in (["--json"], ["--out", str(tmp_path / "x.json")]):
        assert look(TEXT, "--target", ANSWER, *words) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert (
            "weights are too many to write out; at most 10. Write a page (--out x.html) or a "
            "picture (--out x.png), keep the whole record (--out x.safetensors), or take one view "
            "in Python: record.weights(kind, layer, head, rows=, columns=)."
        ) in " ".join(said.err.split())
    assert not (tmp_path / "x.json").exists()
    kept = tmp_path / "x.safetensors"
    assert look(TEXT, "--target", ANSWER, "--out", str(kept)) == 0
    assert kept.exists()


def _size(path):
    with Image.open(path) as picture:
        return picture.size


@pytest.mark.parametrize("words", [[], ["-"]])
def test_a_line_of_standard_input_is_a_text_too(words, look, record, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", _stdin(f"{TEXT}\n".encode()))
    assert look(*words, "--target", ANSWER) == 0
    assert capsys.readouterr().out == plain_words(record) + "\n"


def _stdin(content):
    return io.TextIOWrapper(io.BytesIO(content), encoding="utf-8")


def test_a_file_whose_name_is_looked_at_as_a_text_is_mentioned(look, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("b")
    assert look("a", "--target", "b") == 0
    assert "For what is in it: regard look RUN < a" in capsys.readouterr().err
    assert look("a" * 40 + " b" * 4, "--target", "b") == 0
    assert "there is a file" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a\nb\n", r"expected one line, got 2"),
        (b"\xff\n", r"standard input is no UTF-8"),
        (b"\n", r"the text is empty"),
    ],
)
def test_standard_input_that_is_no_line_of_text_is_refused(
    content, said, look, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "stdin", _stdin(content))
    assert look() == 2
    assert re.search(said, capsys.readouterr().err)


@pytest.mark.parametrize("words", [[], ["-"]])
def test_a_standard_input_that_is_closed_is_told(words, look, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", None)
    assert look(*words) == 2
    assert 'expected a text, got none. Write regard look RUN "TEXT".' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([""], r"the text is empty; there is nothing to look at"),
        (["a", "--layer", "4"], r"no layer 4: cross attention has 3 layers, counted from 1 to 3"),
        (["a", "--kind", "encoder", "--layer", "2"], r"encoder attention has 1 layer,"),
        (["a", "--head", "3"], r"no head 3: cross attention has 2 heads"),
        (["a", "--kind", "crss"], r"look: --kind: There is no 'crss' here. Did you mean 'cross'\?"),
        (
            ["a", "--out", "x.doc"],
            r"--out ends in .html, .png, .svg, .pdf, .gif, .txt, .json, .safetensors; got 'x\.doc'",
        ),
        (["a", "--out", "nowhere/x.png"], r"there is no folder 'nowhere'"),
        (["a", "--heads"], r"--heads is a picture\. Write it with --out x\.png"),
        (["a", "--layer", "0"], r"--layer"),
        (
            ["a", "--heads", "--layer", "2", "--out", "x.png"],
            r"--heads draws every head of every layer, so it takes no --layer 2\. Leave one",
        ),
        (["a", "--heads", "--head", "1", "--out", "x.png"], r"so it takes no --head 1\."),
        (
            ["a", "--kind", "cross", "--out", "x.safetensors"],
            r"a record holds every kind, layer, head and piece, so it takes no --kind cross\. ",
        ),
        (["a", "--pieces", "--out", "x.safetensors"], r"so it takes no --pieces\. Leave"),
        (["a", "--max-tokens", "3"], r"--target is the answer .*, so --max-tokens 3 limits none"),
    ],
)
def test_mistakes_exit_with_2_and_say_what_to_do(words, said, look, capsys):
    assert look(*words, "--target", "a") == 2
    error = capsys.readouterr().err
    assert re.search(said, error)
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--kind crss", "'crss'"),
        ("--layer 4", "layer 4: cross attention has 3 layers, counted from 1 to 3."),
        ("--head 3", "head 3: cross attention has 2 heads, counted from 1 to 2."),
        ("--kind encoder --layer 2", "layer 2: encoder attention has 1 layer, counted from 1."),
    ],
)
def test_what_is_not_there_is_told_before_an_answer_is_searched_for(
    words, said, look, monkeypatch, capsys
):
    def looks(*_, **__):
        raise AssertionError("it was searched for")

    monkeypatch.setattr(Trained, "look", looks)
    assert look(TEXT, *words.split()) == 2
    assert f"here is no {said}" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["", "  "])
def test_an_empty_target_is_no_answer_to_look_at(target, look, capsys):
    assert look("a", "--target", target) == 2
    assert "look: --target is the answer to look at; expected a text, got an empty one. Give" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("most", ["0", "-1", "900"])
def test_a_limit_that_is_none_is_refused(most, look, capsys):
    assert look("a", "--max-tokens", most) == 2
    assert f"look: --max-tokens must lie between 1 and 63, the model's limit, got {most}." in (
        capsys.readouterr().err
    )


def test_a_missing_run_is_the_user_s_mistake(tmp_path, capsys):
    assert main(["look", str(tmp_path / "none"), "a"]) == 2
    assert "is not a finished run" in capsys.readouterr().err


def test_help_shows_an_example(capsys):
    assert main(["look", "--help"]) == 0
    assert "Example: regard look" in capsys.readouterr().out
