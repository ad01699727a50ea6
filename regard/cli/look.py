"""regard look: what a model looked at while it answered."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import typer
from rich.console import Console

from regard.choices import find
from regard.cli.loaded_runs import load_for_verb
from regard.cli.options import LIMIT, MaxTokens
from regard.cli.picture_looks import DOTS_PER_INCH, look_at_pictures
from regard.cli.picture_looks import WRITERS as PICTURE_WRITERS
from regard.cli.requests import typed_text
from regard.cli.spinner import counted_words, waiting
from regard.decoding import Search
from regard.errors import DataError, SettingError
from regard.inspecting.panels import View
from regard.inspecting.record import Record, rounded
from regard.inspecting.record_files import save_record
from regard.inspecting.text_record import sizes_of
from regard.plots.document_page import record_page
from regard.plots.heads_grid import heads_grid
from regard.plots.heatmap import record_map
from regard.plots.playback import write_gif
from regard.plots.words import plain_words, print_words
from regard.runs.length_limits import limits_of
from regard.runs.trained import Trained


def look(
    run: Path = typer.Argument(help="A finished run."),
    text: list[str] | None = typer.Argument(
        None,
        help="A text; by default, or for -, a line of standard input (a JSON object, for a run "
        "that learned from such); or pictures, for a run that captions them.",
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
        False, "--heads", help="Every layer and head in one picture (--out x.png or x.svg)."
    ),
    out: Path | None = typer.Option(
        None, help="Write x.html, x.png, x.svg, x.gif, x.txt, x.json or x.safetensors instead."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print texts, tokens and weights as JSON."),
) -> None:
    """Show which source words each target word came from: coloured words in the terminal.

    A page (--out x.html) lets you choose kind, layer and head; it needs no server and no network.
    A moving picture (--out x.gif) plays the answer word by word. Numbers of a text of any length
    are kept as a record (--out x.safetensors), which regard.inspecting.load_record reads.
    A run that captions pictures shows where in the picture each word of the caption looked.

    Example: regard look runs/dates "Mittwoch, 9. Mai 2029" --out look.html
    """
    write = _writer(out, has_grid=heads)
    if heads:
        _refuse("--heads draws every head of every layer", {"--layer": layer, "--head": head})
    if write is _write_record and not as_json:
        of_one = {"--kind": kind, "--layer": layer, "--head": head, "--pieces": pieces or None}
        _refuse("a record holds every kind, layer, head and piece", of_one)
    if target is not None and max_tokens is not None:
        raise SettingError(
            f"look: --target is the answer to look at, so --max-tokens {max_tokens} limits none. "
            "Leave one of the two out."
        )
    unit = "pieces" if pieces else "words"
    view = View(kind or View.kind, _from_zero(layer), _from_zero(head), unit)
    trained = load_for_verb(run)
    limits = limits_of(trained, max_tokens, "look", LIMIT)
    asked = _Asked(
        texts=tuple(text or ()),
        view=view,
        target=target,
        search=replace(trained.default_search(), limits=limits),
        out=out,
        as_json=as_json,
        write=write,
        has_kind=kind is not None,
    )
    find(trained.loaded.recipe.source_kind, LOOKS)(trained, asked)


@dataclass(frozen=True)
class _Asked:
    """What somebody wants to see, and how."""

    texts: tuple[str, ...]
    view: View
    target: str | None
    search: Search
    out: Path | None
    as_json: bool
    write: "Writer"
    has_kind: bool
    """Whether somebody said which kind of attention."""


def _look_at_text(trained: Trained, asked: _Asked) -> None:
    text = typed_text(trained.loaded.recipe, _text(asked.texts), "the text")
    # before the answer is searched for, which may take long
    view, out = _seen(trained, asked), asked.out
    with waiting(f"looking at {counted_words(text)}"):
        record = trained.look(text, asked.target, search=asked.search)
    if record.note is not None:
        print(f"look: {record.note}", file=sys.stderr)
    if out is not None:
        with waiting(f"writing {out.name}"):
            asked.write(record, view, out)
        print(f"wrote {out}", file=sys.stderr)
    if asked.as_json:
        print(_json(record, view))
    elif out is None:
        print_words(record, view, console=Console())


def _seen(trained: Trained, asked: _Asked) -> View:
    """What is looked at, of what the model has."""
    view = asked.view
    sizes = sizes_of(trained.loaded.model)
    if not asked.has_kind and view.kind not in sizes:
        view = replace(view, kind=next(iter(sizes)))
    view.chosen(*find(view.kind, sizes, key="look: --kind"))
    return view


def _look_at_pictures(trained: Trained, asked: _Asked) -> None:
    if asked.write is _write_grid:
        raise SettingError(
            "look: --heads draws words at words; this run captions pictures. Write a page (--out "
            "x.html), where layer and head are chosen."
        )
    if asked.out is not None and asked.out.suffix not in PICTURE_WRITERS:
        raise SettingError(
            f"look: a caption's look ends in {', '.join(PICTURE_WRITERS)}; got '{asked.out}'."
        )
    look_at_pictures(
        trained,
        asked.texts,
        asked.view,
        target=asked.target,
        search=asked.search,
        out=asked.out,
        as_json=asked.as_json,
    )


LOOKS: Mapping[str, Callable[[Trained, _Asked], None]] = {
    "texts": _look_at_text,
    "pictures": _look_at_pictures,
}
"""By what a run reads."""


def _refuse(why: str, given: Mapping[str, int | str | None]) -> None:
    """What shows everything has nothing to choose."""
    for name, value in given.items():
        if value is not None:
            said = name if value is True else f"{name} {value}"
            raise SettingError(f"look: {why}, so it takes no {said}. Leave one of the two out.")


def _text(texts: Sequence[str]) -> str:
    if len(texts) > 1:
        raise SettingError(
            f"look: expected one text, got {len(texts)}. Put quotation marks around it."
        )
    text = texts[0] if texts and texts[0] != "-" else None
    if text is not None and _is_a_file(text):
        print(
            f"look: '{text}' is looked at as a text, and there is a file of this name. For what "
            f"is in it: regard look RUN < {text}",
            file=sys.stderr,
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


def _is_a_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except OSError:
        # longer than any name
        return False


def _from_zero(number: int | None) -> int | None:
    return None if number is None else number - 1


def _json(record: Record, view: View) -> str:
    panel = record.panel(view)
    shown = {
        "title": panel.title,
        "queries": panel.queries,
        "keys": panel.keys,
        "weights": rounded(panel.weights),
    }
    return json.dumps({**record.as_json(), "shown": shown}, ensure_ascii=False)


def _write_page(record: Record, view: View, out: Path) -> None:
    out.write_text(record_page(record, view), encoding="utf-8")


def _write_text(record: Record, view: View, out: Path) -> None:
    out.write_text(plain_words(record, view) + "\n", encoding="utf-8")


def _write_json(record: Record, view: View, out: Path) -> None:
    out.write_text(_json(record, view) + "\n", encoding="utf-8")


def _write_record(record: Record, _: View, out: Path) -> None:
    save_record(record, out)


def _write_map(record: Record, view: View, out: Path) -> None:
    record_map(record, view).savefig(out, dpi=DOTS_PER_INCH)


def _write_grid(record: Record, view: View, out: Path) -> None:
    heads_grid(record, view.kind).savefig(out, dpi=DOTS_PER_INCH)


def _write_gif(record: Record, view: View, out: Path) -> None:
    write_gif(record, out, view)


Writer = Callable[[Record, View, Path], None]

WRITERS: Mapping[str, Writer] = {
    ".html": _write_page,
    ".png": _write_map,
    ".svg": _write_map,
    ".gif": _write_gif,
    ".txt": _write_text,
    ".json": _write_json,
    ".safetensors": _write_record,
}


def _writer(out: Path | None, *, has_grid: bool) -> Writer:
    suffix = ".txt" if out is None else out.suffix
    if suffix not in WRITERS:
        raise SettingError(f"look: --out ends in {', '.join(WRITERS)}; got '{out}'.")
    if out is not None and not out.parent.is_dir():
        raise SettingError(f"look: there is no folder '{out.parent}' for '{out.name}'. Make it.")
    if has_grid and WRITERS[suffix] is not _write_map:
        raise SettingError("look: --heads is a picture. Write it with --out x.png or x.svg.")
    return _write_grid if has_grid else WRITERS[suffix]
