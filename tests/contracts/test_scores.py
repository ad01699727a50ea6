"""What every score promises, and each of the table is held to."""

import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import SCORES, attend, given, padding
from regard.attention.links import CoverageScore
from regard.attention.patterns.causal import CausalPattern
from regard.places import Places
from tests.assertions import assert_close, doubles, gradients
from tests.contracts.building import build, small_dims

ORDER_MATTERS = {"location"}
"""A score that reads positions instead of keys."""

NOT_A_DOT_PRODUCT = {"concat", "additive", "location"}

READ_COVERAGE = [name for name, score in SCORES.items() if issubclass(score, CoverageScore)]

B, H, Q, K = 2, 3, 7, 13

every_score = pytest.mark.parametrize("name", SCORES)


def score_and_vectors(name, n_queries=Q, n_keys=K):
    """The score, and queries, keys and values of the widths it takes."""
    dims = small_dims(name)
    query = doubles(B, H, n_queries, dims.query, requires_grad=True)
    key = doubles(B, H, n_keys, dims.key, requires_grad=True)
    value = doubles(B, H, n_keys, dims.value, requires_grad=True)
    return build(name, dims), query, key, value


@every_score
def test_masked_keys_receive_no_gradient(name):
    score, query, key, value = score_and_vectors(name)
    done = attend(query, key, value, padding(torch.tensor([K, K - 4])), score=score)
    found = gradients(done.context, {"key": key, "value": value})
    for what, gradient in found.items():
        assert (gradient[1, :, K - 4 :] == 0).all(), what
    assert (found["value"][1, :, : K - 4] != 0).all()
    assert (found["key"][1, :, : K - 4] != 0).any() == (name != "location")


@every_score
def test_an_all_masked_row_is_zero_with_finite_gradients(name):
    score, query, key, value = score_and_vectors(name)
    mask = torch.ones(Q, K, dtype=torch.bool)
    mask[3] = False
    context = attend(query, key, value, given(mask), score=score).context
    assert (context[..., 3, :] == 0).all()
    named = {"query": query, "key": key, "value": value, **dict(score.named_parameters())}
    for what, gradient in gradients(context, named).items():
        assert torch.isfinite(gradient).all(), what


@every_score
def test_permuting_keys_permutes_scores_unless_order_matters(name):
    score, query, key, _ = score_and_vectors(name)
    order = torch.randperm(K)
    straight, permuted = score(query, key), score(query, key[..., order, :])
    if name in ORDER_MATTERS:
        assert_close("scores", permuted, straight)
    else:
        assert_close("permuted scores", permuted, straight[..., order])
        assert (permuted - straight).abs().max() > 1e-3


@every_score
def test_permuting_queries_permutes_scores(name):
    score, query, key, _ = score_and_vectors(name)
    order = torch.randperm(Q)
    permuted = score(query[..., order, :], key)
    assert_close("permuted scores", permuted, score(query, key)[..., order, :])


@every_score
def test_the_future_cannot_change_the_past(name):
    score, query, key, value = score_and_vectors(name, K, K)
    other_key, other_value = key.detach().clone(), value.detach().clone()
    other_key[..., 6:, :], other_value[..., 6:, :] = 3.0, -3.0
    one = attend(query, key, value, CausalPattern(), score=score).context
    other = attend(query, other_key, other_value, CausalPattern(), score=score).context
    assert_close("past context", other[..., :6, :], one[..., :6, :])
    assert (other - one)[..., 6:, :].abs().max() > 1e-3


@every_score
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_queries_overflow_nothing_in_single_precision(name, size):
    score, *vectors = score_and_vectors(name)
    score.float()
    query, key, value = (x.detach().float() for x in vectors)
    query = (size * query).requires_grad_()
    done = attend(query, key, value, padding(torch.tensor([K, K - 4])), score=score)
    assert torch.isfinite(done.context).all()
    assert_close("rows of the map", done.map.dense().sum(-1), torch.ones(B, H, Q), atol=1e-2)
    named = {"query": query, **dict(score.named_parameters())}
    for what, gradient in gradients(done.context, named).items():
        assert torch.isfinite(gradient).all(), what


