"""Alignment error rates are Och and Ney's, from both formats, for the head chosen on other data."""

import pytest
import torch

from regard.errors import DataError, ShapeError
from regard.evaluating import (
    AlignmentCounts,
    DecoderRow,
    Gold,
    HeadView,
    PieceWords,
    alignment_error,
    best_head,
    check_links,
    read_naacl,
    read_pharaoh,
    view_table,
    write_pharaoh,
)
from regard.evaluating.alignment import digit_gold
from regard.evaluating.attention_links import LEFT_OUT, argmax_links, merge_pieces, view_links
from regard.plots.head_errors import head_grid

SURE = frozenset({(0, 0), (1, 1), (2, 2)})
GOLD = Gold(SURE, frozenset({(2, 3)}))


def test_the_error_rate_by_hand():
    # A has 4 links: 2 sure, 1 possible, 1 wrong; S has 3
    counts = alignment_error([{(0, 0), (1, 1), (2, 3), (0, 3)}], [GOLD])
    assert counts == AlignmentCounts(links=4, sure=3, possible=4, in_sure=2, in_possible=3)
    assert counts.error_rate == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert counts.precision == pytest.approx(3 / 4)
    assert counts.recall == pytest.approx(2 / 3)


def test_all_sure_links_and_any_possible_one_are_no_error():
    assert alignment_error([SURE], [GOLD]).error_rate == 0
    assert alignment_error([GOLD.possible], [GOLD]).error_rate == 0


def test_the_corpus_is_summed_not_averaged():
    golds = [GOLD, Gold(frozenset({(0, 0)}))]
    counts = alignment_error([SURE, {(0, 1)}], golds)
    assert counts.error_rate == pytest.approx(1 - (3 + 3) / (4 + 4))


def test_nothing_against_nothing_is_no_error_and_nothing_against_something_is_all_error():
    empty = alignment_error([set()], [Gold(frozenset())])
    assert (empty.error_rate, empty.precision, empty.recall) == (0, 1, 1)
    assert alignment_error([set()], [GOLD]).error_rate == 1


def test_swapping_both_sides_changes_nothing():
    links = {(0, 0), (1, 1), (2, 3), (0, 3)}
    turned = alignment_error([{(t, s) for s, t in links}], [GOLD.swapped()])
    assert turned == alignment_error([links], [GOLD])


def test_both_formats_say_the_same():
    pharaoh = read_pharaoh(["1-1 2p3", "", "3?1 1-2"], first=1)
    naacl = read_naacl(
        ["0001 1 1 S", "0001 2 3 P", "0003 3 1 P 0.7", "3 1 2"], first=1, sentences=3
    )
    assert pharaoh == naacl
    assert pharaoh[0] == Gold(frozenset({(0, 0)}), frozenset({(1, 2)}))
    assert pharaoh[1].possible == frozenset()


def test_small_letters_of_naacl_mean_what_large_ones_mean():
    small = read_naacl(["1 1 1 s", "1 2 3 p", "2 3 1 p 0.7"])
    assert small == read_naacl(["1 1 1 S", "1 2 3 P", "2 3 1 P 0.7"])
    assert small[0] == Gold(frozenset({(0, 0)}), frozenset({(1, 2)}))


@pytest.mark.parametrize(
    ("read", "link"),
    [
        (read_pharaoh, "{}-0"),
        (read_pharaoh, "0p{}"),
        (read_naacl, "{} 1 1 S"),
        (read_naacl, "1 {} 1 S"),
        (read_naacl, "1 1 {} S"),
    ],
)
def test_a_number_that_counts_no_words_makes_no_link_and_is_quoted_shortened(read, link):
    with pytest.raises(DataError, match=r"line 1: '[^']{40}…' is no link in \w+ format"):
        read([link.format("1" * 5000)])


def test_sentences_without_links_at_the_end_are_counted():
    assert len(read_naacl(["0002 1 1 S"])) == 2
    assert len(read_naacl(["0002 1 1 S"], sentences=5)) == 5


def test_what_is_written_is_read_back():
    links = [frozenset({(0, 1), (10, 2), (2, 0)}), frozenset()]
    assert write_pharaoh(links)[0] == "0-1 2-0 10-2"
    assert [gold.sure for gold in read_pharaoh(write_pharaoh(links))] == links


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: read_pharaoh(["0-0", "1_2"]), r"line 2: '1_2' is no link in Pharaoh format"),
        (lambda: read_pharaoh(["0-1"], first=1), "position 0 in a file said to count from 1"),
        (lambda: read_naacl(["0001 0 1 S"]), "position 0 in a file said to count from 1"),
        (lambda: read_naacl(["0001 1-1"]), "is no link in naacl format"),
        (lambda: read_naacl(["0 1 1 S"]), "is no link in naacl format"),
        (lambda: read_naacl(["4 1 1 S"], sentences=3), "sentence 4 has a link, but only 3"),
        (lambda: check_links([GOLD], [3], [3]), r"link 2-3 \(counted from 0\).*3 source and 3"),
        (lambda: check_links([GOLD], [3, 4], [4]), "got 1 for 2 sources and 1 targets"),
    ],
)
def test_a_wrong_file_is_an_error_with_its_line(read, said):
    with pytest.raises(DataError, match=said):
        read()


def test_unequal_counts_of_sentences_are_refused():
    with pytest.raises(ShapeError, match="got 1 for 2 sentences"):
        alignment_error([SURE, SURE], [GOLD])


