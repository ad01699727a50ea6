"""Picture models of transformers: where their own tokens look, drawn on the picture."""

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from regard.data.boxes import Box
from regard.errors import DataError, SettingError
from regard.interop.transformers_folder import open_folder
from regard.interop.transformers_pictures import look_at_picture
from tests.bridge.folders import folder_of


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "picture.png"
    numbers = np.random.default_rng(0).integers(0, 255, (30, 50, 3), dtype=np.uint8)
    Image.fromarray(numbers).save(path)
    return str(path)


def test_the_class_token_s_weights_lie_over_the_patches(tmp_path, picture):
    published = open_folder(folder_of("vit", tmp_path, id2label={0: "a dog", 1: "a cat"}))
    record = look_at_picture(published, picture)
    assert record.words == ("class token",)
    assert record.grid == (3, 3)
    assert record.covered == Box(0.0, 0.0, 50.0, 30.0)
    assert record.caption in ("a dog", "a cat")
    pixels = published.reader(images=Image.open(picture), return_tensors="pt")
    with torch.no_grad():
        output = published.model(**pixels, output_attentions=True)
    want = output.attentions[1][0, 2, 0, 1:].unflatten(0, (3, 3))
    torch.testing.assert_close(record.maps(1, 2)[0], want, atol=5e-6, rtol=0)


def test_several_tokens_of_its_own_are_words_of_the_record(tmp_path, picture):
    folder = folder_of("deit", tmp_path)
    transformers.DeiTImageProcessorPil(
        size={"shortest_edge": 15}, crop_size={"height": 12, "width": 12}
    ).save_pretrained(folder)
    record = look_at_picture(open_folder(folder), picture)
    assert record.words == ("class token", "own token 2")
    # of 30 pixels the middle 12 of 15 are seen
    assert record.covered == Box(13.0, 3.0, 37.0, 27.0)


def test_a_file_that_is_no_picture_is_refused(tmp_path):
    published = open_folder(folder_of("vit", tmp_path))
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(DataError, match="no picture that can be read"):
        look_at_picture(published, str(tmp_path / "text.png"))


def test_patches_that_are_merged_have_no_places(tmp_path, picture):
    published = open_folder(folder_of("vit", tmp_path))
    published.model.config.patch_size = [4, 2]
    with pytest.raises(SettingError, match=r"square patches, got patch_size \[4, 2\]"):
        look_at_picture(published, picture)
