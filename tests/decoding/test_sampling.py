"""Sampling: draws come as often as they should, from where they may, and always the same way."""

import math

import pytest
import torch

from regard.decoding import Limits, Sampling, Sentence
from regard.errors import SettingError
from tests.decoding.writers import Table

N = 4000
ONE = Limits(max_tokens=1)


def drawn(**settings):
    """How often each token was drawn, and what the model says of it."""
    model = Table(12, 7, sharpness=1.5)
    (found,) = Sampling(n_samples=N, limits=ONE, **settings)(model, [Sentence([4])])
    counts = torch.zeros(12, dtype=torch.float64)
    for h in found:
        counts[h.tokens[0] if h.tokens else 2] += 1
    own = model.logits([4], []).log_softmax(-1)
    own[:2] = -torch.inf
    return counts, own


def chi_square(counts, p):
    """How surprising the counts are; its mean is the number of tokens less one."""
    seen = p > 0
    assert not counts[~seen].any()
    want = p[seen] / p[seen].sum() * counts.sum()
    return float(((counts[seen] - want) ** 2 / want).sum()), int(seen.sum()) - 1


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_the_model_says(temperature):
    counts, own = drawn(temperature=temperature)
    surprise, free = chi_square(counts, (own / temperature).softmax(-1))
    assert surprise < free + 4 * math.sqrt(2 * free)


def test_another_temperature_would_be_noticed():
    counts, own = drawn(temperature=1.3)
    surprise, free = chi_square(counts, own.softmax(-1))
    assert surprise > free + 8 * math.sqrt(2 * free)


def test_only_the_likeliest_are_drawn():
    counts, own = drawn(top_k=3)
    p = own.softmax(-1).where(own >= own.sort().values[-3], 0.0)
    surprise, free = chi_square(counts, p)
    assert free == 2
    assert surprise < free + 4 * math.sqrt(2 * free)


def test_the_nucleus_is_the_fewest_tokens_that_are_likely_enough():
    counts, own = drawn(top_p=0.7)
    p = own.softmax(-1)
    order = p.sort(descending=True)
    n = int((order.values.cumsum(0) < 0.7).sum()) + 1
    assert order.values[:n].sum() >= 0.7 > order.values[: n - 1].sum()
    kept = torch.zeros_like(p)
    kept[order.indices[:n]] = order.values[:n]
    surprise, free = chi_square(counts, kept)
    assert surprise < free + 4 * math.sqrt(2 * free)


def test_a_low_temperature_is_greedy():
    counts, own = drawn(temperature=1e-3)
    assert counts[own.argmax()] == N


def test_a_seed_says_everything():
    model, asked = Table(9), [Sentence([4 + i % 3], seed=i) for i in range(6)]
    search = Sampling(n_samples=2, limits=Limits(max_tokens=8))
    once = search(model, asked)
    assert once == search(model, asked)
    assert once != Sampling(n_samples=2, seed=1, limits=Limits(max_tokens=8))(model, asked)
    texts = {h.tokens for row in once for h in row}
    assert len(texts) > 6, "sentences and samples draw on their own"
    longer = Sampling(n_samples=2, limits=Limits(max_tokens=11))(model, asked)
    for row, further in zip(once, longer, strict=True):
        for h, other in zip(row, further, strict=True):
            assert other.tokens[: len(h.tokens)] == h.tokens


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"temperature": 0.0}, r"temperature must be above 0, got 0\.0"),
        ({"top_k": 0}, "top_k must be at least 1, got 0"),
        ({"top_p": 1.5}, r"top_p must lie in \(0, 1\], got 1\.5"),
        ({"n_samples": 0}, "n_samples must be at least 1, got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, text):
    with pytest.raises(SettingError, match=text):
        Sampling(**settings)
