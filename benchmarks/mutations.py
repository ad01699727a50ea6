"""Flip one sign at a time in every mechanism, and expect a test to fail.

    python benchmarks/mutations.py [NAME …]

For each mechanism, every `+`, `-`, comparison and leading minus in the methods that compute
(forward, visible, weigh, …) is turned round in a copy of the package, and the tests of that
mechanism run against the copy. A flip that no test notices is printed, and the exit code is 1.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from regard.inspecting import Mechanism, mechanism, mechanisms

ROOT = Path(__file__).parents[1]

COMPUTES = re.compile(
    "forward|visible|weigh|summarise|to_scores|to_context|as_bias|shorten|look|join|remember|step"
    "|multi_head"
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
    if isinstance(result, torch.nn.Module):
        with torch.no_grad():
            result.W_O.weight.neg_()
        return result
    return ~result if result.dtype == torch.bool else -result
'''


def tests_of(entry: Mechanism) -> Path:
    """The mechanism's own test file."""
    inside = Path(entry.file).relative_to("regard").parent
    return ROOT / "tests" / inside / f"test_{entry.name}.py"


def noticed(entry: Mechanism, mutant: str, copy: Path) -> bool:
    """Whether the mechanism's tests fail on the mutant."""
    target = copy / entry.file
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
            source = (ROOT / entry.file).read_text()
            seen = 0
            for line, mutant in flips(source):
                total += 1
                if noticed(entry, mutant, copy):
                    caught, seen = caught + 1, seen + 1
                else:
                    survivors.append(f"{entry.file}:{line}")
            print(f"{entry.name}: {seen} of {_count(source)} flips noticed", flush=True)
    print(f"{caught} of {total} flips in {len(entries)} mechanisms noticed")
    for place in survivors:
        print(f"not noticed: {place}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
