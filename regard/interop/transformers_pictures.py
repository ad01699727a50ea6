"""What a picture model of transformers looks at: its own tokens over the patches of a picture.

A model such as ViT reads patches, and beside them tokens of its own, of which one answers for the
whole picture. The record shows where these look, as a caption's record shows where words look.
"""

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.bridge import capture
from regard.data.boxes import Box
from regard.data.framings import Framing
from regard.data.pictures import Picture, pillow, read_picture
from regard.errors import SettingError
from regard.inspecting.caption_record import KIND, CaptionRecord, cell_names
from regard.inspecting.capture import versions
from regard.inspecting.record import Attention, Record, Weights, as_slice
from regard.inspecting.token_labels import Tokens
from regard.interop.transformers_folder import WHO, PublishedModel, quiet
from regard.layers.vision.image_encoder import GridSize


@final
@dataclass(frozen=True)
class PartOfWeights:
    """Some rows and columns of an attention."""

    whole: Weights
    rows: range
    columns: range

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the part."""
        return (*self.whole.shape[:-2], len(self.rows), len(self.columns))

    def tile(self, rows: slice, columns: slice) -> Float[Tensor, "1 h r c"]:
        """The weights of one rectangle of the part."""
        return self.whole.tile(as_slice(self.rows[rows]), as_slice(self.columns[columns]))


def look_at_picture(published: PublishedModel, address: str) -> CaptionRecord:
    """Where the model's own tokens look; the patches look, where it has no other tokens."""
    picture = read_picture(address)
    with quiet():
        image = pillow().fromarray(picture.pixels)
        pixels = published.reader(images=image, return_tensors="pt")["pixel_values"]
    with torch.no_grad(), quiet(), capture(published.model) as record:
        output = published.model(pixel_values=pixels)
    grid = _grid(published, pixels)
    seen = record.attention["encoder"]
    n_tokens, n_own = len(seen.keys), len(seen.keys) - grid.n_cells
    if n_own < 0:
        raise SettingError(
            f"{WHO}: {type(published.model).__name__} merges its patches, so that they have no "
            "places in the picture. Take a model whose layers all see every patch, such as ViT."
        )
    names = _own_names(n_own) or cell_names(grid).names
    words = Tokens(names, tuple(range(len(names))), names)
    layers = tuple(
        PartOfWeights(one, range(len(names)), range(n_own, n_tokens)) for one in seen.layers
    )
    cross = Attention(
        words, cell_names(grid), layers, "query (word)", "key (cell)", seen.mechanism, seen.mask
    )
    framing = _framing(published, picture, pixels)
    reach = np.array([pixels.shape[-1], pixels.shape[-2]], dtype=np.float64)
    corners = framing.to_original(np.stack([np.zeros(2), reach]))
    return CaptionRecord(
        picture,
        framing,
        grid,
        Box(*corners.flatten().tolist()),
        Record(picture.name, _label(published, output), {KIND: cross}),
        None,
        versions(),
    )


def _grid(published: PublishedModel, pixels: Float[Tensor, "1 3 y x"]) -> GridSize:
    """Rows and columns of patches."""
    size = getattr(published.model.config, "patch_size", None)
    if not isinstance(size, int) or pixels.shape[-1] != pixels.shape[-2]:
        raise SettingError(
            f"{WHO}: expected a model of square pictures in square patches, got patch_size {size} "
            f"and a picture of {pixels.shape[-1]} by {pixels.shape[-2]}. Record it in Python: with "
            "regard.capture(model) as record."
        )
    return GridSize(pixels.shape[-2] // size, pixels.shape[-1] // size)


def _own_names(count: int) -> tuple[str, ...]:
    """Names of the tokens before the patches."""
    return ("class token", *(f"own token {number}" for number in range(2, count + 1)))[:count]


def _framing(
    published: PublishedModel, picture: Picture, pixels: Float[Tensor, "1 3 y x"]
) -> Framing:
    """The part of the picture that the model's processor shows it."""
    side, reader = pixels.shape[-1], published.reader
    if not getattr(reader, "do_center_crop", False):
        return Framing.squeezed(picture.width, picture.height, side)
    # the shorter edge is made so long, and the middle of it is cut out
    edge: Any = dict(reader.size).get("shortest_edge") if reader.do_resize else None
    share = side / (edge or side)
    shown = min(picture.width, picture.height) * min(share, 1.0)
    left, top = (picture.width - shown) / 2, (picture.height - shown) / 2
    return Framing(picture.width, picture.height, side, Box(left, top, left + shown, top + shown))


def _label(published: PublishedModel, output: Any) -> str:
    """What the model calls the picture, if it says so."""
    logits, names = output.get("logits"), getattr(published.model.config, "id2label", None) or {}
    return "" if logits is None else str(names.get(int(logits[0].argmax()), ""))
