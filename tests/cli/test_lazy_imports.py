"""Lazy imports: nothing heavy is loaded before a verb needs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import regard
from regard.catalogue import mechanisms
from regard.choices import Choice
from regard.cli import main
from regard.cli.explain import COMPUTED, USUAL
from regard.cli.explanations import computed_lines
from regard.cli.verbs import VERBS, load_verb

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, sys
from regard.cli import main
main(["--version"])
print(os.environ.get("GOMP_SPINCOUNT"), "torch" in sys.modules)
"""


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "1000 False"),
        ({"GOMP_SPINCOUNT": "5"}, "5 False"),
        ({"OMP_WAIT_POLICY": "active"}, "None False"),
    ],
)
def test_waiting_threads_spin_briefly_unless_the_user_chose_otherwise(given, expected):
    chosen = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    kept = {name: value for name, value in os.environ.items() if name not in chosen}
    environment = {**kept, **given, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=True
    )
    assert ran.stdout.splitlines()[-1] == expected


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from regard.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--help"], "Commands:"),
        (["--version"], regard.__version__),
        (["trian"], "Did you mean 'train'?"),
        ([], "Commands:"),
        (["list"], "regard explain NAME says more."),
        (["list", "--kind", "memory", "--json"], "memory_compressed"),
        (["list", "--help"], "Only this kind"),
        (["explain", "soft"], "weight on 16 positions"),
        (["explain", "encoder_layer"], "influence on 16 positions"),
        (["explain", "aditive"], "Did you mean 'additive'?"),
        (["explain", "--help"], "Number of queries"),
    ],
)
def test_what_needs_no_numbers_runs_where_torch_cannot_be_imported(words, said):
    ran = _without_torch(words, {})
    assert said in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_shell_completes_verbs_where_torch_cannot_be_imported():
    asked = {"_REGARD_COMPLETE": "complete_bash", "COMP_CWORD": "1", "COMP_WORDS": "regard ex"}
    assert _without_torch([], asked).stdout.split() == ["explain", "export"]


def test_a_shell_completes_the_options_of_a_verb(monkeypatch, capsys):
    monkeypatch.setenv("_REGARD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "regard plan --dev")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert main([]) == 0
    assert capsys.readouterr().out.split() == ["--device"]


def _without_torch(words, given):
    environment = {**os.environ, **given, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip


@pytest.mark.parametrize("entry", mechanisms(), ids=lambda entry: entry.name)
def test_what_explain_keeps_is_what_it_computes(entry):
    kept = json.loads(COMPUTED.read_text(encoding="utf-8"))
    assert kept[entry.name] == computed_lines(Choice(entry.name), USUAL), "run make docs"


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_is_listed_with_the_first_sentence_of_its_own_help(name):
    assert load_verb(name).help.split("\n\n")[0] == VERBS[name]


def test_an_input_that_ended_is_told_without_a_traceback(monkeypatch, capsys):
    def ended(**_):
        raise typer.Abort

    monkeypatch.setattr("regard.cli.app", ended)
    assert main(["list"]) == 1
    assert capsys.readouterr().err == (
        "regard: the input ended before it was whole. Give it again.\n"
    )
