"""Figures of records: what is drawn is what the record says, on the axis that was given."""

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle

from regard.attention.patterns.causal import CausalPattern
from regard.errors import LengthError, SettingError, ShapeError
from regard.evaluating.alignment import AlignmentCounts, Gold
from regard.evaluating.attention_links import LEFT_OUT, DecoderRow
from regard.inspecting import Pyramid, capture, head_statistics
from regard.inspecting.panels import View
from regard.inspecting.token_labels import Tokens
from regard.places import Places
from regard.plots import (
    alignment_map,
    comparison_plot,
    difference_map,
    entropy_plot,
    links_plot,
    long_overview,
)
from regard.plots.alignment_map import aligned, spaced
from regard.plots.links import heaviest_links
from tests.contracts.building import Chain
from tests.inspecting.hand_made import of_a_model, tokens, written_down
from tests.inspecting.mechanisms import Attending

WEIGHTS = [[0.1, 0.2, 0.7], [0.05, 0.9, 0.05]]


@pytest.fixture(scope="module")
def record():
    torch.manual_seed(3)
    return of_a_model()[0]


@pytest.fixture(scope="module")
def other():
    torch.manual_seed(4)
    return of_a_model()[0]


def small(*layers):
    return written_down(*layers, queries=tokens("chien", "rouge"), keys=tokens("a", "red", "dog"))


def long_record(n, **links):
    x = torch.randn(1, 2, n, 8)
    with torch.no_grad(), capture(model := Attending(Chain(**links))) as found:
        model(x, x, x, Places.between(n, n))
    return found


