"""Words of pieces: pieces become words, and every word points at the one it looks at most."""

import torch

from regard.evaluating.alignment import write_pharaoh
from regard.evaluating.attention_links import (
    LEFT_OUT,
    DecoderRow,
    PieceWords,
    argmax_links,
    merge_pieces,
)
from regard.inspecting.token_labels import words_of


def linked(weights, pieces, row=DecoderRow.PREDICTING):
    return write_pharaoh([argmax_links(merge_pieces(weights, pieces, row), [0, 1])])[0]


def test_pieces_belong_to_the_words_between_spaces():
    text = "  Guten  Morgen, Welt "
    assert words_of(text, [(0, 7), (7, 9), (9, 15), (15, 16), (16, 21), (21, 22)]) == [
        0, LEFT_OUT, 1, 1, 2, LEFT_OUT,
    ]  # fmt: skip
    assert words_of("", []) == []


def test_a_word_is_linked_by_all_its_pieces_together():
    # two source words (pieces 0, 1 and 2), an end token; target words of one and of two pieces
    weights = torch.tensor(
        [
            [0.30, 0.30, 0.40, 0.00],
            [0.10, 0.10, 0.20, 0.60],
            [0.35, 0.30, 0.30, 0.05],
            [0.00, 0.00, 0.00, 1.00],
        ]
    )
    pieces = PieceWords([0, 0, 1, LEFT_OUT], [0, 1, 1])
    assert linked(weights, pieces) == "0-0 0-1"
    # one row later: piece 0 is spoken for by row 1, pieces 1 and 2 by rows 2 and 3
    assert linked(weights, pieces, DecoderRow.NEXT) == "0-0 0-1"
    weights[1, 2] = 0.9
    assert linked(weights, pieces) == "0-0 1-1"


def test_links_are_written_in_order():
    assert write_pharaoh([{(2, 0), (0, 1), (0, 0)}]) == ["0-0 0-1 2-0"]
