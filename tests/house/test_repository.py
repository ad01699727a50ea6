"""The files for GitHub and for citations say what is so: targets, versions, recipes."""

import re
from pathlib import Path

import pytest
import yaml

import regard

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def read(path):
    return yaml.safe_load(path.read_text())


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_targets_that_there_are(path):
    jobs = read(path)["jobs"].values()
    lanes = {
        name for job in jobs for name in job.get("strategy", {}).get("matrix", {}).get("target", [])
    }
    called = set(re.findall(r"run: make ([a-z-]+)", path.read_text()))
    assert lanes | called <= TARGETS


def test_ci_on_github_runs_what_ci_runs_here():
    here = set(re.findall(r"\bmake ([a-z-]+)", (ROOT / ".ci/run").read_text()))
    there = (ROOT / ".github/workflows/ci.yml").read_text()
    assert here <= {"env", "test"} | set(
        read(ROOT / ".github/workflows/ci.yml")["jobs"]["lanes"]["strategy"]["matrix"]["target"]
    )
    assert "run: make test" in there


def test_the_pythons_of_the_workflow_are_those_of_the_package():
    tested = read(ROOT / ".github/workflows/ci.yml")["jobs"]["suite"]["strategy"]["matrix"][
        "python"
    ]
    said = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    assert tested == said


def test_the_citation_has_the_version_of_the_package():
    citation = read(ROOT / "CITATION.cff")
    assert citation["version"] == regard.__version__
    assert (
        f"[{regard.__version__}] - {citation['date-released']}"
        in (ROOT / "CHANGELOG.md").read_text()
    )


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")), ids=lambda p: p.name
)
def test_a_form_for_issues_names_every_field(path):
    form = read(path)
    assert form["name"]
    assert form["description"]
    names = [field["id"] for field in form["body"]]
    assert len(names) == len(set(names))
    assert all(field["attributes"]["label"] for field in form["body"])
