"""The door of the command line: nothing heavy is loaded before a verb needs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.cli.verbs import VERBS

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


LISTENING = """
import sys
from regard.cli import main
code = main()
print("torch" in sys.modules, code, file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--help"], "Commands:"),
        (["--version"], regard.__version__),
        (["trian"], "Did you mean 'train'?"),
        ([], "Commands:"),
    ],
)
def test_help_version_and_mistyped_verbs_need_no_torch(words, said):
    ran = _listened(words, {})
    assert said in ran.stdout + ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("False ")


def test_a_shell_completes_verbs_without_torch_and_their_options_with_it():
    asked = {"_REGARD_COMPLETE": "complete_bash", "COMP_CWORD": "1", "COMP_WORDS": "regard ex"}
    ran = _listened([], asked)
    assert ran.stdout.split() == ["explain", "export"]
    assert ran.stderr.splitlines()[-1].startswith("False ")
    options = _listened([], {**asked, "COMP_CWORD": "2", "COMP_WORDS": "regard plan --dev"})
    assert options.stdout.split() == ["--device"]


def _listened(words, given):
    environment = {**os.environ, **given, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", LISTENING, *words], capture_output=True, text=True, env=environment
    )


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_is_listed_with_the_first_sentence_of_its_own_help(name):
    own = VERBS[name].load(name)
    assert own.help.split("\n\n")[0] == VERBS[name].summary
