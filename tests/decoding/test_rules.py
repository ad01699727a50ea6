"""Rules: what is forbidden is absent, what is forced is there, and the model's own word is kept."""

import pytest
import torch

from regard.decoding import (
    Beam,
    Forbidden,
    Greedy,
    Limits,
    NoPenalty,
    NoRepeatedNgrams,
    RepetitionPenalty,
    Sampling,
    Sentence,
)
from regard.decoding.rules import GeneratedTokens
from regard.errors import SettingError
from tests.decoding.writers import Table

LIMITS = Limits(max_tokens=14)
ASKED = [Sentence([4 + i], seed=i) for i in range(4)]


def searches(*rules, limits=LIMITS):
    return [
        Greedy(limits=limits, rules=rules),
        Beam(width=4, n_best=4, limits=limits, rules=rules),
        Sampling(n_samples=3, limits=limits, rules=rules),
    ]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_ngram_comes_twice(size):
    model = Table(5 + size, 2)
    for search in searches(NoRepeatedNgrams(size)):
        for h in (h for row in search(model, ASKED) for h in row):
            ngrams = [h.tokens[i : i + size] for i in range(len(h.tokens) - size + 1)]
            assert len(ngrams) == len(set(ngrams))


def test_without_the_rule_they_do():
    texts = [h.tokens for row in searches()[2](Table(6, 2), ASKED) for h in row]
    assert any(len(set(text)) < len(text) for text in texts)


def test_what_is_forbidden_is_absent():
    for search in searches(Forbidden([3, 5])):
        assert not {3, 5} & {y for row in search(Table(8), ASKED) for h in row for y in h.tokens}


def test_a_prefix_is_kept_and_costs_what_the_model_says():
    model = Table(8, 1)
    asked = [Sentence([4], prefix=p) for p in ([], [7], [7, 5, 5], [6, 3])]
    for search in searches():
        for sentence, found in zip(asked, search(model, asked), strict=True):
            for h in found:
                assert list(h.tokens[: len(sentence.prefix)]) == list(sentence.prefix)
                want = [
                    model.log_probs([4], sentence.prefix[:t])[y]
                    for t, y in enumerate(sentence.prefix)
                ]
                assert list(h.token_log_probabilities[: len(want)]) == pytest.approx(want, abs=1e-5)


def test_a_prefix_goes_on_as_the_answer_that_begins_so():
    model, limits = Table(8, 3), Limits(max_tokens=9)
    (free,) = Greedy(limits=limits)(model, [Sentence([4])])[0]
    (forced,) = Greedy(limits=limits)(model, [Sentence([4], prefix=free.tokens[:2])])[0]
    assert forced.tokens == free.tokens
    assert forced.log_probability == pytest.approx(free.log_probability, abs=1e-6)


def test_the_repetition_penalty_multiplies_the_log_probabilities_of_what_was_written():
    scores = torch.randn(2, 7).log_softmax(-1)
    written = GeneratedTokens(torch.tensor([[3, 5, 3], [4, 6, 5]]), torch.arange(2))
    got = RepetitionPenalty(1.5)(scores, written)
    for row, tokens in enumerate([{3, 5}, {4, 5, 6}]):
        for token in range(7):
            times = 1.5 if token in tokens else 1.0
            assert float(got[row, token]) == pytest.approx(float(scores[row, token]) * times)


def test_rules_change_the_score_and_not_the_model_s_own_word():
    model, source = Table(6, 2), [4]
    search = Beam(
        width=2, penalty=NoPenalty(), limits=Limits(max_tokens=6), rules=[RepetitionPenalty(2.0)]
    )
    (h,) = search(model, [Sentence(source)])[0]
    written = [*h.tokens, *([2] if h.has_ended else [])]
    own = [model.log_probs(source, written[:t])[y] for t, y in enumerate(written)]
    pairs = list(zip(written, own, strict=True))
    ruled = [p * (2.0 if y in written[:t] else 1.0) for t, (y, p) in enumerate(pairs)]
    assert h.log_probability == pytest.approx(sum(own), abs=1e-5)
    assert h.score == pytest.approx(sum(ruled), abs=1e-5)


def test_answers_are_as_long_as_they_must_be():
    for search in searches(limits=Limits(min_tokens=5, max_tokens=7)):
        for h in (h for row in search(Table(4, 1), ASKED) for h in row):
            assert 5 <= len(h.tokens) <= 7
            assert h.has_ended == (len(h.token_log_probabilities) == len(h.tokens) + 1)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: RepetitionPenalty(0.9), r"penalty must be at least 1, got 0\.9"),
        (lambda: NoRepeatedNgrams(0), "size must be at least 1, got 0"),
        (lambda: Sentence([4], prefix=[5, 1]), "prefix holds token 1, which is padding, begin or"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make, text):
    with pytest.raises(SettingError, match=text):
        make()
