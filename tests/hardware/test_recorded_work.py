"""Recording and replaying a batch's work: when, for which shapes, and how it is given up."""

import pytest
import torch

from regard.hardware import recorded_work as replaying
from regard.hardware.recorded_work import Recorder


class Tape:
    """A player that counts, and whose recordings do the work anew."""

    def __init__(self):
        self.played, self.recorded, self.forgotten = [], [], 0

    def play(self, work, inputs):
        self.played.append(tuple(inputs[0].shape))
        return work(*inputs)

    def record(self, work, inputs):
        self.recorded.append(tuple(inputs[0].shape))
        return work

    def forget(self):
        self.forgotten += 1


def _sum(x, y):
    return (x + y).sum()


def _pair(n):
    return torch.full((n,), 2.0), torch.ones(n)


def test_a_shape_is_played_once_recorded_the_second_time_and_then_replayed():
    tape = Tape()
    work = Recorder(_sum, tape)
    results = [float(work(*_pair(n))) for n in (3, 3, 5, 3, 3)]
    assert results == [9.0, 9.0, 15.0, 9.0, 9.0]
    assert tape.played == [(3,), (5,)]
    assert tape.recorded == [(3,)]


def test_shapes_of_every_input_count():
    tape = Tape()
    work = Recorder(lambda x, y: x.sum() + y.sum(), tape)
    for other in (1, 2, 1, 2):
        work(torch.ones(4), torch.ones(other))
    assert tape.recorded == [(4,), (4,)]


def test_past_the_most_shapes_nothing_more_is_recorded(monkeypatch):
    monkeypatch.setattr(replaying, "MAX_SHAPES", 2)
    tape = Tape()
    work = Recorder(_sum, tape)
    results = [float(work(*_pair(n))) for _ in range(3) for n in (1, 2, 3)]
    assert results == [3.0, 6.0, 9.0] * 3
    assert len(tape.recorded) == 2
    assert tape.played.count((3,)) == 3


def test_what_is_forgotten_is_recorded_again_when_it_returns():
    tape = Tape()
    work = Recorder(_sum, tape)
    assert not work.forget()
    for n in (3, 4) * 3:
        work(*_pair(n))
    assert work.forget()
    assert not work.forget()
    for _ in range(2):
        work(*_pair(3))
    assert tape.recorded == [(3,), (4,), (3,)]
    assert tape.forgotten == 3


def test_each_time_recordings_are_given_up_half_as_many_are_made_until_none_was_to_blame():
    tape = Tape()
    work = Recorder(_sum, tape)
    made = []
    for _ in range(6):
        tape.recorded.clear()
        for n in (1, 2, 3, 4, 5) * 3:
            work(*_pair(n))
        made.append((len(tape.recorded), work.forget()))
    assert made == [(5, True), (2, True), (1, True), (0, False), (5, True), (2, True)]


def test_a_recording_that_failed_counts_as_one_to_give_up():
    class Full(Tape):
        def record(self, work, inputs):
            raise torch.OutOfMemoryError("injected")

    work = Recorder(_sum, Full())
    work(*_pair(3))
    with pytest.raises(torch.OutOfMemoryError):
        work(*_pair(3))
    assert work.forget()
    assert [float(work(*_pair(3))) for _ in range(3)] == [9.0, 9.0, 9.0]
    assert not work.forget()


def test_plain_work_is_just_done():
    work = Recorder(_sum)
    assert float(work(*_pair(4))) == 12.0
    assert not work.forget()
