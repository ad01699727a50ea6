import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import attend, padding
from regard.attention.selections.local_monotonic import LocalMonotonicSelection
from regard.attention.selections.soft import SoftSelection
from regard.errors import SettingError
from regard.places import Places
from tests.assertions import assert_close, doubles
from tests.oracles import selections


def weigh(select, scores, mask, past=0):
    """The weights and the row numbers of a whole matrix."""
    places = Places.between(*scores.shape[-2:], past=past)
    rows = select.summarise(scores, mask, scores[..., :1], places)
    return select.weigh(scores, mask, rows, places), rows


@pytest.mark.parametrize("half_width", [0, 1, 2, 5])
def test_local_monotonic_selection_is_the_equation(half_width):
    scores, mask = doubles(2, 3, 13, 11), torch.rand(2, 1, 13, 11) > 0.3
    weights, _ = weigh(LocalMonotonicSelection(half_width=half_width), scores, mask)
    seen = mask.expand(2, 3, 13, 11)
    for i in range(13):
        wanted = selections.every_row(
            scores[:, :, i].numpy(),
            seen[:, :, i].numpy(),
            lambda e, row, i=i: selections.local_monotonic(e, row, i, half_width),
        )
        assert_close(f"row {i}", weights[:, :, i], wanted)


def test_local_monotonic_selection_passes_gradcheck():
    select, mask = LocalMonotonicSelection(half_width=1), torch.rand(3, 5) > 0.3
    scores = doubles(2, 3, 5, requires_grad=True)
    assert gradcheck(lambda scores: weigh(select, scores, mask)[0], (scores,))


@pytest.mark.parametrize("half_width", [11, 12, 100])
def test_a_window_over_everything_is_soft(half_width):
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5), doubles(2, 3, 11, 13)
    mask = padding(torch.tensor([11, 6]))
    select = LocalMonotonicSelection(half_width=half_width)
    local = attend(query, key, value, mask, select=select)
    soft = attend(query, key, value, mask, select=SoftSelection())
    assert_close("weights", local.map.dense(), soft.map.dense())
    assert_close("context", local.context, soft.context)


def test_a_window_of_one_key_copies_the_values_in_order():
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5), doubles(2, 3, 11, 13)
    context = attend(query, key, value, select=LocalMonotonicSelection(half_width=0)).context
    assert_close("context", context, value[..., :7, :])


def test_the_window_stops_at_the_last_key():
    mask = torch.ones(1, 1, dtype=torch.bool)
    _, rows = weigh(LocalMonotonicSelection(half_width=1), doubles(2, 3, 13, 5), mask)
    wanted = torch.arange(13).clamp(max=4)[:, None].expand(2, 3, 13, 1)
    assert_close("centre", rows.centre, wanted)


def test_the_window_stops_at_the_last_key_of_each_sentence():
    places, lengths = Places.between(13, 11), torch.tensor([11, 3])
    mask = padding(lengths).visible(places).expand(2, 1, 13, 11)
    _, rows = weigh(LocalMonotonicSelection(half_width=1), doubles(2, 3, 13, 11), mask)
    for sentence, length in enumerate(lengths.tolist()):
        wanted = torch.arange(13).clamp(max=length - 1)[:, None].expand(3, 13, 1)
        assert_close(f"centre of sentence {sentence}", rows.centre[sentence], wanted)


def test_a_cached_query_looks_where_it_looks_in_the_whole():
    select, mask = LocalMonotonicSelection(half_width=2), torch.ones(1, 1, dtype=torch.bool)
    scores = doubles(2, 3, 7, 11)
    whole, _ = weigh(select, scores, mask)
    alone, _ = weigh(select, scores[..., 5:6, :], mask, past=5)
    assert_close("weights", alone, whole[..., 5:6, :])


def test_a_window_cannot_have_a_negative_width():
    with pytest.raises(
        SettingError, match=r"local_monotonic: half_width must be at least 0, got -3\."
    ):
        LocalMonotonicSelection(half_width=-3)
