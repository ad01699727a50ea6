"""Decoder layer: causal self-attention, cross-attention to the source, then a feed-forward."""

import pytest
import torch
from torch import nn

from regard.attention import Chain, GroupedQueryHeads, given, multi_head, padding
from regard.attention.dropout import Dropout
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.dims import Dims
from regard.layers import RESIDUALS, DecoderLayer, FeedForward, Norm
from regard.positions.rotary import RotaryPositions
from tests.assertions import assert_close, doubles, gradients

DIMS = Dims(d_model=12, n_heads=3)
SOURCE_LENGTHS = torch.tensor([4, 11])


def layer(residual="pre_norm", activation="relu", dropout=0.0, own=None, cross=None):
    around = RESIDUALS[residual]
    return DecoderLayer(
        attention=own or multi_head(DIMS, has_bias=True),
        cross_attention=cross or multi_head(DIMS, has_bias=True),
        feed_forward=FeedForward(DIMS, d_hidden=17, activation=activation),
        around_attention=around(DIMS, dropout=dropout),
        around_cross_attention=around(DIMS, dropout=dropout),
        around_feed_forward=around(DIMS, dropout=dropout),
    ).double()


def torchs(residual, activation):
    """torch's own layer, with every weight away from its beginning."""
    theirs = nn.TransformerDecoderLayer(
        12,
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
    names = {}
    for name, heads in (("self_attn", ours.attention), ("multihead_attn", ours.cross_attention)):
        projections = (heads.W_Q, heads.W_K, heads.W_V)
        names[f"{name}.in_proj_weight"] = [p.weight for p in projections]
        names[f"{name}.in_proj_bias"] = [p.bias for p in projections]
        names[f"{name}.out_proj.weight"] = [heads.W_O.weight]
        names[f"{name}.out_proj.bias"] = [heads.W_O.bias]
    linears = {"linear1": ours.feed_forward.inner, "linear2": ours.feed_forward.outer}
    for name, linear in linears.items():
        names[f"{name}.weight"], names[f"{name}.bias"] = [linear.weight], [linear.bias]
    rings = (ours.around_attention, ours.around_cross_attention, ours.around_feed_forward)
    for i, ring in enumerate(rings, 1):
        names[f"norm{i}.weight"], names[f"norm{i}.bias"] = [ring.norm.gain], [ring.norm.bias]
    return names


def one_by_one(ours, x, source, steps, source_mask=None):
    """The outputs of a decoder that is given `steps` positions at a time."""
    masks = {} if source_mask is None else {"source_mask": source_mask}
    cache, outputs = ours.start(source), []
    for part in x.split(steps, 1):
        out, cache = ours.step(part, cache, **masks)
        outputs.append(out)
    return torch.cat(outputs, 1)


@pytest.mark.parametrize("residual", ["pre_norm", "post_norm"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("has_padding", [False, True])
def test_it_is_torchs_layer_with_the_same_weights(residual, activation, has_padding):
    ours, theirs = layer(residual, activation), torchs(residual, activation)
    for name, pieces in named(ours).items():
        for piece, part in zip(
            pieces, theirs.get_parameter(name).data.chunk(len(pieces)), strict=True
        ):
            piece.data.copy_(part)
    x, source = doubles(2, 7, 12, requires_grad=True), doubles(2, 11, 12, requires_grad=True)
    lengths = torch.tensor([7, 5])
    masks, blocked = {}, {}
    if has_padding:
        masks = {"mask": padding(lengths, 7), "source_mask": padding(SOURCE_LENGTHS, 11)}
        blocked = {
            "tgt_key_padding_mask": torch.arange(7) >= lengths[:, None],
            "memory_key_padding_mask": torch.arange(11) >= SOURCE_LENGTHS[:, None],
        }
    got = ours(x, source, **masks)
    want = theirs(x, source, tgt_mask=torch.ones(7, 7, dtype=torch.bool).triu(1), **blocked)
    assert_close("output", got, want)
    pieces = {f"{name} {i}": p for name, ps in named(ours).items() for i, p in enumerate(ps)}
    inputs = {"x": x, "source": source}
    found = gradients(got, {**inputs, **pieces})
    for name, grad in gradients(want, {**inputs, **dict(theirs.named_parameters())}).items():
        mine = [found[name]] if name in inputs else [v for k, v in found.items() if k[:-2] == name]
        assert_close(f"gradient of {name}", torch.cat(mine), grad, atol=1e-9)


def test_every_parameter_has_a_counterpart():
    ours = layer()
    mine = {id(piece) for pieces in named(ours).values() for piece in pieces}
    assert mine == {id(p) for p in ours.parameters()}


@pytest.mark.parametrize("residual", RESIDUALS)
@pytest.mark.parametrize("steps", [1, 2, [3, 1, 1, 2], 7])
def test_step_by_step_is_all_at_once(residual, steps):
    ours, x, source = layer(residual), doubles(2, 7, 12), doubles(2, 11, 12)
    mask = padding(SOURCE_LENGTHS, 11)
    assert_close(
        "output", one_by_one(ours, x, source, steps, mask), ours(x, source, source_mask=mask)
    )


def cross_attentions():
    matrix = torch.ones(7, 11).tril(3).bool()
    local = Chain(select=LocalMonotonicSelection(half_width=1))
    return {
        "a window that follows the target": (multi_head(DIMS, chain=local), None),
        "rotary positions": (multi_head(DIMS, rotary=RotaryPositions(DIMS)), None),
        "a matrix over target and source": (multi_head(DIMS), given(matrix)),
    }


@pytest.mark.parametrize("name", cross_attentions())
def test_a_step_knows_its_place_when_it_looks_at_the_source(name):
    cross, mask = cross_attentions()[name]
    ours, x, source = layer(cross=cross), doubles(2, 7, 12), doubles(2, 11, 12)
    masks = {} if mask is None else {"source_mask": mask}
    assert_close(name, one_by_one(ours, x, source, 1, mask), ours(x, source, **masks))


@pytest.mark.parametrize("changed", range(1, 7))
def test_a_later_word_changes_no_earlier_output(changed):
    ours, x, source = layer(), doubles(2, 7, 12), doubles(2, 11, 12)
    before = ours(x, source)
    x[:, changed:] = 13.0
    after = ours(x, source)
    assert torch.equal(before[:, :changed], after[:, :changed])
    assert not torch.equal(before[:, changed:], after[:, changed:])


def test_the_future_stays_hidden_whatever_the_mask_says():
    ours, x, source = layer(), doubles(2, 7, 12), doubles(2, 11, 12)
    everything = torch.ones(7, 7, dtype=torch.bool)
    assert_close("output", ours(x, source, everything), ours(x, source))


def test_the_cache_grows_and_the_source_is_projected_once():
    ours, x, source = layer(), doubles(2, 7, 12), doubles(2, 11, 12)
    start = ours.start(source)
    _, first = ours.step(x[:, :3], start)
    _, second = ours.step(x[:, 3:5], first)
    assert start.past is None
    assert (first.past.length, second.past.length) == (3, 5)
    assert second.source is start.source
    assert torch.equal(second.past.key[:, :, :3], first.past.key)


def test_a_selected_cache_goes_on_from_the_selected_rows():
    ours, x = layer(), doubles(3, 7, 12)
    # three hypotheses of one sentence: the source is the same for all of them
    source, rows = doubles(1, 11, 12).expand(3, 11, 12), torch.tensor([2, 0, 2])
    _, cache = ours.step(x[:, :4], ours.start(source))
    got, _ = ours.step(x[rows, 4:], cache.select(rows))
    assert_close("output", got, ours(x[rows], source)[:, 4:])


def test_selecting_before_the_first_step_selects_nothing():
    ours = layer()
    start = ours.start(doubles(2, 11, 12))
    assert start.select(torch.tensor([1, 0])) == start


def test_grouped_queries_and_rotary_positions_decode_step_by_step():
    own = GroupedQueryHeads(DIMS, n_groups=1, rotary=RotaryPositions(DIMS))
    ours, x, source = layer(own=own), doubles(2, 7, 12), doubles(2, 11, 12)
    assert_close("output", one_by_one(ours, x, source, 1), ours(x, source))


def test_only_the_outputs_of_sublayers_are_dropped():
    ours = layer(dropout=0.3)
    dropping = {name: m.p for name, m in ours.named_modules() if isinstance(m, Dropout) and m.p}
    assert dropping == {
        "around_attention.dropout": 0.3,
        "around_cross_attention.dropout": 0.3,
        "around_feed_forward.dropout": 0.3,
    }
    assert ours.attention.chain.dropout == ours.cross_attention.chain.dropout == 0


@pytest.mark.parametrize("residual", RESIDUALS)
def test_without_dropout_training_is_evaluation(residual):
    ours, x, source = layer(residual), doubles(2, 7, 12), doubles(2, 11, 12)
    assert torch.equal(ours.train()(x, source), ours.eval()(x, source))


def test_the_source_may_have_another_width():
    wide = Dims(d_model=12, n_heads=3, d_key=5, d_value=5)
    ours, x = layer(cross=multi_head(wide)), doubles(2, 7, 12)
    source = doubles(2, 11, 5, requires_grad=True)
    grad = torch.autograd.grad(ours(x, source).sum(), source)[0]
    assert (grad.abs().sum(-1) > 0).all()


@pytest.mark.parametrize("residual", RESIDUALS)
def test_gradcheck_in_double_precision(residual):
    dims = Dims(d_model=2)
    around = RESIDUALS[residual]
    ours = DecoderLayer(
        attention=multi_head(dims),
        cross_attention=multi_head(dims),
        feed_forward=FeedForward(dims, d_hidden=3, activation="gelu"),
        around_attention=around(dims),
        around_cross_attention=around(dims),
        around_feed_forward=around(dims),
    ).double()
    # the norm of two numbers is nearly their sign; a wide eps makes it smooth
    for part in ours.modules():
        if isinstance(part, Norm):
            part.eps = 1.0
    x, source = doubles(1, 3, 2, requires_grad=True), doubles(1, 2, 2, requires_grad=True)

    def run(x, source, *_):
        return ours(x, source)

    assert torch.autograd.gradcheck(run, [x, source, *ours.parameters()])
