"""Where things stand: import order, file length, one name in four places, docstring form."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from regard.catalogue import mechanisms

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "regard"

FLOW = [
    "errors", "dims", "familiar_words", "choices", "catalogue", "places", "progress", "data",
    "positions", "attention", "layers", "parts", "models", "hardware", "decoding", "evaluating",
    "inspecting", "bridge", "plots", "recipes", "tasks", "training", "runs", "interop", "course",
    "serving", "client", "bench", "cli",
]  # fmt: skip

CHAPTERS = PACKAGE / "course" / "chapters"
"""Notebooks: their prose says what a learner can do, and they use regard from outside."""
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != CHAPTERS)
WRITTEN = [
    path
    for folder in ("regard", "tests", "benchmarks", "studies", "docs", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def _area(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("regard.")}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_only_go_up_the_flow(path):
    area = _area(path)
    if area in ("__init__", "__main__"):
        return
    allowed = set(FLOW[: FLOW.index(area) + 1])
    assert _imports(path) <= allowed, f"{area} may import only from {sorted(allowed)}"


def test_every_area_of_the_package_is_in_the_flow():
    assert {_area(path) for path in SOURCES} - {"__init__", "__main__"} <= set(FLOW)


def test_no_file_passes_400_lines():
    long = {str(p): n for p in WRITTEN if (n := len(p.read_text().splitlines())) > 400}
    assert not long


def test_no_file_has_a_name_that_says_nothing():
    assert not {p.name for p in WRITTEN} & {"utils.py", "helpers.py", "common.py", "misc.py"}


def test_no_function_of_the_package_takes_kwargs_but_the_one_that_refuses_them_by_name():
    taking = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.args.kwarg
    ]
    assert taking == ["bridge/interface.py: attention"]


def test_nothing_in_the_package_is_known_by_being_the_same_object():
    # a pickled copy of a constant is another object, and must still be known for what it is
    compared = [
        f"{path.name}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot)
        for side in (node.left, *node.comparators)
        # dataclasses' own mark is one object in every process
        if isinstance(side, ast.Name) and side.id.isupper() and side.id != "MISSING"
    ]
    assert compared == []


def test_nothing_in_the_package_pickles():
    # what others pickled may be read, in the mode that builds tensors and runs nothing
    pickling = re.compile(
        r"\bimport pickle\b|\btorch\.save\(|\btorch\.load\((?!.*weights_only=True)"
    )
    assert [p.name for p in SOURCES if pickling.search(p.read_text())] == []


@pytest.mark.parametrize("entry", mechanisms(), ids=lambda e: e.name)
def test_a_mechanism_has_one_name_in_four_places(entry):
    assert Path(entry.file).stem == entry.name
    inside = Path(entry.file).relative_to("regard").parent
    assert (ROOT / "tests" / inside / f"test_{entry.name}.py").exists()
    page = ROOT / "docs" / "mechanisms" / f"{entry.name}.md"
    assert page.read_text().startswith(f"# {entry.name}\n")
    assert (ROOT / "docs" / "img" / "mechanisms" / f"{entry.name}.png").exists()


def test_every_file_of_a_kind_stands_in_its_table():
    known = {entry.file for entry in mechanisms()}
    folders = {str(Path(file).parent) for file in known}
    files = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).glob("*.py")
        if path.name != "__init__.py"
    }
    assert files == known


def test_the_names_of_mechanisms_are_unique():
    names = [entry.name for entry in mechanisms()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("entry", mechanisms(), ids=lambda e: e.name)
def test_a_mechanism_says_its_equation_paper_and_cost(entry):
    assert entry.summary.endswith(".")
    assert "=" in entry.equation or ":" in entry.equation
    assert re.search(r"(19|20)\d\d", entry.paper), "a paper has a year"
    assert "O(" in entry.cost


def test_a_mechanism_file_is_about_a_screen_and_a_half():
    long = {
        entry.file: n
        for entry in mechanisms()
        if (n := len((ROOT / entry.file).read_text().splitlines())) > 200
    }
    assert not long


STAGES = {
    "training", "decoding", "serving", "evaluating", "inspecting", "importing", "exporting",
    "masking", "batching", "sampling", "embedding", "captioning", "labelling",
}  # fmt: skip
"""The gerunds that are the field's own words for a stage."""

TREES = {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in SOURCES}


def test_no_two_public_classes_share_a_name():
    names = [
        node.name
        for tree in TREES.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name in names if names.count(name) > 1} == set()


def test_no_file_or_folder_is_named_by_a_bare_gerund_but_the_field_s_stages():
    words = {word.removesuffix(".py") for file in TREES for word in file.split("/")}
    gerunds = {word for word in words if re.fullmatch(r"[a-z]+ing", word)}
    assert gerunds <= STAGES


def test_sentences_name_their_actor():
    nameless = re.compile(r"\b(nobody|somebody|whoever)\b", re.IGNORECASE)
    scripts = sorted(PACKAGE.rglob("*.js"))
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert [p.name for p in (*SOURCES, *scripts, *pages) if nameless.search(p.read_text())] == []


def test_only_models_and_tasks_ask_for_the_class_of_a_spec_or_a_model():
    models = {
        node.name
        for file, tree in TREES.items()
        for node in tree.body
        if file.startswith("models/") and isinstance(node, ast.ClassDef)
    }
    asking = {
        file
        for file, tree in TREES.items()
        if not file.startswith(("models/", "tasks/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass")
        for word in re.findall(r"\w+", ast.unparse(node.args[1]))
        if word.endswith("Spec") or word in models
    }
    assert asking == set()


def test_only_the_tables_list_the_names_of_mechanisms():
    names = {entry.name for entry in mechanisms() if entry.kind not in ("heads", "layer")}
    listing = {
        file
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Set | ast.List | ast.Tuple)
        if sum(isinstance(one, ast.Constant) and one.value in names for one in node.elts) > 1
    }
    assert listing == set()


def test_benchmarks_import_names_that_exist():
    named = [
        (node.module, alias.name)
        for path in sorted((ROOT / "benchmarks").glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("regard")
        for alias in node.names
        # the modules of kernels need Triton
        if not (node.module.endswith("_kernel") or alias.name.endswith("_kernel"))
    ]
    assert named
    missing = [name for name in named if not hasattr(importlib.import_module(name[0]), name[1])]
    assert missing == []


def test_nothing_assigns_to_a_class_of_an_object():
    assigning = {
        file
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if node.attr == "__class__"
    }
    assert assigning == set()


def test_the_quick_parts_of_decoding_stand_behind_its_door():
    behind = re.compile(r"regard\.decoding\.(cpu|gpu)\b|regard\.decoding import (cpu|gpu)\b")
    outside = [p for p in SOURCES if _area(p) != "decoding" and behind.search(p.read_text())]
    assert outside == []
