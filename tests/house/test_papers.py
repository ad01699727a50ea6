"""The arithmetic of the studies of papers and of WikiText-2, and their page."""

import math

import pytest
import torch

from benchmarks.documents import PIECE, Cut, by_length
from benchmarks.documents_summary import difference
from benchmarks.wikitext import Text, in_cache, perplexity
from regard.decoding import Sentence


class Letters:
    fingerprint = "letters"

    def __len__(self):
        return 30

    def encode_all(self, texts):
        return [list(range(len(text))) for text in texts]


@pytest.mark.parametrize(
    ("n_tokens", "kept"),
    [(9, 9), (PIECE, PIECE), (2 * PIECE + 5, 2 * PIECE), (5 * PIECE, 4 * PIECE)],
)
def test_a_paper_keeps_a_whole_number_of_pieces_its_end_counted(n_tokens, kept):
    cut = Cut(Letters(), 4 * PIECE)
    (ids,) = cut.encode_all(["x" * (n_tokens - 1)])
    assert ids == list(range(kept - 1))
    assert (cut.fingerprint, len(cut)) == ("letters", 30)


def test_papers_of_one_length_are_together_the_longest_first():
    sentences = [Sentence([5] * n) for n in (2, 3, 2, 4)]
    assert by_length(sentences) == [[3], [1], [0, 2]]


def _text(n_words=2300, n_kinds=7):
    draws = torch.Generator().manual_seed(3)
    states = torch.nn.functional.normalize(torch.randn(n_words, 5, generator=draws), dim=-1)
    words = torch.randint(n_kinds, (n_words,), generator=draws)
    return Text(torch.rand(n_words, generator=draws, dtype=torch.float64), states, words)


@pytest.mark.parametrize("place", [0, 1, 40, 1000, 1031, 2299])
def test_the_cache_weighs_the_words_before_and_no_others(place):
    text, size = _text(), 1030
    first = max(0, place - size)
    likes = (6.0 * text.states[place] @ text.states[first:place].T).double()
    weights = likes.softmax(-1)
    want = weights[text.words[first:place] == text.words[place]].sum()
    assert in_cache(text, 6.0, size)[place].item() == pytest.approx(want.item(), abs=1e-6)


def test_a_cache_with_no_share_changes_nothing_and_one_that_knows_helps():
    text = _text(50)
    plain = perplexity(text)
    assert plain == pytest.approx(math.exp(text.nats.mean().item()))
    assert perplexity(text, in_cache(text, 6.0), 0.0) == pytest.approx(plain)
    assert perplexity(text, torch.ones_like(text.nats), 0.5) < plain


def test_a_difference_has_the_error_of_its_mean():
    found = difference([1.0, 2.0, 6.0], [1.0, 1.0, 1.0])
    assert found == {"mean": 2.0, "error": pytest.approx(math.sqrt(7 / 3))}
