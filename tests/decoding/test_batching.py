"""Batches: the longest first, no more tokens than asked, and the order of the asking kept."""

import pytest
import torch

from regard.decoding import Beam, Greedy, Limits, Sentence, decode_each, trellis
from regard.decoding.batching import batches
from regard.decoding.gpu.recordings import RecordedModel, Recordings
from regard.errors import SettingError
from regard.models import build_transformer
from tests.decoding.gpu.cpu_capture import CpuCapture
from tests.decoding.writers import SPECS, Table, decided, decode_all, other_model, transformer

LONG = Limits(max_tokens=12, beyond_source=2)
"""Under which answers end at different steps."""


def test_batches_hold_no_more_tokens_than_asked_and_every_sentence_once():
    asked = [Sentence([5] * int(n)) for n in torch.randint(0, 30, (200,))]
    cut = list(batches(asked, 64))
    assert sorted(i for batch in cut for i in batch) == list(range(200))
    for batch in cut:
        lengths = [len(asked[i].source) for i in batch]
        assert len(batch) * max(1, *lengths) <= 64
        assert lengths == sorted(lengths, reverse=True)
    firsts = [len(asked[batch[0]].source) for batch in cut]
    assert firsts == sorted(firsts, reverse=True)


def test_a_sentence_longer_than_a_batch_goes_alone():
    assert list(batches([Sentence([5] * 9), Sentence([5]), Sentence([6])], 4)) == [[0], [1, 2]]


def test_answers_come_as_they_are_found_and_say_whose_they_are():
    model, asked = Table(7), [Sentence([3 + i % 4] * (1 + i)) for i in range(6)]
    search = Greedy(limits=Limits(max_tokens=4))
    came = list(decode_each(model, asked, search, batch_tokens=8))
    assert [place for place, _ in came][:3] == [5, 4, 3]
    in_order = decode_all(model, asked, search, batch_tokens=8)
    assert [one[1] for one in sorted(came, key=lambda one: one[0])] == in_order
    assert in_order == search(model, asked)


@pytest.mark.parametrize("make", [lambda: transformer("post_norm"), lambda: other_model("luong")])
@pytest.mark.parametrize("search", [Greedy(limits=LONG), Beam(width=3, n_best=2, limits=LONG)])
def test_sentences_that_leave_the_batch_change_no_token_and_no_score_beyond_rounding(
    make, search, monkeypatch
):
    model = make().float()
    rows = torch.randint(4, 11, (24, 8)).tolist()
    asked = [Sentence(row[: 1 + i % 8]) for i, row in enumerate(rows)]
    left = search(model, asked)
    assert len({len(answers[0].tokens) for answers in left}) > 2, "some end before others"
    monkeypatch.setattr(trellis, "DONE_SHARE", 2)
    stayed = search(model, asked)
    for one, other in zip(left, stayed, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_batches_of_recorded_models_hold_no_more_tokens_once_they_are_filled_up():
    model = Table(7)
    size = RecordedModel(model, Recordings(model, CpuCapture()), 64).batch_tokens
    asked = [Sentence([5] * n) for n in (17, 18, 24, 9, 16)]
    assert list(batches(asked, 48)) == [[2, 1], [0, 4], [3]]
    assert list(batches(asked, 48, size)) == [[2, 1], [0, 4], [3]]
    assert list(batches(asked, 36)) == [[2], [1, 0], [4, 3]]
    assert list(batches(asked, 36, size)) == [[2], [1], [0], [4, 3]]
    many = list(batches([Sentence([5] * 240)] * 40, 4096, size))
    assert [len(batch) for batch in many] == [16, 16, 8], "17 are filled up to 32"


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(SettingError, match="batch_tokens must be at least 1, got 0"):
        list(batches([Sentence([5])], 0))


@pytest.mark.parametrize("name", ["post_norm", "shaw"])
def test_in_single_precision_texts_and_scores_are_those_of_a_sentence_alone(name):
    model = decided(build_transformer(SPECS[name], n_source_tokens=40, n_target_tokens=40))
    rows = torch.randint(4, 40, (16, 10)).tolist()
    asked = [Sentence(row[: 2 + i % 9]) for i, row in enumerate(rows)]
    search = Beam(width=4, n_best=2, limits=Limits(max_tokens=5))
    want = [search(model, [sentence])[0] for sentence in asked]
    for n in (7, 16):
        order = torch.randperm(16).tolist()
        parts = [[asked[i] for i in order[k : k + n]] for k in range(0, 16, n)]
        found = [answers for part in parts for answers in search(model, part)]
        for i, got in zip(order, found, strict=True):
            assert [h.tokens for h in got] == [h.tokens for h in want[i]]
            assert [h.score for h in got] == pytest.approx([h.score for h in want[i]], abs=1e-4)
