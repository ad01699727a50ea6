"""Exports: a film with a frame a word, a page that says when it is too large, a notebook's cell."""

import base64
import builtins
import json
import re
from dataclasses import replace
from html import unescape
from importlib import import_module

import numpy as np
import pytest
import torch
from PIL import Image

from regard.attention.patterns.causal import CausalPattern
from regard.errors import LengthError, MissingExtra
from regard.inspecting import Pyramid, Record
from regard.inspecting.panels import View
from regard.plots import (
    document_page,
    frames,
    look_page,
    picture_page,
    record_page,
    write_gif,
)
from regard.plots import notebook as notebook_module
from regard.plots.pictures import caption_sheet
from tests.inspecting.captions_by_hand import captioned, random_maps, written
from tests.inspecting.hand_made import of_a_model, tokens, written_down
from tests.plots.test_record_figures import long_record

MODULE = import_module("regard.plots.document_page")
PICTURES = import_module("regard.plots.picture_page")
WEIGHTS = [[0.1, 0.2, 0.7], [0.05, 0.9, 0.05]]


def small(queries=("chien", "rouge"), keys=("a", "red", "dog")):
    return written_down([WEIGHTS], queries=tokens(*queries), keys=tokens(*keys))


def test_a_film_has_a_frame_for_each_word_that_is_written(tmp_path):
    write_gif(small(), tmp_path / "look.gif")
    stays = []
    with Image.open(tmp_path / "look.gif") as film:
        assert film.n_frames == 2
        assert film.info["loop"] == 0
        for number in range(film.n_frames):
            film.seek(number)
            stays.append(film.info["duration"])
    assert stays == [900, 2700]


def test_a_frame_shades_the_source_by_the_weights_of_the_word_it_writes():
    for number, figure in enumerate(frames(small())):
        shown = {text.get_text(): text for text in figure.texts}
        assert ("rouge" in shown) == (number == 1)
        boxes = [one for one in figure.artists if hasattr(one, "get_facecolor")][:3]
        brightness = [sum(box.get_facecolor()[:3]) for box in boxes]
        assert int(np.argmin(brightness)) == int(np.argmax(WEIGHTS[number]))


def test_a_long_answer_is_no_film():
    many = [f"w{i}" for i in range(81)]
    wide = written_down([[[1 / 81] * 81]], queries=tokens("x"), keys=tokens(*many))
    with pytest.raises(LengthError, match="81 words on a side are too many to play"):
        list(frames(wide))


# a document


@pytest.fixture(scope="module")
def document():
    torch.manual_seed(5)
    return long_record(600)


def data(page):
    """What the page's script reads."""
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[1])


