"""What every selection promises, and each of the table is held to."""

import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import SELECTIONS, all_of, attend, given, padding
from regard.attention.patterns.causal import CausalPattern
from regard.attention.scores.dot import DotScore
from regard.places import Places
from tests.assertions import assert_close, doubles, gradients
from tests.contracts.building import build, small_dims

SUMS_BELOW_ONE = {"local_predictive"}
"""A Gaussian takes some of the weight away, as its paper prints it."""

ORDER_MATTERS = {"local_monotonic", "local_predictive"}
"""A window is a matter of positions."""

DIMS = small_dims()
B, H, Q, K = 2, DIMS.n_heads, 7, 13

SETTLED = [(name, {}) for name in SELECTIONS] + [
    ("hard", {"at_test": "expected"}),
    ("top_k", {"count": 17}),
    ("soft", {"temperature": 3.0}),
]
"""Every selection that gives the same weights twice, with a few more settings."""

every_selection = pytest.mark.parametrize(
    ("name", "settings"), SETTLED, ids=[" ".join([name, *settings]) for name, settings in SETTLED]
)
with_draws = pytest.mark.parametrize(
    ("name", "settings", "training"),
    [(*case, False) for case in SETTLED] + [("hard", {}, True)],
    ids=[" ".join([name, *settings]) for name, settings in SETTLED] + ["hard draws"],
)


def weigh(select, scores, mask, query=None):
    """The weights and the row numbers of a whole matrix of scores."""
    query = doubles(*scores.shape[:-1], DIMS.query) if query is None else query
    places = Places.between(*scores.shape[-2:])
    rows = select.summarise(scores, mask, query.to(scores.dtype), places)
    return select.weigh(scores, mask, rows, places), rows


def with_rows(weights, rows):
    """Weights and row numbers side by side: everything a loss may read."""
    return torch.cat([weights, *[number for number in rows if number.is_floating_point()]], -1)


def some_hidden():
    """A random mask in which every row sees a key."""
    mask = torch.rand(B, 1, Q, K) > 0.4
    mask[..., 5] = True
    return mask


@with_draws
def test_masked_keys_receive_no_weight_and_no_gradient(name, settings, training):
    select, mask = build(name, DIMS, **settings).train(training), some_hidden()
    scores = doubles(B, H, Q, K, requires_grad=True)
    weights, rows = weigh(select, scores, mask)
    hidden = ~mask.expand(weights.shape)
    assert (weights[hidden] == 0).all()
    gradient = gradients(with_rows(weights, rows), {"scores": scores})["scores"]
    assert (gradient[hidden] == 0).all()
    assert (gradient[~hidden] != 0).any()


@with_draws
def test_an_all_masked_row_is_zero_with_finite_gradients(name, settings, training):
    select, mask = build(name, DIMS, **settings).train(training), some_hidden()
    mask[1, 0, 2] = False
    scores, query = doubles(B, H, Q, K, requires_grad=True), doubles(B, H, Q, DIMS.query)
    query.requires_grad_()
    weights, rows = weigh(select, scores, mask, query)
    assert (weights[1, :, 2] == 0).all()
    named = {"scores": scores, "query": query, **dict(select.named_parameters())}
    found = gradients(with_rows(weights, rows), named)
    for what, gradient in found.items():
        assert torch.isfinite(gradient).all(), what
    assert (found["scores"][1, :, 2] == 0).all()


@with_draws
def test_rows_sum_to_one_unless_declared(name, settings, training):
    select, mask = build(name, DIMS, **settings).train(training), some_hidden()
    # no window of five keys without a visible one
    mask[..., ::2] = True
    total = weigh(select, doubles(B, H, Q, K), mask)[0].sum(-1)
    if name in SUMS_BELOW_ONE:
        assert (total > 0).all()
        assert (total < 1).all()
    else:
        assert_close("sum of each row", total, torch.ones(B, H, Q))


@with_draws
def test_weights_are_never_negative(name, settings, training):
    select = build(name, DIMS, **settings).train(training)
    weights, _ = weigh(select, 5 * doubles(B, H, Q, K), some_hidden())
    assert (weights >= 0).all()
    assert weights.max() > 0


@every_selection
def test_permuting_keys_permutes_weights_unless_order_matters(name, settings):
    select, mask, order = build(name, DIMS, **settings), some_hidden(), torch.randperm(K)
    scores, query = doubles(B, H, Q, K), doubles(B, H, Q, DIMS.query)
    straight, _ = weigh(select, scores, mask, query)
    permuted, _ = weigh(select, scores[..., order], mask[..., order], query)
    if name in ORDER_MATTERS:
        assert (permuted - straight[..., order]).abs().max() > 1e-3
    else:
        assert_close("permuted weights", permuted, straight[..., order])


@every_selection
def test_one_more_in_every_score_changes_nothing(name, settings):
    select, mask = build(name, DIMS, **settings), some_hidden()
    scores, query = doubles(B, H, Q, K), doubles(B, H, Q, DIMS.query)
    raised, _ = weigh(select, scores + 1, mask, query)
    assert_close("weights", raised, weigh(select, scores, mask, query)[0])


@every_selection
def test_the_future_cannot_change_the_past(name, settings):
    select = build(name, DIMS, **settings)
    query, key, value = doubles(B, H, K, 5), doubles(B, H, K, 5), doubles(B, H, K, 7)
    other_key, other_value = key.clone(), value.clone()
    other_key[..., 6:, :], other_value[..., 6:, :] = 3.0, -3.0
    one = attend(query, key, value, CausalPattern(), select=select)
    other = attend(query, other_key, other_value, CausalPattern(), select=select)
    past, future = slice(None, 6), slice(6, None)
    assert_close("past context", other.context[..., past, :], one.context[..., past, :])
    assert (other.context - one.context)[..., future, :].abs().max() > 1e-3


