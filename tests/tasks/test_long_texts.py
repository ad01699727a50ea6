"""Splitting: pieces that fit, cut where sentences end, found without measuring too much."""

import random

import pytest

from regard.tasks.long_texts import in_pieces


def _words(text):
    return len(text.split())


def test_pieces_are_as_long_as_they_may_be_and_end_where_sentences_end():
    text = "One two. Three four five! Six, seven eight nine ten. Eleven"
    assert in_pieces(text, 5, _words) == [
        "One two. Three four five!",
        "Six, seven eight nine ten.",
        "Eleven",
    ]
    assert in_pieces("One two, three four five six", 3, _words) == [
        "One two,",
        "three four five",
        "six",
    ]


@pytest.mark.parametrize("seed", range(30))
def test_nothing_but_spaces_is_lost_and_every_piece_fits(seed):
    draws = random.Random(seed)
    parts = ["a", "bb ", " ", ". ", ", ", "! ", "。", "x", "\n"]
    text = "".join(draws.choice(parts) for _ in range(80))
    most = draws.randint(1, 30)
    pieces = in_pieces(text, most, len)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert max(map(len, pieces)) <= most


@pytest.mark.parametrize("most", [50, 1000, 7999])
def test_a_long_text_is_measured_a_few_times_and_not_once_a_sentence(most):
    text = " ".join(f"word{'.' if i % 17 == 16 else ''}" for i in range(8000))
    measured = []

    def length(piece):
        measured.append(len(piece))
        return _words(piece)

    pieces = in_pieces(text, most, length)
    assert sum(map(_words, pieces)) == 8000
    assert sum(measured) < 30 * len(text)
