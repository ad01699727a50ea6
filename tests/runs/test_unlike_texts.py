"""Texts that are unlike all that a run learned from, and how that is judged."""

import shutil

import pytest

from regard.data import Example
from regard.data.corpus import write_corpus
from regard.runs.trained import load
from regard.runs.unlike_texts import familiar_rows, unlike_note
from tests.captioning import trained_captioner
from tests.factories import make_run

LEARNED = tuple(f"the {one} dog ate the {two} food" for one in "abcd" for two in "efgh")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that keeps its texts as numbers."""
    run = make_run(
        tmp_path_factory.mktemp("unlike") / "run", *LEARNED, "a zebra x", kind="words", max_len=48
    )
    found = load(run, device="cpu")
    subwords = found.loaded.source, found.loaded.target
    for split in ("train", "valid"):
        examples = [Example(text, (text,)) for text in LEARNED]
        write_corpus(run / "corpus" / split, examples, *subwords)
    return found


def test_a_text_of_the_kind_that_was_learned_is_familiar(trained):
    familiar = familiar_rows(trained)
    assert unlike_note(trained, familiar, "the a dog ate the h food") is None
    assert familiar.usual == 0.0


def test_a_text_whose_neighbours_never_met_is_unlike_and_the_note_counts_them(trained):
    text = "food zebra dog a x the"
    familiar = familiar_rows(trained)
    note = unlike_note(trained, familiar, text)
    source = trained.loaded.source
    learned = {
        tuple(ids[i : i + 3])
        for one in LEARNED
        for ids in [[*source.encode(one), 2]]
        for i in range(len(ids) - 2)
    }
    ids = [*source.encode(text), 2]
    rows = [tuple(ids[i : i + 3]) for i in range(len(ids) - 2)]
    share = sum(row not in learned for row in rows) / len(rows)
    assert share > 0.5
    assert note.startswith(f"Unlike all training texts: {share:.0%} of its rows of 3")
    assert "at most 0% in 95 of 100 validation texts" in note


def test_a_text_in_unknown_characters_is_unlike_without_any_corpus(trained, tmp_path):
    run = shutil.copytree(trained.home, tmp_path / "run")
    shutil.rmtree(run / "corpus")
    alone = load(run, device="cpu")
    assert familiar_rows(alone) is None
    assert unlike_note(alone, None, "the a dog") is None
    assert "has no piece for 100% of its characters" in unlike_note(alone, None, "жук")


def test_pictures_are_not_judged(tmp_path):
    assert familiar_rows(load(trained_captioner(tmp_path / "pictures"), device="cpu")) is None
