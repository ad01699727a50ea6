"""Beam search: wide enough, it finds what looking at every answer finds."""

import math

import pytest
import torch

from regard.decoding import (
    AveragePenalty,
    Beam,
    Forbidden,
    GnmtPenalty,
    Greedy,
    Limits,
    NoPenalty,
    Sentence,
)
from regard.decoding.token_scores import largest
from regard.errors import SettingError
from tests.decoding.writers import Table
from tests.oracles.decoding import answers, paper_divisor

DIVISORS = {
    "none": (NoPenalty(), lambda n: 1.0),
    "paper": (GnmtPenalty(0.6), lambda n: paper_divisor(n, 0.6)),
    "strong": (GnmtPenalty(1.5), lambda n: paper_divisor(n, 1.5)),
    "average": (AveragePenalty(), lambda n: n),
}


def ranked(model, source, divisor, *, n_tokens, max_tokens, min_tokens=0):
    """Every answer, best first."""
    found = [
        (total / divisor(len(tokens) + has_ended), tokens, has_ended, total)
        for tokens, has_ended, total in answers(
            lambda written: model.log_probs(source, written), n_tokens, max_tokens, min_tokens
        )
    ]
    return sorted(found, reverse=True)


@pytest.mark.parametrize("penalty", DIVISORS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n_tokens", "max_tokens"), [(5, 4), (6, 3)])
def test_a_beam_wide_enough_finds_the_best_answers_there_are(penalty, seed, n_tokens, max_tokens):
    model, (object_, divisor) = Table(n_tokens, seed, sharpness=1.0 + seed), DIVISORS[penalty]
    source = [3, 4][: 1 + seed % 2]
    want = ranked(model, source, divisor, n_tokens=n_tokens, max_tokens=max_tokens)
    beam = Beam(width=len(want), n_best=5, penalty=object_, limits=Limits(max_tokens=max_tokens))
    (got,) = beam(model, [Sentence(source)])
    assert [(h.tokens, h.has_ended) for h in got] == [row[1:3] for row in want[:5]]
    assert [h.score for h in got] == pytest.approx([row[0] for row in want[:5]], abs=1e-5)
    assert [h.log_probability for h in got] == pytest.approx([row[3] for row in want[:5]], abs=1e-5)


@pytest.mark.parametrize("penalty", DIVISORS)
def test_stopping_early_changes_nothing(penalty):
    object_, divisor = DIVISORS[penalty]
    for seed in range(8):
        model = Table(6, seed, sharpness=2.5)
        beam = Beam(width=3, n_best=2, penalty=object_, limits=Limits(max_tokens=9))
        got = beam(model, [Sentence([3, seed % 3 + 3])])
        assert [(h.tokens, pytest.approx(h.score, abs=1e-5)) for h in got[0]] == slowly(
            model, [3, seed % 3 + 3], 3, 2, divisor, 9
        )


def slowly(model, source, width, n_best, divisor, max_tokens):
    """The same search in plain lists, to the very end."""
    *_, (_, ended) = steps_of(model, source, width, divisor, max_tokens)
    best = sorted(ended, reverse=True)[:n_best]
    return [(tuple(y for y in tokens if y != 2), score) for score, tokens in best]


def steps_of(model, source, width, divisor, max_tokens):
    """What lives and what has ended after each step of a search that never stops early."""
    live, ended = [((), 0.0)], []
    for t in range(1, max_tokens + 1):
        found = []
        for tokens, total in live:
            here = model.log_probs(source, tokens)
            found += [((*tokens, y), total + here[y]) for y in range(2, len(here))]
        found = sorted(found, key=lambda row: -row[1])[: width - len(ended)]
        over = [row for row in found if row[0][-1] == 2 or t == max_tokens]
        ended += [(total / divisor(t), tokens) for tokens, total in over]
        live = [row for row in found if row not in over]
        yield list(live), list(ended)


class Counted(Table):
    """Counts its steps."""

    n_steps = 0

    def step(self, state, tokens):
        self.n_steps += 1
        return super().step(state, tokens)


@pytest.mark.parametrize("n_best", [1, 2])
@pytest.mark.parametrize("penalty", DIVISORS)
def test_a_search_stops_as_soon_as_no_living_hypothesis_can_win_and_no_sooner(penalty, n_best):
    object_, divisor = DIVISORS[penalty]
    counts = []
    for seed in range(8):
        model = Counted(6, seed, sharpness=2.5)
        beam = Beam(width=3, n_best=n_best, penalty=object_, limits=Limits(max_tokens=9))
        beam(model, [Sentence([3, 4])])
        want = 0
        for live, ended in steps_of(Table(6, seed, sharpness=2.5), [3, 4], 3, divisor, 9):
            want += 1
            kept = sorted((score for score, _ in ended), reverse=True)[:n_best]
            hope = max((total / divisor(9) for _, total in live), default=-math.inf)
            if not live or (len(kept) == n_best and hope <= kept[-1]):
                break
        assert model.n_steps == want
        counts.append(want)
    assert min(counts) < 9, "some search should stop early"


class Scripted(Counted):
    """Ends at once with probability 0.6, or goes a sure way of five tokens with 0.3."""

    def logits(self, source, written):
        p = torch.full((6,), 1e-9, dtype=torch.float64)
        if not written:
            p[2], p[3], p[4] = 0.6, 0.3, 0.1
        else:
            p[2 if len(written) == 5 else written[0]] = 1.0
        return p.log()


def test_a_longer_answer_may_still_win_when_it_lives_behind_a_finished_one():
    beam = Beam(width=2, penalty=AveragePenalty(), limits=Limits(max_tokens=9))
    (found,) = beam(Scripted(6), [Sentence([3])])
    assert found[0].tokens == (3, 3, 3, 3, 3)
    short = Beam(width=2, penalty=NoPenalty(), limits=Limits(max_tokens=9))
    assert short(Scripted(6), [Sentence([3])])[0][0].tokens == ()


def test_a_search_with_nothing_left_alive_stops_though_answers_are_missing():
    model = Counted(6)
    beam = Beam(width=3, n_best=3, limits=Limits(max_tokens=9), rules=[Forbidden([3, 4, 5])])
    (found,) = beam(model, [Sentence([3])])
    assert [h.tokens for h in found] == [()]
    assert model.n_steps == 1


@pytest.mark.parametrize("penalty", DIVISORS)
@pytest.mark.parametrize("seed", range(10))
def test_a_beam_of_one_is_greedy(penalty, seed):
    model, limits = Table(7, seed, sharpness=2.0), Limits(max_tokens=12, min_tokens=seed % 3)
    sentences = [Sentence([3 + i, 4]) for i in range(4)]
    narrow = Beam(width=1, penalty=DIVISORS[penalty][0], limits=limits)(model, sentences)
    for (one,), (other,) in zip(narrow, Greedy(limits=limits)(model, sentences), strict=True):
        assert one.tokens == other.tokens
        assert one.token_log_probabilities == pytest.approx(other.token_log_probabilities)


def test_answers_are_distinct_and_the_best_comes_first():
    model, sentences = Table(9, 1), [Sentence([3 + i]) for i in range(5)]
    for row in Beam(width=8, n_best=8, limits=Limits(max_tokens=6))(model, sentences):
        assert len(row) == 8
        assert len({h.tokens for h in row}) == 8
        assert [h.score for h in row] == sorted((h.score for h in row), reverse=True)


def test_the_log_probabilities_of_the_tokens_are_the_model_s():
    model, source = Table(9, 3), [5, 6]
    beam = Beam(width=4, n_best=4, limits=Limits(max_tokens=6))
    for h in beam(model, [Sentence(source)])[0]:
        written = [*h.tokens, *([2] if h.has_ended else [])]
        want = [model.log_probs(source, written[:t])[y] for t, y in enumerate(written)]
        assert h.token_log_probabilities == pytest.approx(want, abs=1e-5)
        assert h.log_probability == pytest.approx(sum(want), abs=1e-5)
        assert h.score == pytest.approx(sum(want) / paper_divisor(len(written), 0.6), abs=1e-5)


def test_limits_hold_for_each_sentence_alone():
    model = Table(8, 4)
    limits = Limits(min_tokens=2, max_tokens=7, beyond_source=2)
    for n, row in enumerate(
        Beam(width=4, n_best=4, limits=limits)(model, [Sentence([3] * n) for n in range(1, 9)]), 1
    ):
        lengths = {len(h.tokens) for h in row}
        assert min(lengths) >= 2
        assert max(lengths) <= min(7, n + 2)
        assert all(h.has_ended for h in row if len(h.tokens) < min(7, n + 2))


def test_a_beam_narrower_than_its_answers_is_refused():
    with pytest.raises(SettingError, match=r"width < 2,147,483,648, got n_best = 5"):
        Beam(width=4, n_best=5)
    with pytest.raises(SettingError, match=r"width < 2,147,483,648, got n_best = 1"):
        Beam(width=10**20)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"max_tokens": 0}, "max_tokens = 0"),
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens = 5 and max_tokens = 4"),
        ({"beyond_source": 0}, "beyond_source must be at least 1, got 0"),
    ],
)
def test_limits_that_contradict_themselves_are_refused(settings, text):
    with pytest.raises(SettingError, match=text):
        Limits(**settings)


def test_an_alpha_that_rewards_improbability_is_refused():
    with pytest.raises(SettingError, match=r"alpha must lie in \[0, 2\], got -1\.0"):
        GnmtPenalty(-1.0)


def test_the_best_tokens_are_found_in_any_vocabulary():
    for n in (3, 64, 1000, 1024, 1100, 4097):
        scores = torch.randn(5, n)
        for count in (1, 3, 4):
            values, at = largest(scores, count)
            want = scores.topk(min(count, n))
            assert torch.equal(values, want.values)
            assert torch.equal(at, want.indices)
