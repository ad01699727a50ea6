"""Weighted branches: each head gets a feed-forward of its own, and a learned say in the sum."""

import itertools

import pytest
import torch

from regard.attention import multi_head, padding
from regard.attention.patterns.causal import CausalPattern
from regard.dims import Dims
from regard.errors import DimsError, SettingError, UnknownChoice
from regard.layers import (
    RESIDUALS,
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    WeightedBranches,
)
from regard.layers.residual import Residual
from regard.layers.weighted_branches import (
    BranchedDecoderLayer,
    BranchedEncoderLayer,
    project_all,
    project_to_simplex,
)
from tests.assertions import assert_close, assert_same_gradients, doubles

DIMS = Dims(d_model=15, n_heads=3)


def branches(dims=DIMS, d_hidden=21):
    return WeightedBranches(dims, attention=multi_head(dims), d_hidden=d_hidden).double()


def encoder_layer(residual="pre_norm", dims=DIMS):
    around = RESIDUALS[residual](dims)
    return BranchedEncoderLayer(branches=branches(dims), around_branches=around).double()


def decoder_layer(residual="pre_norm", dims=DIMS):
    around = RESIDUALS[residual]
    return BranchedDecoderLayer(
        attention=multi_head(dims),
        branches=branches(dims),
        around_attention=around(dims),
        around_branches=around(dims),
    ).double()


class Around(Residual):
    """Whatever a test wants around a sublayer."""

    def __init__(self, wrapped):
        super().__init__(DIMS)
        self.wrapped = wrapped

    def forward(self, x, sublayer):
        return self.wrapped(x, sublayer)


# no sum and no norm: what a plain layer has around its attention if it is one branch
BARE = Around(lambda x, sublayer: sublayer(x))


def network_of(layer, dims):
    """The one branch's feed-forward as a plain one, with the same weights."""
    layer.b1.data.normal_()
    layer.b2.data.normal_()
    network = FeedForward(dims, d_hidden=21).double()
    network.inner.weight.data.copy_(layer.W1[0].T)
    network.inner.bias.data.copy_(layer.b1[0, 0])
    network.outer.weight.data.copy_(layer.W2[0].T)
    network.outer.bias.data.copy_(layer.b2)
    return network


def test_the_output_is_the_equation_branch_by_branch():
    layer, x = branches(), doubles(2, 7, 15)
    layer.b1.data.normal_()
    layer.b2.data.normal_()
    attention, total = layer.attention, layer.b2
    for i in range(3):
        own = slice(5 * i, 5 * i + 5)
        q, k, v = (x @ p.weight[own].T for p in (attention.W_Q, attention.W_K, attention.W_V))
        head = (q @ k.mT / 5**0.5).softmax(-1) @ v
        branch = layer.kappa[i] * (head @ attention.W_O.weight[:, own].T)
        total = total + layer.alpha[i] * ((branch @ layer.W1[i] + layer.b1[i]).relu() @ layer.W2[i])
    assert_close("output", layer(x), total)


def test_it_costs_two_numbers_more_for_each_branch():
    plain = [multi_head(DIMS), FeedForward(DIMS, d_hidden=21)]
    numbers = sum(p.numel() for part in plain for p in part.parameters())
    assert sum(p.numel() for p in branches().parameters()) == numbers + 2 * 3


def test_feed_forwards_cut_in_columns_and_rows_add_up_to_the_whole_one():
    layer, x = branches(), doubles(2, 7, 15)
    layer.b1.data.normal_()
    whole = FeedForward(DIMS, d_hidden=21).double()
    whole.inner.weight.data.copy_(torch.cat(list(layer.W1), -1).T)
    whole.inner.bias.data.copy_(torch.cat(list(layer.b1), -1).squeeze(0))
    whole.outer.weight.data.copy_(torch.cat(list(layer.W2)).T)
    parts = [(x @ layer.W1[i] + layer.b1[i]).relu() @ layer.W2[i] for i in range(3)]
    assert_close("output", sum(parts), whole(x))


def test_one_branch_is_attention_and_then_the_feed_forward():
    dims = Dims(d_model=15)
    layer, x = branches(dims), doubles(2, 7, 15)
    network = network_of(layer, dims)
    assert layer.kappa.tolist() == layer.alpha.tolist() == [1]
    assert_close("output", layer(x), network(layer.attention(x).context))


def test_without_biases_only_the_product_of_both_weights_counts():
    layer, x = branches(), doubles(2, 7, 15)
    layer.kappa.data.copy_(torch.tensor([0.5, 0.2, 0.3]))
    layer.alpha.data.copy_(torch.tensor([0.1, 0.7, 0.2]))
    before = layer(x)
    layer.kappa.data, layer.alpha.data = layer.kappa * layer.alpha, torch.ones_like(layer.alpha)
    assert_close("output", layer(x), before)


