"""regard learn: the course "Attention, every number", read and run in the terminal."""

import json
import sys
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.syntax import Syntax

from regard.course.chapter_files import LANGUAGES, Cell, Chapter, chapter, chapters
from regard.errors import SettingError

A_PICTURE = "(a picture: regard learn {} --notebook FOLDER shows it)"


def learn(
    which: str | None = typer.Argument(
        None, metavar="[CHAPTER]", help="A chapter, by number or name; all are listed without it."
    ),
    language: str = typer.Option("en", help=f"Of the prose: {', '.join(LANGUAGES)}."),
    notebook: Path | None = typer.Option(
        None, help="Write a notebook to this .ipynb file or folder, and run nothing."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, with what each step gave."),
) -> None:
    """Learn attention in ten short chapters: read, run, and see every number.

    In a terminal a chapter stops after each step until Enter is pressed. A chapter takes seconds;
    chapter 8 trains a small Transformer and takes half a minute or so.

    Example: regard learn 1
    """
    if which is None:
        _list(chapters(language), notebook, as_json=as_json)
        return
    one = chapter(which, language)
    if notebook is not None:
        _write([one], notebook)
    elif as_json:
        print(json.dumps({**_facts(one), "steps": _steps(one)}, ensure_ascii=False))
    else:
        _show(one)


def _list(all_chapters: Sequence[Chapter], notebook: Path | None, *, as_json: bool) -> None:
    if notebook is not None:
        _write(all_chapters, notebook)
    elif as_json:
        print(json.dumps([_facts(one) for one in all_chapters], ensure_ascii=False))
    else:
        for one in all_chapters:
            print(one.title)
        print("\nregard learn 1 opens the first; --language zh reads it in Chinese.")


def _facts(one: Chapter) -> dict[str, object]:
    return {
        "number": one.number, "name": one.name, "title": one.title, "language": one.language
    }  # fmt: skip


def _steps(one: Chapter) -> list[dict[str, object]]:
    # a step needs torch, and the list of chapters does not
    from regard.course.execution import play

    return [
        {"code": played.step.text, "printed": played.printed, "picture": _base64(played.png())}
        if played.step.is_code
        else {"prose": played.step.text}
        for played in play(one)
    ]


def _base64(content: bytes | None) -> str | None:
    return None if content is None else b64encode(content).decode()


def _show(one: Chapter) -> None:
    from regard.course.execution import play

    console = Console(highlight=False)
    for played in play(one):
        _show_step(console, played.step)
        if played.printed:
            console.print(played.printed, markup=False, soft_wrap=True)
        if played.figure is not None:
            console.print(A_PICTURE.format(one.number), markup=False)
        console.print()
        if played.step.is_code and not _goes_on(console):
            return


def _goes_on(console: Console) -> bool:
    """Whether the reader wants the next step; without a terminal there is no one to ask."""
    if console.is_terminal and sys.stdin.isatty():
        try:
            console.input("[dim]Enter goes on, Ctrl-C stops[/dim] ")
        except (EOFError, KeyboardInterrupt):
            console.print()
            return False
    return True


def _show_step(console: Console, step: Cell) -> None:
    if not console.is_terminal:
        text = "\n".join(f"    {line}".rstrip() for line in step.text.splitlines())
        console.print(text if step.is_code else step.text, markup=False, soft_wrap=True)
    elif step.is_code:
        console.print(Syntax(step.text, "python", theme="ansi_dark"))
    else:
        console.print(Markdown(step.text))


def _write(some: Sequence[Chapter], place: Path) -> None:
    """Write notebooks into a folder, or one into a file; none is overwritten."""
    from regard.course.notebooks import write_notebook

    is_file = place.suffix == ".ipynb"
    if is_file and len(some) > 1:
        raise SettingError(
            f"learn: --notebook '{place}' is one file, and there are {len(some)} chapters. Name a "
            "chapter, or give a folder."
        )
    if place.is_file() and not is_file:
        raise SettingError(f"learn: --notebook '{place}' is a file. Give a folder, or an .ipynb.")
    paths = [place if is_file else place / f"{one.file_name}.ipynb" for one in some]
    for path in paths:
        if path.exists():
            raise SettingError(
                f"learn: '{path}' exists, and may hold your changes. Give another place."
            )
    for one, path in zip(some, paths, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_notebook(one, path)
        print(path)
