"""Playing a chapter: its code runs step by step, and every step gives what it printed and drew.

A step prints, or its last line is a figure, which a notebook shows below the cell.
"""

import ast
import io
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from typing import Any, final

import torch

from regard.course.chapter_files import Cell, Chapter
from regard.errors import MissingExtra
from regard.hardware.hardware import Hardware
from regard.hardware.threads import Threads

HARDWARE = Hardware(threads=Threads(1, "the course's numbers are the same on any number of cores"))

DPI = 110
"""Of the pictures of pages; a figure is about 5 inches wide."""


@final
@dataclass(frozen=True)
class Played:
    """A step, what its code printed, and the figure that it drew."""

    step: Cell
    printed: str = ""
    figure: Any = None
    """A figure of matplotlib, or nothing."""

    def png(self) -> bytes | None:
        """The figure as the bytes of a PNG file."""
        if self.figure is None:
            return None
        content = io.BytesIO()
        self.figure.savefig(content, format="png", dpi=DPI)
        return content.getvalue()


def play(chapter: Chapter) -> Iterator[Played]:
    """Run a chapter in an empty folder that is deleted afterwards, one step each time.

    Random numbers and threads of the caller stay as they were.
    """
    names: dict[str, Any] = {"__name__": f"regard.course.{chapter.name}"}
    with tempfile.TemporaryDirectory() as folder, torch.random.fork_rng(devices=[]):
        for step in chapter.steps:
            # between two steps the folder is the caller's
            with chdir(folder), HARDWARE.on_threads():
                played = _run(step, names) if step.is_code else Played(step)
            yield played


def _run(step: Cell, names: dict[str, Any]) -> Played:
    tree = ast.parse(step.text)
    last = tree.body[-1] if tree.body else None
    shown = last.value if isinstance(last, ast.Expr) else None
    if shown is not None:
        tree.body.pop()
    printed, value = io.StringIO(), None
    try:
        with redirect_stdout(printed):
            exec(compile(tree, "chapter", "exec"), names)
            if shown is not None:
                value = eval(compile(ast.Expression(shown), "chapter", "eval"), names)
    except ModuleNotFoundError as missing:
        raise MissingExtra(
            f"learn: this step needs the package '{missing.name}', which is not installed. Run pip "
            f"install {missing.name}."
        ) from missing
    is_figure = hasattr(value, "savefig")
    return Played(step, printed.getvalue().rstrip("\n"), value if is_figure else None)
