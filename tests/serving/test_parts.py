"""Worked steps, mechanisms side by side, gold alignments: each against Python's own numbers."""

import hashlib
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from regard.data import Example
from regard.data.pictures import Picture
from regard.errors import DataError, SettingError, ShapeError, UnknownChoice
from regard.evaluating import Gold
from regard.evaluating.attention_links import DecoderRow
from regard.inspecting.capture import attention_of
from regard.inspecting.lessons import X, Y, worked
from regard.runs.alignment import align
from regard.runs.trained import load
from regard.serving.app import PAGE_FOLDERS, page_files
from regard.serving.captions import _small
from regard.serving.gold import errors_of_heads, read_pairs, sentence
from regard.serving.lru_cache import LruCache
from regard.serving.registry import GoldPairs
from regard.serving.schemas import WorkedExampleRequest
from regard.serving.side_by_side import side_by_side
from regard.serving.worked_steps import HEADS, worked_steps
from tests.factories import make_run

MATRICES = ("W_Q", "W_K", "W_V")


def _worked(queries=X, keys=X, heads=None, count=1, **options):
    ones, joined = HEADS[count]
    heads = heads or [dict.fromkeys(MATRICES, one) for one in ones]
    return WorkedExampleRequest(queries=queries, keys=keys, heads=heads, W_O=joined, **options)


@pytest.mark.parametrize(("is_scaled", "part"), [(False, None), (True, "scaled")])
def test_matrices_that_change_nothing_give_the_numbers_of_explain(is_scaled, part):
    want = worked() if part is None else worked()[part]
    done = worked_steps(_worked(is_scaled=is_scaled))
    for name in ("scores", "weights", "context"):
        torch.testing.assert_close(torch.tensor(done["heads"][0][name]), torch.tensor(want[name]))
    assert done["out"] == done["joined"] == done["heads"][0]["context"]


def test_words_may_look_at_words_of_another_language():
    done = worked_steps(_worked(keys=Y))
    assert done["heads"][0]["weights"] == worked()["cross"]["weights"]


def test_two_heads_mask_and_temperature_by_hand():
    done = worked_steps(_worked(count=2, is_causal=True, temperature=2.0))
    second = done["heads"][1]
    assert second["query"] == [[row[1], row[2]] for row in X]
    row = [sum(a * b for a, b in zip(X[1][1:], key[1:], strict=True)) / 2 for key in X[:2]]
    total = sum(map(math.exp, row))
    want = [*(math.exp(one) / total for one in row), 0.0]
    assert second["weights"][1] == pytest.approx(want, abs=1e-12)
    half = (done["heads"][0]["context"][2][1] + second["context"][2][0]) / 2
    assert done["out"][2][1] == pytest.approx(half, abs=1e-12)


