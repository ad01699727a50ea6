"""Links drawn in several ways, and the error rates that follow from each."""

import pytest
import torch

from regard.errors import SettingError, UnknownChoice
from regard.evaluating import AlignmentCounts, Gold
from regard.serving.gold import Drawing, errors_of_heads, sentence

WEIGHTS = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.2, 0.2, 0.2]])
SOURCE, TARGET = ["the", "dog", "."], ["le", "chien", "!"]


@pytest.mark.parametrize(
    ("drawing", "want"),
    [
        (Drawing(), {(0, 0), (0, 1), (0, 2)}),
        # source 0 weighs most for target 0, source 1 for target 1, source 2 for target 2
        (Drawing("intersection"), {(0, 0)}),
        (Drawing("threshold", 0.4), {(0, 0), (0, 1), (1, 1)}),
        (Drawing("threshold", 0.2, "left_out"), {(0, 0), (1, 0), (0, 1), (1, 1)}),
        (Drawing(punctuation="left_out"), {(0, 0), (0, 1)}),
    ],
)
def test_links_by_hand(drawing, want):
    assert drawing.links(WEIGHTS, SOURCE, TARGET) == want


def test_an_intersection_links_no_word_twice():
    weights = torch.rand(7, 5, generator=torch.Generator().manual_seed(3))
    drawn = Drawing("intersection").links(weights, ["a"] * 5, ["b"] * 7)
    assert drawn
    assert (
        len({source for source, _ in drawn}) == len({target for _, target in drawn}) == len(drawn)
    )
    for source, target in drawn:
        assert weights[target, source] == weights[target].max() == weights[:, source].max()


def test_people_s_links_to_punctuation_are_left_out_too():
    gold = Gold(frozenset({(0, 0), (2, 2)}), frozenset({(1, 2), (1, 1)}))
    drawing = Drawing(punctuation="left_out")
    assert drawing.gold(gold, SOURCE, TARGET) == Gold(frozenset({(0, 0)}), frozenset({(1, 1)}))
    counts = drawing.counts(WEIGHTS, gold, SOURCE, TARGET)
    assert counts == AlignmentCounts(links=2, sure=1, possible=2, in_sure=1, in_possible=1)


@pytest.mark.parametrize("drawing", [Drawing(), Drawing("intersection"), Drawing("threshold", 0.1)])
def test_the_rate_of_a_head_sums_up_its_pairs(registry, drawing):
    pairs = [sentence(registry, "first", place, "next", drawing) for place in range(2)]
    told = errors_of_heads(registry, "first", drawing)
    for view in told["views"]:
        if view["row"] == "next":
            counts = AlignmentCounts()
            for pair, gold in zip(pairs, registry.gold.links, strict=True):
                (drawn,) = (
                    one for one in pair["drawn"]
                    if (one["layer"], one["head"]) == (view["layer"], view["head"])
                )  # fmt: skip
                links = frozenset((source, target) for source, target in drawn["links"])
                counts += AlignmentCounts.of(links, gold)
            assert view["error_rate"] == pytest.approx(counts.error_rate)


def test_the_server_draws_as_it_is_told(client, registry):
    wished = {"drawing": "threshold", "threshold": 0.05, "punctuation": "left_out"}
    said = client.get("/api/gold/first/0", params=wished).json()
    assert said == sentence(
        registry, "first", 0, "predicting", Drawing("threshold", 0.05, "left_out")
    )
    assert len(said["drawn"][0]["links"]) > 3
    assert client.get("/api/gold/first", params={"drawing": "argmin"}).status_code == 404


def test_a_drawing_that_there_is_not_is_refused():
    with pytest.raises(UnknownChoice, match="drawing: There is no 'argmx'"):
        Drawing("argmx")
    with pytest.raises(UnknownChoice, match="punctuation"):
        Drawing(punctuation="no")
    with pytest.raises(SettingError, match="above 0 and up to 1, got 0"):
        Drawing("threshold", 0.0)
