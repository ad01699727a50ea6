"""The chapters of the course → pages, with what their code prints and draws."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.course.chapter_files import LANGUAGES, Chapter, chapter, names
from regard.course.execution import Played, play


def course_pages(pictures: Path) -> Iterator[tuple[str, str]]:
    """Every chapter in every language; the code runs once, and pictures go into a folder."""
    for name in names():
        played = [each for each in play(chapter(name)) if each.step.is_code]
        for number, each in enumerate(played):
            if (png := each.png()) is not None:
                pictures.mkdir(parents=True, exist_ok=True)
                (pictures / f"{name}-{number}.png").write_bytes(png)
        for language in LANGUAGES:
            yield f"learn/{language}/{name}.md", _page(chapter(name, language), played)


def _page(one: Chapter, played: Sequence[Played]) -> str:
    parts, number = [], 0
    for cell in one.steps:
        if not cell.is_code:
            parts.append(cell.text)
            continue
        parts += [f"```python\n{cell.text}\n```", *_output(one, played[number], number)]
        number += 1
    others = [(code, name) for code, name in LANGUAGES.items() if code != one.language]
    links = " · ".join(f"[{name}](../{code}/{one.name}.md)" for code, name in others)
    option = "" if one.language == "en" else f" --language {one.language}"
    parts.append(f"---\n\n`regard learn {one.number}{option}` · {links}")
    return "\n\n".join(parts) + "\n"


def _output(one: Chapter, played: Played, number: int) -> Iterator[str]:
    if played.printed:
        yield f"```text\n{played.printed}\n```"
    if played.figure is not None:
        yield f"![What step {number + 1} draws](../img/{one.name}-{number}.png)"
