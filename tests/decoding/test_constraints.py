"""Constraints: every answer holds its phrases, and sentences without any are unaffected."""

import pytest

from regard.decoding import Beam, Limits, NoPenalty, NoRepeatedNgrams, Sentence
from regard.decoding.constraints import progress
from regard.errors import SettingError
from tests.decoding.test_beam import ranked
from tests.decoding.test_models import MODELS, sentences
from tests.decoding.writers import Table


def holds(tokens, phrase):
    n = len(phrase)
    return any(tuple(tokens[i : i + n]) == tuple(phrase) for i in range(len(tokens) - n + 1))


@pytest.mark.parametrize("width", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_every_answer_holds_its_phrases(width, seed):
    model, limits = Table(9, seed, sharpness=2.0), Limits(max_tokens=9)
    constraints = [((5, 6),), ((7,), (8, 8, 4)), ((5, 6, 5, 7), (6, 5)), ()]
    asked = [Sentence([4 + i], must_contain=phrases) for i, phrases in enumerate(constraints)]
    beam = Beam(width=width, n_best=width, limits=limits, rules=[NoRepeatedNgrams(1)])
    for sentence, found in zip(asked, beam(model, asked), strict=True):
        assert found
        for h in found:
            assert all(holds(h.tokens, phrase) for phrase in sentence.must_contain), h


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_wide_enough_finds_the_best_answer_that_holds_them(seed):
    model, phrases = Table(6, seed, sharpness=2.0), ((3, 4), (5,))
    want = ranked(model, [4], lambda n: 1.0, n_tokens=6, max_tokens=4)
    want = [row for row in want if all(holds(row[1], phrase) for phrase in phrases)]
    beam = Beam(width=400, n_best=4, penalty=NoPenalty(), limits=Limits(max_tokens=4))
    (got,) = beam(model, [Sentence([4], must_contain=phrases)])
    assert [h.tokens for h in got] == [row[1] for row in want[: len(got)]]
    assert [h.score for h in got] == pytest.approx([row[0] for row in want[:4]], abs=1e-5)


def test_a_sentence_without_constraints_is_searched_as_ever():
    model, asked = Table(9, 5), [Sentence([4 + i]) for i in range(4)]
    beam = Beam(width=3, n_best=3, limits=Limits(max_tokens=7))
    among = beam(model, [*asked, Sentence([8], must_contain=[[4, 5]])])
    for got, want in zip(among, beam(model, asked), strict=False):
        assert [h.tokens for h in got] == [h.tokens for h in want]
        assert [h.score for h in got] == pytest.approx([h.score for h in want], abs=1e-5)


@pytest.mark.parametrize("name", ["transformer post_norm", "language model pre_norm"])
def test_constraints_and_prefixes_are_met_together_in_any_model(name):
    model, limits = MODELS[name](), Limits(max_tokens=8, min_tokens=4)
    asked = [
        Sentence(s.source, prefix=[5, 6][: i % 3], must_contain=[[7, 4], [9]])
        for i, s in enumerate(sentences(5))
    ]
    answers = Beam(width=3, n_best=2, limits=limits)(model, asked)
    for sentence, found in zip(asked, answers, strict=True):
        for h in found:
            assert list(h.tokens[: len(sentence.prefix)]) == sentence.prefix
            assert holds(h.tokens, (7, 4))
            assert holds(h.tokens, (9,))
            assert 4 <= len(h.tokens) <= 8


def test_progress_counts_what_is_held_and_what_is_begun():
    phrases = [(4, 5, 6), (5, 7)]
    assert progress([], phrases)[:2] == (0, 5)
    assert progress([4, 5], phrases) == (2, 3, {6, 7})
    assert progress([4, 5, 6], phrases) == (3, 2, {5})
    assert progress([4, 5, 7, 4], phrases) == (3, 2, {5})
    assert progress([4, 4, 5, 6, 5, 7], phrases) == (5, 0, frozenset())


def test_constraints_that_cannot_fit_are_refused():
    with pytest.raises(
        SettingError, match="take up to 4 tokens, but the answer may have 3 at most"
    ):
        Beam(limits=Limits(max_tokens=3))(
            Table(9), [Sentence([4], prefix=[5], must_contain=[[6, 7, 8]])]
        )
    with pytest.raises(
        SettingError, match="must_contain holds token 2, which is padding, begin or"
    ):
        Sentence([4], must_contain=[[5, 2]])
    with pytest.raises(SettingError, match="must_contain holds an empty phrase"):
        Sentence([4], must_contain=[[]])
