"""Encoder layer: self-attention over all positions, then a feed-forward at each."""

import pytest
import torch
from torch import nn

from regard.attention import Chain, multi_head, padding
from regard.attention.dropout import Dropout
from regard.attention.patterns.causal import CausalPattern
from regard.attention.relations.structural import StructuralRelation
from regard.dims import Dims
from regard.layers import RESIDUALS, EncoderLayer, FeedForward, PreNorm
from regard.places import Places, Tree
from tests.assertions import assert_close, doubles, gradients

DIMS = Dims(d_model=15, n_heads=3)


def layer(residual="pre_norm", activation="relu", dropout=0.0, has_bias=True, **heads):
    return EncoderLayer(
        attention=multi_head(DIMS, has_bias=has_bias, **heads),
        feed_forward=FeedForward(DIMS, d_hidden=17, activation=activation),
        around_attention=RESIDUALS[residual](DIMS, dropout=dropout),
        around_feed_forward=RESIDUALS[residual](DIMS, dropout=dropout),
    ).double()


def torchs(residual, activation):
    """torch's own layer, with every weight away from its beginning."""
    theirs = nn.TransformerEncoderLayer(
        15,
        3,
        17,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=residual == "pre_norm",
        dtype=torch.float64,
    )
    for parameter in theirs.parameters():
        parameter.data.normal_(std=0.5)
    return theirs


def named(ours):
    """Our parameters under torch's names, as lists of pieces stacked on top of each other."""
    heads, network = ours.attention, ours.feed_forward
    projections = (heads.W_Q, heads.W_K, heads.W_V)
    return {
        "self_attn.in_proj_weight": [p.weight for p in projections],
        "self_attn.in_proj_bias": [p.bias for p in projections],
        "self_attn.out_proj.weight": [heads.W_O.weight],
        "self_attn.out_proj.bias": [heads.W_O.bias],
        "linear1.weight": [network.inner.weight],
        "linear1.bias": [network.inner.bias],
        "linear2.weight": [network.outer.weight],
        "linear2.bias": [network.outer.bias],
        "norm1.weight": [ours.around_attention.norm.gain],
        "norm1.bias": [ours.around_attention.norm.bias],
        "norm2.weight": [ours.around_feed_forward.norm.gain],
        "norm2.bias": [ours.around_feed_forward.norm.bias],
    }


def copy(ours, theirs):
    for name, pieces in named(ours).items():
        whole = theirs.get_parameter(name).data
        for piece, part in zip(pieces, whole.chunk(len(pieces)), strict=True):
            piece.data.copy_(part)


@pytest.mark.parametrize("residual", ["pre_norm", "post_norm"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("has_padding", [False, True])
def test_it_is_torchs_layer_with_the_same_weights(residual, activation, has_padding):
    ours, theirs = layer(residual, activation), torchs(residual, activation)
    copy(ours, theirs)
    x, lengths = doubles(2, 7, 15, requires_grad=True), torch.tensor([5, 7])
    blocked = torch.arange(7) >= lengths[:, None] if has_padding else None
    masks = [padding(lengths, 7)] if has_padding else []
    got, want = ours(x, *masks), theirs(x, src_key_padding_mask=blocked)
    assert_close("output", got, want)
    pieces = {f"{name} {i}": p for name, ps in named(ours).items() for i, p in enumerate(ps)}
    found = gradients(got, {"x": x, **pieces})
    for name, grad in gradients(want, {"x": x, **dict(theirs.named_parameters())}).items():
        mine = [found[name]] if name == "x" else [v for k, v in found.items() if k[:-2] == name]
        assert_close(f"gradient of {name}", torch.cat(mine), grad, atol=1e-9)


def test_every_parameter_has_a_counterpart():
    ours = layer()
    mine = {id(piece) for pieces in named(ours).values() for piece in pieces}
    assert mine == {id(p) for p in ours.parameters()}


def test_only_the_outputs_of_sublayers_are_dropped():
    ours = layer(dropout=0.3)
    dropping = {name: m.p for name, m in ours.named_modules() if isinstance(m, Dropout) and m.p}
    assert dropping == {"around_attention.dropout": 0.3, "around_feed_forward.dropout": 0.3}
    assert ours.attention.chain.dropout == 0


@pytest.mark.parametrize("residual", RESIDUALS)
def test_without_dropout_training_is_evaluation(residual):
    ours, x = layer(residual), doubles(2, 7, 15)
    assert torch.equal(ours.train()(x), ours.eval()(x))


@pytest.mark.parametrize("residual", RESIDUALS)
def test_padding_more_changes_nothing(residual):
    ours, x = layer(residual), doubles(2, 7, 15)
    longer = torch.cat([x, 31 + doubles(2, 4, 15)], 1)
    want = ours(x, padding(torch.tensor([5, 7])))
    got = ours(longer, padding(torch.tensor([5, 7]), 11))
    assert_close("output", got[:, :7], want)


def test_words_may_come_in_any_order():
    ours, x, order = layer(), doubles(2, 7, 15), torch.randperm(7)
    assert_close("output", ours(x[:, order]), ours(x)[:, order])


def test_trees_reach_the_attention_through_the_places():
    relation = StructuralRelation(DIMS.head()).double()
    ours, x = layer(chain=Chain(relation=relation)), doubles(1, 3, 15)
    flat, deep = (torch.tensor([heads]) for heads in ([-1, 0, 0], [-1, 0, 1]))
    one, other = (
        ours(x, places=Places.between(3, 3, tree=Tree.from_heads(heads))) for heads in (flat, deep)
    )
    assert (one - other).abs().max() > 1e-6


@pytest.mark.parametrize("residual", RESIDUALS)
def test_gradcheck_in_double_precision(residual):
    dims = Dims(d_model=4, n_heads=2)
    ours = EncoderLayer(
        attention=multi_head(dims),
        feed_forward=FeedForward(dims, d_hidden=3, activation="gelu"),
        around_attention=RESIDUALS[residual](dims),
        around_feed_forward=RESIDUALS[residual](dims),
    ).double()
    x = doubles(1, 3, 4, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t, *_: ours(t), [x, *ours.parameters()])


def test_stepping_behind_a_cache_equals_the_whole_pass_under_a_causal_mask():
    dims = Dims(d_model=6, n_heads=2)
    layer = EncoderLayer(
        attention=multi_head(dims),
        feed_forward=FeedForward(dims),
        around_attention=PreNorm(dims),
        around_feed_forward=PreNorm(dims),
    ).double()
    x, causal = doubles(2, 7, 6), CausalPattern()
    first, past = layer.step(x[:, :3], None, causal)
    rest, past = layer.step(x[:, 3:], past, causal)
    assert_close("output", torch.cat([first, rest], 1), layer(x, causal))
    assert past.length == 7
