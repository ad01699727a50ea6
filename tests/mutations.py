"""Flip one sign at a time in every mechanism, and expect a test to fail.

    python tests/mutations.py [NAME …]

For each mechanism, every `+`, `-`, comparison and leading minus in the methods that compute
(forward, visible, weigh, …) is turned round in a copy of the package, and the tests of that
mechanism run against the copy. A flip that no test notices is printed, and the exit code is 1.
"""

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

from regard.catalogue import Mechanism, mechanism, mechanisms
from regard.inspecting import KINDS

ROOT = Path(__file__).parents[1]

COMPUTES = re.compile(
    "forward|visible|weigh|summarise|to_scores|to_context|as_bias|shorten|look|join|remember|step"
)
"""The functions of a mechanism that compute something."""

FLIPS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.LtE: ast.Gt,
    ast.GtE: ast.Lt,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
}


def flips(source: str) -> Iterator[tuple[int, str]]:
    """Each flipped version of a file, with the line that was changed."""
    for number in range(_count(source)):
        tree = ast.parse(source)
        line = _flip(tree, number)
        yield line, ast.unparse(tree)


def _sites(tree: ast.Module) -> list[ast.AST]:
    """Every place with a sign, in the functions that compute; a return value if there is none."""
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and COMPUTES.fullmatch(node.name)
    ]
    signs = [
        node
        for function in functions
        for node in ast.walk(function)
        if (isinstance(node, ast.BinOp) and type(node.op) in FLIPS)
        or (isinstance(node, ast.Compare) and type(node.ops[0]) in FLIPS)
        or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
            and not isinstance(node.operand, ast.Constant))
    ]  # fmt: skip
    returns = [
        node
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Return) and node.value is not None
    ]
    return signs or returns[-1:]


def _count(source: str) -> int:
    return len(_sites(ast.parse(source)))


def _flip(tree: ast.Module, number: int) -> int:
    node = _sites(tree)[number]
    if isinstance(node, ast.BinOp):
        node.op = FLIPS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = FLIPS[type(node.ops[0])]()
    elif isinstance(node, ast.UnaryOp):
        node.op = ast.UAdd()
    elif isinstance(node, ast.Return):
        node.value = ast.Call(
            func=ast.Name("__negated__", ast.Load()), args=[node.value], keywords=[]
        )
        tree.body.append(ast.parse(NEGATED).body[0])
    ast.fix_missing_locations(tree)
    return int(node.lineno)


NEGATED = '''
def __negated__(result):
    """What a wrong sign at the end would give."""
    import torch
    return ~result if result.dtype == torch.bool else -result
'''


def tests_of(entry: Mechanism) -> Path:
    """The mechanism's own test file."""
    inside = Path(entry.file).relative_to("regard").parent
    return ROOT / "tests" / inside / f"test_{entry.name}.py"


def computing_file(entry: Mechanism) -> str:
    """The file whose code computes: for a mechanism that only builds a part, that part's."""
    part = KINDS[entry.kind][entry.name]
    if inspect.isclass(part):
        return entry.file
    return get_type_hints(part)["return"].__module__.replace(".", "/") + ".py"


def noticed(entry: Mechanism, mutant: str, copy: Path) -> bool:
    """Whether the mechanism's tests fail on the mutant."""
    target = copy / computing_file(entry)
    original = target.read_text()
    target.write_text(mutant)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            str(copy / tests_of(entry).relative_to(ROOT)),
        ],
        cwd=copy,
        capture_output=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    target.write_text(original)
    return done.returncode == 1


def main(names: list[str]) -> int:
    entries = [mechanism(name) for name in names] or mechanisms()
    total = caught = 0
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("regard", "tests"):
            shutil.copytree(ROOT / part, copy / part)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for entry in entries:
            source = (ROOT / computing_file(entry)).read_text()
            missed = [line for line, mutant in flips(source) if not noticed(entry, mutant, copy)]
            count = _count(source)
            print(f"{entry.name}: {count - len(missed)} of {count} flips noticed", flush=True)
            # a part that only builds another one answers for one flip; the rest are the other's
            if computing_file(entry) != entry.file and len(missed) < count:
                count, missed = count - len(missed), []
            total, caught = total + count, caught + count - len(missed)
            survivors += [f"{computing_file(entry)}:{line}" for line in missed]
    print(f"{caught} of {total} flips in {len(entries)} mechanisms noticed")
    for place in survivors:
        print(f"not noticed: {place}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
