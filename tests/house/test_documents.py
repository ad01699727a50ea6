"""What the documents say is so: pages current, README runs, public names documented, versions."""

import ast
import doctest
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import regard
from regard.cli import main

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
IDEA = (ROOT / "docs" / "idea.md").read_text()
"""The page that says more of what the README begins with."""
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", README + IDEA, re.DOTALL)
NEED_FILES_OR_MINUTES = {
    "bench", "demo", "doctor", "evaluate", "look", "plan", "predict", "serve", "show", "train"
}  # fmt: skip
"""Verbs whose README lines are run by tests of their own, on small data."""
COMMANDS = [
    line.strip()
    for block in re.findall(r"```sh\n(.*?)```", README + IDEA, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("regard ") and line.split()[1] not in NEED_FILES_OR_MINUTES
]
PAGES = sorted((ROOT / "docs").rglob("*.md")) + sorted(ROOT.glob("*.md"))

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def test_every_generated_page_is_what_the_code_says():
    done = subprocess.run(
        [sys.executable, "docs/build.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=range(len(PYTHON_BLOCKS)))
def test_the_python_of_the_readme_and_of_its_next_page_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("command", dict.fromkeys(COMMANDS))
def test_the_commands_of_the_readme_and_of_its_next_page_run(command, capsys):
    assert main(command.split("#")[0].split()[1:]) == 0
    assert capsys.readouterr().out.strip()


def test_the_readme_s_make_targets_exist():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake (\w+)\b", README)) - {"and"} <= set(targets)


def test_the_errors_printed_in_the_readme_are_those_that_come(capsys):
    assert main(["explain", "multi_head", "--heads", "3", "--width", "64"]) == 2
    assert capsys.readouterr().err.strip() in README
    assert main(["explain", "aditive"]) == 2
    assert capsys.readouterr().err[:60] in README


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert missing == []


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "mechanisms").glob("*.md")), ids=lambda p: p.stem
)
def test_the_python_of_a_mechanism_s_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks, "a page shows how the mechanism is used"
    for block in blocks:
        exec(compile(block, page.name, "exec"), {})


def test_the_python_that_records_any_model_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "looking.md").read_text()
    (block,) = re.findall(r"### Any model\n\n```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block, "looking.md", "exec"), {})
    assert (tmp_path / "captured.safetensors").exists()


def test_the_python_of_the_page_about_published_models_runs(capsys):
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "bridge.md").read_text(), re.DOTALL
    )
    exec(compile("\n".join(blocks), "bridge.md", "exec"), {})
    assert capsys.readouterr().out.splitlines() == [
        "model.layers.0.self_attn fused",
        "model.layers.1.self_attn thresholded",
    ]


def test_the_version_is_the_changelog_s_newest():
    newest = re.search(r"^## \[(\d.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == regard.__version__


def _public_modules():
    for path in sorted((ROOT / "regard").rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(path.read_text())


def test_every_public_name_is_documented():
    bare = []
    for module, tree in _public_modules():
        if not ast.get_docstring(tree):
            bare.append(module)
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef | ast.FunctionDef):
                continue
            if not node.name.startswith("_") and not ast.get_docstring(node):
                inside = any(
                    isinstance(other, ast.FunctionDef | ast.AsyncFunctionDef)
                    and node in ast.walk(other)
                    for other in ast.walk(tree)
                    if other is not node
                )
                if not inside and not _in_private_class(tree, node):
                    bare.append(f"{module}.{node.name}")
    assert bare == []


def _in_private_class(tree, node):
    return any(
        isinstance(other, ast.ClassDef) and other.name.startswith("_") and node in other.body
        for other in ast.walk(tree)
    )


def test_the_first_benchmark_of_a_page_has_a_length_at_which_the_window_wins():
    length, names = re.search(r"regard bench attention --lengths (\d+) --only (\S+)", IDEA).groups()
    soft, window = names.split(",")
    measured = json.loads((ROOT / "docs" / "benchmarks.json").read_text())["rows"]
    seconds = {row["name"]: row["both_s"] for row in measured if row["n"] == int(length)}
    assert seconds[window] < seconds[soft]


@pytest.mark.parametrize(
    "name", ["regard", "regard.attention", "regard.layers", "regard.positions"]
)
def test_public_names_are_listed_sorted_and_exist(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__, key=lambda n: (not n.isupper(), n)) == module.__all__
    assert all(hasattr(module, public) for public in module.__all__)


@pytest.mark.processes
@pytest.mark.parametrize("script", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_prints_what_it_says(script, tmp_path):
    text = script.read_text()
    assert len(text.splitlines()) < 80
    _, _, expected = text.split('"""')[1].partition("Expected output, among other lines:\n\n")
    assert expected.strip()
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    printed = "\n".join(line.rstrip() for line in done.stdout.splitlines())
    lines = [line.strip() for line in expected.splitlines() if line.strip()]
    assert [line for line in lines if line not in printed] == []


def test_doctests_are_found():
    found = doctest.DocTestFinder().find(importlib.import_module("regard.attention.attend"))
    assert any(test.examples for test in found)