def test_pieces_are_summed_over_the_source_and_averaged_over_the_target():
    weights = torch.tensor([[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.6, 0.2], [0.0, 0.5, 0.5, 0.0]])
    pieces = PieceWords(source=[0, 1, 1, LEFT_OUT], target=[0, 0])
    words = merge_pieces(weights, pieces)
    assert words.tolist() == [pytest.approx([(0.4 + 0.1) / 2, (0.5 + 0.7) / 2])]
    shifted = merge_pieces(weights, pieces, DecoderRow.NEXT)
    assert shifted.tolist() == [pytest.approx([(0.1 + 0.0) / 2, (0.7 + 1.0) / 2])]


def test_the_mean_of_a_word_s_pieces_can_link_it_elsewhere_than_its_first_piece():
    weights = torch.tensor([[0.6, 0.4], [0.1, 0.9]])
    assert argmax_links(merge_pieces(weights, PieceWords([0, 1], [0, 0])), {0}) == {(1, 0)}


def test_words_left_out_get_no_link_and_take_none():
    weights = torch.tensor([[[[0.1, 0.2, 0.7], [0.1, 0.2, 0.7]]]])
    links = view_links(weights, PieceWords([0, 1, LEFT_OUT], [LEFT_OUT, 0]))
    assert links[HeadView(0, 0)] == {(1, 0)}


def test_a_row_without_any_weight_makes_no_link():
    weights = torch.tensor([[[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]])
    assert view_links(weights, PieceWords([0, 1, LEFT_OUT], [0, 1]))[HeadView(0, 0)] == {(0, 1)}


def test_too_few_rows_for_the_shift_are_refused():
    with pytest.raises(ShapeError, match=r"at least 4 rows and exactly 2 columns.*got 3 and 2"):
        merge_pieces(torch.ones(3, 2), PieceWords([0, 1], [0, 1, 2]), DecoderRow.NEXT)


def _attending(order, rows=4, columns=3):
    """Weights of one head whose row i looks at order[i]."""
    weights = torch.full((rows, columns), 0.01)
    for row, column in enumerate(order):
        weights[row, column] = 0.9
    return weights


def test_the_table_finds_the_head_and_the_row_that_align():
    diagonal = Gold(frozenset({(0, 0), (1, 1), (2, 2)}))
    early, late = _attending([0, 1, 2, 2]), _attending([2, 0, 1, 2])
    wrong = _attending([1, 2, 0, 0])
    weights = torch.stack([torch.stack([wrong, late]), torch.stack([wrong, wrong])])
    sentences = [(weights, PieceWords(range(3), range(3)), diagonal)]
    table = view_table(sentences)
    assert table[HeadView(0, 1, DecoderRow.NEXT)].error_rate == 0
    assert table[HeadView(0, 1, DecoderRow.PREDICTING)].error_rate == 1
    assert len(table) == 2 * (4 + 2 + 1)
    other = view_table([(torch.stack([torch.stack([early, wrong])] * 2), *sentences[0][1:])])
    best = best_head(table, other)
    assert best.view == HeadView(0, 1, DecoderRow.NEXT)
    assert best.chosen_on.error_rate == 0
    assert best.reported_on == other[HeadView(0, 1, DecoderRow.NEXT)]
    assert best.reported_on.error_rate > 0


def test_the_mean_of_a_layer_is_the_mean_of_its_heads():
    torch.manual_seed(0)
    weights = torch.rand(2, 3, 5, 7).softmax(-1)
    pieces = PieceWords(range(7), range(5))
    links = view_links(weights, pieces)
    assert links[HeadView(1, None)] == argmax_links(weights[1].mean(0), range(5))
    assert links[HeadView(None, None)] == argmax_links(weights.mean((0, 1)), range(5))
    assert str(HeadView(1, None)) == "layer 2, mean, predicting row"
    assert str(HeadView(None, None, DecoderRow.NEXT)) == "mean of all heads, next row"


def test_the_best_head_is_never_a_mean():
    good, bad = AlignmentCounts(1, 1, 1, 1, 1), AlignmentCounts(1, 1, 1, 0, 0)
    table = {HeadView(0, 0): bad, HeadView(0, None): good}
    assert best_head(table, table).view == HeadView(0, 0)
    with pytest.raises(ShapeError, match="got 1 to choose from, 1 of them without a report"):
        best_head(table, {})


def test_the_grid_marks_the_best_head():
    good, bad = AlignmentCounts(4, 4, 4, 3, 3), AlignmentCounts(1, 1, 1, 0, 0)
    table = {
        HeadView(0, 0): bad,
        HeadView(0, 1): good,
        HeadView(0, None): bad,
        HeadView(None, None): bad,
    }
    grid = head_grid(table).splitlines()
    assert grid[0].split() == ["predicting", "row", "head", "1", "head", "2", "mean"]
    assert grid[1].split() == ["layer", "1", "100.0", "25.0*", "100.0"]
    assert grid[2] == "mean of all heads: 100.0"


def test_figures_are_sure_from_the_right_and_names_only_possible():
    source, target = "9. Mai 2029", "2029-05-09"
    fields = {(0,): (8, 9), (3, 4, 5): (5, 6), (7, 8, 9, 10): (0, 1, 2, 3)}
    links = [(s, t) for told, digits in fields.items() for s in told for t in digits]
    gold = digit_gold(source, target, links)
    assert gold.sure == {(0, 9), (7, 0), (8, 1), (9, 2), (10, 3)}
    assert gold.possible == set(links)


def test_figures_of_other_scripts_are_figures():
    assert digit_gold("٢६x", "26", [(0, 0), (1, 0), (0, 1), (1, 1)]).sure == {(0, 0), (1, 1)}
