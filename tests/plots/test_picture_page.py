"""The page of captioned pictures: one file, the records' own numbers, and names that stay text."""

import base64
import json
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.testing import assert_close

from regard.data.framings import Framing
from regard.data.pictures import Picture
from regard.errors import LengthError, SettingError, UnknownChoice
from regard.inspecting import caption_record
from regard.plots.overlays import OVERLAYS
from regard.plots.page import POLICY
from regard.plots.picture_page import LEVELS, embedded, picture_page
from regard.plots.smooth_maps import smooth, spreading
from tests.inspecting.captions_by_hand import captioned, grey_picture, random_maps, written
from tests.oracles.boxes import cell_box

HOSTILE = "</script><b onclick=x>&amp;\u2028<!--"
FOLDER = Path(__file__).parents[2] / "regard/plots"
SCRIPT = "".join((FOLDER / name).read_text() for name in ("picture_maps.js", "picture_page.js"))


class Page(HTMLParser):
    """The tags of a page, and the text inside its scripts and elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.texts, self.inside = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        (self.scripts if self.inside == "script" else self.texts).append(data)

    def data(self):
        return json.loads(self.scripts[0])

    def classes(self):
        return {name for _, attrs in self.tags for name in (attrs.get("class") or "").split()}


def _record(*words, name="dog.jpg", n_layers=1, n_heads=2, gates=None, notes=()):
    maps = random_maps(n_layers, n_heads, len(words) + 1, 16)
    layers = [list(heads) for heads in maps]
    picture = grey_picture(name, notes=notes)
    return captioned(layers, written(*words), picture=picture, gates=gates)


@pytest.fixture(scope="module")
def records():
    return [
        _record("a", "dog", "runs", gates=(0.1, 0.2, 0.3, 0.4)),
        _record("two", "men", n_layers=2, n_heads=3, name="folder/test.zip/two men.jpg"),
    ]


@pytest.fixture(scope="module")
def page(records):
    return picture_page(records)


def test_the_page_holds_the_records_numbers_and_names(records, page):
    held = Page(page).data()["records"]
    assert [one["words"] for one in held] == [["a", "dog", "runs"], ["two", "men"]]
    assert held[0]["gates"] == [0.1, 0.2, 0.3]
    for side, record in zip(held, records, strict=True):
        for layer in range(record.n_layers):
            for head in range(record.n_heads):
                got = torch.tensor(side["weights"][layer][head])
                assert_close(got, record.maps(layer, head), atol=1e-6, rtol=0)


@pytest.mark.parametrize("frame", [Framing.cropped, Framing.squeezed])
def test_the_page_s_numbers_put_every_cell_where_the_framing_does(frame):
    picture, framing = grey_picture(width=300, height=140), frame(300, 140, 64)
    maps = [[random_maps(2, 64)]]
    record = captioned(maps, written("dog"), grid=(8, 8), picture=picture, framing=framing)
    (held,) = Page(picture_page([record])).data()["records"]
    grid, covered = held["grid"], held["grid"]["covered"]
    wide = (covered["right"] - covered["left"]) / grid["columns"]
    high = (covered["bottom"] - covered["top"]) / grid["rows"]
    left, top = covered["left"] + 7 * wide, covered["top"] + 7 * high
    box = (left, top, left + wide, top + high)
    assert box == pytest.approx(cell_box(framing, 7, 7, 8))
    assert (held["picture"]["width"], held["picture"]["height"]) == (300, 140)


def test_readers_without_scripts_get_words_gates_and_entropies(records, page):
    (first, second) = re.findall(r'<div class="table-of-words.*?</table>', page, re.DOTALL)
    cells = re.findall(r"<td>(.*?)</td>", first)
    want = []
    for cells_of_word, entropy, gate in zip(
        records[0].maps(), records[0].entropies().tolist(), (0.1, 0.2, 0.3), strict=True
    ):
        row, column = divmod(int(cells_of_word.argmax()), 4)
        place = f"row {row + 1}, column {column + 1}"
        want += [f"{gate:.4f}", f"{entropy:.4f}", place, f"{float(cells_of_word.max()):.4f}"]
    assert cells == want
    assert "gate β" not in second
    assert "mean of 2 layers × 3 heads" in second


def test_the_end_is_not_shown_and_that_is_said(page):
    assert "Not shown: &lt;eos&gt;, with 25 % of all the weight." in page
    assert "Not shown: &lt;eos&gt;, with 33 % of all the weight." in page


def test_dead_maps_are_warned_of():
    dead = captioned([[torch.full((3, 16), 1 / 16)]], written("a", "dog"))
    assert '<p class="warning">The maps are dead' in picture_page([dead])
    assert "dead" not in picture_page([_record("a", "dog")])


def test_what_a_person_should_know_of_a_picture_is_said():
    page = picture_page([_record("dog", notes=("it holds more than one picture",))])
    assert "it holds more than one picture" in Page(page).texts


def test_the_page_begins_with_the_overlay_that_was_asked_for():
    read = Page(picture_page([_record("dog")], overlay="cells"))
    checked = [attrs["value"] for tag, attrs in read.tags if tag == "input" and "checked" in attrs]
    assert checked == ["cells"]
    assert read.data()["overlay"] == "cells"
    with pytest.raises(UnknownChoice, match="overlay: There is no 'sells' here"):
        picture_page([_record("dog")], overlay="sells")


def test_hostile_names_stay_text():
    page = picture_page([_record(HOSTILE, "dog", name=f'x"{HOSTILE}', notes=(HOSTILE,))])
    read = Page(page)
    harmless = Page(picture_page([_record("red", "dog", name="x", notes=("y",))]))
    assert [tag for tag, _ in read.tags] == [tag for tag, _ in harmless.tags]
    assert [sorted(attrs) for _, attrs in read.tags] == [sorted(a) for _, a in harmless.tags]
    (held,) = read.data()["records"]
    assert held["words"] == [HOSTILE, "dog"]
    assert f"{HOSTILE} dog" in read.texts
    assert "\u2028" not in read.scripts[0]
    assert "<" not in read.scripts[0]


def test_the_page_asks_nothing_of_the_network(page):
    read = Page(page)
    assert [attrs["content"] for _, attrs in read.tags if attrs.get("http-equiv")] == [POLICY]
    for tag, attrs in read.tags:
        assert not {"href", "action", "srcset"} & set(attrs)
        assert attrs.get("src", "data:").startswith("data:"), tag
    assert not re.search(r"https?:|@import|url\(|fetch\(|XMLHttp|import\(", page)


def test_the_scripts_write_names_as_text_and_invent_no_number():
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(", SCRIPT)
    assert "Math.random" not in SCRIPT


def test_every_part_the_scripts_look_for_is_there(page):
    read = Page(page)
    ids = [attrs["id"] for _, attrs in read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'find\("([\w-]+)"\)', SCRIPT)) | {"layer", "head"} <= set(ids)
    assert set(re.findall(r'part\("([\w-]+)"\)', SCRIPT)) <= read.classes()


def test_every_picture_has_a_name_and_every_heading_its_article(page):
    read = Page(page)
    alts = [attrs["alt"] for tag, attrs in read.tags if tag == "img"]
    assert alts == ["dog.jpg, captioned: a dog runs", "two men.jpg, captioned: two men"]
    named = [attrs["aria-labelledby"] for tag, attrs in read.tags if tag == "article"]
    assert named == ["picture-1", "picture-2"]
    assert sum(tag == "details" for tag, _ in read.tags) == 2


def test_an_overlay_s_densities_and_looks_are_python_s(page):
    held = Page(page).data()["overlays"]
    assert list(held) == list(OVERLAYS)
    for name, one in OVERLAYS.items():
        shares = np.arange(LEVELS + 1)[None] / LEVELS
        np.testing.assert_allclose(held[name]["density"], one.density(shares)[0], atol=1e-5)
        assert tuple(held[name]["ramp"]) == one.ramp
    assert [held[name]["is_smooth"] for name in held] == [True, True, False]
    assert [held[name]["is_grey"] for name in held] == [True, False, True]
    assert [held[name]["bright"] for name in held] == pytest.approx([0.6, 1.0, 0.6])


def test_the_matrices_of_the_page_smooth_as_python_does():
    cells = np.random.default_rng(0).random((3, 7))
    np.testing.assert_allclose(spreading(3) @ cells @ spreading(7).T, smooth(cells))


def _decoded(source):
    head, data = source.split(",")
    return head, Image.open(BytesIO(base64.b64decode(data)))


def test_a_small_picture_is_kept_pixel_by_pixel():
    pixels = np.random.default_rng(1).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    source, wide, high = embedded(Picture("x", pixels, 30, 20))
    head, image = _decoded(source)
    assert (head, wide, high) == ("data:image/png;base64", 30, 20)
    np.testing.assert_array_equal(np.asarray(image), pixels)


def test_a_large_picture_is_made_smaller_in_its_own_shape():
    # a quarter of the pixels was decoded
    pixels = np.zeros((500, 1000, 3), dtype=np.uint8)
    source, wide, high = embedded(Picture("x", pixels, 4003, 2000))
    head, image = _decoded(source)
    assert (head, wide, high) == ("data:image/jpeg;base64", 800, 400)
    assert image.size == (800, 400)


def test_a_very_long_picture_keeps_a_pixel_of_height():
    pixels = np.zeros((8, 20_000, 3), dtype=np.uint8)
    assert embedded(Picture("x", pixels, 20_000, 8))[1:] == (800, 1)


def test_eight_pictures_stand_on_one_page():
    page = picture_page([_record("dog", name=f"{i}.jpg") for i in range(8)])
    names = re.findall(r'<h2 id="picture-\d" dir="auto">(.*?)</h2>', page)
    assert names == [f"{i}.jpg" for i in range(8)]


def test_no_pictures_and_too_many_numbers_are_refused(monkeypatch):
    with pytest.raises(SettingError, match="expected at least one record, got none"):
        picture_page([])
    monkeypatch.setattr(caption_record, "MAX_JSON_WEIGHTS", 100)
    with pytest.raises(LengthError, match="Take fewer pictures at a time"):
        picture_page([_record("a", "dog")] * 2)
