"""A chapter → a notebook (.ipynb, format 4.5), which Jupyter opens without jupytext."""

import json
from pathlib import Path

from regard.course.chapter_files import Cell, Chapter
from regard.data.atomic_writes import write_text


def write_notebook(chapter: Chapter, path: Path) -> None:
    """Write a chapter without outputs: running the cells makes them."""
    notebook = {
        "cells": [_cell(number, step) for number, step in enumerate(chapter.steps)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    write_text(path, json.dumps(notebook, ensure_ascii=False, indent=1) + "\n")


def _cell(number: int, step: Cell) -> dict[str, object]:
    cell: dict[str, object] = {
        "id": f"step-{number}",
        "cell_type": "code" if step.is_code else "markdown",
        "metadata": {},
        "source": step.text.splitlines(keepends=True),
    }
    return {**cell, "execution_count": None, "outputs": []} if step.is_code else cell
