"""regard predict: lines in, lines out; streams; mistakes that are told."""

import gzip
import io
import json
import sys

import pytest

import regard
from regard.cli import main
from regard.runs.trained import Prediction, Trained
from tests.factories import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("predict") / "run")


def _says(capsys, *words, code=0):
    assert main(["predict", *map(str, words)]) == code
    return capsys.readouterr()


def _given(monkeypatch, text):
    stream = io.TextIOWrapper(io.BytesIO(text))
    monkeypatch.setattr(sys, "stdin", stream)


def test_files_texts_and_standard_input_give_the_same_lines(run, tmp_path, capsys, monkeypatch):
    lines = ["a b", "", "e d c"]
    want = [said.text for said in regard.load(run).predict(["a b", "e d c"])]
    want.insert(1, "")
    file = tmp_path / "texts"
    file.write_text("\n".join(lines) + "\n")
    assert _says(capsys, run, file).out.split("\n")[:-1] == want
    packed = tmp_path / "texts.txt.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert _says(capsys, run, packed).out.split("\n")[:-1] == want
    _given(monkeypatch, file.read_bytes())
    assert _says(capsys, run).out.split("\n")[:-1] == want
    _given(monkeypatch, file.read_bytes())
    assert _says(capsys, run, "-").out.split("\n")[:-1] == want
    given = _says(capsys, run, "--text", "a b", "--text", "e d c").out
    assert given.split("\n")[:-1] == [want[0], want[2]]


def test_json_lines_hold_all_there_is_to_know(run, capsys):
    out = _says(capsys, run, "--text", "a b", "--n-best", "3", "--alignments", "--json").out
    row = json.loads(out)
    keys = ["source", "text", "score", "tokens", "alignment", "n_best", "note", "has_ended"]
    assert list(row) == keys
    assert row["source"] == "a b"
    assert "".join(row["tokens"]) == row["text"]
    assert len(row["n_best"]) == 3


def test_several_answers_have_a_line_each_with_the_number_of_their_text(run, capsys):
    words = [run, "--text", "a b", "--text", "", "--text", "c", "--n-best", "3", "--max-tokens", 9]
    lines = [line.split("\t") for line in _says(capsys, *words).out.split("\n")[:-1]]
    assert [line[0] for line in lines] == ["1"] * 3 + ["2"] + ["3"] * 3
    first, empty, third = map(json.loads, _says(capsys, *words, "--json").out.splitlines())
    wanted = [
        [number, f"{one['score']:.4f}", one["text"]]
        for number, row in (("1", first), ("3", third))
        for one in row["n_best"]
    ]
    assert lines[:3] + lines[4:] == wanted
    assert (lines[3], empty["n_best"]) == (["2", "0.0000", ""], [])
    links = _says(capsys, run, "--text", "a b", "--n-best", "2", "--alignments").out.split("\n")
    # one text is linked, the best
    assert [line.count("\t") for line in links[:-1]] == [3, 2]
    drawn = _says(capsys, run, "--text", "a b", "--n-best", "2", "--sample").out
    assert [line.split("\t")[0] for line in drawn.split("\n")[:-1]] == ["1", "1"]


def test_a_text_without_several_answers_has_one_line(run, capsys):
    words = [run, "--text", "b " * 100, "--text", "a", "--n-best", "2"]
    split = _says(capsys, *words, "--on-long", "split").out.split("\n")
    assert [line.split("\t")[0] for line in split] == ["1", "2", "2", ""]
    assert split[0].split("\t")[2]
    assert _says(capsys, *words, "--on-long", "skip").out.startswith("1\t\t\n2\t")


def test_alignments_stand_behind_a_tab(run, capsys):
    text, _, links = _says(capsys, run, "--text", "a b c", "--alignments").out[:-1].partition("\t")
    assert all(link.replace("-", "").isdigit() for link in links.split())
    assert text == regard.load(run).predict(["a b c"])[0].text


def test_a_beam_of_one_is_greedy_and_a_seed_repeats_a_sample(run, capsys):
    greedy = _says(capsys, run, "--text", "a b", "--beam", "1").out
    assert greedy == _says(capsys, run, "--text", "a b", "--beam", "1").out
    draws = [_says(capsys, run, "--text", "a b c", "--sample", "--seed", n).out for n in (3, 3, 4)]
    assert draws[0] == draws[1] != draws[2]


def test_constraints_are_held_line_by_line(run, tmp_path, capsys):
    wishes = tmp_path / "wishes"
    wishes.write_text("e e\td\n\n")
    said = _says(
        capsys, run, "--text", "a b", "--text", "a b", "--constraints", wishes, "--beam", "8"
    ).out.split("\n")
    assert "e e" in said[0]
    assert "d" in said[0]
    assert said[1] != said[0]


@pytest.mark.parametrize("option", ["--prefix", "--constraints"])
def test_an_answer_cannot_be_wished_to_hold_what_the_vocabulary_has_not(
    run, tmp_path, capsys, option
):
    (tmp_path / "wishes").write_text("a €\n")
    given = {"--prefix": "a €", "--constraints": tmp_path / "wishes"}[option]
    said = " ".join(_says(capsys, run, "--text", "a b", option, given, code=2).err.split())
    assert "predict: input 1: no answer of this run can hold '€', which is not in its vocab" in said


def test_a_folder_is_no_file_of_texts(run, tmp_path, capsys):
    said = _says(capsys, run, tmp_path, code=2).err
    assert "is a folder; a file was expected" in " ".join(said.split())