@with_draws
def test_one_key_gets_all_the_weight(name, settings, training):
    select = build(name, DIMS, **settings).train(training)
    weights, _ = weigh(select, doubles(B, H, Q, 1), torch.ones(1, 1, dtype=torch.bool))
    if name in SUMS_BELOW_ONE:
        assert ((weights > 0) & (weights < 1)).all()
    else:
        assert_close("weights", weights, torch.ones(B, H, Q, 1))


@with_draws
@pytest.mark.parametrize("high", [1e4, -1e4])
def test_large_scores_overflow_nothing_in_single_precision(name, settings, training, high):
    select = build(name, DIMS, **settings).train(training).float()
    scores = torch.randn(B, H, Q, K) + torch.tensor([0.0, high]).repeat(7)[:K]
    scores.requires_grad_()
    weights, rows = weigh(select, scores, some_hidden())
    assert torch.isfinite(with_rows(weights, rows)).all()
    assert weights.sum(-1).max() <= 1 + 1e-2
    assert weights.max() > 0.1
    found = gradients(with_rows(weights, rows), {"scores": scores})
    assert torch.isfinite(found["scores"]).all()


@with_draws
@pytest.mark.parametrize(
    ("rows", "columns"),
    [(slice(0, 1), slice(0, 1)), (slice(2, 5), slice(3, 11)), (slice(6, 7), slice(5, 13))],
)
def test_map_tiles_are_rectangles_of_the_weights(name, settings, training, rows, columns):
    select, mask = build(name, DIMS, **settings).train(training), some_hidden()
    query, key, value = doubles(B, H, Q, 5), doubles(B, H, K, 5), torch.eye(K).double()
    done = attend(query, key, value.expand(B, H, K, K), given(mask), select=select)
    # with the identity for values, the context is the matrix of weights
    assert_close("tile", done.map.tile(rows, columns), done.context[..., rows, columns])
    assert_close("dense map", done.map.dense(), done.context)


@every_selection
def test_gradcheck_in_double_precision(name, settings):
    dims = small_dims(n_heads=1, width=2)
    select = build(name, dims, **settings)
    mask = torch.tensor([[True, False, True, True, True], [False, True, True, True, False]])
    scores, query = doubles(1, 1, 2, 5, requires_grad=True), doubles(1, 1, 2, 2, requires_grad=True)

    def learned(scores, query, *_):
        weights, rows = weigh(select, scores, mask, query)
        return weights, *[number for number in rows if number.requires_grad]

    assert gradcheck(learned, (scores, query, *select.parameters()))


@every_selection
def test_padding_the_source_more_changes_nothing(name, settings):
    select = build(name, DIMS, **settings)
    query, key, value = doubles(B, H, Q, 5), doubles(B, H, K, 5), doubles(B, H, K, 7)
    longer_key = torch.cat([key, 9 * doubles(B, H, 4, 5)], -2)
    longer_value = torch.cat([value, 9 * doubles(B, H, 4, 7)], -2)
    lengths = torch.tensor([K, K - 4])
    one = attend(query, key, value, padding(lengths), score=DotScore(), select=select)
    mask = padding(lengths, K + 4)
    more = attend(query, longer_key, longer_value, mask, score=DotScore(), select=select)
    assert_close("context", more.context, one.context)


@every_selection
def test_a_batch_of_one_is_a_row_of_the_batch(name, settings):
    select, mask = build(name, DIMS, **settings), some_hidden()
    scores, query = doubles(B, H, Q, K), doubles(B, H, Q, DIMS.query)
    whole, _ = weigh(select, scores, mask, query)
    alone, _ = weigh(select, scores[1:], mask[1:], query[1:])
    assert_close("weights", alone, whole[1:])


@every_selection
def test_a_softmax_by_its_own_word_is_one(name, settings):
    select, mask = build(name, DIMS, **settings), some_hidden()
    scores = doubles(B, H, Q, K)
    if (sharpness := select.as_softmax()) is None:
        assert name != "soft"
    else:
        wanted = (scores * sharpness).masked_fill(~mask, -torch.inf).softmax(-1)
        assert_close("weights", weigh(select, scores, mask)[0], wanted)


@every_selection
def test_a_window_by_its_own_word_holds_every_weight(name, settings):
    select, places = build(name, DIMS, **settings), Places.between(Q, K)
    scores, query = doubles(B, H, Q, K), doubles(B, H, Q, DIMS.query)
    window = select.as_window()
    assert (window is not None) == (name in ORDER_MATTERS)
    if window is not None:
        extent = torch.full((Q, 1), K)
        centre = window.centre(query, places, extent).floor()
        outside = ((places.key - centre).abs() > window.half_width).expand(B, H, Q, K)
        weights, _ = weigh(select, scores, torch.ones(1, 1, dtype=torch.bool), query)
        assert (weights[outside] == 0).all()
        assert (weights[~outside] > 0).all()


@every_selection
def test_a_causal_window_over_padding_sees_no_padding(name, settings):
    select = build(name, DIMS, **settings)
    query, key = doubles(B, H, K, 5), doubles(B, H, K, 5)
    value = doubles(B, H, K, 7, requires_grad=True)
    mask = all_of(CausalPattern(), padding(torch.tensor([K, K - 4])))
    context = attend(query, key, value, mask, select=select).context
    gradient = gradients(context, {"value": value})["value"]
    assert (gradient[1, :, K - 4 :] == 0).all()
    assert (gradient[1, :, 0] != 0).any()
