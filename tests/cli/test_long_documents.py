"""Documents of thousands of tokens, through the command line: answered, looked into, or refused."""

import io
import sys

import pytest
from rich.console import Console

from regard.cli import main
from regard.progress import spinner
from regard.tasks.looks import counted_words
from tests.factories import make_run

COMPRESSED = """\
kind = "language_model"
rows = "separated"
d_model = 16
n_heads = 2
d_hidden = 16
n_layers = 3
attends = ["blocks:size=64", "memory_compressed:stride=3"]"""
WINDOW = """\
kind = "language_model"
rows = "running"
positions = "rotary"
d_model = 16
n_heads = 2
d_hidden = 16
n_layers = 2
attends = ["sliding_window:size=32"]"""
N_WORDS, LIMIT = 3000, 3200


@pytest.fixture(scope="module", params=[COMPRESSED, WINDOW], ids=["T-DMCA", "window"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("long") / "run"
    return make_run(folder, "to be or not. ", kind="words", model=request.param, max_len=LIMIT)


def _document(n_words):
    words = ("to", "be", "or", "not.")
    return " ".join(words[i * i % 7 % 4] for i in range(n_words))


def _given(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_a_long_document_is_answered_from_a_file_and_from_standard_input(
    run, tmp_path, monkeypatch, capsys
):
    (tmp_path / "document").write_text(_document(N_WORDS) + "\n")
    wishes = ("--max-tokens", "4", "--beam", "2")
    assert main(["predict", str(run), str(tmp_path / "document"), *wishes]) == 0
    from_file = capsys.readouterr().out
    _given(monkeypatch, _document(N_WORDS) + "\n")
    assert main(["predict", str(run), *wishes]) == 0
    assert capsys.readouterr().out == from_file
    assert from_file.endswith("\n") and from_file.count("\n") == 1


def test_a_long_document_is_looked_into(run, tmp_path, monkeypatch, capsys):
    _given(monkeypatch, _document(N_WORDS) + "\n")
    page = tmp_path / "look.html"
    assert main(["look", str(run), "--target", "to be", "--out", str(page)]) == 0
    assert f"wrote {page}" in capsys.readouterr().err
    assert "<canvas" in page.read_text()


def test_a_document_past_the_limit_is_refused_or_answered_in_pieces(run, tmp_path, capsys):
    (tmp_path / "document").write_text("to be\n\n" + _document(2 * N_WORDS) + "\n")
    asked = ["predict", str(run), str(tmp_path / "document"), "--max-tokens", "2", "--beam", "1"]
    assert main(asked) == 2
    said = capsys.readouterr().err
    assert f"line 3 has {2 * N_WORDS + 1:,} tokens" in said
    assert f"at most {LIMIT:,}" in said and "--on-long" in said
    assert main([*asked, "--on-long", "split"]) == 0
    assert "line 3: answered in 2 pieces" in capsys.readouterr().err


def test_a_document_past_the_limit_is_not_looked_into(run, monkeypatch, capsys):
    _given(monkeypatch, _document(2 * N_WORDS) + "\n")
    assert main(["look", str(run)]) == 2
    said = capsys.readouterr().err
    assert f"a text has {2 * N_WORDS + 1:,} tokens" in said
    # a look has no --on-long
    assert "Shorten it, or look at a part of it." in " ".join(said.split())
    assert "--on-long" not in said


def test_what_is_read_and_for_how_long_is_shown_in_a_terminal_only():
    shown = {}
    for is_terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=is_terminal, width=60)
        with spinner(console) as line:
            line.add_task(f"answering {counted_words(_document(N_WORDS))}", total=None)
        shown[is_terminal] = console.file.getvalue()
    assert "answering 3,000 words" in shown[True] and "0:00:00" in shown[True]
    assert shown[False].strip() == ""
