"""regard learn lists the chapters, shows one with what its code prints, and writes notebooks."""

import io
import json
from base64 import b64decode

import pytest
from rich.console import Console

from regard.cli import main


def test_the_chapters_are_listed_in_the_language_that_is_asked_for(capsys):
    assert main(["learn"]) == 0
    assert "1 · Three words, by hand\n" in capsys.readouterr().out
    assert main(["learn", "--language", "zh"]) == 0
    assert "1 · 三个词，手算一遍\n" in capsys.readouterr().out


def test_a_chapter_shows_prose_code_and_output_in_their_order(capsys):
    assert main(["learn", "three_words"]) == 0
    said = capsys.readouterr().out
    parts = ("# 1 · Three words", "    scores = x @ x.T", "[10., 11.,  6.]", "## Step 2: select")
    places = [said.index(part) for part in parts]
    assert places == sorted(places)


def test_json_lists_chapters_and_gives_the_output_of_every_step(capsys):
    assert main(["learn", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["number"] for one in listed] == list(range(1, 11))
    assert main(["learn", "7", "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert b"PNG" in b64decode(next(filter(None, (step.get("picture") for step in steps))))[:4]
    assert any("63 numbers instead of 1296" in step.get("printed", "") for step in steps)


def test_notebooks_are_written_and_never_over_another_file(tmp_path, capsys):
    assert main(["learn", "--notebook", str(tmp_path)]) == 0
    assert len(list(tmp_path.glob("*.ipynb"))) == 10
    assert main(["learn", "2", "--language", "zh", "--notebook", str(tmp_path)]) == 0
    assert (tmp_path / "02_scores.zh.ipynb").exists()
    capsys.readouterr()
    assert main(["learn", "2", "--notebook", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"regard: learn: '{tmp_path}/02_scores.ipynb' exists, and may hold your changes. Give "
        "another place.\n"
    )


def test_one_file_for_ten_chapters_and_a_file_for_a_folder_are_refused(tmp_path, capsys):
    assert main(["learn", "--notebook", str(tmp_path / "all.ipynb")]) == 2
    assert "is one file, and there are 10 chapters. Name a chapter" in capsys.readouterr().err
    (tmp_path / "text").touch()
    assert main(["learn", "1", "--notebook", str(tmp_path / "text")]) == 2
    assert "is a file. Give a folder, or an .ipynb." in capsys.readouterr().err


@pytest.mark.parametrize("stop", [KeyboardInterrupt, EOFError])
def test_in_a_terminal_a_chapter_waits_after_each_step_and_may_be_stopped(
    stop, monkeypatch, capsys
):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr(Console, "is_terminal", property(lambda console: True))

    def stopped(console, prompt):
        assert prompt == "[dim]Enter goes on, Ctrl-C stops[/dim] "
        raise stop

    monkeypatch.setattr(Console, "input", stopped)
    assert main(["learn", "1"]) == 0
    said = capsys.readouterr().out
    assert "Three words, by hand" in said
    assert "Step 1: score" not in said
