"""A record in a notebook: the page in a frame of its own, with a picture for where it cannot run.

A frame keeps styles, scripts and names apart, so that two records on one page both work; it asks
nothing of the network, and may do nothing but run its own script.
"""

import io
from html import escape

from regard.errors import MissingExtra, RegardError
from regard.inspecting.caption_record import SHOWN as SHOWN_CAPTIONS
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.panels import View
from regard.inspecting.record import SHOWN, Record
from regard.plots.document_page import record_page
from regard.plots.heatmap import record_map
from regard.plots.picture_page import picture_page
from regard.plots.pictures import caption_sheet
from regard.plots.words import plain_words

MOST_BYTES = 5_000_000
"""The largest page that a cell of a notebook gets; notebooks drop more than that."""
HEIGHT = 640
"""Pixels; what is longer scrolls inside the frame."""
DOTS_PER_INCH = 110


def framed(page: str, *, title: str, height: int = HEIGHT) -> str:
    """A page in a frame that is part of another page.

    Args:
        page: a whole HTML document.
        title: what a screen reader calls the frame.
        height: in pixels.
    """
    return (
        f'<iframe title="{escape(title, quote=True)}" sandbox="allow-scripts" height="{height}" '
        f'style="width:100%;border:0" srcdoc="{escape(page, quote=True)}"></iframe>'
    )


def notebook_html(record: Record) -> str:
    """The frame that a notebook shows; a message where the page would be too large for one."""
    view = _first(record)
    try:
        page = record_page(record, view)
    except RegardError as error:
        return f"<p>{escape(str(error))}</p>"
    if len(page.encode()) > MOST_BYTES:
        return (
            f"<p>This record's page has {len(page.encode()) / 1e6:.1f} MB, more than the "
            f"{MOST_BYTES / 1e6:g} that a notebook takes. Write it to a file: "
            "<code>open('look.html', 'w').write(regard.plots.record_page(record))</code>, or draw "
            "one view: <code>regard.plots.record_map(record, view)</code>.</p>"
        )
    return framed(page, title=f"What the model looked at: {record.title(view)}")


def notebook_png(record: Record) -> bytes:
    """The first view as a picture, for papers, and for notebooks that run nothing."""
    out = io.BytesIO()
    record_map(record, _first(record)).savefig(out, format="png", dpi=DOTS_PER_INCH)
    return out.getvalue()


def notebook_text(record: Record) -> str:
    """The first view in words."""
    try:
        return plain_words(record, _first(record))
    except RegardError as error:
        return str(error)


def _first(record: Record) -> View:
    kinds = tuple(record.attention)
    return View("cross" if "cross" in kinds or not kinds else kinds[0])


def _png(record: Record) -> bytes:
    try:
        return notebook_png(record)
    except MissingExtra:
        return b""


def caption_html(record: CaptionRecord) -> str:
    """The frame that a notebook shows of a caption."""
    try:
        page = picture_page([record])
    except RegardError as error:
        return f"<p>{escape(str(error))}</p>"
    return framed(page, title=f"Where the words looked: {record.caption}")


def caption_png(record: CaptionRecord) -> bytes:
    """The contact sheet of a caption."""
    out = io.BytesIO()
    figure = caption_sheet(
        record.picture.pixels,
        record.words,
        record.maps().flatten(1),
        grid=record.grid,
        shown=record.covered,
        size=(record.picture.width, record.picture.height),
        gates=record.gates or (),
        title=record.caption,
    )
    figure.savefig(out, format="png", dpi=DOTS_PER_INCH)
    return out.getvalue()


SHOWN_CAPTIONS.update(
    {
        "text/html": caption_html,
        "image/png": caption_png,
        "text/plain": lambda record: f"{record.picture.name}: {record.caption}",
    }
)
SHOWN.update({"text/html": notebook_html, "image/png": _png, "text/plain": notebook_text})
