"""Normalisers: one form for texts of two makes, and the word that every word came from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import JsonLines, ParallelFiles, Shards, TabSeparated
from regard.data.normalisation import NORMALISERS, europarl, hansards
from regard.errors import RecipeError, UnknownChoice
from regard.recipes.recipe import parse_recipe

RAW_AND_GOLD = {
    "Ma question s'adresse au ministre.": "ma question se adresse à le ministre .",
    "C'est l'ordre des deputes.": "Ce est le ordre de les députés .",
    "Qu'est-ce qu'aujourd'hui? Jusqu'ici.": "que est - ce que aujourd' hui ? jusque ici .",
    "Le bill C-19 est au-dessus.": "le bill C - 19 est au - dessus .",
    "Que se passe-t-il?": "que se passe il ?",
    "S'il y a quelqu'un, l'on s'arrete...": "se il y a quelque un , le on se arrête ...",
    "M. Baldwin et l'hon. Mme Roy": "M. Baldwin et le hon. Mme Roy",
    "The hon. member's motion No. 1.": "the hon. member 's motion No. 1 .",
    "Mr. Speaker, it is 6.42 p.m.": "Mr. Speaker , it is 6.42 p.m.",
    "They cost $1,122,000-a lot!": "they cost $ 1,122,000 -- a lot !",
    "``Let's try it'' they say": "« let 's try it » they say",
    "Prud'homme at two o'clock, the PT7": "prud'homme at two o'clock , the PT7",
}
"""A text as the training files write it, and as the gold alignments do."""

RAW_AND_EUROPARL = {
    "Herr Präsident, ich weiß, daß der EU-Haushalt groß ist!":
        "herr präsident , ich weiß , dass der eu-haushalt groß ist !",
    "„Das ist’s“, sagte Mr. Ott.": '" das ist \'s " , sagte mr ott .',
    "We don't, can't and won't; let's see.": "we do not , cannot and will not ; let us see .",
    "I'm sure they're right: we've tried, we'll see.":
        "i am sure they are right : we have tried , we will see .",
    "Tom's friend said he'd come—perhaps.": "tom 's friend said he 'd come - perhaps .",
    "It cost 1,250,000 euros in 2006.": "it cost 1 250 000 euros in 2006 .",
    "Das waren 10.000 Euro um 2.30 Uhr...": "das waren 10 000 euro um 2.30 uhr ...",
    "A six-year period, at 6:45 p.m. on the 25th.":
        "a six-year period , at 6:45 p.m. on the 25th .",
}  # fmt: skip
"""A text as it is typed, and as the gold alignments of Europarl write it."""

PARTS = [
    "a",
    "n",
    "t",
    "d",
    "s",
    "ca",
    "let",
    "ß",
    "au",
    "du",
    "no",
    "qu",
    "hui",
    "aujourd",
    "mr",
    "é",
    "œ",
    "«",
]
SIGNS = ["'", "''", "`", "-", "--", ".", "..", "…", ",", "5", "½", "—", "000", " ", "  "]
TEXTS = st.lists(st.sampled_from([*PARTS, *SIGNS]), max_size=12).map("".join)


@pytest.mark.parametrize(("raw", "gold"), RAW_AND_GOLD.items(), ids=range(len(RAW_AND_GOLD)))
def test_what_two_people_wrote_in_two_ways_has_one_form(raw, gold):
    assert hansards(raw).words == hansards(gold).words


@pytest.mark.parametrize("gold", RAW_AND_GOLD.values(), ids=range(len(RAW_AND_GOLD)))
def test_a_text_in_the_form_of_the_gold_keeps_its_words_one_by_one(gold):
    assert hansards(gold).origins == tuple(range(len(gold.split())))


@pytest.mark.parametrize(
    ("raw", "gold"), RAW_AND_EUROPARL.items(), ids=range(len(RAW_AND_EUROPARL))
)
def test_typed_english_and_german_take_the_form_of_europarl(raw, gold):
    assert europarl(raw).text == gold
    assert europarl(gold).origins == tuple(range(len(gold.split())))


@pytest.mark.parametrize("name", NORMALISERS)
@given(text=TEXTS)
def test_a_normaliser_changes_nothing_twice(name, text):
    once = NORMALISERS[name](text)
    assert NORMALISERS[name](once.text).words == once.words


@pytest.mark.parametrize("name", NORMALISERS)
@given(text=st.one_of(TEXTS, st.text()))
def test_words_are_in_the_order_of_the_words_they_came_from(name, text):
    found = NORMALISERS[name](text)
    assert len(found.words) == len(found.origins)
    assert list(found.origins) == sorted(found.origins)
    assert set(found.origins) <= set(range(len(text.split())))
    assert all(word.split() == [word] for word in found.words)


def test_every_word_names_the_word_it_came_from():
    found = hansards("Au moins l'hon. député n'a-t-il rien dit?")
    assert found.text == "a le moins le hon. depute ne a il rien dit ?"
    assert found.origins == (0, 0, 1, 2, 2, 3, 4, 4, 4, 5, 6, 6)


def test_accents_case_and_quotes_of_every_make_are_alike():
    assert hansards("ÉLÈVE “Élève” ‘x’ Œuvre").text == "eleve \" eleve \" ' x ' oeuvre"


def test_german_letters_and_compounds_stay_and_a_mark_at_the_start_of_a_file_does_not():
    found = europarl("\ufeffMaßnahmen für Müller-Lüdenscheidts Größe")
    assert found.words == ("maßnahmen", "für", "müller-lüdenscheidts", "größe")


def test_a_dash_between_words_parts_them_and_a_hyphen_does_not():
    assert europarl("so—so, so-so").text == "so - so , so-so"


def test_what_english_contracts_names_the_word_it_came_from():
    found = europarl("We shan't pay 10,000.")
    assert found.words == ("we", "shall", "not", "pay", "10", "000", ".")
    assert found.origins == (0, 1, 1, 2, 3, 3, 3)


def test_a_no_ends_a_sentence_unless_a_figure_follows():
    assert hansards("I say no. No. 5 is no.").text == "i say no . no. 5 is no ."


def test_readers_give_both_sides_in_the_form_asked_for(tmp_path):
    (tmp_path / "a.en").write_text("It's so.\n")
    (tmp_path / "a.fr").write_text("C'est vrai.\n")
    (tmp_path / "a.tsv").write_text("It's so.\tC'est vrai.\tC'est ça.\n")
    (tmp_path / "a.jsonl").write_text('{"source": "It\'s so.", "target": "C\'est vrai."}\n')
    pair = ("it 's so .", "ce est vrai .")
    files = ParallelFiles(tmp_path / "a.en", (tmp_path / "a.fr",), normalise="hansards")
    tabs = TabSeparated(tmp_path / "a.tsv", normalise="hansards")
    shards = Shards(tmp_path, ("en", "fr"), normalise="hansards")
    objects = JsonLines(tmp_path / "a.jsonl", normalise="hansards")
    for reader in (files, objects, tabs, shards):
        for example in reader.examples():
            assert (example.source, example.targets[0]) == pair
    assert next(tabs.examples()).targets[1] == "ce est ca ."
    assert next(TabSeparated(tmp_path / "a.tsv").examples()).source == "It's so."


def test_a_normaliser_nobody_knows_is_a_mistake_of_the_recipe(tmp_path):
    with pytest.raises(UnknownChoice, match="Did you mean 'hansards'"):
        TabSeparated(tmp_path / "a.tsv", normalise="hansard")
    train = {"name": "tsv", "path": "a.tsv", "normalise": "hansard"}
    table = {"data": {"train": train, "valid": train}, "training": {"steps": 1}}
    with pytest.raises(RecipeError, match=r"data\.train.*Did you mean 'hansards'"):
        parse_recipe(table, "here", {})
