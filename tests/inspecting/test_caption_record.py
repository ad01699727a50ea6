"""A caption's record has the model's own weights, word by word, at their place in the picture."""

import json
import math

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import regard
from regard.data.boxes import Box
from regard.data.framings import Framing
from regard.data.pictures import Picture
from regard.data.subword_kinds import BOS, BPE
from regard.data.subwords import Subwords
from regard.errors import LengthError, SettingError, ShapeError
from regard.evaluating.pointing_game import grid_cells
from regard.inspecting import caption_record as module
from regard.inspecting.caption_record import caption_record
from regard.inspecting.token_labels import Tokens
from tests.inspecting.captions_by_hand import captioned, grey_picture, random_maps, written
from tests.models.captioner.small import SOFT, TRANSFORMER, build
from tests.oracles.boxes import cell_box

TEXT = "a dog jumps over"
SIZE = 16


@pytest.fixture(scope="module")
def subwords():
    return Subwords.train(["a dog jumps", "overt"], kind=BPE, size=264)


@pytest.fixture(scope="module")
def picture():
    pixels = np.random.default_rng(3).integers(0, 256, (24, 40, 3)).astype(np.uint8)
    return Picture("dog.jpg", pixels, 40, 24)


def _recorded(spec, subwords, picture, text=TEXT):
    torch.manual_seed(2)
    model = build(spec, n=len(subwords))
    framing = Framing.cropped(picture.width, picture.height, SIZE)
    square = framing.square(picture)
    ids = subwords.encode(text)
    return model, square, ids, caption_record(model, square, framing, picture, subwords, ids)


@pytest.mark.parametrize("spec", [SOFT, TRANSFORMER], ids=["lstm", "transformer"])
def test_a_word_s_map_is_the_mean_of_its_pieces_maps(spec, subwords, picture):
    model, square, ids, record = _recorded(spec, subwords, picture)
    assert record.words == ("a", "dog", "jumps", "over")
    assert len(ids) > len(record.words), "some word must be cut"
    seen, given = torch.tensor(square)[None], torch.tensor([[BOS, *ids]])
    layers = model.maps(seen, given)["cross"]
    places = record.read.attention["cross"].queries.words
    for layer, one in enumerate(layers):
        dense = one.dense()[0]
        for head in range(record.n_heads):
            got = record.maps(layer, head)
            assert_close(got.sum((1, 2)), torch.ones(4))
            for word in range(4):
                rows = [dense[head, i] for i, place in enumerate(places) if place == word]
                want = torch.stack(rows).mean(0).view(4, 4).float()
                assert_close(got[word], want)


def test_the_mean_is_over_all_layers_and_heads(subwords, picture):
    *_, record = _recorded(TRANSFORMER, subwords, picture)
    assert (record.n_layers, record.n_heads) == (2, 2)
    every = [record.maps(layer, head) for layer in range(2) for head in range(2)]
    assert_close(record.maps(), torch.stack(every).mean(0))
    assert_close(record.maps(1), torch.stack(every[2:]).mean(0))
    assert record.title(1, 0) == "cross attention, layer 2, head 1"


def test_gates_are_the_model_s_averaged_over_a_word_s_pieces(subwords, picture):
    model, square, ids, record = _recorded(SOFT, subwords, picture)
    said = model.gates(torch.tensor(square)[None], torch.tensor([[BOS, *ids]]))[0].tolist()
    places = record.read.attention["cross"].queries.words
    want = [np.mean([said[i] for i, place in enumerate(places) if place == w]) for w in range(4)]
    assert record.gates == pytest.approx(want)
    assert _recorded(TRANSFORMER, subwords, picture)[-1].gates is None


def test_a_word_s_map_does_not_depend_on_later_words(subwords, picture):
    *_, long = _recorded(SOFT, subwords, picture, "a dog jumps over")
    *_, short = _recorded(SOFT, subwords, picture, "a dog")
    assert_close(long.maps()[:2], short.maps())


def test_looking_takes_no_dropout_and_leaves_the_model_in_training(subwords, picture):
    model, square, ids, record = _recorded(TRANSFORMER, subwords, picture)
    model.train()
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.9
    again = caption_record(model, square, record.framing, picture, subwords, ids)
    assert_close(again.maps(), record.maps())
    assert model.training


def test_the_end_is_hidden_and_its_share_of_the_weight_is_said():
    record = captioned([[random_maps(4, 16)]], written("a", "red", "dog"))
    assert record.words == ("a", "red", "dog")
    assert record.hidden.names == ("<eos>",)
    assert record.hidden.share == pytest.approx(1 / 4)
    assert record.maps().shape == (3, 4, 4)


def test_gates_of_pieces_become_gates_of_words():
    tokens = Tokens(("do", "g", "s", "<eos>"), (0, 0, 1, 2), ("dog", "s", "<eos>"), frozenset({2}))
    record = captioned([[random_maps(4, 16)]], tokens, gates=(0.2, 0.4, 0.7, 0.9))
    assert record.gates == pytest.approx((0.3, 0.7))


