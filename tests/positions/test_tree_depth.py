"""Tree-depth positions: where a word stands, and how deep it hangs in its tree."""

import numpy as np
import pytest
import torch

from regard.dims import Dims
from regard.errors import ShapeError
from regard.places import Tree
from regard.positions.sinusoidal import SinusoidalPositions
from regard.positions.tree_depth import TreeDepthPositions
from tests.assertions import assert_close, doubles, gradients

DIMS = Dims(d_model=6)
HEADS = torch.tensor([[1, -1, 1, 4, 1], [-1, 0, 1, 2, 3]])
DEPTHS = [[1, 0, 1, 2, 1], [0, 1, 2, 3, 4]]


def wave(p, width):
    angles = p * 10000.0 ** (-np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], -1).ravel()


def test_the_code_is_the_equation():
    positions = TreeDepthPositions(DIMS).double()
    positions.W.bias.data.normal_()
    W, U, c = (
        t.detach().numpy() for t in (positions.W.weight, positions.U.weight, positions.W.bias)
    )
    want = np.zeros((2, 5, 6))
    for b in range(2):
        for i in range(5):
            want[b, i] = np.tanh(W @ wave(i, 6) + U @ wave(DEPTHS[b][i], 6) + c)
    got = positions(torch.arange(5), Tree.from_heads(HEADS))
    assert_close("code", got, want)


def test_without_depth_it_is_a_bent_sinusoid():
    positions = TreeDepthPositions(DIMS).double()
    positions.U.weight.data.zero_()
    waves = SinusoidalPositions(DIMS)(torch.arange(5))
    want = positions.W(waves).tanh().expand(2, 5, 6)
    assert_close("code", positions(torch.arange(5), Tree.from_heads(HEADS)), want)


def test_in_a_chain_depth_and_index_say_the_same():
    positions = TreeDepthPositions(DIMS).double()
    chain = Tree.from_heads(torch.tensor([[-1, 0, 1, 2, 3]]))
    positions.W.bias.data.zero_()
    together = positions.W.weight + positions.U.weight
    waves = SinusoidalPositions(DIMS)(torch.arange(5))
    assert_close("code", positions(torch.arange(5), chain), (waves @ together.T).tanh()[None])


def test_words_at_one_depth_differ_by_their_index_only():
    positions = TreeDepthPositions(DIMS).double()
    positions.W.weight.data.zero_()
    code = positions(torch.arange(5), Tree.from_heads(HEADS))
    assert_close("words 0, 2 and 4", code[0, [0, 2, 4]], code[0, [0]].expand(3, 6))
    assert (code[0, 0] - code[0, 1]).abs().max() > 1e-3


def test_all_three_weights_learn():
    positions = TreeDepthPositions(DIMS).double()
    code = positions(torch.arange(5), Tree.from_heads(HEADS))
    for name, grad in gradients(code, dict(positions.named_parameters())).items():
        assert grad.abs().max() > 1e-3, name


def test_gradcheck_of_the_weights():
    positions = TreeDepthPositions(Dims(d_model=2)).double()
    tree = Tree.from_heads(HEADS)
    parameters = list(positions.parameters())
    assert torch.autograd.gradcheck(lambda *_: positions(torch.arange(5), tree), parameters)


def test_codes_have_the_type_of_the_weights():
    code = TreeDepthPositions(DIMS)(torch.arange(5), Tree.from_heads(HEADS))
    assert (code + doubles(2, 5, 6).float()).dtype == torch.float32


def test_sentences_without_trees_are_refused():
    said = (
        "tree_depth: the sentences' dependency trees are missing. "
        r"Pass tree=Tree.from_heads\(heads\), or take sinusoidal, which needs none"
    )
    with pytest.raises(ShapeError, match=said):
        TreeDepthPositions(DIMS)(torch.arange(5))
