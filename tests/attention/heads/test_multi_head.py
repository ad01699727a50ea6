"""Multi-head attention: several attentions in parallel, each in its own small space, then mixed."""

import numpy as np
import pytest
import torch

from regard.attention import Chain, multi_head, padding
from regard.attention.patterns.causal import CausalPattern
from regard.attention.scores.additive import AdditiveScore
from regard.dims import Dims
from regard.errors import DimsError, MeetingError
from regard.places import Places
from regard.positions.rotary import RotaryPositions
from regard.positions.sinusoidal import SinusoidalPositions
from tests.assertions import assert_close, doubles

DIMS = Dims(d_model=15, n_heads=3, d_query=7, d_key=11, d_value=13)


def softmax(scores):
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def one_by_one(heads, query, key, value, turn=lambda x, at: x):
    """Every head on its own, with its slice of every weight; then their shares of the output."""
    W_Q, W_K, W_V, W_O = (
        p.weight.detach().numpy() for p in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O)
    )
    d = heads.dims.d_head
    total = 0
    for h in range(heads.dims.n_heads):
        own = slice(h * d, (h + 1) * d)
        q = turn(query.numpy() @ W_Q[own].T, np.arange(query.shape[1]))
        k = turn(key.numpy() @ W_K[own].T, np.arange(key.shape[1]))
        v = value.numpy() @ W_V[own].T
        head = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(d)) @ v
        total = total + head @ W_O[:, own].T
    return total


def turned(x, at):
    """Each pair of channels by its angle, as a complex number."""
    w = 10000.0 ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    z = (x[..., 0::2] + 1j * x[..., 1::2]) * np.exp(1j * at[:, None] * w)
    return np.stack([z.real, z.imag], -1).reshape(x.shape)


def test_heads_together_are_a_sum_over_heads_one_by_one():
    heads = multi_head(DIMS).double()
    query, key, value = doubles(2, 5, 7), doubles(2, 17, 11), doubles(2, 17, 13)
    want = one_by_one(heads, query, key, value)
    assert_close("context", heads(query, key, value).context, want)


def test_side_by_side_through_the_output_matrix_is_the_sum_of_shares():
    heads = multi_head(DIMS).double()
    query, key, value = doubles(2, 5, 7), doubles(2, 17, 11), doubles(2, 17, 13)
    apart = heads.attend_to_memory(query, heads.remember(key, value)).context
    shares = [apart[:, h] @ heads.W_O.weight[:, 5 * h : 5 * h + 5].T for h in range(3)]
    assert_close("context", heads(query, key, value).context, sum(shares))


def test_one_head_with_identity_projections_is_the_worked_example():
    heads = multi_head(Dims(d_model=3)).double()
    for projection in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O):
        projection.weight.data.copy_(torch.eye(3))
    x = torch.tensor([[[1.0, 3, 2], [1, 1, 3], [1, 2, 1]]], dtype=torch.float64)
    want = [[1, 2.779756, 2.037715], [1, 1.728771, 2.583896], [1, 2.607958, 2.0]]
    weights = [
        [0.865743, 0.085986, 0.048271],
        [0.347146, 0.618375, 0.034479],
        [0.738638, 0.130681, 0.130681],
    ]
    attended = heads(x)
    assert_close("context", attended.context, np.array([want]), atol=1e-6)
    assert_close("weights", attended.map.dense(), np.array([[weights]]), atol=1e-6)


def test_biases_are_added_to_all_four_projections():
    heads = multi_head(Dims(d_model=15, n_heads=3), has_bias=True).double()
    x = doubles(2, 5, 15)
    for projection in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O):
        projection.bias.data.normal_()
    q, k, v = (
        (x @ p.weight.T + p.bias).view(2, 5, 3, 5).transpose(1, 2)
        for p in (heads.W_Q, heads.W_K, heads.W_V)
    )
    head = (q @ k.mT / 5**0.5).softmax(-1) @ v
    joined = head.transpose(1, 2).reshape(2, 5, 15)
    assert_close("context", heads(x).context, joined @ heads.W_O.weight.T + heads.W_O.bias)


def test_projections_have_no_bias_unless_asked():
    names = [name for name, _ in multi_head(DIMS).named_parameters()]
    assert names == ["W_Q.weight", "W_K.weight", "W_V.weight", "W_O.weight"]


def test_the_heads_begin_different():
    heads = multi_head(Dims(d_model=15, n_heads=3))
    for projection in (heads.W_Q, heads.W_K, heads.W_V):
        one, two, three = projection.weight.split(5)
        for a, b in ((one, two), (two, three), (one, three)):
            assert (a - b).abs().min() > 0


def test_projections_begin_in_the_bounds_of_xavier_for_the_whole_matrix():
    heads = multi_head(Dims(d_model=60, n_heads=3))
    for projection in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O):
        assert projection.weight.abs().max().item() == pytest.approx(0.05**0.5, rel=0.02)


