"""Masks that belong to a batch, and how masks and patterns are joined."""

import inspect

import pytest
import torch

from regard.attention import FULL, Chain, all_of, any_of, attend, given, padding
from regard.attention.links import Grid, KernelMask
from regard.attention.masks import AllOf, AnyOf, any_in_blocks
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.blocks import BlocksPattern
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.dims import Dims
from regard.errors import ShapeError
from regard.places import Places
from tests.assertions import assert_close, assert_same_gradients, doubles, gradients

CAUSAL = CausalPattern()
WINDOW = SlidingWindowPattern(size=2)
PLACES = Places.between(5, 7)


def inputs(n_queries=5, n_keys=7):
    return {
        "query": doubles(2, 3, n_queries, 5, requires_grad=True),
        "key": doubles(2, 3, n_keys, 5, requires_grad=True),
        "value": doubles(2, 3, n_keys, 5, requires_grad=True),
    }


def test_lengths_hide_what_fills_up_the_batch():
    assert padding(torch.tensor([2, 5, 0])).valid.tolist() == [
        [True, True, False, False, False],
        [True, True, True, True, True],
        [False, False, False, False, False],
    ]


def test_the_padded_length_may_be_longer_than_the_longest_sentence():
    assert padding(torch.tensor([2, 3]), 5).valid.sum(-1).tolist() == [2, 3]
    assert padding(torch.tensor([2, 3]), 5).valid.shape == (2, 5)


def test_padding_reads_keys_wherever_they_stand():
    mask = padding(torch.tensor([[1, 0, 1, 1], [0, 1, 1, 0]]).bool())
    assert mask.visible(Places.between(3, 4)).tolist() == [
        [[[True, False, True, True]]],
        [[[False, True, True, False]]],
    ]
    some = Places(torch.tensor([[5]]), torch.tensor([[3, 1]]), 4)
    assert mask.visible(some).tolist() == [[[[True, False]]], [[[False, True]]]]


def test_masked_keys_receive_no_weight_and_no_gradient():
    x, mask = inputs(), padding(torch.tensor([3, 7]))
    attended = attend(*x.values(), mask)
    assert attended.map.dense()[0, ..., 3:].abs().max() == 0
    found = gradients(attended.context, x)
    for name in ("key", "value"):
        assert found[name][0, :, 3:].abs().max() == 0, name
        assert found[name][1].abs().min() > 0, name


@pytest.mark.parametrize("path", [None, "dense", "fused", "sparse"])
def test_a_row_that_sees_nothing_is_zero_with_finite_gradients(path):
    x, mask = inputs(), padding(torch.tensor([0, 7]))
    context = Chain(path=path)(*x.values(), mask).context
    assert context[0].abs().max() == 0
    for name, grad in gradients(context, x).items():
        assert grad[0].abs().max() == 0, name
        assert grad[1].abs().max() > 0, name


def test_a_matrix_is_read_at_the_positions_of_queries_and_keys():
    matrix = torch.rand(11, 13) < 0.5
    mask = given(matrix)
    assert torch.equal(mask.visible(Places.between(3, 7, past=5)), matrix[5:8, :7])
    some = Places(torch.tensor([[4], [9]]), torch.tensor([[12, 0, 3]]), 13)
    assert torch.equal(mask.visible(some), matrix[[4, 9]][:, [12, 0, 3]])


def test_a_matrix_for_each_sentence_is_read_where_each_row_looks():
    matrix = torch.rand(2, 1, 5, 7) < 0.5
    keys = torch.randint(7, (2, 3, 5, 2))
    seen = given(matrix).visible(PLACES.at_keys(keys))
    for b in range(2):
        for h in range(3):
            for i in range(5):
                for w in range(2):
                    assert seen[b, h, i, w] == matrix[b, 0, i, keys[b, h, i, w]]


@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (5, 1), (2, 1, 5, 7), (2, 1, 1, 7), (3, 5, 7)])
def test_one_row_or_column_serves_all(shape):
    matrix, x = torch.rand(shape) < 0.7, inputs()
    whole = matrix.expand(2, 3, 5, 7)
    got = Chain(path="sparse")(*x.values(), matrix).context
    want = attend(*x.values(), whole).context
    assert_close("context", got, want)
    assert_same_gradients(got, want, x)


@pytest.mark.parametrize("path", ["dense", "sparse"])
@pytest.mark.parametrize(("rows", "columns"), [(5, 6), (4, 7), (2, 2)])
def test_a_matrix_that_is_too_small_is_refused(path, rows, columns):
    said = (
        f"mask: the matrix has {rows} rows and {columns} columns, "
        "but queries reach position 4 and keys 6"
    )
    with pytest.raises(ShapeError, match=said):
        Chain(path=path)(*inputs().values(), torch.ones(rows, columns, dtype=torch.bool))


def test_a_matrix_for_the_new_queries_alone_is_refused_behind_a_cache():
    said = "mask: the matrix has 5 rows and 7 columns, but queries reach position 6 and keys 6"
    with pytest.raises(ShapeError, match=said):
        attend(*inputs().values(), torch.ones(5, 7).bool(), places=Places.between(5, 7, past=2))


