"""regard look for runs that caption pictures: where each word of a caption looked."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from regard.decoding import Search
from regard.errors import SettingError
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.panels import View
from regard.plots.picture_page import picture_page
from regard.plots.pictures import caption_sheet
from regard.runs.trained import Trained

DOTS_PER_INCH = 150


def look_at_pictures(
    trained: Trained,
    addresses: Sequence[str],
    view: View,
    *,
    target: str | None,
    search: Search,
    out: Path | None,
    as_json: bool,
) -> None:
    """Caption each picture, and write or print where its words looked.

    Args:
        trained: a run that captions pictures.
        addresses: the pictures.
        view: the layer and head to show.
        target: a caption to look at instead of the model's.
        search: how captions are found.
        out: a page, a sheet, a text or JSON; the terminal unless given.
        as_json: print JSON.
    """
    _refuse(addresses, view, target, out)
    records: list[CaptionRecord] = []
    for address in addresses:
        record = trained.look_at_picture(address, target, search=search)
        # a layer that is not there is told before the other pictures are captioned
        view.chosen(record.n_layers, record.n_heads)
        records.append(record)
        if record.warning:
            print(f"look: {record.picture.name}: {record.warning}", file=sys.stderr)
    if out is not None:
        WRITERS[out.suffix](records, view, out)
        print(f"wrote {out}", file=sys.stderr)
    if as_json:
        print("\n".join(json.dumps(one.as_json(), ensure_ascii=False) for one in records))
    elif out is None:
        print("\n\n".join(told(one, view) for one in records))


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
    out.write_text("\n\n".join(told(one, view) for one in records) + "\n", encoding="utf-8")


def _write_json(records: Sequence[CaptionRecord], view: View, out: Path) -> None:
    lines = (json.dumps(one.as_json(), ensure_ascii=False) for one in records)
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


WRITERS: Mapping[str, Callable[[Sequence[CaptionRecord], View, Path], None]] = {
    ".html": _write_page,
    ".png": _write_sheet,
    ".txt": _write_text,
    ".json": _write_json,
}


def _refuse(addresses: Sequence[str], view: View, target: str | None, out: Path | None) -> None:
    """What a look at pictures cannot do."""
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
    several = [name for name, is_given in (("--target", target is not None), ("a .png", _png(out)))
               if is_given and len(addresses) > 1]  # fmt: skip
    if several:
        raise SettingError(
            f"look: {several[0]} is for one picture, got {len(addresses)}. Give one, or write a "
            "page (--out x.html) without a target."
        )


def _png(out: Path | None) -> bool:
    return out is not None and out.suffix == ".png"