@pytest.mark.parametrize("frame", [Framing.cropped, Framing.squeezed])
def test_cells_lie_where_the_framing_says(frame, subwords):
    original = grey_picture(width=300, height=140)
    model, framing = build(SOFT, n=len(subwords)), frame(300, 140, 32)
    record = caption_record(model, framing.square(original), framing, original, subwords, [5])
    assert record.grid == (8, 8)
    cells = grid_cells(*record.grid, record.covered).tolist()
    want = [cell_box(framing, row, column, 8) for row, column in np.ndindex(8, 8)]
    assert all(got == pytest.approx(box, rel=1e-5) for got, box in zip(cells, want, strict=True))


def test_cells_that_reach_over_the_edge_cover_more_than_was_seen(subwords):
    original = grey_picture(width=140, height=140)
    model, framing = build(SOFT, n=len(subwords)), Framing.cropped(140, 140, 14)
    record = caption_record(model, framing.square(original), framing, original, subwords, [5])
    # cells of 4 of the square's 14 pixels: the last has 2
    assert record.grid == (4, 4)
    assert record.covered == Box(0.0, 0.0, 160.0, 160.0)
    assert record.framing.box == Box(0.0, 0.0, 140.0, 140.0)


def test_entropy_is_that_of_the_word_s_map():
    flat, sharp = torch.full((16,), 1 / 16), torch.eye(16)[3]
    record = captioned([[torch.stack([flat, sharp, flat])]], written("a", "dog"))
    assert record.entropies().tolist() == pytest.approx([math.log(16), 0.0])


def test_dead_maps_are_warned_of_and_live_ones_are_not():
    dead = captioned([[torch.full((3, 16), 1 / 16)]], written("a", "dog"))
    assert "every word looks at the whole picture alike" in dead.warning
    still = captioned([[torch.eye(16)[[2, 2, 9]]]], written("a", "dog"))
    assert "do not change" in still.warning
    assert captioned([[torch.eye(16)[[2, 7, 9]]]], written("a", "dog")).warning == ""


def test_plain_data_are_the_record_s_numbers(subwords, picture):
    *_, record = _recorded(TRANSFORMER, subwords, picture)
    held = json.loads(json.dumps(record.as_json()))
    assert held["picture"] == {"name": "dog.jpg", "width": 40, "height": 24, "notes": []}
    assert held["shown"] == {"left": 8.0, "top": 0.0, "right": 32.0, "bottom": 24.0}
    assert held["caption"] == TEXT
    assert held["words"] == ["a", "dog", "jumps", "over"]
    assert held["gates"] is None
    assert held["versions"] == {"regard": regard.__version__, "torch": torch.__version__}
    assert held["mechanism"] == "scaled_dot, soft"
    assert_close(torch.tensor(held["mean"]), record.maps(), atol=1e-6, rtol=0)
    assert_close(torch.tensor(held["weights"][1][0]), record.maps(1, 0), atol=1e-6, rtol=0)
    assert held["entropies"] == pytest.approx(record.entropies().tolist(), abs=1e-6)


def test_a_caption_without_words_is_a_record_too(subwords, picture):
    *_, record = _recorded(SOFT, subwords, picture, "")
    assert (record.words, record.gates, record.warning) == ((), (), "")
    assert record.maps().shape == (0, 4, 4)
    assert record.hidden.share == pytest.approx(1.0)
    assert record.as_json()["mean"] == []


def test_a_layer_that_is_not_there_is_an_error():
    record = captioned([[random_maps(3, 16)]], written("a", "dog"))
    with pytest.raises(SettingError, match="there is no layer 3: cross attention has 1 layer"):
        record.maps(2)


def test_a_square_of_another_size_is_refused(subwords, picture):
    model, framing = build(SOFT, n=len(subwords)), Framing.cropped(40, 24, 16)
    square = np.zeros((3, 8, 8), dtype=np.uint8)
    with pytest.raises(ShapeError, match=r"\(3, 16, 16\), got \(3, 8, 8\)"):
        caption_record(model, square, framing, picture, subwords, [5])


def test_a_grid_and_gates_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="a grid of 16 cells"):
        captioned([[random_maps(3, 16)]], written("a", "dog"), grid=(4, 4), gates=(0.5,))


def test_a_framing_of_another_picture_is_refused():
    framing = Framing.cropped(64, 64, 32)
    with pytest.raises(ShapeError, match="90 by 60 pixels, but the framing is of one of 64 by 64"):
        captioned([[random_maps(2, 16)]], written("dog"), framing=framing)


def test_too_many_numbers_are_refused(monkeypatch):
    record = captioned([[random_maps(3, 16)]], written("a", "dog"))
    monkeypatch.setattr(module, "MAX_JSON_WEIGHTS", 63)
    with pytest.raises(LengthError, match="64 weights are too many to write out; at most 63"):
        record.as_json()
