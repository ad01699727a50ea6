"""regard doctor: faults of the data, with line numbers."""

import json
from dataclasses import replace
from pathlib import Path

import typer

from regard.cli.options import ManyPaths, first_given, refuse, two_names
from regard.data import Subwords, reader_for
from regard.data.doctor import MAX_PLACES, Diagnosis, diagnose
from regard.data.documents import Documents
from regard.data.examples import FileReader
from regard.data.readers import JsonLines, Shards
from regard.data.recognised import holds_pictures
from regard.data.treebanks import Treebank
from regard.errors import DataError, SettingError, counted
from regard.progress import waiting

Names = tuple[str, str] | None

doctor = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@doctor.command("doctor", cls=ManyPaths)
def _doctor(
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
    named = None if keys is None else two_names("doctor", "--keys", keys)
    pair = None if suffixes is None else two_names("doctor", "--suffixes", suffixes)
    clashes = {
        "--documents reads JSON lines, and --trees is for treebanks": documents and trees,
        "--documents reads JSON lines, and --suffixes is for pairs of files": documents and pair,
        "--trees reads a treebank, and --keys is for other files": trees and named,
        "--trees reads a treebank, and --suffixes is for other files": trees and pair,
    }
    if why := first_given(clashes):
        raise SettingError(f"doctor: {why}. Leave one of the two out.")
    readers = [
        _reader(paths, named, pair, documents=documents, trees=trees, remedy=remedy)
        for paths, remedy in (
            (data, "Give the source file and then its target file."),
            (test, "Give both after --test: the source file and then its target file."),
        )
        if paths
    ]
    if not any(isinstance(each, JsonLines | Documents | Shards) for each in readers):
        refuse("doctor", "no .jsonl file is read", {"--keys": named})
    if not any(isinstance(each, Shards) for each in readers):
        refuse("doctor", "no folder is read", {"--suffixes": pair})
    files = tokenizer or []
    if len(files) > 2:
        raise SettingError(f"doctor: --tokenizer is given once or twice, got {len(files)}.")
    train, tested = readers[0], readers[1] if test else None
    with waiting("reading"):
        subwords = (Subwords.load(files[0]), Subwords.load(files[-1])) if files else None
        found = diagnose(train, test=tested, max_tokens=max_tokens, subwords=subwords)
    print(json.dumps(_data(found), ensure_ascii=False) if as_json else _text(found))
    if not found.is_clean:
        raise typer.Exit(1)


def _reader(
    paths: list[Path], keys: Names, suffixes: Names, *, documents: bool, trees: bool, remedy: str
) -> FileReader:
    """The reader of these paths, as a recipe's readers of documents and of treebanks have it."""
    if documents:
        if len(paths) != 1 or paths[0].is_dir():
            raise SettingError(
                "doctor: --documents takes one file of JSON lines, got "
                f"'{' '.join(map(str, paths))}'. Look at the files one by one."
            )
        if keys is None:
            return Documents(paths[0])
        parts = tuple(part.strip() for part in keys[0].split("+"))
        return Documents(paths[0], source=parts, target=keys[1])
    if pictures := next((path for path in paths if holds_pictures(path)), None):
        raise DataError(
            f"doctor: '{pictures}' holds pictures, and the doctor reads texts. For pictures: "
            "regard new PICTURES CAPTIONS, and regard train names those that cannot be read."
        )
    reader = reader_for(paths, keys=keys or ("source", "target"), suffixes=suffixes, remedy=remedy)
    if not trees:
        return reader
    if not isinstance(reader, Treebank):
        raise SettingError(
            "doctor: --trees takes one .conllu file (also .gz, .xz), got "
            f"'{' '.join(map(str, paths))}'. Leave --trees out, or look at treebanks one by one."
        )
    return replace(reader, has_trees=True)


def _data(found: Diagnosis) -> dict[str, object]:
    findings = [
        {**vars(one), "places": [{"file": str(path), "line": line} for path, line in one.places]}
        for one in found.findings
    ]
    counts = {"examples": found.examples, "test_examples": found.test_examples}
    return {**counts, "is_clean": found.is_clean, "findings": findings}


def _text(found: Diagnosis) -> str:
    n_test = found.test_examples
    tested = "" if n_test is None else f", {counted(n_test, 'test example')}"
    verdict = "nothing wrong" if found.is_clean else counted(len(found.findings), "finding")
    lines = [f"{counted(found.examples, 'example')}{tested}: {verdict}."]
    for finding in found.findings:
        lines += ["", f"{finding.check:<12} {finding.message}"]
        # each file is named once: 12 in all: train.en 3, 7, 9 ...
        by_file: dict[str, list[str]] = {}
        for path, number in finding.places:
            by_file.setdefault(path.name, []).append(str(number))
        shown = "; ".join(f"{name} {', '.join(numbers)}" for name, numbers in by_file.items())
        more = " ..." if finding.count > MAX_PLACES else ""
        lines += [f"{'':<12} {finding.count} in all: {shown}{more}"] if shown else []
        lines += [f"{'':<12} {quote}" for quote in finding.quotes]
    return "\n".join(lines)
