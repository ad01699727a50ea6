"""Flip one sign at a time in every mechanism and path, and expect a test to fail.

    python tests/mutations.py [NAME …]

For each mechanism, every `+`, `-`, comparison and leading minus in the methods that compute
(forward, visible, weigh, …) is turned round in a copy of the package, and the tests of that
mechanism run against the copy. So are those in the engine's files, whose functions all compute but
the ones that say why and at what cost, and those in the kernels for GPUs, which Triton's
interpreter runs (`make kernels` installs it). A flip that no test notices is printed, and the exit
code is 1.
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
from typing import NamedTuple, get_type_hints

from regard.catalogue import Mechanism, mechanism, mechanisms
from regard.inspecting import KINDS

ROOT = Path(__file__).parents[1]

TRITON = ROOT / ".venv/triton"
"""Where `make kernels` installs Triton."""

COMPUTES = re.compile(
    "forward|visible|weigh|summarise|to_scores|to_context|as_bias|shorten|look|join|remember|step"
)
"""The functions of a mechanism that compute something."""

COMPUTES_IN_ENGINE = re.compile("(?!(why|why_not|why_slow|cost|_not_.*|_why_.*|.*cuda.*)$).*")
"""The functions of a path that compute something."""

ENGINE = {
    "band": "joined",
    "fused": "paths",
    "joined": "joined",
    "kernels": "kernels",
    "sparse": "paths",
    "sparse_operator": "sparse_operator",
    "streamed": "streamed",
    "threshold_blocks": "thresholded",
    "thresholded": "thresholded",
    "tiles": "tiles",
    "windowed": "windowed",
}
"""The engine's files that compute on a CPU, and the tests that watch them."""

KERNELS = {
    "band_kernel": "relations",
    "band_backward_kernel": "relations",
    "related_kernel": "relations",
    "related_backward_kernel": "relations",
    "related_short_kernel": "relations",
    "slope_kernel": "relations",
    "shared_kernel": "maps",
    "short_kernel": "maps",
    "sparse_kernel": "maps",
    "threshold_kernel": "maps",
    "threshold_backward_kernel": "maps",
    "window_kernel": "maps",
}
"""The engine's kernels for GPUs, and the tests that watch them."""

INTERPRETED = ["-m", "kernels", "-o", "addopts=--import-mode=importlib"]
"""How pytest runs the tests of kernels."""

FLIPS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.LtE: ast.Gt,
    ast.GtE: ast.Lt,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
}


class Target(NamedTuple):
    """A file to be broken, and what should notice."""

    name: str
    file: str
    tests: Path
    computes: re.Pattern[str]
    is_other: bool = False
    """Whether the file is another part's, which only is built here."""
    options: tuple[str, ...] = ()
    """Of pytest."""

    @classmethod
    def of_mechanism(cls, entry: Mechanism) -> "Target":
        """The file of a mechanism, or of the part that it builds."""
        file = computing_file(entry)
        return cls(entry.name, file, tests_of(entry), COMPUTES, file != entry.file)

    @classmethod
    def of_engine(cls, name: str) -> "Target":
        """A file of the engine."""
        tests = ROOT / "tests/attention/engine" / f"test_{ENGINE[name]}.py"
        return cls(name, f"regard/attention/engine/{name}.py", tests, COMPUTES_IN_ENGINE)

    @classmethod
    def of_kernel(cls, name: str) -> "Target":
        """A kernel of the engine."""
        tests = ROOT / "tests/kernels" / f"test_{KERNELS[name]}.py"
        file, options = f"regard/attention/engine/{name}.py", tuple(INTERPRETED)
        return cls(name, file, tests, COMPUTES_IN_ENGINE, options=options)


def flips(source: str, computes: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """Each flipped version of a file, with the line that was changed."""
    for number in range(_count(source, computes)):
        tree = ast.parse(source)
        line = _flip(_sites(tree, computes)[number], tree)
        yield line, ast.unparse(tree)


def _sites(tree: ast.Module, computes: re.Pattern[str]) -> list[ast.AST]:
    """Every place with a sign, in the functions that compute; a return value if there is none."""
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and computes.fullmatch(node.name)
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


def _count(source: str, computes: re.Pattern[str]) -> int:
    return len(_sites(ast.parse(source), computes))


def _flip(node: ast.AST, tree: ast.Module) -> int:
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


def noticed(target: Target, mutant: str, copy: Path) -> bool:
    """Whether the target's tests fail on the mutant."""
    file = copy / target.file
    original = file.read_text()
    file.write_text(mutant)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "no:cacheprovider",
            *target.options,
            str(copy / target.tests.relative_to(ROOT)),
        ],
        cwd=copy,
        capture_output=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(TRITON)},
    )
    file.write_text(original)
    return done.returncode == 1


def targets(names: list[str]) -> list[Target]:
    """The named mechanisms and files of the engine, or all."""
    if not names:
        names = [*(entry.name for entry in mechanisms()), *ENGINE, *KERNELS]
    return [_target(name) for name in names]


def _target(name: str) -> Target:
    if name in KERNELS:
        return Target.of_kernel(name)
    return Target.of_engine(name) if name in ENGINE else Target.of_mechanism(mechanism(name))


def main(names: list[str]) -> int:
    total = caught = 0
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("regard", "tests"):
            shutil.copytree(ROOT / part, copy / part)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for target in targets(names):
            source = (ROOT / target.file).read_text()
            mutants = flips(source, target.computes)
            missed = [line for line, mutant in mutants if not noticed(target, mutant, copy)]
            count = _count(source, target.computes)
            print(f"{target.name}: {count - len(missed)} of {count} flips noticed", flush=True)
            # a part that only builds another one answers for one flip; the rest are the other's
            if target.is_other and len(missed) < count:
                count, missed = count - len(missed), []
            total, caught = total + count, caught + count - len(missed)
            survivors += [f"{target.file}:{line}" for line in missed]
    print(f"{caught} of {total} flips noticed")
    for place in survivors:
        print(f"not noticed: {place}")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
