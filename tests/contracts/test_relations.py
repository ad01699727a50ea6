"""What every relation promises, and each of the table is held to."""

import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import RELATIONS, all_of, attend, given, padding
from regard.attention.patterns.causal import CausalPattern
from regard.places import Places, Tree
from tests.assertions import assert_close, doubles, gradients
from tests.contracts.building import Inputs, build, random_heads, small_dims

READS_THE_TREE = {"structural"}
LEARNS_NOTHING = {"linear_bias"}
DEPENDS_ON_THE_QUERY = {"shaw", "structural"}

DIMS = small_dims()
B, H, N = 2, DIMS.n_heads, 11

every_relation = pytest.mark.parametrize("name", RELATIONS)
every_relation_of_offsets = pytest.mark.parametrize(
    "name", [name for name in RELATIONS if name not in READS_THE_TREE]
)
every_learned_relation = pytest.mark.parametrize(
    "name", [name for name in RELATIONS if name not in LEARNS_NOTHING]
)


def run(relation, inputs, mask=None, places=None):
    """Attend with the relation, the mask joined with the sentences' lengths."""
    mask = inputs.mask if mask is None else all_of(mask, inputs.mask)
    places = inputs.places if places is None else places
    return attend(inputs.query, inputs.key, inputs.value, mask, relation=relation, places=places)


@every_relation
def test_it_changes_the_weights(name):
    inputs = Inputs.of(DIMS, N, N)
    plain = attend(inputs.query, inputs.key, inputs.value, inputs.mask)
    related = run(build(name, DIMS), inputs)
    assert (related.map.dense() - plain.map.dense()).abs().max() > 1e-2


@every_relation
def test_masked_keys_receive_no_weight_and_no_gradient(name):
    relation, inputs = build(name, DIMS), Inputs.of(DIMS, N, N)
    done = run(relation, inputs)
    assert (done.map.dense()[1, :, :, N - 4 :] == 0).all()
    named = {"key": inputs.key, "value": inputs.value}
    for what, gradient in gradients(done.context, named).items():
        assert (gradient[1, :, N - 4 :] == 0).all(), what
        assert (gradient[1, :, : N - 4] != 0).all(), what


@every_relation
def test_an_all_masked_row_is_zero_with_finite_gradients(name):
    relation, inputs = build(name, DIMS), Inputs.of(DIMS, N, N)
    mask = torch.ones(N, N, dtype=torch.bool)
    mask[3] = False
    context = run(relation, inputs, given(mask)).context
    assert (context[..., 3, :] == 0).all()
    named = {"query": inputs.query, "key": inputs.key, **dict(relation.named_parameters())}
    for what, gradient in gradients(context, named).items():
        assert torch.isfinite(gradient).all(), what


@every_relation
def test_rows_sum_to_one(name):
    weights = run(build(name, DIMS), Inputs.of(DIMS, N, N)).map.dense()
    assert_close("sum of each row", weights.sum(-1), torch.ones(B, H, N))


@every_relation
def test_the_future_cannot_change_the_past(name):
    relation, inputs = build(name, DIMS), Inputs.of(DIMS, N, N)
    key, value = inputs.key.detach().clone(), inputs.value.detach().clone()
    key[..., 6:, :], value[..., 6:, :] = 3.0, -3.0
    one = run(relation, inputs, CausalPattern()).context
    other = run(relation, inputs._replace(key=key, value=value), CausalPattern()).context
    assert_close("past context", other[..., :6, :], one[..., :6, :])
    assert (other - one)[..., 6:, :].abs().max() > 1e-3


@every_relation
@pytest.mark.parametrize("size", [1e4, -1e4])
def test_large_queries_overflow_nothing_in_single_precision(name, size):
    relation, inputs = build(name, DIMS).float(), Inputs.of(DIMS, N, N)
    query = (size * inputs.query.detach().float()).requires_grad_()
    inputs = inputs._replace(query=query, key=inputs.key.float(), value=inputs.value.float())
    done = run(relation, inputs)
    assert torch.isfinite(done.context).all()
    assert_close("rows of the map", done.map.dense().sum(-1), torch.ones(B, H, N), atol=1e-2)
    named = {"query": query, **dict(relation.named_parameters())}
    for what, gradient in gradients(done.context, named).items():
        assert torch.isfinite(gradient).all(), what