DRAWN = {
    "links": lambda record, other, ax: links_plot(record, ax=ax),
    "entropy": lambda record, other, ax: entropy_plot(record, "encoder", ax=ax),
    "difference": lambda record, other, ax: difference_map(record, other, ax=ax),
    "alignment": lambda record, other, ax: alignment_map(record, Gold(frozenset({(0, 0)})), ax=ax),
    "overview": lambda record, other, ax: long_overview(record, View("encoder", 0, 1), ax=ax),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_plot_draws_on_the_axis_it_is_given_and_changes_nothing_else(name, record, other):
    figure, before = Figure(), dict(matplotlib.rcParams)
    ax = figure.add_subplot()
    assert DRAWN[name](record, other, ax) is figure
    assert ax.get_title()
    assert dict(matplotlib.rcParams) == before
    new = DRAWN[name](record, other, None)
    assert isinstance(new, Figure)
    assert new is not figure


def test_links_hold_the_share_that_was_asked_for():
    links = heaviest_links(torch.tensor(WEIGHTS), mass=0.8)
    assert [(link.query, link.key) for link in links] == [(0, 2), (0, 1), (1, 1)]
    assert len(heaviest_links(torch.full((1, 30), 1 / 30), mass=1.0)) == 5
    assert heaviest_links(torch.zeros(2, 3)) == []
    with pytest.raises(SettingError, match="mass lies above 0"):
        heaviest_links(torch.tensor(WEIGHTS), mass=0.0)


def test_a_link_is_as_wide_as_its_weight_and_joins_its_two_words():
    ax = links_plot(small([WEIGHTS])).axes[0]
    curves = [patch for patch in ax.patches if isinstance(patch, PathPatch)]
    assert [curve.get_linewidth() for curve in curves] == pytest.approx(
        [0.5 + 5 * weight for weight in (0.7, 0.2, 0.9)]
    )
    places = {text.get_text(): text.get_position()[0] for text in ax.texts}
    ends = [curve.get_path().vertices[[0, -1], 0].tolist() for curve in curves]
    assert ends == [
        [places["chien"], places["dog"]],
        [places["chien"], places["red"]],
        [places["rouge"], places["red"]],
    ]


def test_too_many_words_for_curves_are_refused():
    many = tokens(*(f"w{i}" for i in range(61)))
    wide = written_down([[[1 / 61] * 61]], queries=tokens("x"), keys=many)
    with pytest.raises(LengthError, match="61 words on a side are too many for curves"):
        links_plot(wide)


def test_the_entropy_grid_has_the_statistics_of_every_head(record):
    figure = entropy_plot(record, "encoder")
    drawn = figure.axes[0].images[0].get_array()
    want = [one.entropy for one in head_statistics(record, "encoder")]
    np.testing.assert_allclose(np.ravel(drawn), want, rtol=1e-6)
    assert [text.get_text() for text in figure.axes[0].texts] == [f"{nats:.2f}" for nats in want]
    assert figure.axes[0].get_xlabel() == "head"


def test_a_difference_is_the_first_less_the_second_on_a_symmetric_scale(record, other):
    image = difference_map(record, other, View("decoder", 1, 0)).axes[0].images[0]
    want = record.words("decoder", 1, 0) - other.words("decoder", 1, 0)
    np.testing.assert_allclose(image.get_array(), want.numpy(), atol=1e-6)
    low, high = image.get_clim()
    assert low == -high
    assert high == pytest.approx(float(want.abs().max()), rel=1e-5)


def test_two_answers_stand_side_by_side_and_the_same_answer_has_a_difference(record, other):
    alike = comparison_plot(record, other, names=("A", "B"))
    pictures = [ax for ax in alike.axes if ax.images and ax.get_title()]
    assert [ax.get_title() for ax in pictures] == ["A", "B", "A less B"]
    assert pictures[0].images[0].get_clim() == pictures[1].images[0].get_clim()
    two = comparison_plot(small([WEIGHTS]), record)
    assert sum(bool(ax.images) and bool(ax.get_title()) for ax in two.axes) == 2
    with pytest.raises(ShapeError, match="expected the same"):
        difference_map(small([WEIGHTS]), record)


def test_an_overview_is_the_lift_of_the_first_tile_and_masked_cells_are_not_drawn():
    record = long_record(300, pattern=CausalPattern())
    figure = long_overview(record, View("self", 0, 1))
    drawn = figure.axes[0].images[0].get_array()
    pyramid = Pyramid(record.attention["self"].layers[0])
    tile, allowed = pyramid.tile(1, 0, 0, 0), pyramid.allowed(0, 0)
    want = np.clip(tile.values * allowed[:, None], 0.1, None)[:150, :150]
    seen = pyramid.visible(0, 0, 0)[:150, :150]
    assert (~drawn.mask == seen).all()
    np.testing.assert_allclose(drawn.data[seen], want[seen], rtol=1e-5)
    assert "every query" in figure.axes[0].get_title()
    assert figure.axes[0].get_ylabel() == "query (sequence), 300 pieces"


def test_an_overview_of_all_heads_is_their_mean():
    record = long_record(40)
    drawn = long_overview(record, View("self")).axes[0].images[0].get_array()
    want = record.weights("self").numpy() * 40
    np.testing.assert_allclose(drawn, np.clip(want, 0.1, None), rtol=1e-4)


# alignments


def test_pieces_belong_to_the_words_between_spaces():
    text = "Ein Hund, fraß"
    pieces = [("Ein", (0, 3)), (" Hu", (3, 6)), ("nd", (6, 8)), (",", (8, 9)), (" fraß", (9, 14))]
    made = Tokens.of(text, [*pieces, ("<eos>", None)])
    assert spaced(made, text) == [0, 1, 1, 1, 2, LEFT_OUT]


@pytest.mark.parametrize("row", list(DecoderRow))
def test_an_alignment_is_counted_as_the_error_rate_counts_it(record, row):
    panel, links = aligned(record, View("cross", 1, 0), row=row)
    assert panel.keys == tuple(record.source.split())
    assert panel.queries == tuple(record.target.split())
    assert {target for _, target in links} == set(range(len(panel.queries)))
    gold = Gold(frozenset(list(links)[:3]), frozenset({(0, 1)}))
    ax = alignment_map(record, gold, View("cross", 1, 0), row=row).axes[0]
    rate = 100 * AlignmentCounts.of(links, gold).error_rate
    assert f"alignment error rate {rate:.1f} %" in ax.get_title()
    dots = {tuple(map(int, place)) for place in ax.collections[0].get_offsets()}
    assert dots == set(links)
    boxes = {
        (round(patch.get_x() + 0.42), round(patch.get_y() + 0.42))
        for patch in ax.patches
        if isinstance(patch, Rectangle)
    }
    assert boxes == set(gold.possible)


def test_the_links_of_another_sentence_are_refused(record):
    with pytest.raises(ShapeError, match="the gold link 40-1 is of a longer sentence pair"):
        alignment_map(record, Gold(frozenset({(40, 1)})))
