"""A run reads texts in the form of those it learned from: answers, alignments, test texts."""

import re
from dataclasses import replace

import pytest

import regard
from regard.data import Example
from regard.data.normalisation import NORMALISERS
from regard.data.subword_kinds import MASK_PIECE
from regard.decoding import Greedy, Limits
from regard.evaluating import Gold
from regard.models import EncoderSpec
from regard.runs.alignment import align
from regard.runs.trained import Request
from regard.tasks import task_of
from regard.tasks.input_format import form_name
from tests.factories import make_run


def read_text(recipe, text):
    return task_of(recipe).read_text(recipe, text)


def as_trained(recipe, examples):
    return task_of(recipe).as_trained(recipe, examples)


GREEDY = Greedy(limits=Limits(max_tokens=6))
FILLER = EncoderSpec(task="words", d_model=8, n_heads=2, d_hidden=8, n_layers=1)
WORDS = "ce est le avis de le ministre . a la chambre"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The same weights and words: one run reads texts as they are, one in the form of hansards."""
    plain, formed = (tmp_path_factory.mktemp("form") / name for name in ("plain", "formed"))
    for folder in (plain, formed):
        make_run(folder, WORDS, kind="words")
    recipe = (formed / "recipe.toml").read_text()
    train = '{ name = "tsv", path = "train.tsv", normalise = "hansards" }'
    changed = re.sub(r'\{ name = "copy", count = \d+ \}', train, recipe)
    (formed / "recipe.toml").write_text(changed)
    return regard.load(plain), regard.load(formed)


def test_a_text_is_answered_as_its_form_is(runs):
    plain, formed = runs
    assert form_name(plain.loaded.recipe) is None
    assert form_name(formed.loaded.recipe) == "hansards"
    raw, form = "C'est l'avis du ministre.", "ce est le avis de le ministre ."
    said = formed.predict([raw, form, Request(raw, prefix="Est")], search=GREEDY)
    wanted = plain.predict([form, Request(form, prefix="est")], search=GREEDY)
    assert [one.text for one in said] == [wanted[0].text, wanted[0].text, wanted[1].text]
    assert said[0].source == raw
    assert formed.look(raw).target == plain.look(form).target


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("C'est l'[MASK] du ministre.", "ce est le [MASK] de le ministre ."),
        ("C'est l' [MASK] du ministre.", "ce est le [MASK] de le ministre ."),
        ("[MASK] [MASK]", "[MASK] [MASK]"),
        ("Du [MASK][MASK]", "de le [MASK][MASK]"),
        ("  Du  ", "de le"),
        # words that could be taken for one that was hidden
        ("XQ [MASK] xxq ｘq", "xq [MASK] xxq xq"),
        ("x[MASK]q", "x[MASK]q"),
    ],
)
def test_hidden_words_stay_hidden_in_any_form(runs, text, read):
    recipe = runs[1].loaded.recipe
    assert read_text(replace(recipe, model=FILLER), text) == read
    formed = as_trained(replace(recipe, model=FILLER), [Example(text, ("Du",))])
    assert formed == [Example(read, ("de le",))]
    # to a run that knows no hidden words a mark is a text like any other
    assert MASK_PIECE not in read_text(recipe, text)


@pytest.mark.parametrize("name", NORMALISERS)
@pytest.mark.parametrize(
    "text",
    [
        "We go {}.",
        "We go ({}), or „{}“…",
        "{}, it is",
        "The {}'s dog don't; {}n't",
        "{} is here",
        "{} {}",
        "L'{} du non-{} a-t-{} 2 {}2",
        "{}\u0308 {}_{}",
    ],
)
def test_beside_a_hidden_word_a_text_is_read_as_beside_any_word(runs, name, text):
    recipe = runs[0].loaded.recipe
    train = replace(recipe.data.train, settings={"normalise": name})
    recipe = replace(recipe, model=FILLER, data=replace(recipe.data, train=train))
    # no other word of these texts holds it
    wanted = NORMALISERS[name](text.replace("{}", "garden")).text.replace("garden", MASK_PIECE)
    assert wanted.count(MASK_PIECE) == text.count("{}")
    assert read_text(recipe, text.replace("{}", MASK_PIECE)) == wanted


def test_links_lead_to_the_words_of_the_text_as_it_was_given(runs):
    plain, formed = runs
    raw, form = "C'est l'avis du ministre.", "ce est le avis de le ministre ."
    origins = (0, 0, 1, 1, 2, 2, 3, 3)
    said = formed.predict([raw], search=GREEDY, has_alignments=True)[0].alignment
    wanted = plain.predict([form], search=GREEDY, has_alignments=True)[0].alignment
    links = [one.split("-") for one in wanted.split()]
    assert set(said.split()) == {f"{origins[int(s)]}-{t}" for s, t in links}


def test_gold_links_stay_between_the_words_they_were_drawn_between(runs):
    plain, formed = runs
    # nothing is cut here, so that the two runs see the same words
    same = [Example("Ce est le AVIS", ("à la Chambre",)), Example("le ministre", ("le avis",))]
    golds = [Gold(frozenset({(0, 1)})), Gold(frozenset({(1, 1)}))]
    assert align(formed, same, golds) == align(plain, as_trained(formed.loaded.recipe, same), golds)
    cut = [Example("l'avis du ministre", ("C'est vrai",))]
    links = [Gold(frozenset({(s, t) for s in range(3) for t in range(2)}))]
    found = align(formed, cut, links)
    # each of the two target words has one link, to one of the three source words
    assert all(counts.links == 2 for counts in found.table.values())
    assert all(counts.precision == 1 for counts in found.table.values())


def test_a_sentence_is_in_the_same_half_whichever_others_are_scored(runs):
    plain, _ = runs
    examples = [Example("ce est", ("le avis",))] * 5
    golds = [Gold(frozenset({(i % 2, 0), (1, 1)})) for i in range(5)]
    found = align(plain, examples, golds, places=[1, 2, 4])
    assert found.sentences == 3
    assert found.best.reported_on.sure == len(golds[1].sure)
    assert found.best.chosen_on.sure == len(golds[2].sure) + len(golds[4].sure)
    assert align(plain, examples, golds, places=[1, 3]).best is None
    assert align(plain, examples, golds, places=[1, 3]).sentences == 2


def test_test_texts_get_the_form_and_without_a_recipe_none(runs):
    plain, formed = runs
    texts = [Example("C'est", ("L'avis", "Au vote"))]
    assert as_trained(plain.loaded.recipe, texts) == texts
    assert as_trained(formed.loaded.recipe, texts) == [Example("ce est", ("le avis", "a le vote"))]