def test_a_branch_without_a_say_is_not_heard():
    layer, x = branches(), doubles(2, 7, 15)
    layer.alpha.data.copy_(torch.tensor([0.0, 0.25, 0.75]))
    before = layer(x)
    layer.W2.data[0] = 97.0
    assert_close("output", layer(x), before)


def test_keys_masks_and_widths_reach_the_attention():
    dims = Dims(d_model=15, n_heads=3, d_key=7, d_value=7)
    layer, x, key = branches(dims), doubles(2, 5, 15), doubles(2, 11, 7)
    before = layer(x, key, padding(torch.tensor([4, 11]), 11))
    key[0, 4:] = 97.0
    assert torch.equal(layer(x, key, padding(torch.tensor([4, 11]), 11)), before)
    assert not torch.equal(layer(x, key), before)


def test_gradcheck_in_double_precision():
    layer = branches(Dims(d_model=4, n_heads=2), d_hidden=4)
    layer.b1.data.normal_()
    x = doubles(1, 3, 4, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t, *_: layer(t), [x, *layer.parameters()])


def test_both_weights_begin_on_the_simplex():
    for weights in (branches().kappa, branches().alpha):
        assert weights.min() >= 0
        assert weights.sum().item() == pytest.approx(1)


def test_projecting_after_a_step_brings_both_weights_back():
    layer, x = branches(), doubles(2, 7, 15)
    step = torch.optim.SGD(layer.parameters(), lr=0.5)
    layer(x).square().sum().backward()
    step.step()
    moved = layer.kappa.detach().clone(), layer.alpha.detach().clone()
    assert all(abs(weights.sum().item() - 1) > 1e-6 for weights in moved)
    layer.project()
    for weights, free in zip((layer.kappa, layer.alpha), moved, strict=True):
        assert weights.min() >= 0
        assert weights.sum().item() == pytest.approx(1, abs=1e-12)
        assert_close("projection", weights.detach(), project_to_simplex(free))
        assert weights.requires_grad


@pytest.mark.parametrize("width", [1, 2, 3, 17])
def test_a_projection_is_on_the_simplex_and_stays_there(width):
    projected = project_to_simplex(5 * doubles(11, width))
    assert projected.min() >= 0
    assert_close("sums", projected.sum(-1), torch.ones(11))
    assert_close("projected again", project_to_simplex(projected), projected)


def test_the_projection_is_the_nearest_point():
    grid = torch.tensor(
        [(a, b, 60 - a - b) for a, b in itertools.product(range(61), repeat=2) if a + b <= 60]
    ).double()
    for point in 2 * doubles(13, 3):
        distance = (grid / 60 - point).norm(dim=-1)
        best = (project_to_simplex(point) - point).norm()
        assert best <= distance.min() + 1e-12
        assert best >= distance.min() - 0.03


def test_a_shift_of_all_numbers_does_not_move_the_projection():
    points = doubles(11, 5)
    assert_close("projection", project_to_simplex(points + 97), project_to_simplex(points))


