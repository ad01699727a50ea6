"""The course in the studio: a chapter as it is read, and what its code prints and draws.

A chapter runs in a process of its own: its code changes the folder, the standard output and the
random numbers of a whole process. Its outputs are the same every time, so they are kept.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import cache

from regard.course.chapter_files import LANGUAGES, chapter, chapters
from regard.errors import RegardError

MAX_SECONDS = 600
"""A chapter that runs for longer is stopped; the longest takes half a minute of a free core."""

Output = dict[str, str | None]


def contents(language: str) -> dict[str, object]:
    """The titles of all chapters in a language, and the languages that there are."""
    titles = [{"number": one.number, "title": one.title} for one in chapters(language)]
    return {"languages": LANGUAGES, "chapters": titles}


def reading(which: str, language: str) -> dict[str, object]:
    """The prose and code of a chapter, step by step, without running it."""
    one = chapter(which, language)
    steps = [{"is_code": step.is_code, "text": step.text} for step in one.steps]
    return {"number": one.number, "title": one.title, "steps": steps}


def outputs(which: str) -> Sequence[Output]:
    """What each piece of a chapter's code prints, and draws as PNG in base64."""
    return _outputs(chapter(which).number)


@cache
def _outputs(number: int) -> Sequence[Output]:
    command = [sys.executable, "-m", "regard", "learn", str(number), "--json"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RegardError(
            f"learn: chapter {number} did not end in {MAX_SECONDS} s. Is this machine busy? "
            f"regard learn {number} runs it in a terminal."
        ) from error
    if done.returncode:
        raise RegardError(done.stderr.strip().removeprefix("regard: "))
    steps = json.loads(done.stdout)["steps"]
    return [
        {"printed": step["printed"], "picture": step["picture"]} for step in steps if "code" in step
    ]
