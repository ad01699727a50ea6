"""Sinks: a head's number takes its share of every row, as one more key without a value would."""

import pytest
import torch

from regard.attention import Chain, attend
from regard.attention.sinks import SinkSelection
from tests.assertions import assert_close, assert_same_gradients, doubles


def with_one_more_key(scores, sinks):
    column = sinks.view(-1, 1, 1).expand(*scores.shape[:-1], 1)
    return torch.cat([scores, column], -1).softmax(-1)[..., :-1]


@pytest.mark.parametrize("path", ["streamed", "dense"])
def test_a_sink_is_one_more_key_without_a_value(path):
    query, key, value = (doubles(2, 3, n, 7, requires_grad=True) for n in (5, 11, 11))
    sinks = doubles(3, requires_grad=True)
    got = Chain(select=SinkSelection(sinks), path=path)(query, key, value)
    weights = with_one_more_key(query @ key.mT * 7**-0.5, sinks)
    assert_close("context", got.context, weights @ value)
    assert_close("weights", got.map.dense(), weights)
    inputs = {"query": query, "key": key, "value": value, "sinks": sinks}
    assert_same_gradients(got.context, weights @ value, inputs)


def test_a_sink_far_below_all_scores_changes_nothing():
    query, key, value = (doubles(1, 3, n, 7) for n in (5, 11, 11))
    none = SinkSelection(torch.full((3,), -1e4, dtype=torch.float64))
    got = attend(query, key, value, select=none).context
    assert_close("context", got, attend(query, key, value).context)


def test_a_row_that_sees_nothing_leaves_all_to_the_sink():
    query, key, value = (doubles(1, 3, n, 7) for n in (5, 11, 11))
    mask = torch.ones(5, 11, dtype=torch.bool)
    mask[2] = False
    got = attend(query, key, value, mask, select=SinkSelection(doubles(3))).context
    assert not got[:, :, 2].any()


def test_the_numbers_are_no_weight_of_the_selection():
    sinks = torch.nn.Parameter(torch.zeros(3))
    assert list(SinkSelection(sinks).parameters()) == []
