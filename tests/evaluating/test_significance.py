"""Both tests find what is there and nothing that is not."""

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from regard.errors import SettingError, ShapeError
from regard.evaluating import MetricScore, Resampling, compare_pair, score_interval
from regard.evaluating.accuracy import measured_exact_match
from regard.evaluating.metrics import RESAMPLED_METRICS
from regard.evaluating.sacrebleu_metrics import measured_chrf
from regard.evaluating.score import MeasuredScore

QUICK = Resampling(samples=200, trials=500)
CHANCE = np.random.default_rng(3)
WORDS = [f"w{n}" for n in range(40)]
REFERENCES = [[" ".join(CHANCE.choice(WORDS, size=8))] for _ in range(60)]


def _spoilt(share, seed):
    chance = np.random.default_rng(seed)
    return [
        " ".join(word if chance.random() > share else "x" for word in text.split())
        for [text] in REFERENCES
    ]


GOOD, BAD, LIKE_BAD = _spoilt(0.1, 0), _spoilt(0.5, 1), _spoilt(0.5, 2)


@pytest.mark.parametrize("name", RESAMPLED_METRICS)
def test_a_system_does_not_differ_from_itself(name):
    one = RESAMPLED_METRICS[name](BAD, REFERENCES, None)
    found = compare_pair(one, one, QUICK)
    assert (found.p_bootstrap, found.p_randomisation) == (1, 1)
    assert (found.value, found.wins, found.is_better) == (0, 0, False)
    assert (found.interval.low, found.interval.high) == (0, 0)


@pytest.mark.parametrize("name", RESAMPLED_METRICS)
def test_a_much_better_system_is_better_by_every_measure(name):
    first, second = (RESAMPLED_METRICS[name](texts, REFERENCES, None) for texts in (BAD, GOOD))
    found = compare_pair(first, second, QUICK)
    assert found.p_bootstrap == pytest.approx(1 / 201)
    assert found.p_randomisation == pytest.approx(1 / 501)
    assert found.wins == 1
    assert found.is_better
    assert found.interval.low * found.interval.high > 0


def test_two_draws_of_one_system_do_not_differ_surely():
    first, second = (measured_chrf(texts, REFERENCES) for texts in (BAD, LIKE_BAD))
    found = compare_pair(first, second, QUICK)
    assert min(found.p_bootstrap, found.p_randomisation) > 0.05
    assert found.interval.low < 0 < found.interval.high


def test_changing_places_changes_only_the_sign():
    first, second = (measured_chrf(texts, REFERENCES) for texts in (BAD, LIKE_BAD))
    there, back = compare_pair(first, second, QUICK), compare_pair(second, first, QUICK)
    assert there.value == -back.value
    assert there.interval.low == pytest.approx(-back.interval.high)
    assert there.p_bootstrap == back.p_bootstrap
    assert there.p_randomisation == back.p_randomisation
    assert there.wins == pytest.approx(1 - back.wins, abs=0.01)


def test_randomisation_finds_the_p_value_that_counting_all_swaps_gives():
    # five sentences, three of them right only in the second system: of the 32 ways to swap, the
    # difference is as large as the real one when all three go the same way, in 8 ways
    references = [["r"]] * 5
    first = measured_exact_match(["r", "x", "x", "x", "x"], references)
    second = measured_exact_match(["r", "r", "r", "r", "x"], references)
    found = compare_pair(first, second, Resampling(samples=10, trials=20_000))
    assert found.value == pytest.approx(60)
    assert found.p_randomisation == pytest.approx(8 / 32, abs=0.01)


def test_the_bootstrap_interval_of_a_share_is_the_binomial_one():
    texts = ["r"] * 60 + ["x"] * 40
    found = score_interval(measured_exact_match(texts, [["r"]] * 100), Resampling(samples=4000))
    assert found.low == pytest.approx(60 - 1.96 * 4.9, abs=1)
    assert found.high == pytest.approx(60 + 1.96 * 4.9, abs=1)


def test_the_spread_is_sacrebleu_s():
    metric, streams = sacrebleu.BLEU(force=True), [[text for [text] in REFERENCES]]
    theirs = metric.corpus_score(BAD, streams, n_bootstrap=1000)
    ours = score_interval(RESAMPLED_METRICS["BLEU"](BAD, REFERENCES, None))
    assert (ours.high - ours.low) / 2 == pytest.approx(theirs._ci, rel=0.15)


def test_randomisation_agrees_with_sacrebleu_s():
    metrics = {"BLEU": sacrebleu.BLEU(force=True, references=[[text for [text] in REFERENCES]])}
    systems = [("first", BAD), ("second", LIKE_BAD)]
    _, theirs = PairedTest(systems, metrics, None, test_type="ar", n_samples=4000)()
    pair = [RESAMPLED_METRICS["BLEU"](texts, REFERENCES, None) for texts in (BAD, LIKE_BAD)]
    ours = compare_pair(*pair, Resampling(samples=1, trials=4000))
    assert ours.p_randomisation == pytest.approx(theirs["BLEU"][1].p_value, abs=0.04)


def test_a_seed_gives_the_same_numbers_again_and_another_gives_others():
    pair = [RESAMPLED_METRICS["BLEU"](texts, REFERENCES, None) for texts in (BAD, LIKE_BAD)]
    one = compare_pair(*pair, QUICK)
    assert compare_pair(*pair, QUICK) == one
    assert compare_pair(*pair, Resampling(samples=200, trials=500, seed=2)) != one


def test_lower_is_better_where_it_is():
    def edits(values):
        score = MetricScore("edits", float(sum(values)), "")
        return MeasuredScore(score, np.array(values)[:, None], lambda total: float(total[0]), False)

    found = compare_pair(edits([5.0] * 20), edits([1.0] * 20), QUICK)
    assert found.value == -80
    assert found.is_better
    assert found.wins == 1


def test_a_wrong_pair_and_wrong_settings_are_refused():
    one = measured_exact_match(["a"], [["a"]])
    with pytest.raises(ShapeError, match="got exact match on 1 and exact match on 2"):
        compare_pair(one, measured_exact_match(["a", "b"], [["a"], ["b"]]))
    with pytest.raises(ShapeError, match="got exact match on 1 and chrF2 on 1"):
        compare_pair(one, measured_chrf(["a"], [["a"]]))
    with pytest.raises(SettingError, match="at least 1, got 0 and 10000"):
        Resampling(samples=0)
    with pytest.raises(SettingError, match="seed must be at least 0, got -1"):
        Resampling(seed=-1)
    with pytest.raises(SettingError, match="between 0 and 1, got 95"):
        Resampling(confidence=95.0)
