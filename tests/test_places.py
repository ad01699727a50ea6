"""Places: where queries and keys stand, in the sequence and in the tree."""

import pytest
import torch

from regard.errors import ShapeError
from regard.places import ROOT, Places, Tree


def test_queries_are_counted_from_the_past_and_keys_from_zero():
    places = Places.between(3, 5, past=2)
    assert places.query.tolist() == [[2], [3], [4]]
    assert places.key.tolist() == [[0, 1, 2, 3, 4]]
    assert (places.length, places.past) == (5, 2)


def test_offsets_are_key_minus_query():
    offsets = Places.between(3, 5, past=2).offsets
    assert offsets.tolist() == [[j - i for j in range(5)] for i in (2, 3, 4)]


def test_a_tile_keeps_the_positions_of_the_whole():
    places = Places.between(7, 11, past=3)
    tile = places.tile(slice(2, 5), slice(4, 9))
    assert torch.equal(tile.offsets, places.offsets[2:5, 4:9])
    assert tile.length == 11
    assert tile.past is None


@pytest.mark.parametrize("n_queries", [1, 3])
def test_repeated_queries_stand_where_they_stood(n_queries):
    places = Places.between(n_queries, 5, past=2)
    offsets = places.offsets.expand(n_queries, 5)
    again = places.repeated(4).offsets
    want = offsets if n_queries == 1 else offsets.repeat(4, 1)
    assert torch.equal(again, want)
    assert (places.n_queries, places.repeated(4).n_queries) == (n_queries, len(want))


def test_other_keys_may_be_looked_at_row_by_row():
    keys = torch.tensor([[0, 4], [2, 1], [3, 3]])
    places = Places.between(3, 5).at_keys(keys)
    assert places.offsets.tolist() == [[0, 4], [1, 0], [1, 1]]
    assert places.length == 5
    assert places.past is None


def test_a_tile_remembers_the_tree():
    tree = Tree.from_heads(torch.tensor([[-1, 0, 1]]))
    assert Places.between(3, 3, tree=tree).tile(slice(1), slice(1)).tree is tree


def test_depth_counts_the_steps_to_the_root():
    heads = torch.tensor([[1, -1, 1, 4, 2, -1, 5], [-1, 0, 1, 2, 3, 4, 5]])
    want = torch.zeros_like(heads)
    for b in range(2):
        for i in range(7):
            at = heads[b, i].item()
            while at != ROOT:
                want[b, i] += 1
                at = heads[b, at].item()
    tree = Tree.from_heads(heads)
    assert torch.equal(tree.depth, want)
    assert torch.equal(tree.parent, heads)


def test_a_forest_of_roots_has_no_depth():
    assert Tree.from_heads(torch.full((2, 5), ROOT)).depth.tolist() == [[0] * 5] * 2


@pytest.mark.parametrize(
    ("heads", "said"),
    [
        ([[-1, 3, 0]], r"tree: heads must lie in -1\.\.2, got -1\.\.3\."),
        ([[-2, 0, 0]], r"tree: heads must lie in -1\.\.2, got -2\.\.0\."),
    ],
)
def test_heads_outside_the_sentence_are_refused(heads, said):
    with pytest.raises(ShapeError, match=said):
        Tree.from_heads(torch.tensor(heads))


@pytest.mark.parametrize(
    "heads",
    [
        [[0]],
        [[1, 0, -1]],
        [[1, 2, 0]],
        [[-1, 0, 1], [-1, 2, 1]],
        [[-1, 0, 2]],
    ],
)
def test_circles_are_refused(heads):
    said = r"tree: the heads form a circle; every word must reach a root \(-1\)\."
    with pytest.raises(ShapeError, match=said):
        Tree.from_heads(torch.tensor(heads))