def numbers(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f4")


def test_a_document_s_pictures_are_its_tiles(document):
    told = data(document_page(document, View("self", 0, 1)))
    assert [one["name"] for one in told["pictures"]] == [
        "layer 1, head 2, finer", "layer 1, head 1", "layer 1, head 2",
    ]  # fmt: skip
    pyramid = Pyramid(document.attention["self"].layers[0])
    coarse = numbers(told["pictures"][2]["numbers"]).reshape(told["pictures"][2]["shape"])
    np.testing.assert_array_equal(coarse, pyramid.tile(1, 0, 0, 0).values[:150, :150])
    fine = numbers(told["pictures"][0]["numbers"]).reshape(600, 600)
    np.testing.assert_allclose(fine, document.weights("self", 0, 1).numpy(), rtol=1e-5)
    assert [one["scale"] for one in told["pictures"]] == [[1, 1], [4, 4], [4, 4]]


@pytest.mark.parametrize(("answered", "rows", "high"), [(7, 7, 1), (300, 150, 2), (1024, 256, 4)])
def test_a_short_answer_about_a_long_document_keeps_its_words_apart(answered, rows, high):
    weights = torch.rand(1, 1, answered, 2000).softmax(-1)
    one = written_down(
        weights[0].tolist(),
        queries=tokens(*(f"a{i}" for i in range(answered))),
        keys=tokens(*(f"w{j}" for j in range(2000))),
    )
    fine, coarse = data(document_page(one))["pictures"]
    assert (fine["scale"], coarse["scale"]) == ([1, 2], [high, 8])
    assert coarse["shape"] == [rows, 250]
    assert coarse["is_exact"]
    got = numbers(coarse["numbers"]).reshape(rows, 250)
    wanted = weights.view(rows, high, 250, 8).amax((1, 3))
    np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_the_lift_of_each_picture_counts_the_keys_of_its_own_rows():
    causal, full = (long_record(600, **links) for links in ({"pattern": CausalPattern()}, {}))
    one = causal.attention["self"]
    layers = (*one.layers, *full.attention["self"].layers)
    told = data(document_page(Record("", "", {"self": replace(one, layers=layers)}), View("self")))
    fine, coarse, *_, second = told["pictures"]
    assert [one["name"] for one in (fine, coarse, second)] == [
        "layer 1, head 1, finer", "layer 1, head 1", "layer 2, head 2",
    ]  # fmt: skip
    seen = np.arange(1, 601)
    np.testing.assert_array_equal(numbers(fine["allowed"]), seen)
    np.testing.assert_array_equal(numbers(coarse["allowed"]), seen.reshape(150, 4).mean(1))
    np.testing.assert_array_equal(numbers(second["allowed"]), [600] * 150)
    # what no query of a pixel may see is told from what it gave nothing
    drawn = numbers(fine["numbers"]).reshape(600, 600)
    assert (drawn[np.triu_indices(600, 1)] == -1).all()
    assert (drawn[np.tril_indices(600)] >= 0).all()


def test_its_far_links_are_exact(document):
    page = document_page(document, View("self", 0, 1))
    weights = document.weights("self", 0, 1)
    rows = re.findall(
        r'<tr><th scope="row">([\d.]+)</th><td>([\d,]+)</td>.*?<td>([\d,]+)</td>', page
    )
    assert len(rows) == 20
    for weight, query, key in rows:
        at = int(query.replace(",", "")) - 1, int(key.replace(",", "")) - 1
        assert float(weight) == pytest.approx(float(weights[at]), abs=5.1e-5)
        assert abs(at[0] - at[1]) > 64


def test_a_record_that_is_too_large_for_every_weight_becomes_a_document(document, monkeypatch):
    record, _ = of_a_model()
    assert record_page(record) == look_page(record)
    monkeypatch.setattr(MODULE, "MAX_JSON_WEIGHTS", 1000)
    assert "Strongest far links" in record_page(document, View("self"))


def test_a_page_past_the_limit_says_what_to_do(document, monkeypatch):
    monkeypatch.setattr(MODULE, "MAX_BYTES", 100_000)
    with pytest.raises(LengthError, match=r"at most 0 are written. Look at one layer \(--layer\)"):
        document_page(document, View("self"))


# a notebook


def test_a_notebook_gets_a_frame_a_picture_and_a_text():
    record, _ = of_a_model()
    shown = record._repr_mimebundle_()
    assert set(shown) == {"text/html", "image/png", "text/plain"}
    assert shown["image/png"].startswith(b"\x89PNG")
    assert "cross attention" in shown["text/plain"]
    frame = re.match(r'<iframe [^>]*srcdoc="([^"]*)">\s*</iframe>', shown["text/html"])
    assert unescape(frame[1]) == look_page(record)
    assert 'sandbox="allow-scripts"' in shown["text/html"]
    assert record._repr_html_() == shown["text/html"]
    assert set(record._repr_mimebundle_(include=["image/png"])) == {"image/png"}
    assert "text/html" not in record._repr_mimebundle_(exclude=["text/html"])


def test_a_cell_that_would_be_too_large_says_so(monkeypatch):
    record, _ = of_a_model()
    monkeypatch.setattr(notebook_module, "MAX_BYTES", 1000)
    said = record._repr_html_()
    assert "iframe" not in said
    assert "more than the 0.001 that a notebook takes" in said


def test_a_record_that_has_no_page_says_why(document, monkeypatch):
    monkeypatch.setattr(MODULE, "MAX_BYTES", 1000)
    monkeypatch.setattr(MODULE, "MAX_JSON_WEIGHTS", 1000)
    assert "the page would have" in document._repr_html_()


def test_a_page_of_many_pictures_that_grew_too_large_says_what_to_do(monkeypatch):
    record = captioned([list(random_maps(1, 3, 16))], written("a", "dog"))
    monkeypatch.setattr(PICTURES, "MAX_BYTES", 20_000)
    with pytest.raises(LengthError, match=r"2 pictures would have 0\.\d MB; at most 0\.02 are"):
        picture_page([record, record])
    assert "Take fewer pictures at a time" in record._repr_html_()


def test_without_matplotlib_a_caption_s_picture_names_the_extra_and_the_notebook_goes_on(
    monkeypatch,
):
    record = captioned([list(random_maps(1, 3, 16))], written("a", "dog"))
    honest = builtins.__import__

    def missing(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return honest(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[plots\]'"):
        caption_sheet(record)
    assert set(record._repr_mimebundle_()) == {"text/html", "text/plain"}


def test_a_caption_whose_page_is_too_large_for_a_cell_says_so(monkeypatch):
    record = captioned([list(random_maps(1, 3, 16))], written("a", "dog"))
    monkeypatch.setattr(notebook_module, "MAX_BYTES", 1000)
    assert "more than the 0.001 that a notebook takes" in record._repr_html_()


def test_a_caption_shows_itself_too():
    record = captioned([list(random_maps(1, 3, 16))], written("a", "dog"))
    shown = record._repr_mimebundle_()
    assert unescape(re.search(r'srcdoc="([^"]*)"', shown["text/html"])[1]) == picture_page([record])
    assert shown["image/png"].startswith(b"\x89PNG")
    assert shown["text/plain"] == "dog.jpg: a dog"
    assert set(record._repr_mimebundle_(include=["text/plain"])) == {"text/plain"}
