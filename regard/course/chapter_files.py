"""Chapters: a Python file of cells → steps of prose and code; another language has prose alone.

A chapter is a file in jupytext's percent format: `# %% [markdown]` begins prose, which is a string
in triple quotes, and `# %%` begins code. The prose of another language is a Markdown file of the
same name, its pieces divided by `<!-- code -->` where the code stands. So the code is there once,
and the numbers of all languages come from the same lines.
"""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import final

from regard.choices import find, unknown
from regard.errors import UnknownChoice

FOLDER = Path(__file__).with_name("chapters")
LANGUAGES = {"en": "English", "zh": "中文"}
"""The languages of the prose, by the code that `regard learn --language` takes."""

MARK = re.compile(r"^# %%(.*)$", re.MULTILINE)
PLACE_OF_CODE = "<!-- code -->"


@final
@dataclass(frozen=True)
class Cell:
    """A piece of prose in Markdown, or a piece of code."""

    text: str
    is_code: bool


@final
@dataclass(frozen=True)
class Chapter:
    """One chapter in one language."""

    name: str
    """Its file without the ending, such as 01_three_words."""
    language: str
    steps: Sequence[Cell]

    @property
    def number(self) -> int:
        """Its place in the course, from 1."""
        return int(self.name.partition("_")[0])

    @property
    def file_name(self) -> str:
        """Its name, with the language where that is not English."""
        return self.name if self.language == "en" else f"{self.name}.{self.language}"

    @property
    def title(self) -> str:
        """The heading of the chapter."""
        return self.prose.partition("\n")[0].removeprefix("# ")

    @property
    def prose(self) -> str:
        """All prose, without code."""
        return "\n\n".join(step.text for step in self.steps if not step.is_code)

    @property
    def code(self) -> Sequence[str]:
        """The pieces of code, in order."""
        return [step.text for step in self.steps if step.is_code]


def names() -> list[str]:
    """The names of all chapters, in order."""
    return sorted(path.stem for path in FOLDER.glob("[0-9]*.py"))


def chapters(language: str = "en") -> list[Chapter]:
    """All chapters in one language."""
    return [chapter(name, language) for name in names()]


def chapter(which: str | int, language: str = "en") -> Chapter:
    """The chapter of this number or name.

    >>> chapter(1).title
    '1 · Three words, by hand'
    """
    find(language, LANGUAGES, key="learn: --language")
    return _read(_name(str(which)), language)


def _name(which: str) -> str:
    known = names()
    if which.isdecimal():
        if not 1 <= int(which) <= len(known):
            raise UnknownChoice(
                f"learn: expected a chapter from 1 to {len(known)}, got {which}. `regard learn` "
                "lists them."
            )
        return known[int(which) - 1]
    short = {name.partition("_")[2]: name for name in known}
    if which not in {**short, **dict.fromkeys(known)}:
        raise UnknownChoice(f"learn: {unknown(which, short)}")
    return short.get(which, which)


@cache
def _read(name: str, language: str) -> Chapter:
    steps = _cells((FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    if language != "en":
        text = (FOLDER / f"{name}.{language}.md").read_text(encoding="utf-8")
        steps = _with_prose(steps, text)
    return Chapter(name, language, steps)


def _cells(text: str) -> tuple[Cell, ...]:
    r"""The cells of a percent file.

    >>> _cells('# %% [markdown]\n"# One"\n# %%\nprint(1)')
    (Cell(text='# One', is_code=False), Cell(text='print(1)', is_code=True))
    """
    _, *parts = MARK.split(text)
    return tuple(
        Cell(body.strip(), is_code=True)
        if kind.strip() != "[markdown]"
        else Cell(str(ast.literal_eval(body.strip())).strip(), is_code=False)
        for kind, body in zip(parts[::2], parts[1::2], strict=True)
    )


def _with_prose(steps: Sequence[Cell], text: str) -> tuple[Cell, ...]:
    """The same code with the prose of another language."""
    pieces = iter(text.split(PLACE_OF_CODE))
    prose = next(pieces, "").strip()
    told = []
    for step in steps:
        if step.is_code:
            told += [Cell(prose, is_code=False)] if prose else []
            told.append(step)
            prose = next(pieces, "").strip()
    return (*told, *([Cell(prose, is_code=False)] if prose else []))
