"""regard doctor: what is wrong with the data, with line numbers."""

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from regard.cli.options import refuse
from regard.data import Subwords, reader_for
from regard.data.doctor import SHOWN, Diagnosis, Finding, diagnose
from regard.data.documents import Documents
from regard.data.readers import FileReader, JsonLines, Shards
from regard.data.treebanks import Treebank
from regard.errors import SettingError

Names = tuple[str, str] | None
"""Two names of an option, or None where it was not given."""


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class ManyTests(TyperCommand):
    """A command whose --test takes every path up to the next option, as a shell's wildcards do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write --test A B as --test A --test B, which is what the parser knows."""
        spelt: list[str] = []
        is_inside = False
        for word in args:
            if word.startswith("--"):
                is_inside = word == "--test"
            elif is_inside and spelt[-1] != "--test":
                spelt.append("--test")
            spelt.append(word)
        return super().parse_args(ctx, spelt)


@app.command("doctor", cls=ManyTests)
def doctor(
    data: list[Path] = typer.Argument(
        help="SOURCE TARGET [TARGET ...], or one .tsv, .jsonl, .conllu or folder (.gz, .xz too)."
    ),
    test: list[Path] | None = typer.Option(
        None, help="Test data in the same forms, after the training data: looks for leakage."
    ),
    max_tokens: int | None = typer.Option(
        None, min=1, help="Length a training would allow: says how much is longer."
    ),
    tokenizer: list[Path] | None = typer.Option(
        None, help="A tokenizer.json to count with; twice for source and target."
    ),
    keys: str | None = typer.Option(
        None,
        help="Keys of .jsonl files, source,target unless given; of documents their parts, "
        "title+sections,abstract unless given.",
    ),
    documents: bool = typer.Option(
        False, "--documents", help="A .jsonl file holds documents, whose parts may be lists."
    ),
    trees: bool = typer.Option(
        False,
        "--trees",
        help="A .conllu file is read with its trees, as has_trees = true reads it.",
    ),
    suffixes: str | None = typer.Option(None, help="Pairs of files in a folder, such as en,de."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Look for what is wrong with data: exit 0 when it is clean, 1 when something was found.

    Line counts, encoding, empty lines, control characters, outliers in length and ratio,
    duplicates, contradictions, copies; against test data, leakage and unseen characters.

    Example: regard doctor train.en train.de --test test.en test.de --max-tokens 100
    """
    named = None if keys is None else _two("--keys", keys)
    pair = None if suffixes is None else _two("--suffixes", suffixes)
    read = _reading(documents=documents, trees=trees)
    train = read(data, named, pair)
    tested = read(test, named, pair) if test else None
    _check_are_used((train, tested), named, pair)
    console = Console(stderr=True)
    with console.status("reading") if console.is_terminal else nullcontext():
        found = diagnose(
            train, test=tested, max_tokens=max_tokens, subwords=_subwords(tokenizer or [])
        )
    print(json.dumps(_data(found), ensure_ascii=False) if as_json else _text(found))
    if not found.is_clean:
        raise typer.Exit(1)


def _reading(*, documents: bool, trees: bool) -> Callable[[list[Path], Names, Names], FileReader]:
    """The function that makes a reader of paths, keys and suffixes."""
    if documents and trees:
        raise SettingError(
            "doctor: --documents reads JSON lines, and --trees is for treebanks. Leave one of the "
            "two out."
        )
    if documents:
        return _documents
    return _treebank if trees else _pairs


def _pairs(paths: list[Path], keys: Names, suffixes: Names) -> FileReader:
    return reader_for(paths, keys=keys or ("source", "target"), suffixes=suffixes)


def _check_are_used(readers: Sequence[FileReader | None], keys: Names, suffixes: Names) -> None:
    """Refuse names that nothing is read by."""
    if not any(isinstance(each, JsonLines | Documents | Shards) for each in readers):
        refuse("doctor", "no .jsonl file is read", {"--keys": keys})
    if not any(isinstance(each, Shards) for each in readers):
        refuse("doctor", "no folder is read", {"--suffixes": suffixes})


def _documents(paths: list[Path], keys: Names, suffixes: Names) -> FileReader:
    """As a recipe's reader of that name reads them."""
    if suffixes is not None:
        raise SettingError(
            "doctor: --documents reads JSON lines, and --suffixes is for pairs of files. Leave one "
            "of the two out."
        )
    if len(paths) != 1 or paths[0].is_dir():
        raise SettingError(
            "doctor: --documents takes one file of JSON lines, got "
            f"'{' '.join(map(str, paths))}'. Look at the files one by one."
        )
    if keys is None:
        return Documents(paths[0])
    parts = tuple(part.strip() for part in keys[0].split("+"))
    return Documents(paths[0], source=parts, target=keys[1])


def _treebank(paths: list[Path], keys: Names, suffixes: Names) -> FileReader:
    """As a recipe's reader conllu reads it with has_trees = true."""
    if keys is not None or suffixes is not None:
        option = "--suffixes" if keys is None else "--keys"
        raise SettingError(
            f"doctor: --trees reads a treebank, and {option} is for other files. Leave one of the "
            "two out."
        )
    reader = reader_for(paths)
    if not isinstance(reader, Treebank):
        raise SettingError(
            "doctor: --trees takes one .conllu file (also .gz, .xz), got "
            f"'{' '.join(map(str, paths))}'. Leave --trees out, or look at treebanks one by one."
        )
    return replace(reader, has_trees=True)


def _two(option: str, text: str) -> tuple[str, str]:
    first, comma, second = (part.strip() for part in text.partition(","))
    if not (first and comma and second) or "," in second:
        raise SettingError(f"doctor: {option} takes two names and a comma, got '{text}'.")
    return first, second


def _subwords(paths: list[Path]) -> tuple[Subwords, Subwords] | None:
    if len(paths) > 2:
        raise SettingError(f"doctor: --tokenizer is given once or twice, got {len(paths)}.")
    if not paths:
        return None
    return Subwords.load(paths[0]), Subwords.load(paths[-1])


def _data(found: Diagnosis) -> dict[str, object]:
    return {
        "examples": found.examples,
        "test_examples": found.test_examples,
        "is_clean": found.is_clean,
        "findings": [
            {
                "check": finding.check,
                "message": finding.message,
                "count": finding.count,
                "places": [{"file": str(p), "line": line} for p, line in finding.places],
            }
            for finding in found.findings
        ],
    }


def _text(found: Diagnosis) -> str:
    tested = "" if found.test_examples is None else f", {found.test_examples} test examples"
    n = len(found.findings)
    said = "nothing wrong" if found.is_clean else f"{n} finding{'s' * (n != 1)}"
    lines = [f"{found.examples} examples{tested}: {said}."]
    for finding in found.findings:
        lines += ["", f"{finding.check:<12} {finding.message}"]
        lines += [f"{'':<12} {_where(finding)}"] if finding.places else []
    return "\n".join(lines)


def _where(finding: Finding) -> str:
    """The lines, each file named once: 12 in all: train.en 3, 7, 9 ..."""
    by_file: dict[str, list[str]] = {}
    for path, line in finding.places:
        by_file.setdefault(path.name, []).append(str(line))
    shown = "; ".join(f"{name} {', '.join(lines)}" for name, lines in by_file.items())
    more = " ..." if finding.count > SHOWN else ""
    return f"{finding.count} in all: {shown}{more}"