@pytest.mark.parametrize(
    "links",
    [
        {"path": "dense"},
        {"path": "fused"},
        {"path": "sparse"},
        {"path": "windowed", "select": LocalMonotonicSelection()},
        {"path": "short", "memory": MemoryCompressedMemory(Dims(d_model=5, n_heads=3)).double()},
    ],
    ids=lambda links: links["path"],
)
def test_padding_that_speaks_of_too_few_keys_is_refused_on_every_path(links):
    said = (
        "mask: padding speaks of 6 keys, but there are 7. "
        r"Pass the padded length: padding\(lengths, n_keys\)\."
    )
    with pytest.raises(ShapeError, match=said):
        Chain(**links)(*inputs().values(), padding(torch.tensor([6, 3])))


def test_a_matrix_of_numbers_is_refused():
    # the annotation says so first; without it the sentence must be there
    said = (
        r"mask: expected a boolean matrix \(True = may attend\), got torch.float32\. "
        r"Write mask.bool\(\), or mask == 0 if yours marks what is blocked\."
    )
    with pytest.raises(ShapeError, match=said):
        inspect.unwrap(given)(torch.zeros(5, 7))


def test_all_of_is_the_intersection():
    seen = all_of(CAUSAL, WINDOW).visible(PLACES)
    assert seen.tolist() == [[j <= i and abs(j - i) <= 2 for j in range(7)] for i in range(5)]


def test_any_of_is_the_union():
    seen = any_of(CAUSAL, WINDOW).visible(PLACES)
    assert seen.tolist() == [[j <= i or abs(j - i) <= 2 for j in range(7)] for i in range(5)]


def test_one_part_is_not_wrapped_and_nothing_is_full():
    assert all_of(CAUSAL) is CAUSAL
    assert all_of(FULL, CAUSAL, FULL) is CAUSAL
    assert all_of() is FULL
    assert any_of(WINDOW) is WINDOW


def test_unions_of_intersections_stay_symbolic():
    mask = any_of(all_of(CAUSAL, WINDOW), BlocksPattern(size=3))
    x = inputs(7, 7)
    matrix = torch.tensor(
        [[(j <= i and i - j <= 2) or i // 3 == j // 3 for j in range(7)] for i in range(7)]
    )
    assert isinstance(mask, AnyOf)
    assert_close("context", Chain()(*x.values(), mask).context, attend(*x.values(), matrix).context)


@pytest.mark.parametrize("joined", [AllOf, AnyOf])
def test_joined_patterns_never_miss_a_touched_block(joined):
    mask = joined(WINDOW, BlocksPattern(size=3), CAUSAL)
    places = Places.between(11, 13, past=1)
    touched = mask.touches(Grid.over(places, range(11), range(13), q_size=2, k_size=3))
    for a, rows in enumerate(mask.visible(places).split(2)):
        for b, block in enumerate(rows.split(3, 1)):
            assert touched[a, b] or not block.any(), (a, b)


def test_kernels_take_causal_and_padding_together_and_nothing_else():
    one, other = torch.tensor([[True, True, False]]), torch.tensor([[False, True, True]])
    lowered = all_of(CAUSAL, padding(one), padding(other)).as_kernel()
    assert lowered.is_causal
    assert lowered.valid.tolist() == [[False, True, False]]
    assert all_of(CAUSAL, CAUSAL).as_kernel() == KernelMask(is_causal=True, valid=None)
    assert all_of(CAUSAL, WINDOW).as_kernel() is None
    assert any_of(CAUSAL, padding(one)).as_kernel() is None
    assert given(one).as_kernel() is None


@pytest.mark.parametrize(("q_size", "k_size"), [(1, 1), (2, 3), (4, 5), (11, 13)])
def test_blocks_of_a_matrix_are_found_by_differences_of_sums(q_size, k_size):
    matrix = torch.rand(11, 13) < 0.1
    grid = Grid.over(Places.between(11, 13), range(11), range(13), q_size=q_size, k_size=k_size)
    found = any_in_blocks(matrix, grid)
    for a, rows in enumerate(matrix.split(q_size)):
        for b, block in enumerate(rows.split(k_size, 1)):
            assert found[a, b] == block.any(), (a, b)


def test_a_given_matrix_touches_where_one_of_its_sentences_does():
    matrix = torch.zeros(2, 1, 6, 6, dtype=torch.bool)
    matrix[0, 0, 1, 4] = matrix[1, 0, 5, 0] = True
    grid = Grid.over(Places.between(6, 6), range(6), range(6), q_size=3, k_size=3)
    assert given(matrix).touches(grid).tolist() == [[False, True], [True, False]]


def test_keys_and_values_that_do_not_fit_are_refused():
    query, key, value = doubles(2, 3, 5, 4), doubles(2, 3, 7, 4), doubles(2, 3, 6, 4)
    said = (
        r"attend: expected query \(b, h, q, d\), key \(b, h, k, d\) and value \(b, h, k, d\) with "
        r"the same b, h and k; got \(2, 3, 5, 4\), \(2, 3, 7, 4\) and \(2, 3, 6, 4\)\."
    )
    with pytest.raises(ShapeError, match=said):
        inspect.unwrap(attend)(query, key, value)


def test_a_mask_of_one_dimension_is_told_how_to_become_a_row():
    x = torch.randn(1, 1, 3, 4)
    said = r"^mask: expected a matrix, a row for each query .* got shape \(3,\)\. mask\[None\] is"
    for mask in (torch.tensor([True, True, False]), torch.zeros(3)):
        with pytest.raises(ShapeError, match=said):
            attend(x, x, x, mask)
