"""The streamed path: any chain in blocks of queries equals the dense one, draws included."""

import pytest
import torch
from torch.func import functional_call

from regard.attention import Chain
from regard.attention.engine import streamed
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.shaw import ShawRelation
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.concat import ConcatScore
from regard.attention.scores.location import LocationScore
from regard.attention.selections.hard import HardSelection
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.attention.selections.top_k import TopKSelection
from regard.errors import SettingError
from regard.hardware.memory import in_a_fork, resident, start_counting
from tests.assertions import assert_close, assert_same_gradients
from tests.attention.engine.test_paths import (
    DIMS,
    DV,
    MASKS,
    SIZES,
    SPARSE,
    WINDOWED,
    B,
    D,
    H,
    assert_path_is_dense,
    inputs,
)

STREAMED = {
    "scaled_dot": {},
    "additive": {"score": AdditiveScore(DIMS).double()},
    "concat": {"score": ConcatScore(DIMS).double()},
    "location": {"score": LocationScore(DIMS).double()},
    "shaw": {"relation": ShawRelation(DIMS, clip=3).double()},
    "bucketed": {"relation": BucketedRelation(DIMS).double()},
    "linear_bias": SPARSE["linear_bias"],
    "sparsemax": {"select": SparsemaxSelection()},
    "top_k": {"select": TopKSelection(count=3)},
    "local_predictive in a window": {**WINDOWED["local_predictive"], **SPARSE["sliding_window"]},
    "hard at test in a window": {
        "select": HardSelection(at_test="argmax").eval(),
        **SPARSE["sliding_window"],
    },
    "shaw in a causal window": {
        "relation": ShawRelation(DIMS, clip=3).double(),
        **SPARSE["causal window"],
    },
    "shaw, sparsemax, big_bird": {
        "relation": ShawRelation(DIMS, clip=3).double(),
        "select": SparsemaxSelection(),
        **SPARSE["big_bird"],
    },
}


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(streamed, "NUMBERS_AT_ONCE", 2 * B * H * 16 * 129)
    monkeypatch.setattr(streamed, "CUT_COLUMNS", 8)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize(("n_queries", "n_keys", "past"), SIZES)
@pytest.mark.parametrize("name", STREAMED)
def test_streamed_is_dense(name, n_queries, n_keys, past):
    assert_path_is_dense("streamed", STREAMED[name], n_queries, n_keys, past)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", STREAMED)
def test_streamed_is_dense_under_every_mask(name, mask):
    assert_path_is_dense("streamed", STREAMED[name], 71, 71, 0, MASKS[mask](71))


@pytest.mark.usefixtures("small_blocks")
def test_streamed_draws_the_same_keys_again_for_the_gradient():
    x = inputs(129, 129)
    chain = Chain(select=HardSelection(), path="streamed").train()
    got = chain(*x.values())
    chosen, log_prob = got.rows.chosen, got.rows.log_prob
    scores = x["query"] @ x["key"].mT * D**-0.5
    drawn = x["value"].gather(-2, chosen.expand(*chosen.shape[:-1], DV))
    want = torch.cat((drawn, scores.log_softmax(-1).gather(-1, chosen)), -1)
    got = torch.cat((got.context, log_prob), -1)
    assert_close("context and log-probability", got, want)
    assert_same_gradients(got, want, x)


def test_a_long_row_is_streamed_and_holds_no_map():
    chain = Chain(AdditiveScore(DIMS))
    said = chain.explain(16_384, n_heads=8, d_query=D, d_value=DV)
    assert said.path == "streamed"
    assert said.cost.numbers <= 2 * streamed.NUMBERS_AT_ONCE
    assert said.cost.multiply_adds == said.dense.multiply_adds


def test_a_window_is_streamed_against_the_keys_that_it_shows():
    chain = Chain(AdditiveScore(DIMS), pattern=SlidingWindowPattern(size=256))
    said = chain.explain(16_384, n_heads=8, d_query=D, d_value=DV)
    assert said.path == "streamed"
    assert said.why.endswith("queries at a time, as the equations say, over 5 % of the map")
    assert said.cost.multiply_adds < 0.06 * said.dense.multiply_adds


@pytest.mark.usefixtures("small_blocks")
def test_parameters_that_were_computed_before_the_chain_get_their_gradients():
    chain = Chain(AdditiveScore(DIMS).double(), path="streamed")
    before = {name: x.detach().requires_grad_() for name, x in chain.named_parameters()}
    x = inputs(70, 70)

    def context(path):
        chain.path = path
        computed = {name: 2 * parameter for name, parameter in before.items()}
        return functional_call(chain, computed, tuple(x.values())).context

    assert_same_gradients(context("streamed"), context("dense"), {**x, **before})


@pytest.mark.usefixtures("small_blocks")
def test_a_matrix_that_was_computed_before_the_chain_gets_its_gradient():
    table = torch.randn(129, 129, dtype=torch.float64, requires_grad=True)
    x = inputs(129, 129)

    def context(path):
        return Chain(AdditiveScore(DIMS).double(), path=path)(*x.values(), table.exp()).context

    torch.manual_seed(1)
    got = context("streamed")
    torch.manual_seed(1)
    assert_same_gradients(got, context("dense"), {**x, "table": table})


@pytest.mark.usefixtures("small_blocks")
def test_parameters_that_are_exchanged_before_the_backward_pass_are_refused():
    chain = Chain(AdditiveScore(DIMS).double(), path="streamed")
    context = chain(*inputs(70, 70).values()).context
    chain.score.W = torch.nn.Parameter(chain.score.W.detach().clone())
    with pytest.raises(SettingError, match="1 of the 3 parameters of the forward pass are not"):
        context.sum().backward()


@pytest.mark.usefixtures("small_blocks")
def test_frozen_tensors_get_no_gradient():
    chain = Chain(AdditiveScore(DIMS).double(), path="streamed").requires_grad_(False)
    x = inputs(70, 70)
    chain(x["query"].detach(), x["key"].detach(), x["value"]).context.sum().backward()
    assert [x[name].grad is None for name in ("query", "key", "value")] == [True, True, False]
    assert all(parameter.grad is None for parameter in chain.parameters())


def test_blocks_that_follow_one_another_use_the_same_memory(monkeypatch):
    monkeypatch.setattr(streamed, "NUMBERS_AT_ONCE", 1 << 18)

    def more_bytes():
        chain = Chain(select=HardSelection().eval(), path="streamed")
        x = [torch.randn(1, 2, 2048, 16, requires_grad=True) for _ in range(3)]
        chain(*(part[:, :, :8] for part in x)).context.sum().backward()
        before = start_counting()
        chain(*x).context.sum().backward()
        return {"more": resident("VmHWM") - before}

    # a map of both heads has 32 MiB, and the law makes several of that size
    assert in_a_fork(more_bytes)["more"] < 32 << 20


def test_gradients_of_many_blocks_are_summed_in_single_precision(monkeypatch):
    monkeypatch.setattr(streamed, "NUMBERS_AT_ONCE", 1)
    n = 700
    query, key = torch.zeros(1, 1, n, 4).bfloat16(), torch.randn(1, 1, n, 4).bfloat16()
    value = torch.randn(1, 1, n, 4).bfloat16().requires_grad_()
    context = Chain(path="streamed")(query, key, value).context
    # each of the rows, a block of its own, gives every key the same small share
    (found,) = torch.autograd.grad(context.sum(), value)
    assert_close("gradient of value", found.double(), torch.ones(1, 1, n, 4), atol=0.01)
