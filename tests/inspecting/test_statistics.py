"""Statistics of heads are what their names say, of heads whose every weight is known."""

import math

import pytest
import torch

from regard.errors import SettingError
from regard.inspecting import head_statistics
from regard.inspecting import statistics as statistics_module
from regard.inspecting.record import Attention, Record
from tests.inspecting.hand_made import Dense, of_a_model, tokens

N = 6


def record_of(*layers, pieces=None):
    names = tokens(*(pieces or [f"w{i}" for i in range(N)]))
    maps = tuple(Dense(torch.stack(heads)[None]) for heads in layers)
    one = Attention(names, names, maps, "query (source)", "key (source)")
    return Record("", "", {"encoder": one})


EYE = torch.eye(N)
UNIFORM = torch.full((N, N), 1 / N)
PREVIOUS = torch.roll(EYE, -1, 1).T.roll(0, 0)
PREVIOUS = torch.diag(torch.ones(N - 1), -1)
SINK = torch.zeros(N, N)
SINK[:, 2] = 1.0


def test_known_heads_have_known_numbers():
    same, uniform, previous, sink = head_statistics(
        record_of([EYE, UNIFORM], [PREVIOUS, SINK]), "encoder"
    )
    assert (same.layer, same.head, sink.layer, sink.head) == (0, 0, 1, 1)
    assert (same.entropy, same.same, same.distance) == (0.0, 1.0, 0.0)
    assert uniform.entropy == pytest.approx(math.log(N))
    assert uniform.sink == pytest.approx(1 / N)
    # the first row of a head that looks back sees nothing
    assert previous.previous == pytest.approx((N - 1) / N)
    assert previous.next == 0.0
    assert (sink.sink, sink.sink_key) == (1.0, 2)
    assert sink.distance == pytest.approx((2 + 1 + 0 + 1 + 2 + 3) / N)


def test_redundancy_is_the_largest_cosine_and_names_the_twin():
    first, second, third = head_statistics(
        record_of([EYE, UNIFORM, 0.9 * EYE + 0.1 * UNIFORM]), "encoder"
    )
    assert first.twin == (0, 2)
    assert third.twin == (0, 0)
    want = torch.nn.functional.cosine_similarity(
        EYE.flatten(), (0.9 * EYE + 0.1 * UNIFORM).flatten(), dim=0
    )
    assert first.redundancy == pytest.approx(float(want))
    assert second.redundancy < first.redundancy
    (alone,) = head_statistics(record_of([EYE]), "encoder")
    assert (alone.redundancy, alone.twin) == (None, None)


def test_the_same_word_counts_wherever_it_stands():
    record = record_of([UNIFORM], pieces=["to", "be", "or", "not", "to", "be"])
    (one,) = head_statistics(record, "encoder")
    assert one.same_word == pytest.approx((4 * 2 + 2 * 1) / N / N)


def test_a_long_text_is_passed_over_in_blocks_or_in_part(monkeypatch):
    record, _ = of_a_model()
    whole = head_statistics(record, "encoder")
    monkeypatch.setattr(statistics_module, "BLOCK_WEIGHTS", 700)
    again = head_statistics(record, "encoder")
    for one, other in zip(whole, again, strict=True):
        assert other.entropy == pytest.approx(one.entropy, rel=1e-5)
        assert other.redundancy == pytest.approx(one.redundancy, rel=1e-4)
    third = head_statistics(record, "encoder", every=3)
    rows = record.weights("encoder", 0, 0)[1::3]
    entropy = float(torch.special.entr(rows).sum(1).mean())
    assert third[0].entropy == pytest.approx(entropy, rel=1e-4)


def test_places_of_two_sequences_are_not_compared():
    record, _ = of_a_model()
    for one in head_statistics(record, "cross"):
        assert (one.distance, one.previous, one.same, one.next) == (None,) * 4
    with pytest.raises(SettingError, match="every must be at least 1"):
        head_statistics(record, "cross", every=0)
