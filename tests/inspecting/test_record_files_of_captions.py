"""A saved caption is the caption: words, maps, gates, and the way back to its picture."""

import numpy as np
import pytest
import torch

from regard.data.framings import Framing
from regard.data.subword_kinds import CHARACTERS
from regard.data.subwords import Subwords
from regard.errors import DataError
from regard.inspecting import load_caption, load_record, save_caption
from regard.inspecting.caption_record import caption_record
from tests.inspecting.captions_by_hand import captioned, grey_picture, random_maps, written
from tests.models.captioner.small import SPECS, build


def same(one, other):
    """Whether two records say the same."""
    assert one.as_json() == other.as_json()
    np.testing.assert_array_equal(one.picture.pixels, other.picture.pixels)
    assert (one.framing, one.grid, one.covered) == (other.framing, other.grid, other.covered)


def test_everything_comes_back(tmp_path):
    record = captioned([list(random_maps(2, 3, 16))], written("a", "dog"), gates=(0.5, 0.25, 1.0))
    save_caption(record, tmp_path / "dog.safetensors")
    same(load_caption(tmp_path / "dog.safetensors"), record)


@pytest.mark.parametrize("name", ["soft", "transformer"])
def test_a_model_s_caption_comes_back_with_its_lazy_maps(name, tmp_path):
    subwords = Subwords.train(["a b"], kind=CHARACTERS, size=20)
    model, picture = build(SPECS[name], n=len(subwords)), grey_picture(width=12, height=8)
    framing = Framing.cropped(12, 8, 8)
    square, ids = framing.square(picture), subwords.encode("ab a")
    record = caption_record(model, square, framing, picture, subwords, ids)
    save_caption(record, tmp_path / "dog.safetensors")
    same(load_caption(tmp_path / "dog.safetensors"), record)
    layer = record.read.attention["cross"].layers[0]
    assert torch.equal(layer.query, layer.query.detach())


def test_a_caption_is_no_text(tmp_path):
    record = captioned([list(random_maps(1, 2, 16))], written("dog"))
    save_caption(record, tmp_path / "dog.safetensors")
    with pytest.raises(
        DataError, match="expected 'regard record 1', got 'regard caption record 1'"
    ):
        load_record(tmp_path / "dog.safetensors")
