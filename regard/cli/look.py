"""regard look: what a model looked at while it answered."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import typer
from rich.console import Console

from regard.cli.options import IMPORTS, LIMIT, MaxTokens, ThreadCount, check_file
from regard.cli.requests import load_for_verb, print_note
from regard.errors import DataError, SettingError
from regard.hardware.threads import use_threads
from regard.inspecting.capture import Size
from regard.inspecting.panels import View
from regard.interop.transformers_folder import PublishedModel, open_folder
from regard.interop.transformers_pictures import look_at_picture
from regard.interop.transformers_texts import TextLook
from regard.progress import waiting
from regard.tasks.captioning import check_pictures, shown_pictures
from regard.tasks.looks import (
    GRID_SUFFIXES,
    RECORD_SUFFIX,
    WRITERS,
    LookRequest,
    ShownLook,
    chosen_view,
    shown,
)


def look(
    run: str | None = typer.Argument(None, help="A finished run; with --model, the text."),
    text: list[str] | None = typer.Argument(
        None,
        help="A text; by default, or for -, a line of standard input (a JSON object, for a run "
        "that learned from such); or pictures, for a run that captions them.",
    ),
    model: Path | None = typer.Option(
        None, help="A folder of a model of transformers, in place of a run."
    ),
    target: str | None = typer.Option(
        None, help="An answer to look at instead of the model's; not where a run only reads."
    ),
    max_tokens: MaxTokens = None,
    kind: str | None = typer.Option(
        None, help="cross, encoder or decoder; cross unless the model has none."
    ),
    layer: int | None = typer.Option(None, min=1, help="Counted from 1; the mean unless given."),
    head: int | None = typer.Option(None, min=1, help="Counted from 1; the mean unless given."),
    pieces: bool = typer.Option(False, "--pieces", help="Sub-word pieces instead of words."),
    heads: bool = typer.Option(
        False, "--heads", help="Every layer and head in one picture (--out x.png, x.svg or x.pdf)."
    ),
    out: Path | None = typer.Option(
        None,
        help="Write x.html, x.png, x.svg, x.pdf, x.gif, x.txt, x.json or x.safetensors instead.",
    ),
    imports: list[Path] = IMPORTS,
    threads: ThreadCount = None,
    as_json: bool = typer.Option(False, "--json", help="Print texts, tokens and weights as JSON."),
) -> None:
    """Show which source words each target word came from: coloured words in the terminal.

    A page (--out x.html) lets you choose kind, layer and head; it needs no server and no network.
    A moving picture (--out x.gif) plays the answer word by word. Numbers of a text of any length
    are kept as a record (--out x.safetensors), which regard.inspecting.load_record reads.
    A run that captions pictures shows where in the picture each word of the caption looked.

    With --model a folder of transformers takes the place of the run; nothing of it is run as code.

    Example: regard look demo-run "Mittwoch, 9. Mai 2029" --out look.html
    """
    check_file("look", f"--out ends in {', '.join(WRITERS)}", out, WRITERS)
    if heads and (out is None or out.suffix not in GRID_SUFFIXES):
        raise SettingError("look: --heads is a picture. Write it with --out x.png, x.svg or x.pdf.")
    if heads:
        _refuse("--heads draws every head of every layer", {"--layer": layer, "--head": head})
    if out is not None and out.suffix == RECORD_SUFFIX and not as_json:
        of_one = {"--kind": kind, "--layer": layer, "--head": head, "--pieces": pieces or None}
        _refuse("a record holds every kind, layer, head and piece", of_one)
    if target is not None and max_tokens is not None:
        raise SettingError(
            f"look: --target is the answer to look at, so --max-tokens {max_tokens} limits none. "
            "Leave one of the two out."
        )
    if target is not None and not target.strip():
        raise SettingError(
            "look: --target is the answer to look at; expected a text, got an empty one. Give one, "
            "or leave --target out to look at the model's own answer."
        )
    unit = "pieces" if pieces else "words"
    layer, head = (None if number is None else number - 1 for number in (layer, head))
    view = View(kind or View.kind, layer, head, unit)
    texts = list(text or ())
    if model is not None:
        texts = texts if run is None else [run, *texts]
        if threads is not None:
            use_threads(threads)
        found = _look_at_folder(
            model, texts, view, target, max_tokens, out, has_grid=heads, has_kind=kind is not None
        )
    elif run is None:
        raise SettingError(
            'look: expected a run, got none. Write regard look RUN "TEXT", or regard look --model '
            'FOLDER "TEXT" for a model of transformers.'
        )
    else:
        found = _look_at_run(
            Path(run), texts, view, target, max_tokens, out, threads=threads,
            has_grid=heads, has_kind=kind is not None,
        )  # fmt: skip
    for note in found.notes:
        print_note(note)
    if out is not None:
        with waiting(f"writing {out.name}"):
            found.write(out)
        print_note(f"wrote {out}")
    if as_json:
        print(found.as_json())
    elif out is None:
        found.show(Console())


def _look_at_run(
    run: Path,
    texts: Sequence[str],
    view: View,
    target: str | None,
    max_tokens: int | None,
    out: Path | None,
    *,
    threads: int | None,
    has_grid: bool,
    has_kind: bool,
) -> ShownLook:
    trained = load_for_verb(run, threads=threads)
    limits = trained.limits(max_tokens, "look", LIMIT)
    task = trained.task
    inputs = [
        task.sources.typed(trained.loaded.recipe, each, "the text", print_note)
        for each in task.inputs_of(texts, _text)
    ]
    request = LookRequest(
        inputs=tuple(inputs),
        view=view,
        target=target,
        search=replace(trained.default_search(), limits=limits),
        out=out,
        has_grid=has_grid,
        has_kind=has_kind,
    )
    return task.shown_look(trained, request, waiting)


def _look_at_folder(
    folder: Path,
    texts: Sequence[str],
    view: View,
    target: str | None,
    max_tokens: int | None,
    out: Path | None,
    *,
    has_grid: bool,
    has_kind: bool,
) -> ShownLook:
    """A look at a model of transformers, which answers in the words of its own tokenizer."""
    with waiting(f"reading {folder.name}"):
        published = open_folder(folder)
    if published.reads_pictures:
        return _look_at_pictures(published, texts, view, target, out, has_grid=has_grid)
    text = _text(texts)
    with waiting("looking"):
        record = TextLook(published).record(text, target, max_tokens=max_tokens)
    sizes = {kind: Size(len(one.layers), one.n_heads) for kind, one in record.attention.items()}
    return shown(record, chosen_view(view, sizes, has_kind=has_kind), has_grid=has_grid)


def _look_at_pictures(
    published: PublishedModel,
    addresses: Sequence[str],
    view: View,
    target: str | None,
    out: Path | None,
    *,
    has_grid: bool,
) -> ShownLook:
    check_pictures(addresses, view, target, out, has_grid=has_grid)
    if target is not None:
        raise SettingError(
            "look: this model writes no caption, so --target would change nothing. Leave it out."
        )
    records = []
    for address in addresses:
        with waiting(f"looking at {address}"):
            records.append(look_at_picture(published, address))
        view.chosen(records[-1].n_layers, records[-1].n_heads)
    return shown_pictures(records, view)


def _refuse(why: str, given: Mapping[str, int | str | None]) -> None:
    """Refuse a choice where everything is shown."""
    for name, value in given.items():
        if value is not None:
            option = name if value is True else f"{name} {value}"
            raise SettingError(f"look: {why}, so it takes no {option}. Leave one of the two out.")


def _text(texts: Sequence[str]) -> str:
    if len(texts) > 1:
        raise SettingError(
            f"look: expected one text, got {len(texts)}. Put quotation marks around it."
        )
    text = texts[0] if texts and texts[0] != "-" else None
    is_file = False
    with suppress(OSError):
        # a text may be longer than any name
        is_file = text is not None and Path(text).is_file()
    if is_file:
        print_note(
            f"look: '{text}' is looked at as a text, and there is a file of this name. For what "
            f"is in it: regard look RUN < {text}"
        )
    if text is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise SettingError('look: expected a text, got none. Write regard look RUN "TEXT".')
        try:
            text = sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            raise DataError(f"look: standard input is no UTF-8: {error}.") from error
        if "\n" in text:
            raise DataError(
                f"look: expected one line, got {text.count(chr(10)) + 1}; a look is at one "
                "sentence. Give them one by one."
            )
    if not text.strip():
        raise DataError("look: the text is empty; there is nothing to look at. Give a sentence.")
    return text
