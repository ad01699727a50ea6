import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import attend
from regard.attention.selections.soft import SoftSelection
from regard.attention.selections.top_k import TopKSelection
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, doubles
from tests.oracles import selections

SEEN = torch.tensor([[True]])


def weigh(select, scores, mask=SEEN):
    """The weights of a whole matrix."""
    places = Places.between(*scores.shape[-2:])
    rows = select.summarise(scores, mask, scores[..., :1], places)
    return select.weigh(scores, mask, rows, places)


@pytest.mark.parametrize("count", [1, 2, 5, 11, 13])
def test_top_k_selection_is_the_equation(count):
    scores, mask = doubles(2, 3, 7, 11), torch.rand(2, 1, 7, 11) > 0.4
    wanted = selections.every_row(
        scores.numpy(), mask.numpy(), lambda e, seen: selections.top_k(e, seen, count)
    )
    assert_close("weights", weigh(TopKSelection(count=count), scores, mask), wanted)


def test_top_k_selection_passes_gradcheck():
    select, mask = TopKSelection(count=2), torch.rand(3, 5) > 0.3
    scores = doubles(2, 3, 5, requires_grad=True)
    assert gradcheck(lambda scores: weigh(select, scores, mask), (scores,))


@pytest.mark.parametrize("count", [11, 12, 100])
def test_with_as_many_as_there_are_keys_it_is_soft(count):
    scores, mask = doubles(2, 3, 7, 11), torch.rand(2, 1, 7, 11) > 0.4
    wanted = weigh(SoftSelection(), scores, mask)
    assert_close("weights", weigh(TopKSelection(count=count), scores, mask), wanted)


def test_with_one_it_is_the_argmax():
    scores = doubles(2, 3, 7, 11)
    wanted = torch.nn.functional.one_hot(scores.argmax(-1), 11)
    assert_close("weights", weigh(TopKSelection(count=1), scores), wanted)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_keys_tied_at_the_last_place_all_stay(count):
    scores = torch.tensor([[0.0, 1.0, 5.0, 1.0, -2.0, 1.0, 0.5]]).double()
    kept = torch.tensor([[False, True, True, True, False, True, False]])
    wanted = scores.masked_fill(~kept, -torch.inf).softmax(-1)
    assert_close("weights", weigh(TopKSelection(count=count), scores), wanted)


def test_hidden_keys_take_no_place_among_the_best():
    scores = torch.tensor([[9.0, 1.0, 8.0, 3.0, 2.0]]).double()
    mask = torch.tensor([[False, True, False, True, True]])
    wanted = torch.tensor([[0.0, 0.0, 0.0, 3.0, 2.0]]).double()
    wanted = wanted.masked_fill(wanted == 0, -torch.inf).softmax(-1)
    assert_close("weights", weigh(TopKSelection(count=2), scores, mask), wanted)


@pytest.mark.parametrize("count", [5, 7, 8])
def test_a_weight_rebuilt_alone_in_single_precision_is_the_one_of_the_whole(count):
    query, key, value = (torch.randn(2, 3, 7, 64) for _ in range(3))
    done = attend(query, key, value, select=TopKSelection(count=count))
    whole = done.map.dense()
    for i in range(7):
        for j in range(7):
            tile = done.map.tile(slice(i, i + 1), slice(j, j + 1))
            assert_close(f"weight {i, j}", tile[..., 0, 0], whole[..., i, j], atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_that_differ_by_more_than_rounding_are_not_tied(dtype):
    # a very low score says nothing about how finely the best are told apart
    scores = torch.tensor([[7.0, 7.0 - 1e-4, -1e6, 3.0]], dtype=dtype)
    wanted = torch.tensor([[1.0, 0.0, 0.0, 0.0]], dtype=dtype)
    assert_close("weights", weigh(TopKSelection(count=1), scores), wanted)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_in_half_precision_neighbouring_numbers_are_tied_and_no_others(dtype):
    scores = torch.tensor([[2.0, 1.9922, 1.96, 1.9, -50.0]], dtype=dtype)
    kept = weigh(TopKSelection(count=1), scores)[0] > 0
    # the first two are neighbours in bfloat16, and eight numbers apart in float16
    assert kept.tolist() == [True, dtype is torch.bfloat16, False, False, False]


def test_scores_that_differ_by_rounding_alone_are_tied():
    largest = torch.tensor(7.0)
    beside = largest.nextafter(torch.tensor(0.0)).nextafter(torch.tensor(0.0))
    scores = torch.stack([largest, torch.tensor(6.9), beside, largest])[None]
    wanted = torch.tensor([[1 / 3, 0.0, 1 / 3, 1 / 3]])
    assert_close("weights", weigh(TopKSelection(count=1), scores), wanted, atol=1e-5)


def test_tied_keys_rebuilt_alone_in_single_precision_all_stay():
    # six times the same key: whichever two are the best, the others are tied with them
    query, key = torch.randn(1, 1, 7, 64), torch.randn(1, 1, 1, 64).repeat(1, 1, 6, 1)
    done = attend(query, key, torch.randn(1, 1, 6, 5), select=TopKSelection(count=2))
    for i in range(7):
        tile = done.map.tile(slice(i, i + 1), slice(0, 2))
        assert_close(f"row {i}", tile, torch.full((1, 1, 1, 2), 1 / 6), atol=1e-5)


@pytest.mark.parametrize("count", [0, -4])
def test_at_least_one_key_must_be_kept(count):
    with pytest.raises(SettingError, match=rf"top_k: count must be at least 1, got {count}\."):
        TopKSelection(count=count)
