"""The kernels: softmax attention with its log-sum-exp, and the same in plain algebra."""

import numpy as np
import pytest
import torch

from regard.attention.engine.kernels import (
    _algebra,
    _aligned,
    _with_hidden,
    softmax_attention,
    softmax_attention_backward,
)
from tests.assertions import assert_close, assert_same_gradients, doubles, gradients

SIZES = [(1, 1), (2, 3), (17, 13), (65, 129)]


def inputs(n_queries=11, n_keys=13, d=5, dv=5):
    return {
        "query": doubles(2, 3, n_queries, d, requires_grad=True),
        "key": doubles(2, 3, n_keys, d, requires_grad=True),
        "value": doubles(2, 3, n_keys, dv, requires_grad=True),
    }


def hiding(n_queries=11, n_keys=13):
    """A bias with hidden pairs, and with rows that see nothing."""
    bias = doubles(2, 3, n_queries, n_keys)
    bias[torch.rand(bias.shape) < 0.3] = -torch.inf
    bias[0, :, n_queries // 2] = -torch.inf
    return bias


def witness(query, key, value, bias, scale):
    """Row by row; a row that sees nothing gives zero, and zero for its normaliser."""
    out = np.zeros((*query.shape[:-1], value.shape[-1]))
    lse = np.zeros(query.shape[:-1])
    for b, h, i in np.ndindex(query.shape[:3]):
        scores = key[b, h] @ query[b, h, i] * scale + bias[b, h, i]
        if np.isfinite(scores).any():
            lse[b, h, i] = np.log(np.exp(scores).sum())
            out[b, h, i] = np.exp(scores - lse[b, h, i]) @ value[b, h]
    return out, lse


@pytest.mark.parametrize("compute", [softmax_attention, _algebra])
@pytest.mark.parametrize(("n_queries", "n_keys"), SIZES)
def test_context_and_normaliser_are_the_equation(compute, n_queries, n_keys):
    x, bias = inputs(n_queries, n_keys), hiding(n_queries, n_keys)
    out, lse = compute(*x.values(), bias, is_causal=False, scale=0.7)
    numbers = [t.detach().numpy() for t in (*x.values(), bias)]
    want, normaliser = witness(*numbers, 0.7)
    assert_close("context", out, want)
    assert_close("log-sum-exp", lse, normaliser)


@pytest.mark.parametrize("n", [1, 2, 17, 65])
def test_plain_algebra_is_the_kernel_under_a_causal_mask(n):
    x = inputs(n, n)
    out, lse = softmax_attention(*x.values(), None, is_causal=True, scale=0.7)
    same, normaliser = _algebra(*x.values(), None, is_causal=True, scale=0.7)
    assert_close("context", out, same)
    assert_close("log-sum-exp", lse, normaliser.detach())
    assert_same_gradients(out, same, x)


def test_causal_and_biased_at_once():
    x, bias = inputs(13, 13), hiding(13, 13)
    out, lse = softmax_attention(*x.values(), bias, is_causal=True, scale=0.7)
    late = torch.ones(13, 13, dtype=torch.bool).triu(1)
    same, normaliser = _algebra(
        *x.values(), bias.masked_fill(late, -torch.inf), is_causal=False, scale=0.7
    )
    assert_close("context", out, same)
    assert_close("log-sum-exp", lse, normaliser.detach())
    assert_same_gradients(out, same, x)


def test_rows_that_see_nothing_are_zero_and_give_no_gradient():
    x, bias = inputs(), torch.zeros(2, 3, 11, 13, dtype=torch.float64)
    bias[:, :, [0, 5, 10]] = -torch.inf
    out, lse = softmax_attention(*x.values(), bias, is_causal=False, scale=0.7)
    assert out[:, :, [0, 5, 10]].abs().max() == 0
    assert lse[:, :, [0, 5, 10]].abs().max() == 0
    found = gradients(out, x)
    assert found["query"][:, :, [0, 5, 10]].abs().max() == 0
    assert all(grad.isfinite().all() for grad in found.values())


@pytest.mark.parametrize(("d", "dv"), [(5, 7), (7, 5), (1, 3), (2, 1)])
def test_values_may_be_wider_or_narrower_than_keys(d, dv):
    x, bias = inputs(d=d, dv=dv), hiding()
    out, lse = softmax_attention(*x.values(), bias, is_causal=False, scale=0.7)
    same, normaliser = _algebra(*x.values(), bias, is_causal=False, scale=0.7)
    assert_close("context", out, same)
    assert_close("log-sum-exp", lse, normaliser.detach())
    assert_same_gradients(out, same, x)


@pytest.mark.parametrize("dv", [3, 5, 7])
@pytest.mark.parametrize("is_biased", [False, True])
def test_the_backward_function_is_the_gradient(dv, is_biased):
    x, bias = inputs(dv=dv), hiding() if is_biased else None
    out, lse = softmax_attention(*x.values(), bias, is_causal=False, scale=0.7)
    grad = doubles(*out.shape)
    want = torch.autograd.grad(out, list(x.values()), grad)
    with torch.no_grad():
        got = softmax_attention_backward(grad, *x.values(), out, lse, bias, scale=0.7)
    for name, mine, theirs in zip(x, got, want, strict=True):
        assert_close(f"gradient of {name}", mine, theirs)


def test_large_scores_do_not_overflow():
    x = inputs()
    out, lse = softmax_attention(*x.values(), None, is_causal=False, scale=1e4)
    best = (x["query"] @ x["key"].mT).argmax(-1)
    chosen = x["value"].gather(-2, best[..., None].expand(-1, -1, -1, 5))
    assert_close("context", out, chosen)
    assert lse.abs().max() > 1e4


def test_float32_agrees_with_double():
    x, bias = inputs(65, 129, dv=7), hiding(65, 129)
    out, lse = softmax_attention(
        *(t.float() for t in x.values()), bias.float(), is_causal=False, scale=0.7
    )
    want, normaliser = _algebra(*x.values(), bias, is_causal=False, scale=0.7)
    assert_close("context", out.double(), want, atol=2e-5)
    assert_close("log-sum-exp", lse.double(), normaliser, atol=2e-5)


def test_the_normaliser_carries_no_gradient():
    _, lse = softmax_attention(*inputs().values(), None, is_causal=False, scale=0.7)
    assert not lse.requires_grad


@pytest.mark.parametrize("n_keys", [1, 13, 16, 33])
def test_an_aligned_bias_has_the_same_numbers_in_rows_of_sixteen(n_keys):
    query, bias = doubles(2, 3, 5, 7), doubles(2, 1, 5, n_keys)
    aligned = _aligned(bias, query)
    assert torch.equal(aligned, bias.expand(2, 3, 5, n_keys))
    assert all(stride % 16 == 0 for stride in aligned.stride()[:-1])
    assert _aligned(None, query) is None


@pytest.mark.parametrize("n_keys", [13, 16])
def test_keys_that_do_not_exist_are_one_row_for_all_queries_and_heads(n_keys):
    query, valid = doubles(2, 3, 500, 7), torch.ones(2, n_keys, dtype=torch.bool)
    bias = _aligned(_with_hidden(None, valid, query), query)
    assert bias.shape == (2, 3, 500, n_keys)
    # two rows of sixteen doubles, whatever the queries are
    assert bias.untyped_storage().nbytes() == 2 * 16 * 8