def test_gradcheck_of_the_projection():
    points = torch.tensor([[0.3, 0.9, -0.8, 0.25]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(project_to_simplex, [points])


def test_an_output_bias_that_no_branch_would_own_is_refused():
    said = "weighted_branches: the attention's output projection is cut .* Take has_bias=False"
    with pytest.raises(SettingError, match=said):
        WeightedBranches(DIMS, attention=multi_head(DIMS, has_bias=True))


def test_branches_that_do_not_divide_the_inner_width_are_refused():
    said = r"weighted_branches: 3 branches must divide d_hidden \(20\): each branch owns an equal"
    with pytest.raises(DimsError, match=said):
        branches(d_hidden=20)


def test_frozen_weights_stay_as_they_are_to_the_bit_while_the_rest_learns():
    dims = Dims(d_model=8, n_heads=4)
    layer = WeightedBranches(dims, attention=multi_head(dims), d_hidden=16)
    layer.kappa.requires_grad_(False)
    layer.alpha.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    optimiser = torch.optim.Adam([p for p in layer.parameters() if p.requires_grad], lr=0.1)
    layer(torch.randn(2, 5, 8)).square().sum().backward()
    optimiser.step()
    after = layer.state_dict()
    assert torch.equal(after["kappa"], before["kappa"])
    assert torch.equal(after["alpha"], before["alpha"])
    assert not torch.equal(after["W1"], before["W1"])


@pytest.mark.parametrize("residual", RESIDUALS)
def test_an_encoder_layer_of_one_branch_is_the_plain_layer_with_one_residual(residual):
    dims = Dims(d_model=15)
    layer, x = encoder_layer(residual, dims), doubles(2, 7, 15, requires_grad=True)
    network, attention = network_of(layer.branches, dims), layer.branches.attention
    mask = padding(torch.tensor([4, 7]))
    # both sublayers stand inside the second residual, and nothing inside the first
    plain = EncoderLayer(
        attention=attention,
        feed_forward=network,
        around_attention=BARE,
        around_feed_forward=BARE,
    )
    want = layer.around_branches(x, lambda z: plain(z, mask))
    got = layer(x, mask)
    assert_close("output", got, want)
    assert_same_gradients(got, want, {"x": x, "W_Q": attention.W_Q.weight})


@pytest.mark.parametrize("residual", RESIDUALS)
def test_a_decoder_layer_of_one_branch_is_the_plain_layer_with_one_residual_less(residual):
    dims = Dims(d_model=15)
    layer, x = decoder_layer(residual, dims), doubles(2, 5, 15, requires_grad=True)
    source, mask = doubles(2, 11, 15, requires_grad=True), padding(torch.tensor([4, 11]))
    network, cross = network_of(layer.branches, dims), layer.branches.attention
    after_itself = DecoderLayer(
        attention=layer.attention,
        cross_attention=cross,
        feed_forward=network,
        around_attention=layer.around_attention,
        around_cross_attention=Around(
            lambda y, the_source: layer.around_branches(y, lambda z: network(the_source(z)))
        ),
        around_feed_forward=Around(lambda z, _: z),
    )
    got, want = layer(x, source, source_mask=mask), after_itself(x, source, source_mask=mask)
    assert_close("output", got, want)
    assert_same_gradients(got, want, {"x": x, "source": source, "W_V": cross.W_V.weight})


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_layers_go_on_from_a_cache_as_if_all_had_been_there(steps):
    x, source, mask = doubles(2, 7, 15), doubles(2, 11, 15), padding(torch.tensor([4, 11]))
    encoder, decoder = encoder_layer(), decoder_layer()
    past, cache, read, written = None, decoder.start(source), [], []
    for part in x.split(steps, 1):
        out, past = encoder.step(part, past, CausalPattern())
        read.append(out)
        out, cache = decoder.step(part, cache, source_mask=mask)
        written.append(out)
    assert_close("encoder", torch.cat(read, 1), encoder(x, CausalPattern()))
    assert_close("decoder", torch.cat(written, 1), decoder(x, source, source_mask=mask))


def test_a_branched_decoder_hides_the_future_and_the_source_s_padding():
    layer, x, source = decoder_layer(), doubles(2, 7, 15), doubles(2, 11, 15)
    mask = padding(torch.tensor([4, 11]))
    before = layer(x, source, source_mask=mask)
    x[:, 5:] = 97.0
    source[0, 4:] = 97.0
    assert torch.equal(layer(x, source, source_mask=mask)[:, :5], before[:, :5])


def test_the_activation_and_the_dropout_are_those_asked_for():
    x, dims = doubles(2, 7, 15), DIMS
    smooth = WeightedBranches(dims, attention=multi_head(dims), d_hidden=21, activation="gelu")
    sharp = WeightedBranches(dims, attention=multi_head(dims), d_hidden=21, dropout=0.5)
    sharp.load_state_dict(smooth.state_dict())
    smooth, sharp = smooth.double(), sharp.double()
    heads = smooth.attention.attend_to_memory(x, smooth.attention.remember(x, x)).context
    W_O = smooth.attention.W_O.weight.T.unflatten(0, (3, 5))
    inner = smooth.kappa.view(-1, 1, 1) * (heads @ W_O) @ smooth.W1
    for layer, bend in ((smooth, torch.nn.functional.gelu), (sharp.eval(), torch.relu)):
        want = torch.einsum("h,bhnm->bnm", smooth.alpha, bend(inner) @ smooth.W2)
        assert_close("output", layer(x), want)
    assert not torch.equal(sharp.train()(x), sharp(x))
    with pytest.raises(UnknownChoice, match="There is no 'tanh' here"):
        WeightedBranches(dims, attention=multi_head(dims), d_hidden=21, activation="tanh")


def test_projecting_a_model_reaches_every_branch_in_it():
    model = torch.nn.Sequential(encoder_layer(), torch.nn.Linear(3, 3), decoder_layer())
    weights = [w for layer in model[::2] for w in (layer.branches.kappa, layer.branches.alpha)]
    for weight in weights:
        weight.data += 0.5
    project_all(model)
    for weight in weights:
        assert weight.min() >= 0
        assert weight.sum().item() == pytest.approx(1)
