"""What attention is, in equalities: a linear layer whose weights are made anew for each input."""

import pytest
import torch

from regard.attention import Chain, multi_head
from regard.attention.patterns.causal import CausalPattern
from regard.dims import Dims
from regard.layers import FeedForward
from tests.asserting import assert_close, doubles


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
