"""Caption records whose every weight is known."""

import numpy as np
import torch

from regard.data.framings import Framing
from regard.data.pictures import Picture
from regard.inspecting.caption_record import CaptionRecord, cell_names
from regard.inspecting.record import Attention, Record
from regard.inspecting.token_labels import Tokens
from regard.layers.vision.image_encoder import GridSize
from tests.inspecting.hand_made import Dense

WIDTH, HEIGHT = 90, 60


def grey_picture(name="dog.jpg", width=WIDTH, height=HEIGHT, notes=()):
    """All pixels alike."""
    pixels = np.full((height, width, 3), 120, dtype=np.uint8)
    return Picture(name, pixels, width, height, notes)


def written(*words):
    """One piece a word, and the end behind them."""
    names = (*words, "<eos>")
    return Tokens(names, tuple(range(len(names))), names, frozenset({len(words)}))


def captioned(layers, tokens, *, grid=(4, 4), gates=None, picture=None, framing=None):
    """A record of these layers, each a list of heads, each a row a piece and a column a cell."""
    picture, size = picture or grey_picture(), GridSize(*grid)
    framing = framing or Framing.cropped(picture.width, picture.height, 32)
    maps = tuple(Dense(torch.stack(heads).float()[None]) for heads in layers)
    cross = Attention(tokens, cell_names(size), maps, mechanism="additive, soft")
    said = " ".join(name for i, name in enumerate(tokens.names) if i not in tokens.specials)
    read = Record(picture.name, said, {"cross": cross})
    versions = {"regard": "1.2.3", "torch": "4.5.6"}
    return CaptionRecord(picture, framing, size, framing.box, read, gates, versions)


def random_maps(*shape):
    """Rows that sum to 1."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7)).mul(2).softmax(-1)
