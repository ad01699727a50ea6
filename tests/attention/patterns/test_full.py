"""Full: every query sees every key."""

import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import FULL, Chain, all_of
from regard.attention.links import Grid, KernelMask
from regard.attention.masks import is_full
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.full import FullPattern
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles


def test_everything_is_visible_whatever_the_positions():
    assert FullPattern().visible(Places.between(5, 7, past=11)).all()


def test_full_attention_is_the_outside_witness_with_its_gradients():
    inputs = {
        "query": doubles(2, 3, 11, 5, requires_grad=True),
        "key": doubles(2, 3, 13, 5, requires_grad=True),
        "value": doubles(2, 3, 13, 7, requires_grad=True),
    }
    got = Chain(pattern=FullPattern())(*inputs.values()).context
    want = sdpa(*inputs.values())
    assert_close("context", got, want)
    assert_same_gradients(got, want, inputs)


def test_gradcheck_in_double_precision():
    inputs = [doubles(1, 2, n, 3, requires_grad=True) for n in (3, 5, 5)]
    chain = Chain(pattern=FullPattern())
    assert torch.autograd.gradcheck(lambda q, k, v: chain(q, k, v).context, inputs)


def test_the_order_of_the_keys_does_not_matter():
    query, key, value = doubles(1, 2, 3, 5), doubles(1, 2, 7, 5), doubles(1, 2, 7, 5)
    order = torch.randperm(7)
    chain = Chain(pattern=FullPattern())
    assert_close(
        "context",
        chain(query, key[:, :, order], value[:, :, order]).context,
        chain(query, key, value).context,
    )


def test_every_block_is_touched():
    grid = Grid.over(Places.between(11, 13), range(11), range(13), q_size=3, k_size=5)
    assert FullPattern().touches(grid).tolist() == [[True] * 3] * 4


def test_kernels_need_no_mask_for_it():
    assert FullPattern().as_kernel() == KernelMask(is_causal=False, valid=None)


def test_joining_it_with_another_pattern_leaves_the_other():
    other = CausalPattern()
    assert all_of(FULL, other) is other
    assert all_of(FullPattern(), other) is other
    assert is_full(all_of(FULL, FullPattern()))
