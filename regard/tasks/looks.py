"""Looks: how `regard look` shows a text and its answer, in the terminal, as JSON or as a file."""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from rich.console import Console

from regard.choices import find
from regard.data.atomic_writes import write_text
from regard.decoding import Search
from regard.inspecting.capture import Size, sizes_of
from regard.inspecting.panels import View, usual_kind
from regard.inspecting.record import Record, rounded
from regard.inspecting.record_files import save_record
from regard.models import Model
from regard.plots.document_page import record_page
from regard.plots.heads_grid import heads_grid
from regard.plots.heatmap import record_map
from regard.plots.playback import write_gif
from regard.plots.terminal_words import plain_words, print_words

DOTS_PER_INCH = 150
GRID_SUFFIXES = (".png", ".svg", ".pdf")
"""Of files in which every layer and head is drawn."""
RECORD_SUFFIX = ".safetensors"
"""Of files that hold every number, whatever the view."""


@final
@dataclass(frozen=True)
class LookRequest:
    """The input, view and form of output that the caller chose."""

    inputs: tuple[str, ...]
    """Texts or addresses of pictures, as they were typed."""
    view: View
    target: str | None
    """An answer to look at instead of the run's own."""
    search: Search
    out: Path | None
    """The file that is written; its ending chooses the format."""
    has_grid: bool
    """Whether every layer and head is drawn in one picture."""
    has_kind: bool
    """Whether the caller chose the kind of attention."""


@final
@dataclass(frozen=True)
class ShownLook:
    """A recorded look, ready to be shown in each form."""

    notes: tuple[str, ...]
    """Notes for the user, printed on standard error."""
    as_json: Callable[[], str]
    show: Callable[[Console], None]
    write: Callable[[Path], object]


Waiting = Callable[[str], AbstractContextManager[object]]
"""Shows a description of the work in progress."""


def checked_view(request: LookRequest, model: Model) -> View:
    """The view of a text; a kind, layer or head that the model does not have is refused."""
    return chosen_view(request.view, sizes_of(model), has_kind=request.has_kind)


def chosen_view(view: View, sizes: Mapping[str, Size], *, has_kind: bool) -> View:
    """The same among kinds of these sizes; without a chosen kind, the first one may stand in."""
    if not has_kind:
        view = replace(view, kind=usual_kind(sizes))
    view.chosen(*find(view.kind, sizes, key="look: --kind"))
    return view


def shown(record: Record, view: View, *, has_grid: bool) -> ShownLook:
    """The record of one text, in each form of output."""
    return ShownLook(
        notes=() if record.note is None else (f"look: {record.note}",),
        as_json=lambda: _json(record, view),
        show=lambda console: print_words(record, view, console=console),
        write=lambda out: (_write_grid if has_grid else WRITERS[out.suffix])(record, view, out),
    )


def _json(record: Record, view: View) -> str:
    panel = record.panel(view)
    shown = {
        "title": panel.title,
        "queries": panel.queries,
        "keys": panel.keys,
        "weights": rounded(panel.weights),
    }
    return json.dumps({**record.as_json(), "shown": shown}, ensure_ascii=False)


def _write_map(record: Record, view: View, out: Path) -> None:
    record_map(record, view).savefig(out, dpi=DOTS_PER_INCH)


def _write_grid(record: Record, view: View, out: Path) -> None:
    heads_grid(record, view.kind).savefig(out, dpi=DOTS_PER_INCH)


WRITERS: Mapping[str, Callable[[Record, View, Path], object]] = {
    ".html": lambda record, view, out: write_text(out, record_page(record, view)),
    ".png": _write_map,
    ".svg": _write_map,
    ".pdf": _write_map,
    ".gif": lambda record, view, out: write_gif(record, out, view),
    ".txt": lambda record, view, out: write_text(out, plain_words(record, view) + "\n"),
    ".json": lambda record, view, out: write_text(out, _json(record, view) + "\n"),
    RECORD_SUFFIX: lambda record, view, out: save_record(record, out),
}
"""How a look at a text is written, by the ending of the file."""


def counted_words(text: str) -> str:
    """The number of words of a text, as words.

    >>> counted_words("to be or not to be")
    '6 words'
    """
    count = len(text.split())
    return f"{count:,} word{'' if count == 1 else 's'}"
