"""Outside witnesses: torch's own attention, which shares no line with ours."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

from regard.attention import Chain, all_of, attend, given, multi_head, padding
from regard.attention.patterns.causal import CausalPattern
from regard.attention.selections.soft import SoftSelection
from regard.dims import Dims
from tests.assertions import assert_close, assert_same_gradients, doubles, gradients

CAUSAL = CausalPattern()
LENGTHS = torch.tensor([5, 13])
EXISTS = torch.arange(13) < LENGTHS[:, None]
MATRIX = torch.rand(2, 3, 13, 13, generator=torch.Generator().manual_seed(1)) < 0.5
MATRIX[..., 0] = True

MASKS = {
    "plain": ([], {}),
    "causal": ([CAUSAL], {"is_causal": True}),
    "padding": ([padding(LENGTHS)], {"attn_mask": EXISTS[:, None, None]}),
    "padding by keys": ([padding(EXISTS)], {"attn_mask": EXISTS[:, None, None]}),
    "matrix": ([MATRIX], {"attn_mask": MATRIX}),
    "matrix for all heads": ([MATRIX[:, :1]], {"attn_mask": MATRIX[:, :1]}),
    "matrix and padding": (
        [all_of(given(MATRIX), padding(LENGTHS))],
        {"attn_mask": MATRIX & EXISTS[:, None, None]},
    ),
    "causal and padding": (
        [all_of(CAUSAL, padding(LENGTHS))],
        {"attn_mask": EXISTS[:, None, None] & torch.ones(13, 13, dtype=torch.bool).tril()},
    ),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(
    "run", [attend, Chain(), Chain(path="dense")], ids=["law", "fast", "dense"]
)
def test_attention_is_torchs_scaled_dot_product_attention(name, run):
    mask, theirs = MASKS[name]
    x = {
        "query": doubles(2, 3, 13, 5, requires_grad=True),
        "key": doubles(2, 3, 13, 5, requires_grad=True),
        "value": doubles(2, 3, 13, 7, requires_grad=True),
    }
    got, want = run(*x.values(), *mask).context, sdpa(*x.values(), **theirs)
    assert_close("context", got, want)
    assert_same_gradients(got, want, x)


def test_a_scale_is_a_temperature():
    query, key, value = (doubles(2, 3, 13, 4) for _ in range(3))
    got = attend(query, key, value, select=SoftSelection(temperature=0.5)).context
    assert_close("context", got, sdpa(query, key, value, scale=1.0))


def blocked(name):
    """The masks of nn.MultiheadAttention, in which True means: may not attend."""
    late = torch.ones(13, 13, dtype=torch.bool).triu(1)
    return {
        "plain": {},
        "causal": {"attn_mask": late},
        "padding": {"key_padding_mask": ~EXISTS},
        "matrix": {"attn_mask": ~MATRIX.flatten(0, 1)},
        "causal and padding": {"attn_mask": late, "key_padding_mask": ~EXISTS},
    }[name]


def shared(theirs, ours):
    """Pairs of parameters, theirs by name and our pieces of it."""
    projections = (ours.W_Q, ours.W_K, ours.W_V)
    if theirs._qkv_same_embed_dim:
        yield "in_proj_weight", [p.weight for p in projections]
    else:
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        yield from ((name, [p.weight]) for name, p in zip(names, projections, strict=True))
    yield "in_proj_bias", [p.bias for p in projections]
    yield "out_proj.weight", [ours.W_O.weight]
    yield "out_proj.bias", [ours.W_O.bias]


def twins(dims):
    """torch's attention and ours, with one set of weights."""
    theirs = nn.MultiheadAttention(
        dims.d_model,
        dims.n_heads,
        kdim=dims.key,
        vdim=dims.value,
        batch_first=True,
        dtype=torch.float64,
    )
    ours = multi_head(dims, has_bias=True).double()
    for name, pieces in shared(theirs, ours):
        whole = theirs.get_parameter(name).data.normal_(std=0.5)
        for piece, part in zip(pieces, whole.chunk(len(pieces)), strict=True):
            piece.data.copy_(part)
    return theirs, ours


@pytest.mark.parametrize("name", ["plain", "causal", "padding", "matrix", "causal and padding"])
def test_multi_head_is_torchs_multi_head_attention(name):
    theirs, ours = twins(Dims(d_model=15, n_heads=3))
    x = doubles(2, 13, 15, requires_grad=True)
    mask = MASKS[name][0]
    got = ours(x, mask=mask[0]) if mask else ours(x)
    context, weights = theirs(x, x, x, average_attn_weights=False, **blocked(name))
    assert_close("context", got.context, context)
    assert_close("weights", got.map.dense(), weights)
    pieces = {f"{part}{i}": p for part, ps in shared(theirs, ours) for i, p in enumerate(ps)}
    found = gradients(got.context, {"x": x, **pieces})
    for part, grad in gradients(context, {"x": x, **dict(theirs.named_parameters())}).items():
        mine = [
            g for piece, g in found.items() if piece in (part, *(f"{part}{i}" for i in range(3)))
        ]
        assert_close(f"gradient of {part}", torch.cat(mine), grad, atol=1e-9)


def test_keys_and_values_of_other_widths_are_torchs_too():
    theirs, ours = twins(Dims(d_model=15, n_heads=3, d_key=7, d_value=11))
    x = {
        "query": doubles(2, 5, 15, requires_grad=True),
        "key": doubles(2, 13, 7, requires_grad=True),
        "value": doubles(2, 13, 11, requires_grad=True),
    }
    got = ours(*x.values(), padding(LENGTHS)).context
    want = theirs(*x.values(), key_padding_mask=~EXISTS)[0]
    assert_close("context", got, want)
    assert_same_gradients(got, want, x)
