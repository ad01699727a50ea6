"""What attention is, in equalities: a linear layer whose weights are made anew for each input."""

import pytest
import torch

from regard.attention import Chain, attend, multi_head
from regard.attention.patterns.causal import CausalPattern
from regard.dims import Dims
from regard.layers import FeedForward
from tests.assertions import assert_close, doubles


def test_with_fixed_weights_attention_is_a_linear_layer():
    query, key, chain = doubles(1, 1, 5, 3), doubles(1, 1, 7, 3), Chain()
    one, other = doubles(1, 1, 7, 11), doubles(1, 1, 7, 11)
    mixed = chain(query, key, 2 * one - 3 * other).context
    assert_close(
        "mix", mixed, 2 * chain(query, key, one).context - 3 * chain(query, key, other).context
    )
    layer = torch.nn.Linear(7, 5, bias=False, dtype=torch.float64)
    layer.weight.data.copy_(chain(query, key, one).map.dense()[0, 0])
    assert_close("linear layer", layer(one.mT).mT, chain(query, key, one).context)


def test_but_its_weights_depend_on_what_it_reads():
    x, chain = doubles(1, 1, 5, 3), Chain()
    doubled = chain(2 * x, 2 * x, 2 * x).context
    assert (doubled - 2 * chain(x, x, x).context).abs().max() > 1e-3


@pytest.mark.parametrize("n_layers", [1, 2, 7])
def test_a_stack_of_attention_alone_only_averages_values_again(n_layers):
    values = doubles(1, 1, 7, 5)
    out, product = values, torch.eye(7, dtype=torch.float64)
    for _ in range(n_layers):
        attended = Chain(pattern=CausalPattern())(doubles(1, 1, 7, 3), doubles(1, 1, 7, 3), out)
        out, product = attended.context, attended.map.dense()[0, 0] @ product
    assert product.min() >= 0
    assert_close("row sums", product.sum(-1), torch.ones(7))
    assert_close("one average", product @ values, out)
    assert (out <= values.amax(-2, keepdim=True) + 1e-12).all()
    assert (out >= values.amin(-2, keepdim=True) - 1e-12).all()


def test_a_sentence_of_one_value_stays_what_it_is():
    value = doubles(1, 1, 1, 5)
    out = value.expand(1, 1, 7, 5)
    for _ in range(5):
        out = Chain()(doubles(1, 1, 7, 3), doubles(1, 1, 7, 3), out).context
    assert_close("value", out, value.expand(1, 1, 7, 5))


def test_a_feed_forward_leaves_the_hull_of_the_values():
    dims = Dims(d_model=6, n_heads=2)
    heads, network = multi_head(dims).double(), FeedForward(dims).double()
    for projection in (heads.W_V, heads.W_O):
        projection.weight.data.copy_(torch.eye(6))
    values = doubles(1, 7, 6)
    averaged = heads(values).context
    assert (averaged <= values.amax(-2, keepdim=True) + 1e-12).all()
    assert (network(averaged) > values.amax(-2, keepdim=True)).any() or (
        network(averaged) < values.amin(-2, keepdim=True)
    ).any()


def test_dividing_by_the_root_of_the_width_keeps_scores_at_variance_one():
    for width in (4, 64, 1024):
        query, key = doubles(1, 1, 101, width), doubles(1, 1, 103, width)
        scores = Chain().score(query, key)
        assert scores.var().item() == pytest.approx(1, abs=0.1)
        assert (query @ key.mT).var().item() == pytest.approx(width, rel=0.1)


def test_large_scores_stop_the_learning():
    scores = doubles(64)
    traces = []
    for scale in (1.0, 8.0, 32.0):
        p = (scale * scores).softmax(-1)
        jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scale * scores)
        assert_close("jacobian", jacobian, torch.diag(p) - torch.outer(p, p))
        traces.append(jacobian.trace().item())
    assert traces[0] > 0.8
    assert traces[0] > traces[1] > traces[2]


def test_looking_everywhere_alike_reaches_the_floor_of_the_doubly_stochastic_penalty():
    n_words, n_cells, width = 10, 196, 8

    def penalty(scale):
        words, cells = scale * doubles(n_words, width), doubles(n_cells, width)
        weights = attend(words, cells, cells).map.dense()
        return float((1 - weights.sum(0)).square().sum())

    floor = n_cells * (1 - n_words / n_cells) ** 2
    assert abs(floor - 176.5) < 0.05
    assert abs(penalty(0.0) - floor) < 1e-10
    assert penalty(1.0) > floor
    assert penalty(5.0) > penalty(1.0)


def test_constant_scores_give_the_mean_of_the_values():
    query, key, value = doubles(3, 4), torch.ones(7, 4, dtype=torch.float64), doubles(7, 5)
    assert_close("context", attend(query, key, value).context, value.mean(0).expand(3, 5))
