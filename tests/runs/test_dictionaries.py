"""Unknown words: what replaces them, the dictionary a run learns, and how it is kept."""

import json
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace

import pytest

import regard
from regard.data import Example
from regard.data.subword_kinds import EOS, UNK, UNKNOWN
from regard.decoding import Greedy, Limits
from regard.errors import RunError, SettingError
from regard.inspecting.capture import attention_of, weights_of
from regard.models.language.rows import ROWS
from regard.runs.dictionaries import dictionary_of, learned_dictionary, read_dictionary
from regard.runs.evaluation import answer
from regard.runs.trained import Request
from regard.tasks.predictions import AnswerOptions
from regard.tasks.word_links import replaced
from tests.factories import TRANSFORMER, make_run

LANGUAGE_MODEL = """\
kind = "language_model"
rows = "{rows}"
d_model = 16
n_heads = 2
d_hidden = 16
n_layers = 2"""
MODELS = [TRANSFORMER, *(LANGUAGE_MODEL.format(rows=rows) for rows in ROWS)]
GREEDY = Greedy(limits=Limits(max_tokens=6))


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", "a b c d e", kind="words")


def _links_one_by_one(trained, source, target):
    """By a pass for this pair alone: what each target word looks at most."""
    loaded = trained.loaded
    maps = attention_of(
        loaded.model, [*loaded.source.encode(source), EOS], loaded.target.encode(target)
    )
    weights = weights_of(maps["cross"]).mean((0, 1))
    words = source.split()
    for row, word in zip(weights, target.split(), strict=False):
        yield words[int(row[: len(words)].argmax())], word


def test_an_unknown_word_is_translated_or_copied_and_one_that_looks_nowhere_stays():
    written = f"the {UNKNOWN} {UNKNOWN} {UNKNOWN} sleeps"
    links = [(0, 0), (1, 1), (2, 2), (0, 4)]
    read = ["der", "Hund", "Ara"]
    assert replaced(written, read, links, {"Hund": "dog", "der": "the"}) == (
        f"the dog Ara {UNKNOWN} sleeps"
    )


@pytest.mark.parametrize("model", MODELS, ids=["transformer", *ROWS])
def test_the_dictionary_has_the_word_that_was_linked_most_often(tmp_path, model):
    trained = regard.load(make_run(tmp_path / "run", "a b c d e", kind="words", model=model))
    pairs = [("a b c", "x b"), ("b zebra", "y y x"), ("c", "c d"), ("a e d b", "z"), ("e", "x x")]
    pairs += [("d c b a e d", "a e"), ("e e a", "b c d a e x"), ("b d", "e d a b"), ("c b", "d")]
    counts = {}
    for source, target in pairs:
        for word, linked in _links_one_by_one(trained, source, target):
            counts.setdefault(word, Counter())[linked] += 1
    found = learned_dictionary(trained, [Example(source, (text,)) for source, text in pairs])
    assert list(found) == sorted(counts)
    for word, linked in found.items():
        most = max(counts[word].values())
        assert linked == min(one for one, count in counts[word].items() if count == most)


def test_empty_texts_and_those_too_long_to_read_teach_nothing(run):
    trained = regard.load(run)
    long = " ".join(["a"] * 64)
    counted = []
    pairs = [Example("", ("a",)), Example("a", ("",)), Example(long, ("a",)), Example("a", (long,))]
    assert learned_dictionary(trained, pairs, each=lambda: counted.append(1)) == {}
    assert len(counted) == 4


def with_unknown(model, sentences, *, device="cpu"):
    """A search whose answers have unknown words, for which nobody can wish."""
    begun = [replace(one, prefix=(UNK, *one.prefix, UNK)) for one in sentences]
    return GREEDY(model, begun, device=device)


def test_predictions_have_no_unknown_words_and_are_otherwise_the_same(run):
    trained = regard.load(run)
    asked = [Request("a zebra c", prefix="b"), Request("e d gnu")]
    known = {"a": "A", "zebra": "Z"}
    for said, plain in zip(
        trained.predict(asked, search=with_unknown, dictionary=known),
        trained.predict(asked, search=with_unknown, has_alignments=True),
        strict=True,
    ):
        links = {int(t): int(s) for s, t in (one.split("-") for one in plain.alignment.split())}
        read, written = said.source.split(), plain.text.split(" ")
        assert UNKNOWN in written
        wanted = [
            known.get(read[links[i]], read[links[i]]) if word == UNKNOWN else word
            for i, word in enumerate(written)
        ]
        assert said.text == said.n_best[0].text == " ".join(wanted)
        assert UNKNOWN not in said.text
        assert (said.tokens, said.score) == (plain.tokens, plain.score)


def test_a_dictionary_is_learned_once_kept_and_learned_anew_for_other_weights(run):
    trained = regard.load(run)
    shown = []

    def counting(what, total):
        shown.append((what, total))
        return nullcontext(lambda: None)

    found = dictionary_of(trained, counting)
    assert shown == [("learning a dictionary", 40)]
    assert set(found) <= set("abcdefghij")
    written = json.loads((run / "dictionary.json").read_text())
    assert written["words"] == dict(found)
    assert dictionary_of(trained, counting) == found
    assert len(shown) == 1
    written["weights"] = "of another model"
    (run / "dictionary.json").write_text(json.dumps(written))
    assert dictionary_of(trained, counting) == found
    assert len(shown) == 2
    assert read_dictionary(run / "dictionary.json")[0] != "of another model"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[", "it is not JSON"),
        ('{"version": 2, "weights": "x", "words": {}}', "it does not have version 1"),
        ('{"version": 1, "weights": "x", "words": {"a": 1}}', r'\{"a": 1\} is not a pair of words'),
        ('{"version": 1, "weights": "x", "words": {"a": "b c"}}', "is not a pair of words"),
        ('{"version": 1, "weights": "x", "words": {"b": "b", "a": "a"}}', "are not in order"),
    ],
)
def test_a_malformed_dictionary_is_refused(run, content, message):
    (run / "dictionary.json").write_text(content)
    with pytest.raises(RunError, match=rf"{message}.*Delete it, and it is learned again"):
        dictionary_of(regard.load(run))


def test_a_run_of_characters_says_that_it_has_no_unknown_words(tmp_path):
    trained = regard.load(make_run(tmp_path / "letters"))
    said = "of kind characters, which has no unknown words. Leave --replace-unknown out"
    with pytest.raises(SettingError, match=said):
        dictionary_of(trained)
    with pytest.raises(SettingError, match=said):
        answer(trained, ["a"], AnswerOptions(GREEDY, dictionary={}))