def test_rotary_turns_queries_and_keys_but_not_values():
    dims = Dims(d_model=12, n_heads=3)
    heads = multi_head(dims, rotary=RotaryPositions(dims)).double()
    query, key = doubles(2, 5, 12), doubles(2, 7, 12)
    want = one_by_one(heads, query, key, key, turned)
    assert_close("context", heads(query, key).context, want)


def test_rotary_scores_do_not_change_when_all_positions_shift():
    dims = Dims(d_model=12, n_heads=3)
    heads = multi_head(dims, rotary=RotaryPositions(dims)).double()
    x = doubles(2, 5, 12)
    at_home = heads(x).context
    shifted = heads.attend_to_memory(
        x, heads.remember(x, x, past=97), places=Places.between(5, 5, past=97)
    )
    assert_close("context", heads.join(shifted).context, at_home)


@pytest.mark.parametrize("positions", ["none", "sinusoidal", "rotary"])
def test_only_positions_make_the_order_of_words_matter(positions):
    dims = Dims(d_model=12, n_heads=3)
    heads = multi_head(dims, rotary=RotaryPositions(dims) if positions == "rotary" else None)
    heads.double()
    x, order = doubles(2, 7, 12), torch.tensor([3, 0, 6, 2, 5, 1, 4])
    waves = SinusoidalPositions(dims)(torch.arange(7)) if positions == "sinusoidal" else 0.0
    moved = heads(x[:, order] + waves).context
    home = heads(x + waves).context[:, order]
    if positions == "none":
        assert_close("permuted", moved, home)
    else:
        assert (moved - home).abs().max() > 1e-3


def test_one_query_over_a_set_does_not_see_its_order():
    heads = multi_head(Dims(d_model=12, n_heads=3)).double()
    query, key, order = doubles(2, 1, 12), doubles(2, 7, 12), torch.randperm(7)
    assert_close("context", heads(query, key[:, order]).context, heads(query, key).context)


def test_without_a_value_the_key_is_the_value():
    heads = multi_head(Dims(d_model=12, n_heads=3)).double()
    query, key = doubles(2, 5, 12), doubles(2, 7, 12)
    assert torch.equal(heads(query, key).context, heads(query, key, key).context)


def test_a_row_of_a_batch_is_a_batch_of_one():
    heads = multi_head(Dims(d_model=12, n_heads=3)).double()
    x, lengths = doubles(3, 7, 12), torch.tensor([2, 7, 5])
    together = heads(x, mask=padding(lengths, 7)).context
    for row, n in enumerate(lengths.tolist()):
        alone = heads(x[row : row + 1, :n]).context
        assert_close(f"row {row}", together[row : row + 1, :n], alone)


def test_gradcheck_through_all_projections():
    heads = multi_head(Dims(d_model=4, n_heads=2, d_key=3, d_value=2), has_bias=True).double()
    tensors = [doubles(1, n, d, requires_grad=True) for n, d in ((2, 4), (3, 3), (3, 2))]

    def run(query, key, value, *_):
        return heads(query, key, value).context

    assert torch.autograd.gradcheck(run, [*tensors, *heads.parameters()])


def test_the_map_is_over_heads_and_its_rows_sum_to_one():
    heads = multi_head(Dims(d_model=12, n_heads=3)).double()
    weights = heads(doubles(2, 5, 12), doubles(2, 7, 12)).map
    assert weights.shape == (2, 3, 5, 7)
    assert_close("row sums", weights.dense().sum(-1), torch.ones(2, 3, 5))


def test_explain_counts_the_heads():
    heads = multi_head(Dims(d_model=12, n_heads=3), chain=Chain(pattern=CausalPattern()))
    assert heads.explain(7).path == "fused"
    assert heads.explain(7).dense.multiply_adds == 3 * 7 * 7 * (4 + 4)


def test_heads_that_do_not_divide_the_width_are_refused():
    said = (
        r"n_heads \(3\) must divide d_model \(64\): a head would be 21\.33 wide\. "
        r"Take 2 heads of 32, or d_model = 66\."
    )
    with pytest.raises(DimsError, match=said):
        multi_head(Dims(d_model=64, n_heads=3))


def test_rotary_refuses_a_score_that_is_no_dot_product():
    dims = Dims(d_model=12, n_heads=3)
    said = "chain: rotary and additive cannot meet: only a dot product of rotated vectors"
    with pytest.raises(MeetingError, match=said):
        multi_head(dims, chain=Chain(AdditiveScore(dims.head())), rotary=RotaryPositions(dims))


def test_rotary_keys_behind_a_cache_are_turned_by_their_own_positions():
    dims = Dims(d_model=12, n_heads=3)
    chain = Chain(pattern=CausalPattern())
    heads = multi_head(dims, chain=chain, rotary=RotaryPositions(dims)).double()
    x = doubles(2, 7, 12)
    first, past = heads.step(x[:, :3])
    rest, _ = heads.step(x[:, 3:], past)
    assert_close("context", torch.cat([first.context, rest.context], 1), heads(x).context)
