"""A record in a notebook: its page in a frame, and a picture where frames cannot run.

A frame keeps styles, scripts and names apart, so that two records on one page both work. It loads
nothing from the network, and its sandbox permits only its own script.
"""

from collections.abc import Callable
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, TypeVar

from regard.errors import MissingExtra, RegardError
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.panels import View, usual_kind
from regard.inspecting.record import Record
from regard.plots.document_page import record_page
from regard.plots.heatmap import record_map
from regard.plots.picture_page import picture_page
from regard.plots.pictures import caption_sheet
from regard.plots.terminal_words import plain_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

T = TypeVar("T")

MAX_BYTES = 5_000_000
"""The largest page that a cell of a notebook gets; notebooks drop more than that."""
HEIGHT = 900
"""Pixels of a frame until its page has told its own height, and where notebooks run no scripts."""
MAX_HEIGHT = 6000
"""The most pixels that a page may ask for."""
GROWING = (
    "<script>(() => { if (window.regardFrames) return; window.regardFrames = true;"
    ' addEventListener("message", ({ data, source }) => { const high = data?.regardHeight;'
    " if (!(high > 99)) return;"
    ' for (const one of document.querySelectorAll("iframe[data-regard]"))'
    f" if (one.contentWindow === source) one.height = Math.min(high, {MAX_HEIGHT}); }}); }})();"
    "</script>"
)
"""Makes each frame as high as its page, so that all of it is seen without a scroll bar inside."""
DOTS_PER_INCH = 110


def framed(page: str, *, title: str) -> str:
    """A whole HTML document in a frame of another page; screen readers read out its title."""
    return (
        f'<iframe data-regard title="{escape(title, quote=True)}" sandbox="allow-scripts" '
        f'height="{HEIGHT}" style="width:100%;border:0" srcdoc="{escape(page, quote=True)}">'
        f"</iframe>{GROWING}"
    )


def _record_html(record: Record) -> str:
    view = _first(record)
    return _framed_or_reason(
        lambda: record_page(record, view),
        f"What the model looked at: {record.title(view)}",
        "<code>open('look.html', 'w').write(regard.plots.record_page(record))</code>, or draw "
        "one view: <code>regard.plots.record_map(record, view)</code>.",
    )


def _caption_html(record: CaptionRecord) -> str:
    return _framed_or_reason(
        lambda: picture_page([record]),
        f"Where the words looked: {record.caption}",
        "<code>open('look.html', 'w').write(regard.plots.picture_page([record]))</code>.",
    )


def _framed_or_reason(make: Callable[[], str], title: str, remedy: str) -> str:
    """A page in its frame, or the reason why it could not be made."""
    try:
        page = make()
    except RegardError as error:
        return f"<p>{escape(str(error))}</p>"
    size = len(page.encode())
    if size > MAX_BYTES:
        return (
            f"<p>This record's page has {size / 1e6:.1f} MB, more than the {MAX_BYTES / 1e6:g} "
            f"that a notebook takes. Write it to a file: {remedy}</p>"
        )
    return framed(page, title=title)


def _first_map(record: Record) -> "Figure":
    return record_map(record, _first(record))


def _record_text(record: Record) -> str:
    try:
        return plain_words(record, _first(record))
    except RegardError as error:
        return str(error)


def _first(record: Record) -> View:
    return View(usual_kind(record.attention))


def _png(draw: Callable[[T], "Figure"]) -> Callable[[T], bytes]:
    """A figure as PNG bytes; empty without matplotlib, since the notebook has other forms."""

    def drawn(record: T) -> bytes:
        out = BytesIO()
        try:
            draw(record).savefig(out, format="png", dpi=DOTS_PER_INCH)
        except MissingExtra:
            return b""
        return out.getvalue()

    return drawn


Record.forms.update(
    {
        "text/html": _record_html,
        "image/png": _png(_first_map),
        "text/plain": _record_text,
    }
)
CaptionRecord.forms.update(
    {
        "text/html": _caption_html,
        "image/png": _png(caption_sheet),
        "text/plain": lambda record: f"{record.picture.name}: {record.caption}",
    }
)
