"""Figures of a record for papers, drawn as `regard look --out` draws them."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Literal, final

from regard.choices import find
from regard.errors import SettingError
from regard.inspecting.panels import View
from regard.plots.heatmap import record_map
from regard.serving.colour_maps import MAPS
from regard.serving.registry import Registry
from regard.tasks.looks import DOTS_PER_INCH

FORMATS: Mapping[str, str] = {
    "pdf": "application/pdf",
    "svg": "image/svg+xml",
    "png": "image/png",
}


@final
@dataclass(frozen=True)
class FigureSettings:
    """Which view is drawn; layers and heads count from 0, and none is the mean."""

    layer: int | None = None
    head: int | None = None
    unit: Literal["words", "pieces"] = "words"
    map: str = ""
    """A colour map of the page's menu; regard's own unless given."""


def figure(
    registry: Registry, name: str, file: str, settings: FigureSettings
) -> tuple[bytes, str, str]:
    """The bytes of a figure, their media type, and a name for the file."""
    record = registry.record(name)
    kind, _, format_ = file.rpartition(".")
    if format_ not in FORMATS:
        raise SettingError(f"figure: expected a file that ends in {', '.join(FORMATS)}.")
    one = find(kind, record.attention, key="figure")
    view = View(kind, settings.layer, settings.head, settings.unit)
    view.chosen(len(one.layers), one.n_heads)
    # figures stand on white paper, where these maps are reversed
    if settings.map:
        find(settings.map, MAPS, key="map")
    colours = f"{settings.map}_r" if settings.map else None
    out = BytesIO()
    record_map(record, view, colours=colours).savefig(out, format=format_, dpi=DOTS_PER_INCH)
    return out.getvalue(), FORMATS[format_], f"attention-{kind}.{format_}"