@every_score
@pytest.mark.parametrize(
    ("rows", "columns"),
    [(slice(0, 1), slice(0, 1)), (slice(2, 5), slice(3, 11)), (slice(6, 7), slice(5, 13))],
)
def test_a_rectangle_is_scored_as_it_is_in_the_whole(name, rows, columns):
    score, query, key, value = score_and_vectors(name)
    places = Places.between(Q, K)
    part = score(query[..., rows, :], key[..., columns, :], places.tile(rows, columns))
    assert_close("scores", part, score(query, key, places)[..., rows, columns])
    done = attend(query, key, value, score=score)
    assert_close("tile", done.map.tile(rows, columns), done.map.dense()[..., rows, columns])


@every_score
def test_a_cached_query_is_scored_as_it_is_in_the_whole(name):
    score, query, key, _ = score_and_vectors(name, K, K)
    last = score(query[..., -1:, :], key, Places.between(1, K, past=K - 1))
    assert_close("scores", last, score(query, key)[..., -1:, :])


@every_score
def test_a_dot_product_by_its_own_word_is_one(name):
    score, query, key, _ = score_and_vectors(name)
    lowered = score.as_dot(query, key)
    assert (lowered is None) == (name in NOT_A_DOT_PRODUCT)
    if lowered is not None:
        assert_close("scores", lowered.scale * lowered.query @ lowered.key.mT, score(query, key))


@every_score
def test_prepared_keys_are_scored_as_the_keys_are(name):
    score, query, key, _ = score_and_vectors(name)
    assert_close("scores", score.compare(query, score.prepared(key)), score(query, key))


def test_three_scores_read_what_a_key_has_received():
    assert READ_COVERAGE == ["general", "concat", "additive"]


@pytest.mark.parametrize("name", READ_COVERAGE)
def test_what_a_key_has_received_is_its_last_number(name):
    score, query, key, _ = score_and_vectors(name)
    prepared, covered = score.prepared(key[..., :-1]), key[..., -1][..., None, :]
    found = score.compare_covered(query, prepared, covered.expand(-1, -1, Q, -1))
    assert_close("scores", found, score(query, key))


@pytest.mark.parametrize("name", READ_COVERAGE)
def test_what_a_key_has_received_is_each_query_s_own(name):
    score, query, key, _ = score_and_vectors(name)
    covered = doubles(B, H, Q, K)
    found = score.compare_covered(query, score.prepared(key[..., :-1]), covered)
    for row in range(Q):
        own = torch.cat([key[..., :-1], covered[..., row, :, None]], dim=-1)
        assert_close("row", found[..., row, :], score(query, own)[..., row, :])


@every_score
def test_gradcheck_in_double_precision(name):
    dims = small_dims(name, n_heads=2, width=2)
    score = build(name, dims)
    query = doubles(1, 2, 3, dims.query, requires_grad=True)
    key = doubles(1, 2, 5, dims.key, requires_grad=name != "location")
    assert gradcheck(lambda query, key, *_: score(query, key), (query, key, *score.parameters()))


@every_score
def test_padding_the_source_more_changes_nothing(name):
    score, query, key, value = score_and_vectors(name)
    longer_key = torch.cat([key, 9 * doubles(B, H, 4, key.shape[-1])], -2)
    longer_value = torch.cat([value, 9 * doubles(B, H, 4, value.shape[-1])], -2)
    lengths = torch.tensor([K, K - 4])
    one = attend(query, key, value, padding(lengths), score=score).context
    more = attend(query, longer_key, longer_value, padding(lengths, K + 4), score=score).context
    assert_close("context", more, one)


@every_score
def test_a_batch_of_one_is_a_row_of_the_batch(name):
    score, query, key, _ = score_and_vectors(name)
    assert_close("scores", score(query[1:], key[1:]), score(query, key)[1:])
