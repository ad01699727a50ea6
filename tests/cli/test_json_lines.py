"""JSON lines that come in no .jsonl file: read by a run's keys, and never as text with braces."""

import io
import json
import re
import sys

import numpy as np
import pytest

import regard
from regard.cli import main
from tests.factories import make_run

KINDS = {
    "documents": '{ name = "documents", path = "x", source = ["a", "d"], max_words = 3 }',
    "jsonl": '{ name = "jsonl", path = "x", source = "translation.en" }',
}
OBJECTS = {
    "documents": ['{"a": "a b", "d": [["c", "d e"]]}', '{"d": ["e"], "a": "b", "abstract": "c"}'],
    "jsonl": ['{"translation": {"en": "a b c"}}', ' { "translation": {"en": "b e"} }'],
}
TEXTS = ["a b c", "b e"]


@pytest.fixture(scope="module", params=KINDS)
def run(request, tmp_path_factory):
    return _run(tmp_path_factory.mktemp(request.param) / request.param)


def _run(folder):
    """A run that learned from what its folder is called."""
    make_run(folder)
    recipe = (folder / "recipe.toml").read_text()
    train = re.sub(
        r'train = \{ name = "copy", count = \d+ \}', f"train = {KINDS[folder.name]}", recipe
    )
    assert train != recipe
    (folder / "recipe.toml").write_text(train)
    return folder


def _given(monkeypatch, *lines):
    content = "".join(f"{line}\n" for line in lines).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def _answered(capsys, *words, code=0):
    assert main(["predict", *map(str, words), "--beam", "1", "--max-tokens", "3", "--json"]) == code
    said = capsys.readouterr()
    return [json.loads(line)["source"] for line in said.out.splitlines()] if not code else said.err


def test_objects_are_read_alike_from_a_stream_from_files_and_from_what_is_typed(
    run, tmp_path, monkeypatch, capsys
):
    objects = OBJECTS[run.name]
    (tmp_path / "named.jsonl").write_text("\n".join(objects) + "\n")
    (tmp_path / "plain").write_text("\n".join(objects) + "\n")
    assert _answered(capsys, run, tmp_path / "named.jsonl") == TEXTS
    assert _answered(capsys, run, tmp_path / "plain") == TEXTS
    assert _answered(capsys, run, "--text", objects[0], "--text", objects[1]) == TEXTS
    assert _answered(capsys, run, "--text", objects[0].replace(": ", ":\n "))[0] == TEXTS[0]
    _given(monkeypatch, *objects)
    assert _answered(capsys, run) == TEXTS
    _given(monkeypatch, *objects)
    assert _answered(capsys, run, "-", "--text", "c") == [*TEXTS, "c"]


NOTES = {
    "documents": ["of each JSON object the first 3 words are read, as in training (max_words)"],
    "jsonl": [],
}


def _notes(capsys, *words):
    assert main([*map(str, words), "--max-tokens", "3"]) == 0
    return [line for line in capsys.readouterr().err.splitlines() if "max_words" in line]


def test_it_is_said_that_documents_are_cut(run, tmp_path, monkeypatch, capsys):
    objects = OBJECTS[run.name]
    (tmp_path / "named.jsonl").write_text("\n".join(objects) + "\n")
    assert _notes(capsys, "predict", run, tmp_path / "named.jsonl") == NOTES[run.name]
    assert _notes(capsys, "predict", run, "--text", objects[0]) == NOTES[run.name]
    assert _notes(capsys, "look", run, objects[0]) == NOTES[run.name]
    _given(monkeypatch, "a text", *objects)
    assert _notes(capsys, "predict", run) == NOTES[run.name], "once"
    assert _notes(capsys, "predict", run, "--text", "a b c d e") == []


def test_it_is_said_that_documents_with_references_are_cut(tmp_path, capsys):
    run, asked = _run(tmp_path / "documents"), tmp_path / "asked.jsonl"
    asked.write_text(OBJECTS["documents"][1] + "\n")
    assert _notes(capsys, "evaluate", run, "--source", asked) == NOTES["documents"]
    assert _notes(capsys, "evaluate", run, "--split", "valid") == []
    (tmp_path / "said").write_text("c\n")
    compared = ("compare", run, "--hypotheses", f"said={tmp_path / 'said'}", "--source", asked)
    assert _notes(capsys, *compared) == NOTES["documents"]


