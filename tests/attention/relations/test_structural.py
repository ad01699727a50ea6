import re

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import attend
from regard.attention.relations.shaw import ShawRelation
from regard.attention.relations.structural import StructuralRelation, tree_distance
from regard.dims import Dims
from regard.errors import SettingError, ShapeError
from regard.places import Places, Tree
from tests.assertions import assert_close, doubles
from tests.oracles import chain, patterns, relations, scores, selections

DIMS = Dims(d_model=5, n_heads=3)
N = 11


def random_heads(n: int = N, n_sentences: int = 2) -> torch.Tensor:
    """A random tree for each sentence, its words in random order."""
    heads = torch.full((n_sentences, n), -1)
    for sentence in heads:
        order = torch.randperm(n)
        for rank in range(1, n):
            sentence[order[rank]] = order[int(torch.randint(rank, ()))]
    return heads


def places_of(heads: torch.Tensor) -> Places:
    """Positions in the sentence and in the tree."""
    n = heads.shape[-1]
    return Places.between(n, n, tree=Tree.from_heads(heads))


@pytest.mark.parametrize("clip", [0, 2, 13])
def test_structural_relation_is_the_equation(clip):
    relation, heads = StructuralRelation(DIMS, clip=clip).double(), random_heads()
    query, key, value = (doubles(2, 3, N, 5) for _ in range(3))
    tables = list(zip(relation.R.detach().numpy(), relation.T.detach().numpy(), strict=True))
    weights, context = chain.attend(
        *[x.numpy() for x in (query, key, value)],
        score=lambda h, q, k, j: scores.scaled_dot(q, k),
        select=lambda h, e, seen, i, q: selections.soft(e, seen),
        visible=np.stack([patterns.full(N, N)] * 2),
        key_vectors=np.stack(
            [
                np.stack([relations.structural(sentence, R, T, clip) for R, T in tables])
                for sentence in heads.tolist()
            ]
        ),
    )
    done = attend(query, key, value, relation=relation, places=places_of(heads))
    assert_close("weights", done.map.dense(), weights)
    assert_close("context", done.context, context)


def test_structural_relation_passes_gradcheck():
    relation = StructuralRelation(Dims(d_model=2, n_heads=2), clip=1).double()
    places = places_of(random_heads(3, 1))
    query, key, value = (doubles(1, 2, 3, 2, requires_grad=True) for _ in range(3))

    def context(query, key, value, *_):
        return attend(query, key, value, relation=relation, places=places).context

    assert gradcheck(context, (query, key, value, relation.R, relation.T))


@pytest.mark.parametrize("n", [1, 2, 5, 13])
def test_tree_distances_are_the_papers_rule(n):
    heads = random_heads(n, 7)
    found = tree_distance(places_of(heads))
    for sentence, distances in zip(heads.tolist(), found, strict=True):
        assert (distances.numpy() == relations.tree_distances(sentence)).all()


def test_tree_distances_change_sign_with_the_direction():
    found = tree_distance(places_of(random_heads(13, 7)))
    assert torch.equal(found, -found.mT)
    assert (found.diagonal(dim1=-2, dim2=-1) == 0).all()
    assert (found != 0).any()


def test_a_small_sentence_by_hand():
    # "she reads old books": reads is the root, old hangs from books
    heads = torch.tensor([[1, -1, 3, 1]])
    wanted = [[0, 1, -3, -2], [-1, 0, -2, -1], [3, 2, 0, 1], [2, 1, -1, 0]]
    assert torch.equal(tree_distance(places_of(heads)), torch.tensor([wanted]))


def test_in_a_chain_depth_is_the_position():
    heads = torch.arange(N)[None] - 1
    assert torch.equal(Tree.from_heads(heads).depth, torch.arange(N)[None])


def test_in_a_chain_clipped_to_one_the_tree_says_what_the_sentence_says():
    places, query = places_of(torch.arange(N)[None] - 1), doubles(1, 3, N, 5)
    structural = StructuralRelation(DIMS, clip=1).double()
    shaw = ShawRelation(DIMS, clip=1).double()
    with torch.no_grad():
        structural.R.zero_()
        # the tree counts from key to query, the sentence from query to key
        structural.T.copy_(shaw.wK.flip(1))
    assert_close("scores", structural.to_scores(query, places), shaw.to_scores(query, places))


def test_without_the_trees_table_it_is_shaws_relation_of_keys():
    places, (query, key, value) = places_of(random_heads()), (doubles(2, 3, N, 5) for _ in range(3))
    structural = StructuralRelation(DIMS, clip=2).double()
    shaw = ShawRelation(DIMS, clip=2).double()
    with torch.no_grad():
        structural.T.zero_()
        structural.R.copy_(shaw.wK)
        shaw.wV.zero_()
    one, other = (
        attend(query, key, value, relation=relation, places=places)
        for relation in (structural, shaw)
    )
    assert_close("weights", one.map.dense(), other.map.dense())
    assert_close("context", one.context, other.context)


def test_sentences_without_a_tree_are_an_error():
    text = (
        "structural: the sentences' dependency trees are missing. Pass "
        "places=Places.between(n, n, tree=Tree.from_heads(heads))."
    )
    query = doubles(2, 3, N, 5)
    with pytest.raises(ShapeError, match=re.escape(text)):
        attend(query, query, query, relation=StructuralRelation(DIMS).double())


def test_a_clip_cannot_be_negative():
    with pytest.raises(SettingError, match=r"structural: clip must be at least 0, got -2\."):
        StructuralRelation(DIMS, clip=-2)
