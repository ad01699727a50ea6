"""Looks at pictures: where each word of a caption looked."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import final

from regard.errors import SettingError
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.panels import View
from regard.plots.picture_page import picture_page
from regard.plots.pictures import caption_sheet
from regard.tasks.looks import DOTS_PER_INCH, LookRequest, ShownLook, Waiting
from regard.tasks.ready_run import ReadyRun


@final
class PictureLooks:
    """Captioned pictures, and where each word of a caption looked."""

    def input_of(self, typed: Sequence[str], one_text: Callable[[Sequence[str]], str]) -> list[str]:
        """The addresses that were typed."""
        return list(typed)

    def look(self, run: ReadyRun, request: LookRequest, waiting: Waiting) -> ShownLook:
        """Caption each picture, and gather where its words looked."""
        view = request.view
        _check(request)
        records: list[CaptionRecord] = []
        for address in request.inputs:
            record = run.look_at_picture(address, request.target, search=request.search)
            # a layer that is not there is told before the other pictures are captioned
            view.chosen(record.n_layers, record.n_heads)
            records.append(record)
        return ShownLook(
            notes=tuple(
                f"look: {one.picture.name}: {one.warning}" for one in records if one.warning
            ),
            as_json=lambda: _json(records),
            show=lambda console: console.print(
                _text(records, view), markup=False, highlight=False, soft_wrap=True
            ),
            write=lambda out: WRITERS[out.suffix](records, view, out),
        )


def _json(records: Sequence[CaptionRecord]) -> str:
    return "\n".join(json.dumps(one.as_json(), ensure_ascii=False) for one in records)


def _text(records: Sequence[CaptionRecord], view: View) -> str:
    return "\n\n".join(told(one, view) for one in records)


def told(record: CaptionRecord, view: View) -> str:
    """A caption word by word: its strongest cell, how spread its map is, and its gate."""
    maps, spread = record.maps(view.layer, view.head), record.entropies(view.layer, view.head)
    gates = record.gates or (None,) * len(record.words)
    wide = max((len(word) for word in record.words), default=0)
    lines = [f"{record.picture.name}: {record.caption}", record.title(view.layer, view.head)]
    for word, cells, entropy, gate in zip(record.words, maps, spread, gates, strict=True):
        row, column = divmod(int(cells.argmax()), record.grid.columns)
        beta = "" if gate is None else f", gate {gate:.2f}"
        lines.append(
            f"  {word:<{wide}}  row {row + 1}, column {column + 1} of {record.grid.rows} by "
            f"{record.grid.columns}: {float(cells.max()):.2f}, entropy {float(entropy):.2f}{beta}"
        )
    return "\n".join(lines)


def _write_page(records: Sequence[CaptionRecord], view: View, out: Path) -> None:
    out.write_text(picture_page(records), encoding="utf-8")


def _write_sheet(records: Sequence[CaptionRecord], view: View, out: Path) -> None:
    (record,) = records
    figure = caption_sheet(
        record.picture.pixels,
        record.words,
        record.maps(view.layer, view.head).flatten(1),
        grid=record.grid,
        shown=record.covered,
        size=(record.picture.width, record.picture.height),
        gates=record.gates or (),
        title=record.caption,
    )
    figure.savefig(out, dpi=DOTS_PER_INCH)


def _write_text(records: Sequence[CaptionRecord], view: View, out: Path) -> None:
    out.write_text(_text(records, view) + "\n", encoding="utf-8")


def _write_json(records: Sequence[CaptionRecord], view: View, out: Path) -> None:
    out.write_text(_json(records) + "\n", encoding="utf-8")


WRITERS: Mapping[str, Callable[[Sequence[CaptionRecord], View, Path], None]] = {
    ".html": _write_page,
    ".png": _write_sheet,
    ".txt": _write_text,
    ".json": _write_json,
}


def _check(request: LookRequest) -> None:
    """Refuse what a look at pictures cannot do."""
    addresses, view, out = request.inputs, request.view, request.out
    if request.has_grid:
        raise SettingError(
            "look: --heads draws words at words; this run captions pictures. Write a page (--out "
            "x.html), where layer and head are chosen."
        )
    if out is not None and out.suffix not in WRITERS:
        raise SettingError(f"look: a caption's look ends in {', '.join(WRITERS)}; got '{out}'.")
    if not addresses:
        raise SettingError(
            "look: this run captions pictures; expected one, got none. Write regard look RUN "
            "picture.jpg."
        )
    if view.kind != "cross":
        raise SettingError(
            f"look: the words of a caption look at cells of the picture (--kind cross); got --kind "
            f"{view.kind}."
        )
    if view.unit != "words":
        raise SettingError("look: a caption is shown by its words. Leave --pieces out.")
    is_sheet = out is not None and out.suffix == ".png"
    several = {"--target": request.target is not None, "a .png": is_sheet}
    if len(addresses) > 1 and any(several.values()):
        name = next(name for name, is_given in several.items() if is_given)
        raise SettingError(
            f"look: {name} is for one picture, got {len(addresses)}. Give one, or write a page "
            "(--out x.html) without a target."
        )