def test_texts_stay_what_they_are_and_may_stand_beside_objects(run, monkeypatch, capsys):
    _given(monkeypatch, "a b", "", OBJECTS[run.name][0], "{name} is here", "[1]")
    assert _answered(capsys, run) == ["a b", "", "a b c", "{name} is here", "[1]"]


def test_a_run_that_learned_from_texts_reads_an_object_as_the_text_it_is(
    tmp_path, monkeypatch, capsys
):
    run = make_run(tmp_path / "run")
    _given(monkeypatch, '{"a": 1}')
    assert _answered(capsys, run) == ['{"a": 1}']


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"a": "b"', r"is not JSON \(.*\); expected one object\."),
        ("{", r"is not JSON \(.*\); expected one object\."),
        ("{'a': 'b'}", r"is not JSON \(.*\); expected one object\."),
        ('{"other": "b"}', r"'(a|translation.en)'"),
    ],
)
def test_what_was_meant_to_be_an_object_is_refused_with_its_line(
    line, said, run, tmp_path, monkeypatch, capsys
):
    remedy = "The run learned from JSON objects: give such ones, or texts that do not begin like"
    (tmp_path / "plain").write_text(f"a\n{line}\n")
    for words, where in (
        (["-"], "standard input, line 2"),
        ([tmp_path / "plain"], f"{tmp_path / 'plain'}, line 2"),
        (["--text", line], "--text"),
    ):
        _given(monkeypatch, "a", line)
        error = " ".join(_answered(capsys, run, *words, code=2).split())
        assert where in error
        assert "line.jsonl" not in error
        assert re.search(said, error)
        assert remedy in error
        assert "Traceback" not in error


def test_lines_before_a_broken_one_are_answered(run, monkeypatch, capsys):
    objects = OBJECTS[run.name]
    _given(monkeypatch, *objects, '{"a": ', "never read")
    assert main(["predict", str(run), "--beam", "1", "--max-tokens", "3", "--json"]) == 2
    said = capsys.readouterr()
    assert [json.loads(line)["source"] for line in said.out.splitlines()] == TEXTS
    assert "standard input, line 3 is not JSON" in said.err


def test_an_object_behind_a_byte_order_mark_is_one(run, monkeypatch, capsys):
    _given(monkeypatch, "\ufeff" + OBJECTS[run.name][0])
    assert _answered(capsys, run) == ["a b c"]


def test_test_texts_are_read_by_the_same_keys(run, tmp_path, capsys):
    (tmp_path / "asked").write_text("\n".join(OBJECTS[run.name]) + "\n")
    (tmp_path / "wanted").write_text("a\nb\n")
    words = ["evaluate", str(run), "--source", str(tmp_path / "asked"), "--metrics", "loss"]
    words += ["--reference", str(tmp_path / "wanted"), "--json"]
    assert main(words) == 0
    by_keys = json.loads(capsys.readouterr().out)["scores"]
    (tmp_path / "asked").write_text("\n".join(TEXTS) + "\n")
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["scores"] == by_keys
    (tmp_path / "asked").write_text('a\n{"a"\n')
    assert main(words) == 2
    assert f"{run.name}: '{tmp_path / 'asked'}', line 2 is not JSON" in capsys.readouterr().err


def test_an_object_is_looked_at_by_its_keys(run, monkeypatch, capsys):
    for words in ([OBJECTS[run.name][0]], []):
        _given(monkeypatch, OBJECTS[run.name][0])
        assert main(["look", str(run), *words, "--target", "a", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["source"] == "a b c"
    assert main(["look", str(run), '{"a"}', "--target", "a"]) == 2
    assert f"{run.name}: the text is not JSON" in capsys.readouterr().err


def test_vectors_are_of_what_the_keys_say(tmp_path, monkeypatch, capsys):
    spec = (
        'kind = "encoder"\ntask = "vectors"\nd_model = 8\nn_heads = 2\nd_hidden = 8\nn_layers = 1'
    )
    run = make_run(tmp_path / "run", model=spec)
    recipe = (run / "recipe.toml").read_text()
    (run / "recipe.toml").write_text(
        recipe.replace('train = { name = "copy", count = 40 }', f"train = {KINDS['documents']}")
    )
    _given(monkeypatch, *OBJECTS["documents"])
    assert main(["predict", str(run), "--vectors", str(tmp_path / "x.npy")]) == 0
    wanted = regard.load(run).vectors(TEXTS)
    np.testing.assert_allclose(np.load(tmp_path / "x.npy"), wanted.numpy())