def test_a_beam_is_as_wide_as_there_are_answers(run, capsys):
    said = _says(capsys, run, "--text", "a", "--beam", "2", "--n-best", "3", code=2).err
    want = "predict: --n-best 3 needs a beam at least as wide, got --beam 2. Take --beam 3"
    assert want in " ".join(said.split())
    assert len(_says(capsys, run, "--text", "a", "--n-best", "7").out.splitlines()) == 7


@pytest.mark.parametrize("lines", ["e\n", "e\n\n\n"])
def test_constraints_have_a_line_for_each_text(run, tmp_path, capsys, lines):
    (tmp_path / "wishes").write_text(lines)
    asked = ["--text", "a b", "--text", "a b", "--constraints", tmp_path / "wishes"]
    said = _says(capsys, run, *asked, code=2)
    n = lines.count("\n")
    assert (
        f"has {n} line{'s' * (n > 1)}, but there are 2 texts. Give a line, empty if need be"
        in said.err
    )
    assert said.out == "", "nothing is answered before"


@pytest.mark.parametrize("words", [["--beam", "3"], ["--length-penalty", "1.5"]])
def test_how_to_search_means_nothing_to_what_is_drawn(run, capsys, words):
    said = _says(capsys, run, "--text", "a", "--sample", *words, code=2).err
    want = f"drawn (--sample) and not searched for, so {words[0]} would change nothing. Leave it"
    assert want in " ".join(said.split())


def test_phrases_need_a_beam(run, tmp_path, capsys):
    wishes = tmp_path / "wishes"
    wishes.write_text("e\n")
    for words in (["--beam", "1"], ["--sample"]):
        err = _says(capsys, run, "--text", "a", "--constraints", wishes, *words, code=2).err
        assert "need a beam of at least 2" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--text", "a" * 10_000], "has at least 10,001 tokens, but the model reads at most 64"),
        (["nowhere.txt"], "there is no file 'nowhere.txt'. For a text itself, use --text."),
        (["a.jsonl.xz"], "there is no file 'a.jsonl.xz'"),
        (["--text", "a", "--beam", "0"], "predict: --beam must be at least 1, got 0. Give 1 for"),
        (["--text", "a", "--top-k", "3"], "Add --sample, or leave --top-k out"),
        (["--text", "a", "--seed", "3"], "--seed is for answers that are drawn"),
        (["-", "-"], "standard input (-) can be read once only"),
        (["--text", "a", "--max-tokens", "900"], "must lie between 1 and 63"),
        (["--text", "a", "--on-long", "spilt"], "split"),
        (["--text", "a", "--device", "cuba"], "'cuba' is not on this machine"),
    ],
)
def test_mistakes_are_told_in_a_line_or_two(run, capsys, words, message):
    err = _says(capsys, run, *words, code=2).err
    assert message in err
    assert "Traceback" not in err


def test_empty_answers_are_counted_and_named_and_empty_lines_are_not(run, capsys, monkeypatch):
    def says_nothing_to_b(trained, requests, options):
        for place, request in enumerate(requests):
            yield place, Prediction(request.text, "x" if "a" in request.text else "", 0.0, ())

    monkeypatch.setattr(Trained, "predict_each", says_nothing_to_b)
    _given(monkeypatch, b"a\nb\n\na\nb b\n")
    said = _says(capsys, run)
    assert said.out.split("\n") == ["x", "", "", "x", "", ""]
    assert "2 of 5 answers are empty (line 2, 5): the model ended them at once" in said.err
    _given(monkeypatch, b"b\n" * 7)
    assert "(line 1, 2, 3, 4, 5 …)" in _says(capsys, run).err
    _given(monkeypatch, b"a\n\n")
    assert _says(capsys, run).err == ""


def test_a_line_that_is_not_utf_8_is_named(run, capsys, monkeypatch):
    _given(monkeypatch, b"a b\n\xff\xfe\n")
    err = _says(capsys, run, "-", code=2).err
    assert "standard input, line 2 is not UTF-8 (byte 1)" in err


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    err = _says(capsys, tmp_path, "--text", "a", code=2).err
    assert "is no run: there is no recipe.toml in it. Give a folder that regard train made." in err
    for name in "abcdef":
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.toml").touch()
    err = _says(capsys, tmp_path, "--text", "a", code=2).err
    assert "there is no recipe.toml in it. Give a run that it holds: a, b, c, d, e, …." in err
    err = _says(capsys, tmp_path / "a", "--text", "a", code=2).err
    assert "is not a finished run: there is no model.safetensors in it" in err
    err = _says(capsys, tmp_path / "zzz", "--text", "a", code=2).err
    assert "holds nothing with a name like it, but a, b, c, d, e, …." in err


def test_a_run_whose_name_was_mistyped_is_found_by_its_likes(run, capsys):
    err = _says(capsys, run.with_name(f"{run.name}s"), "--text", "a", code=2).err
    assert "there is no such folder" in err
    assert f"holds {run.name}" in err


def test_long_lines_are_split_or_left_out_and_counted(run, capsys):
    said = _says(capsys, run, "--text", "b " * 100, "--on-long", "split")
    assert "input 1: answered in 4 pieces" in said.err
    assert said.out.count("\n") == 1
    said = _says(capsys, run, "--text", "b " * 100, "--on-long", "split", "--max-tokens", "1")
    cut = "n-best list; 4 answers of pieces were cut at the longest allowed"
    assert cut in " ".join(said.err.split())
    said = _says(capsys, run, "--text", "b " * 100, "--on-long", "skip", "--json")
    assert "input 1: left out" in said.err
    assert json.loads(said.out)["score"] is None
