import json
import os
import subprocess
import sys
from pathlib import Path

from regard.cli import main

RECIPES = Path(__file__).parents[2] / "recipes"


def test_all_shipped_recipes_are_listed_with_what_they_are(capsys):
    assert main(["recipe"]) == 0
    out = capsys.readouterr().out
    assert "Copy letters: the smallest task on which everything has to work." in " ".join(
        out.split()
    )
    assert main(["recipe", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed] == sorted(path.stem for path in RECIPES.glob("*.toml"))


def test_one_is_printed_as_it_is(capsys):
    assert main(["recipe", "copy"]) == 0
    text = capsys.readouterr().out
    assert text == (RECIPES / "copy.toml").read_text()
    assert main(["recipe", "copy.toml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == text


def test_an_unknown_name_is_answered_with_the_nearest(capsys):
    assert main(["recipe", "cpy"]) == 2
    assert "recipe: There is no 'cpy' here. Did you mean 'copy'?" in capsys.readouterr().err


def test_the_schema_is_for_editors(capsys):
    assert main(["recipe", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "a recipe of regard"
    assert main(["recipe", "copy", "--schema"]) == 2
    assert "--schema is of all recipes, so NAME would change nothing." in capsys.readouterr().err


def test_a_shell_completes_keys_behind_set():
    given = {"_REGARD_COMPLETE": "complete_bash", "COMP_WORDS": "regard train x --set training.ste"}
    done = subprocess.run(
        [sys.executable, "-m", "regard"],
        env={**os.environ, **given, "COMP_CWORD": "4"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["training.steps="]
