"""A record in a notebook: the page in a frame of its own, with a picture for where it cannot run.

A frame keeps styles, scripts and names apart, so that two records on one page both work; it asks
nothing of the network, and may do nothing but run its own script.
"""

import io
from collections.abc import Callable
from html import escape
from typing import TypeVar

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

T = TypeVar("T")

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
    return _framed_or_said(
        lambda: record_page(record, view),
        f"What the model looked at: {record.title(view)}",
        "<code>open('look.html', 'w').write(regard.plots.record_page(record))</code>, or draw "
        "one view: <code>regard.plots.record_map(record, view)</code>.",
    )


def _framed_or_said(make: Callable[[], str], title: str, remedy: str) -> str:
    """A page in its frame, or why there is none."""
    try:
        page = make()
    except RegardError as error:
        return f"<p>{escape(str(error))}</p>"
    size = len(page.encode())
    if size > MOST_BYTES:
        return (
            f"<p>This record's page has {size / 1e6:.1f} MB, more than the {MOST_BYTES / 1e6:g} "
            f"that a notebook takes. Write it to a file: {remedy}</p>"
        )
    return framed(page, title=title)


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


def _or_nothing(draw: Callable[[T], bytes]) -> Callable[[T], bytes]:
    """The same, but for nothing where matplotlib is missing: a notebook shows what there is."""

    def drawn(record: T) -> bytes:
        try:
            return draw(record)
        except MissingExtra:
            return b""

    return drawn


def caption_html(record: CaptionRecord) -> str:
    """The frame that a notebook shows of a caption."""
    return _framed_or_said(
        lambda: picture_page([record]),
        f"Where the words looked: {record.caption}",
        "<code>open('look.html', 'w').write(regard.plots.picture_page([record]))</code>.",
    )


def caption_png(record: CaptionRecord) -> bytes:
    """The contact sheet of a caption; without matplotlib, an error that says how to get it."""
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
        "image/png": _or_nothing(caption_png),
        "text/plain": lambda record: f"{record.picture.name}: {record.caption}",
    }
)
SHOWN.update(
    {
        "text/html": notebook_html,
        "image/png": _or_nothing(notebook_png),
        "text/plain": notebook_text,
    }
)
