"""Where Python lacks the modules of Unix, as on Windows, regard imports, trains and answers."""

import subprocess
import sys

import pytest

from tests.small_recipe import RECIPE

pytestmark = pytest.mark.processes

# other packages choose their imports by the system's name, so only ours are refused
WITHOUT = """
import builtins
plainly = builtins.__import__

def refusing(name, globals=None, locals=None, fromlist=(), level=0):
    is_ours = (globals or {}).get("__name__", "").startswith("regard")
    if is_ours and name in ("resource", "fcntl", "pwd", "grp", "termios", "tty", "pty", "syslog"):
        raise ModuleNotFoundError(f"No module named '{name}'", name=name)
    return plainly(name, globals, locals, fromlist, level)

builtins.__import__ = refusing
"""

IMPORTS = """
import importlib, pkgutil, regard
found = [each.name for each in pkgutil.walk_packages(regard.__path__, "regard.")]
for name in found:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        print(error.name)
print(len(found) > 300)
"""

WORKS = """
from pathlib import Path
import regard
from regard.cli import main
words = ["train", "recipe.toml", "--out", "run", "--set", "training.steps=2", "--device", "cpu"]
print(main(words), main(["--help"]), Path("run.lock").exists())
print(len(regard.load("run").predict(["a b"])))
"""

LOCKS = """
from pathlib import Path
from regard.errors import RunError
from regard.training.run_folder import locked
run = Path("runs/one")
with locked(run), locked(Path("runs/two")):
    print(sorted(each.name for each in Path("runs").iterdir()), list(run.iterdir()))
    try:
        locked(run).__enter__()
    except RunError as error:
        print(error)
with locked(run):
    print(sorted(each.name for each in Path("runs").iterdir()))
"""

MEASURES = """
import os
from regard.errors import RunError
from regard.hardware import memory as measuring
measuring.limit_memory(1 << 40)
print(measuring.resident("VmRSS") > 0, measuring.in_a_fork(lambda: {"a": 1}))
measuring.Path = lambda name: os  # a system without /proc
os.exists = lambda: False
del os.fork
for work in (lambda: measuring.resident("VmRSS"), lambda: measuring.in_a_fork(dict)):
    try:
        work()
    except RunError as error:
        print(error)
"""


def _ran(script, folder):
    words = [sys.executable, "-W", "ignore", "-c", WITHOUT + script]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    return tmp_path


def test_every_module_of_the_package_can_be_imported(folder):
    *missing, is_whole = _ran(IMPORTS, folder).splitlines()
    assert is_whole == "True"
    # kernels for GPUs need a package that is not for every machine
    assert set(missing) <= {"triton"}


def test_a_run_is_trained_and_asked(folder):
    said = _ran(WORKS, folder).splitlines()
    assert said[-2:] == ["0 0 False", "1"]


def test_a_lock_is_a_file_beside_the_run_which_goes_when_the_training_ends(folder):
    inside, told, after = _ran(LOCKS, folder).splitlines()
    assert inside == "['one', 'one.lock', 'two', 'two.lock'] []"
    assert told.startswith("train: 'runs/one' is being trained in already: there is '")
    assert told.endswith("if it was killed, delete this file.")
    assert after == "['one', 'one.lock', 'two']"


def test_memory_is_measured_by_proc_and_otherwise_an_error_says_where_it_can_be(folder):
    measured, *told = _ran(MEASURES, folder).splitlines()
    assert measured == "True {'a': 1}"
    assert told == [
        f"memory cannot be measured on this system: {why}. Use Linux or macOS for regard plan and "
        "regard bench; everything else works here."
        for why in (
            "there is neither /proc nor Python's module resource",
            "processes cannot be forked",
        )
    ]
