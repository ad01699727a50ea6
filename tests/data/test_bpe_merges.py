"""Merging with dropout: as often as the paper's algorithm says, and repeatable."""

import random
from collections import Counter
from itertools import pairwise, product

import pytest

from regard.data.bpe_merges import Dropping, Merging
from regard.data.subwords import Subwords
from regard.errors import SettingError

MERGES = [("a", "b"), ("b", "c"), ("ab", "c"), ("c", "d"), ("abc", "d")]
NUMBERS = {
    piece: i for i, piece in enumerate(["a", "b", "c", "d", "ab", "bc", "abc", "cd", "abcd"])
}


def _chances(pieces, dropout):
    """Every outcome with its probability: each possible merge is drawn for, at every turn."""
    ranks = {pair: rank for rank, pair in enumerate(MERGES)}
    places = [i for i, pair in enumerate(pairwise(pieces)) if pair in ranks]
    out = Counter()
    for left_out in product([True, False], repeat=len(places)):
        chance = 1.0
        for is_out in left_out:
            chance *= dropout if is_out else 1 - dropout
        allowed = [p for p, is_out in zip(places, left_out, strict=True) if not is_out]
        if not allowed:
            out[tuple(pieces)] += chance
            continue
        best = min(allowed, key=lambda p: ranks[pieces[p], pieces[p + 1]])
        merged = [*pieces[:best], pieces[best] + pieces[best + 1], *pieces[best + 2 :]]
        for outcome, rest in _chances(merged, dropout).items():
            out[outcome] += chance * rest
    return out


@pytest.mark.parametrize("dropout", [0.1, 0.4])
def test_every_outcome_is_as_likely_as_the_algorithm_makes_it(dropout):
    merging, draws, count = Merging(MERGES, NUMBERS), random.Random(7), 20_000
    found = Counter(tuple(merging.merged("abcd", dropout, draws)) for _ in range(count))
    expected = _chances(list("abcd"), dropout)
    assert sum(expected.values()) == pytest.approx(1)
    for pieces, chance in expected.items():
        share = found[tuple(NUMBERS[p] for p in pieces)] / count
        assert abs(share - chance) < 5 * (chance * (1 - chance) / count) ** 0.5 + 1e-9
    assert len(found) == len(expected)


def test_encoding_with_dropout_depends_on_seed_and_text_alone():
    subwords = Subwords.train(["the cat sat on the mat", "the dog sat on the log"] * 3, size=300)
    one, other = (subwords.dropping(Dropping(0.4, seed, 99)) for seed in ("1/0", "1/1"))
    texts = ["the cat sat on the log", "the dog", "über", ""]
    cuts = one.encode_all(texts)
    assert one.encode_all(texts[::-1]) == cuts[::-1]
    assert one.encode_all(texts[:1]) == cuts[:1]
    assert other.encode_all(texts) != cuts
    assert [one.decode(ids) for ids in cuts] == texts
    assert cuts != subwords.encode_all(texts)
    assert one.fingerprint == subwords.fingerprint
    assert one.encode(texts[0]) == subwords.encode(texts[0]), "one text is cut plainly"


def test_a_text_of_too_many_pieces_is_cut_plainly():
    subwords = Subwords.train(["the cat sat on the mat"] * 3, size=300)
    plain = subwords.encode("the cat sat")
    dropped = subwords.dropping(Dropping(1.0, "1", 99)).encode_all(["the cat sat"])[0]
    assert len(dropped) == len("the cat sat") > len(plain)
    assert subwords.dropping(Dropping(1.0, "1", 10)).encode_all(["the cat sat"]) == [plain]


def test_a_dropout_that_cannot_be_is_refused_at_once():
    subwords = Subwords.train(["the cat sat"], size=300)
    with pytest.raises(SettingError, match=r"dropout must lie in \[0, 1\]"):
        subwords.dropping(Dropping(1.5, "1", 9))
