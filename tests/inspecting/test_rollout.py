"""Rollout and flow: shares that sum to one, equal to the products and cuts that they stand for."""

import itertools

import numpy as np
import pytest
import torch

from regard.errors import LengthError, SettingError
from regard.inspecting import answer_rollout, flow, rollout
from regard.inspecting.record import Attention, Record
from regard.inspecting.rollout import maximum_flow
from tests.inspecting.hand_made import Dense, of_a_model, tokens


def record_of(**kinds):
    """A record of these kinds, each a list of layers of heads."""
    made = {}
    for kind, layers in kinds.items():
        maps = tuple(Dense(torch.as_tensor(one, dtype=torch.float32)[None]) for one in layers)
        n_queries, n_keys = maps[0].shape[-2:]
        sides = ([f"{side}{i}" for i in range(n)] for side, n in (("q", n_queries), ("k", n_keys)))
        title = ("target", "source") if kind == "cross" else ("text", "text")
        made[kind] = Attention(
            *(tokens(*side) for side in sides), maps, f"query ({title[0]})", f"key ({title[1]})"
        )
    return Record("", "", made)


def random_layers(n_layers, n_heads, n_queries, n_keys):
    return [torch.rand(n_heads, n_queries, n_keys).softmax(-1) for _ in range(n_layers)]


@pytest.mark.parametrize("residual", [0.0, 0.5, 0.9])
def test_a_rollout_is_the_product_of_its_layers(residual):
    layers = random_layers(3, 2, 5, 5)
    got = rollout(record_of(encoder=layers), "encoder", residual=residual)
    eye = torch.eye(5)
    want = eye
    for layer in layers:
        want = (residual * eye + (1 - residual) * layer.mean(0)) @ want
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(got.sum(-1), torch.ones(5))


def test_one_layer_without_a_residual_is_itself_and_max_takes_the_largest_head():
    layers = random_layers(1, 3, 4, 4)
    record = record_of(encoder=layers)
    torch.testing.assert_close(rollout(record, "encoder", residual=0.0), layers[0].mean(0))
    largest = layers[0].amax(0)
    want = largest / largest.sum(-1, keepdim=True)
    torch.testing.assert_close(rollout(record, "encoder", residual=0.0, heads="max"), want)


def test_an_answer_is_made_of_its_source_and_of_what_was_written():
    record, _ = of_a_model()
    shares = answer_rollout(record)
    total = shares.source.sum(-1) + shares.target.sum(-1)
    torch.testing.assert_close(total, torch.ones(len(total)))
    assert not shares.target.triu(1).any()
    # two layers, each of which takes half of the source in: 1/2 + 1/4 at least, by hand
    decoder = [record.weights("decoder", layer) for layer in range(2)]
    eye = torch.eye(len(total))
    prefix = 0.5 * (0.5 * eye + 0.5 * decoder[1]) @ (0.5 * (0.5 * eye + 0.5 * decoder[0]))
    torch.testing.assert_close(shares.target, prefix)
    torch.testing.assert_close(shares.source.sum(-1), 1 - prefix.sum(-1))


def test_a_source_that_nobody_rolled_out_stands_for_its_words():
    cross, own = random_layers(1, 1, 3, 4), random_layers(1, 1, 3, 3)
    shares = answer_rollout(record_of(decoder=own, cross=cross))
    torch.testing.assert_close(shares.source, 0.5 * cross[0][0])


def smallest_cut(pipes, start, end):
    """The largest flow by its dual: the least capacity whose removal parts the two ends."""
    n, layers = len(pipes[0]), len(pipes)
    inner = [(layer, i) for layer in range(1, layers) for i in range(n)]
    best = np.inf
    for chosen in itertools.product([False, True], repeat=len(inner)):
        side = dict(zip(inner, chosen, strict=True))
        side |= {(0, i): i == start for i in range(n)} | {(layers, j): False for j in range(n)}
        cut = sum(
            pipes[layer][i, j]
            for layer in range(layers)
            for i in range(n)
            for j in range(n)
            if side[layer, i] and not side[layer + 1, j] and (layer + 1 < layers or j == end)
        )
        best = min(best, cut)
    return best


def test_the_largest_flow_is_the_smallest_cut():
    pipes = [torch.rand(3, 3).softmax(-1).double().numpy() for _ in range(3)]
    for start, end in itertools.product(range(3), repeat=2):
        got = maximum_flow(pipes, start, end)
        assert got == pytest.approx(smallest_cut(pipes, start, end), abs=1e-6)


def test_a_flow_gives_way_where_another_has_no_other_way():
    # the first way found, 0-0-0-0, fills the only pipe that node 1 of the second layer could use
    first = np.array([[1.0, 1.0], [0.0, 0.0]])
    second = np.array([[1.0, 1.0], [1.0, 0.0]])
    third = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert maximum_flow([first, second, third], 0, 0) == pytest.approx(2.0)


def test_the_flow_of_one_layer_is_its_weights_and_of_more_no_less_than_a_way():
    layers = random_layers(3, 2, 6, 6)
    single = flow(record_of(encoder=layers[:1]), "encoder", 2, residual=0.0)
    torch.testing.assert_close(single, layers[0].mean(0)[2])
    got = flow(record_of(encoder=layers), "encoder", 4)
    # what flows out of one place is at most one, and at least what goes straight down past all
    assert float(got.max()) <= 1 + 1e-6
    assert float(got[4]) >= 0.5


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        (lambda r: rollout(r, "cross"), SettingError, "only attention of a sequence to itself"),
        (lambda r: rollout(r, "encoder", residual=1.5), SettingError, r"residual lies in 0\.\.1"),
        (lambda r: flow(r, "encoder", 70), LengthError, "70 places; at most 60"),
        (lambda r: flow(r, "small", 9), SettingError, "there is no query 9"),
    ],
)
def test_what_cannot_be_followed_is_an_error(asked, error, said):
    record = record_of(
        encoder=random_layers(1, 1, 70, 70),
        small=random_layers(1, 1, 4, 4),
        cross=random_layers(1, 1, 3, 5),
    )
    with pytest.raises(error, match=said):
        asked(record)
