"""The arithmetic of the studies of papers and of WikiText-2, and their page."""

import json
import math
from pathlib import Path

import pytest

from regard.decoding import Sentence
from studies.documents.study import LENGTHS, PIECE, SYSTEMS, Cut, by_length
from studies.documents.summary import difference, together
from studies.luong.summary import one_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KEPT = json.loads((ROOT / "studies" / "documents" / "results.json").read_text())
CELLS = KEPT["cells"]
PROSE = " ".join((DOCS / "documents.md").read_text().replace("*", "").split())


class Letters:
    fingerprint = "letters"

    def __len__(self):
        return 30

    def encode_all(self, texts):
        return [list(range(len(text))) for text in texts]


@pytest.mark.parametrize(
    ("n_tokens", "kept"),
    [(9, 9), (PIECE, PIECE), (2 * PIECE + 5, 2 * PIECE), (5 * PIECE, 4 * PIECE)],
)
def test_a_paper_keeps_a_whole_number_of_pieces_its_end_counted(n_tokens, kept):
    cut = Cut(Letters(), 4 * PIECE)
    (ids,) = cut.encode_all(["x" * (n_tokens - 1)])
    assert ids == list(range(kept - 1))
    assert (cut.fingerprint, len(cut)) == ("letters", 30)


def test_papers_of_one_length_are_together_the_longest_first():
    sentences = [Sentence([5] * n) for n in (2, 3, 2, 4)]
    assert by_length(sentences) == [[3], [1], [0, 2]]


def test_a_difference_has_the_error_of_its_mean():
    found = difference([1.0, 2.0, 6.0], [1.0, 1.0, 1.0])
    assert found == {"mean": 2.0, "error": pytest.approx(math.sqrt(7 / 3))}


def test_cells_that_were_not_measured_stay_and_differences_from_others_do_not():
    before = {
        "cells": {"a, 768": 1, "a, 3072": 2, "b, 768": 3, "b, 3072": 4, "c, 768": 5},
        "longer": {"a, 3072": 1, "b, 3072": 1},
        "wikitext": 7,
    }
    made = {"cells": {"a, 3072": 9, "c, 3072": 6}, "longer": {"c, 3072": 1}}
    found = together(before, made)
    assert found["cells"] == before["cells"] | made["cells"]
    assert found["longer"] == {"b, 3072": 1, "c, 3072": 1}
    assert found["wikitext"] == 7


def _loss(system, length):
    return CELLS[f"{system}, {length}"]["loss"]


def test_the_page_orders_the_losses_as_they_are():
    measured = [system for system in SYSTEMS if system != "recurrent"]
    everywhere = {f"{system}, {length}" for system in measured for length in LENGTHS}
    assert set(CELLS) == everywhere | {"recurrent, 768"}
    assert "at 768 tokens was trained on one core of a processor" in PROSE
    above = _loss("recurrent", 768) - _loss("encoder-decoder", 768)
    assert 0.2 < above < 0.3, "a quarter of a nat"
    taught = [system for system in measured if system != "T-DMCA, all tokens"]
    lowest = {system: min(LENGTHS, key=lambda n: _loss(system, n)) for system in taught}
    assert {system for system, length in lowest.items() if length > 768} == {"Linformer encoder"}
    for length in LENGTHS:
        assert min(taught, key=lambda system: _loss(system, length)) == "T-DMCA"
    below = [_loss("encoder-decoder", n) - _loss("Linformer encoder", n) for n in LENGTHS]
    assert abs(below[0]) < 0.01
    assert f"below it by {below[1]:.2f} and {below[2]:.2f} at 3,072 and 9,216" in PROSE
    for group in (("T-D", "window", "BigBird"), ("encoder-decoder", "BigBird encoder")):
        for length in (768, 3072):
            found = [_loss(system, length) for system in group]
            assert max(found) - min(found) < 0.005
    short = {name: one["updates"] for name, one in CELLS.items() if one["updates"] < 500}
    assert short.pop("BigBird, 9216") == 283
    assert {name.rpartition(", ")[0] for name in short} == {"T-DMCA, all tokens"}


def test_the_page_says_what_is_kept_and_how_long_the_text_models_learned():
    kept = {CELLS[f"window, {length}"]["kept_bytes"] for length in LENGTHS}
    assert f"A window keeps {one_of(kept) / 1e6:.1f} MB of a paper" in PROSE
    assert CELLS["BigBird, 9216"]["kept_bytes"] == CELLS["T-D, 9216"]["kept_bytes"]
    peak = CELLS["encoder-decoder, 9216"]["peak_bytes"] / 1e9
    assert f"and {peak:.1f} GB since" in PROSE
    text = KEPT["wikitext"]
    assert f"{text['lm']['updates']:,} updates after {text['lm']['trained_s']:.0f} s" in PROSE
    assert f"the masked-word model after {text['mlm']['trained_s']:.0f} s" in PROSE