@every_relation
@pytest.mark.parametrize(
    ("rows", "columns"),
    [(slice(0, 1), slice(0, 1)), (slice(2, 5), slice(3, 10)), (slice(10, 11), slice(5, 11))],
)
def test_a_rectangle_is_related_as_it_is_in_the_whole(name, rows, columns):
    relation, inputs = build(name, DIMS), Inputs.of(DIMS, N, N)
    tile = inputs.places.tile(rows, columns)
    part = relation.to_scores(inputs.query[..., rows, :], tile)
    whole = relation.to_scores(inputs.query, inputs.places)
    assert_close("scores", part, whole[..., rows, columns])
    done = run(relation, inputs)
    assert_close("tile", done.map.tile(rows, columns), done.map.dense()[..., rows, columns])


@every_relation
def test_a_cached_query_is_related_as_it_is_in_the_whole(name):
    relation, inputs = build(name, DIMS), Inputs.of(DIMS, N, N)
    whole = run(relation, inputs, CausalPattern()).context
    last = Places.between(1, N, past=N - 1, tree=inputs.places.tree)
    alone = inputs._replace(query=inputs.query[..., -1:, :])
    assert_close("context", run(relation, alone, places=last).context, whole[..., -1:, :])


@every_relation
def test_a_bias_by_its_own_word_is_one(name):
    relation, inputs = build(name, DIMS), Inputs.of(DIMS, N, N)
    bias = relation.as_bias(inputs.places)
    assert (bias is None) == (name in DEPENDS_ON_THE_QUERY)
    if bias is not None:
        assert_close("scores", relation.to_scores(inputs.query, inputs.places), bias)
        assert relation.to_context(doubles(B, H, N, N), inputs.places) == 0.0


@every_learned_relation
def test_with_zeros_it_adds_nothing(name):
    relation, inputs = build(name, DIMS), Inputs.of(DIMS, N, N)
    for parameter in relation.parameters():
        torch.nn.init.zeros_(parameter)
    plain = attend(inputs.query, inputs.key, inputs.value, inputs.mask)
    assert_close("context", run(relation, inputs).context, plain.context)


@every_relation_of_offsets
def test_shifting_all_positions_changes_nothing(name):
    relation, inputs = build(name, DIMS), Inputs.of(DIMS, N, N)
    here = inputs.places
    there = Places(here.query + 1009, here.key + 1009, N + 1009)
    weights = doubles(B, H, N, N)
    for what, of in (
        ("scores", lambda places: relation.to_scores(inputs.query, places)),
        ("context", lambda places: relation.to_context(weights, places) + inputs.value),
    ):
        assert_close(what, of(there), of(here))


@every_relation
def test_gradcheck_in_double_precision(name):
    dims = small_dims(n_heads=2, width=2)
    relation, inputs = build(name, dims), Inputs.of(dims, 5, 5, shortage=1)

    def context(query, key, value, *_):
        return run(relation, inputs._replace(query=query, key=key, value=value)).context

    tensors = (inputs.query, inputs.key, inputs.value, *relation.parameters())
    assert gradcheck(context, tensors, fast_mode=True)


@every_relation
def test_padding_the_sentence_more_changes_nothing(name):
    relation, inputs = build(name, DIMS), Inputs.of(DIMS, N, N)
    more = Inputs(
        *[torch.cat([x, 9 * doubles(B, H, 4, x.shape[-1])], -2) for x in inputs[:3]],
        inputs.lengths,
        torch.nn.functional.pad(inputs.heads, (0, 4), value=-1),
    )
    longer = attend(
        more.query,
        more.key,
        more.value,
        padding(inputs.lengths, N + 4),
        relation=relation,
        places=more.places,
    )
    assert_close("context", longer.context[..., :N, :], run(relation, inputs).context)


@every_relation
def test_a_batch_of_one_is_a_row_of_the_batch(name):
    relation, inputs = build(name, DIMS), Inputs.of(DIMS, N, N, shortage=0)
    alone = Inputs(*[tensor[1:] for tensor in inputs])
    assert_close("context", run(relation, alone).context, run(relation, inputs).context[1:])


def test_another_tree_changes_a_relation_that_reads_it():
    inputs = Inputs.of(DIMS, N, N, shortage=0)
    other = Places.between(N, N, tree=Tree.from_heads(random_heads(inputs.lengths)))
    for name in RELATIONS:
        relation = build(name, DIMS)
        one, two = run(relation, inputs).context, run(relation, inputs, places=other).context
        assert ((one - two).abs().max() > 1e-3) == (name in READS_THE_TREE), name
