"""Looks at texts: coloured words, maps, pages and records of one text and its answer."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import final

from regard.choices import find
from regard.inspecting.panels import View
from regard.inspecting.record import Record, rounded
from regard.inspecting.record_files import save_record
from regard.inspecting.text_record import sizes_of
from regard.plots.document_page import record_page
from regard.plots.heads_grid import heads_grid
from regard.plots.heatmap import record_map
from regard.plots.playback import write_gif
from regard.plots.words import plain_words, print_words
from regard.tasks.looks import DOTS_PER_INCH, LookRequest, ShownLook, Waiting, counted_words
from regard.tasks.ready_run import ReadyRun


@final
class TextLooks:
    """One text, and every weight with which it was answered."""

    def input_of(self, typed: Sequence[str], one_text: Callable[[Sequence[str]], str]) -> list[str]:
        """One text; standard input has it where none was typed."""
        return [one_text(typed)]

    def look(self, run: ReadyRun, request: LookRequest, waiting: Waiting) -> ShownLook:
        """Look at the text with its answer."""
        write = _writer(request)
        (text,) = request.inputs
        view = _view_of(run, request)
        with waiting(f"looking at {counted_words(text)}"):
            record = run.look(text, request.target, search=request.search)
        return ShownLook(
            notes=() if record.note is None else (f"look: {record.note}",),
            as_json=lambda: _json(record, view),
            show=lambda console: print_words(record, view, console=console),
            write=lambda out: write(record, view, out),
        )


def _view_of(run: ReadyRun, request: LookRequest) -> View:
    """The view of what the model has; a model without cross attention shows its first kind."""
    view, sizes = request.view, sizes_of(run.loaded.model)
    if not request.has_kind and view.kind not in sizes:
        view = replace(view, kind=next(iter(sizes)))
    view.chosen(*find(view.kind, sizes, key="look: --kind"))
    return view


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
GRID_SUFFIXES = (".png", ".svg")
"""Of files in which every layer and head is drawn."""
RECORD_SUFFIX = ".safetensors"
"""Of files that hold every number, whatever the view."""


def _writer(request: LookRequest) -> Writer:
    if request.has_grid:
        return _write_grid
    return WRITERS[".txt" if request.out is None else request.out.suffix]