@pytest.mark.parametrize(
    ("numbers", "error", "says"),
    [
        ({"temperature": 0.0}, ValidationError, "temperature"),
        ({"keys": [[1.0]] * 25}, ValidationError, "at most 24"),
        (
            {"queries": [[1.0]], "heads": [{name: [[1.0], [2.0]] for name in MATRICES}]},
            ShapeError,
            "W_Q of head 1",
        ),
        ({"queries": [[1.0], [1.0, 2.0]]}, ShapeError, "one length"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(numbers, error, says):
    with pytest.raises(error, match=says):
        worked_steps(_worked(**numbers))


@pytest.fixture(scope="module")
def record(registry):
    return registry.run("first").trained.look("a dog ate the food")


def test_the_first_mechanism_is_the_model_and_scaled_dot_is_what_it_does(record):
    said = side_by_side(record, "encoder", 0, 1)
    own, same = said["panels"][0], said["panels"][1]
    want = record.weights("encoder", 0, 1)
    torch.testing.assert_close(torch.tensor(own["weights"]), want, atol=1e-6, rtol=0)
    assert same["name"] == "scaled_dot"
    assert same["difference"] == pytest.approx(0, abs=1e-6)
    assert "additive" in said["left_out"]


def test_other_mechanisms_read_the_same_queries_and_keys(record):
    panels = {one["name"]: one for one in side_by_side(record, "decoder", 1, 0)["panels"]}
    seen = record.attention["decoder"].layers[1]
    scores = (seen.query[0, 0] @ seen.key[0, 0].T).masked_fill(
        torch.ones(seen.shape[-2:]).triu(1).bool(), -torch.inf
    )
    dot, hard = (torch.tensor(panels[name]["weights"]) for name in ("dot", "hard"))
    torch.testing.assert_close(dot, scores.softmax(-1), atol=1e-5, rtol=0)
    assert hard.argmax(-1).tolist() == scores.argmax(-1).tolist()
    assert panels["hard"]["entropy"] == pytest.approx(0, abs=1e-6)
    window = torch.tensor(panels["sliding_window"]["weights"])
    places = torch.arange(len(window))
    assert (window[(places[:, None] - places).abs() > 2] == 0).all()
    # nobody sees what is yet to come, whatever weighs it
    assert all((torch.tensor(one["weights"]).triu(1) == 0).all() for one in panels.values())


def test_outputs_and_costs_of_mechanisms_by_hand(record):
    said = side_by_side(record, "encoder", 0, 1)
    panels = {one["name"]: one for one in said["panels"]}
    seen = record.attention["encoder"].layers[0]
    n, width, values = seen.shape[-1], seen.query.shape[-1], seen.value[0, 1]
    own, hard = (torch.tensor(panels[name]["weights"]) @ values for name in ("model", "hard"))
    want = torch.nn.functional.cosine_similarity(own, hard).mean()
    assert panels["hard"]["cosine"] == pytest.approx(float(want), abs=1e-5)
    assert panels["model"]["cosine"] == panels["scaled_dot"]["cosine"] == pytest.approx(1, abs=1e-6)
    # all pairs are scored; all of them are read, or one of each row
    assert panels["model"]["operations"] == 2 * width * n * n + 2 * width * n * n
    assert panels["hard"]["operations"] == 2 * width * n * n + 2 * width * n
    near = sum(abs(i - j) <= 2 for i in range(n) for j in range(n))
    assert panels["sliding_window"]["operations"] == 4 * width * near
    assert panels["sliding_window"]["bytes"] == 4 * near
    assert panels["sliding_window"]["visible"][0] == [[0, 3]]
    assert panels["model"]["visible"] == [[[0, n]]] * n


def test_patterns_of_distance_are_not_offered_between_two_texts(record):
    names = {one["name"] for one in side_by_side(record, "cross", 0, 0)["panels"]}
    assert "sparsemax" in names
    assert not names & {"sliding_window", "blocks", "linear_bias"}


def test_products_are_left_out_where_queries_and_keys_have_two_widths(tmp_path):
    model = 'kind = "recurrent"\nsize = "bahdanau"\nd_embedding = 8\nd_hidden = 8\nn_layers = 1'
    record = load(make_run(tmp_path / "run", model=model), device="cpu").look("a b c", "c b")
    seen = record.attention["cross"].layers[0]
    assert seen.query.shape[-1] != seen.key.shape[-1]
    names = [one["name"] for one in side_by_side(record, "cross", 0, 0)["panels"]]
    assert names[0] == "model"
    assert "sparsemax" in names
    assert not {"dot", "scaled_dot"} & {*names}


def test_the_error_rates_of_heads_are_those_of_evaluate(registry):
    gold = registry.gold
    want = align(registry.run("first").trained, gold.pairs, gold.links).as_json()
    assert errors_of_heads(registry, "first") == want


def test_pairs_have_the_links_that_their_file_is_read_for(tmp_path):
    texts, naacl = tmp_path / "texts", tmp_path / "naacl"
    texts.write_text("a b\nc\n")
    naacl.write_text("1 0 1 S\n2 0 0 P\n")
    made = read_pairs(texts, texts, naacl, kind="naacl", first=0)
    assert made.links == (Gold(frozenset({(0, 1)})), Gold(frozenset(), frozenset({(0, 0)})))
    turned = read_pairs(texts, texts, naacl, first=0, is_swapped=True)
    assert turned.links == tuple(links.swapped() for links in made.links)
    assert turned.links != made.links
    with pytest.raises(DataError, match=r"line 1: position 0 .* \(--alignment-first 0\)"):
        read_pairs(texts, texts, naacl)


def test_links_beyond_the_words_are_refused_where_pairs_are_made_in_python():
    with pytest.raises(DataError, match=r"link 0-2 .* line 1 of the texts has 2 source"):
        GoldPairs((Example("a b", ("b a",)),), (Gold(frozenset({(0, 2)})),))


@pytest.mark.parametrize("row", list(DecoderRow))
def test_a_pair_shows_words_between_spaces_whose_rows_sum_to_what_words_receive(registry, row):
    said = sentence(registry, "first", 0, row.name.lower())
    assert said["source"] == ["a", "dog", "ate"]
    assert said["sure"] == [[0, 1], [2, 2]]
    assert said["possible"] == [[1, 0]]
    weights = torch.tensor(said["weights"])
    assert weights.shape == (2, 2, 3, 3)
    # the end token's share is no word's
    assert (weights.sum(-1) < 1).all()
    with pytest.raises(SettingError, match="2 pairs"):
        sentence(registry, "first", 2, "next")


def test_what_was_asked_for_longest_ago_is_forgotten_first():
    kept = LruCache[int](most=2)
    kept.put("a", lambda: 1)
    kept.put("b", lambda: 2)
    kept.get("a")
    kept.put("c", lambda: 3)
    assert kept.get("a") == 1
    with pytest.raises(UnknownChoice, match="not kept any more"):
        kept.get("b")


def test_the_vendored_file_is_the_one_that_its_note_names():
    folder = PAGE_FOLDERS["drawing/"] / "vendor"
    note = (folder / "VENDORED.txt").read_text()
    told = re.search(r"sha256\s+(\w{64})", note)
    assert told is not None
    assert hashlib.sha256((folder / "preact.js").read_bytes()).hexdigest() == told[1]
    assert {path.name for path in folder.glob("LICENSE-*")} == set(
        re.findall(r"LICENSE-\w+\.txt", note)
    )


def test_the_page_invents_nothing_and_asks_nobody_else():
    own = [path for path in page_files().values() if "vendor" not in path.parts]
    for path in own:
        text = path.read_text(encoding="utf-8")
        assert "Math.random" not in text
        assert not re.search(r"https?://|//cdn|\beval\(|new Function|document\.write", text), path
        assert len(text.splitlines()) <= 400, path
        assert text.count("innerHTML") == 0 or Path(path).name == "formulas.js"
        assert ("dangerouslySetInnerHTML" in text) == (path.name == "formulas.js")


def test_a_large_picture_is_kept_small_and_still_says_its_size():
    small = _small(Picture("large", np.zeros((20, 3200, 3), np.uint8), 3200, 20))
    assert small.pixels.shape == (10, 1600, 3)
    assert (small.width, small.height) == (3200, 20)


def test_a_look_that_fails_leaves_the_model_in_its_mode(tmp_path):
    model = load(make_run(tmp_path / "run"), device="cpu").loaded.model.train()
    with pytest.raises(IndexError):
        attention_of(model, [10**6], [5])
    assert model.training
