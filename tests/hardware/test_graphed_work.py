"""Capturing and replaying a batch's work: when, for which shapes, and how it is given up."""

import pytest
import torch

from regard.hardware import cuda_graphs
from regard.hardware.cuda_graphs import GraphedWork


class CountingBackend:
    """A backend that counts, and whose graphs do the work anew."""

    def __init__(self):
        self.ran, self.captured, self.n_freed = [], [], 0

    def run(self, work, inputs):
        self.ran.append(tuple(inputs[0].shape))
        return work(*inputs)

    def capture_graph(self, work, inputs):
        self.captured.append(tuple(inputs[0].shape))
        return work

    def free(self):
        self.n_freed += 1


def _sum(x, y):
    return (x + y).sum()


def _pair(n):
    return torch.full((n,), 2.0), torch.ones(n)


def test_a_shape_runs_once_is_captured_the_second_time_and_then_replayed():
    backend = CountingBackend()
    work = GraphedWork(_sum, backend)
    results = [float(work(*_pair(n))) for n in (3, 3, 5, 3, 3)]
    assert results == [9.0, 9.0, 15.0, 9.0, 9.0]
    assert backend.ran == [(3,), (5,)]
    assert backend.captured == [(3,)]


def test_shapes_of_every_input_count():
    backend = CountingBackend()
    work = GraphedWork(lambda x, y: x.sum() + y.sum(), backend)
    for other in (1, 2, 1, 2):
        work(torch.ones(4), torch.ones(other))
    assert backend.captured == [(4,), (4,)]


def test_past_the_most_shapes_nothing_more_is_captured(monkeypatch):
    monkeypatch.setattr(cuda_graphs, "MAX_SHAPES", 2)
    backend = CountingBackend()
    work = GraphedWork(_sum, backend)
    results = [float(work(*_pair(n))) for _ in range(3) for n in (1, 2, 3)]
    assert results == [3.0, 6.0, 9.0] * 3
    assert len(backend.captured) == 2
    assert backend.ran.count((3,)) == 3


def test_a_freed_graph_is_captured_again_when_its_shape_returns():
    backend = CountingBackend()
    work = GraphedWork(_sum, backend)
    assert not work.free()
    for n in (3, 4) * 3:
        work(*_pair(n))
    assert work.free()
    assert not work.free()
    for _ in range(2):
        work(*_pair(3))
    assert backend.captured == [(3,), (4,), (3,)]
    assert backend.n_freed == 3


def test_each_time_graphs_are_freed_half_as_many_are_made_until_none_was_to_blame():
    backend = CountingBackend()
    work = GraphedWork(_sum, backend)
    made = []
    for _ in range(6):
        backend.captured.clear()
        for n in (1, 2, 3, 4, 5) * 3:
            work(*_pair(n))
        made.append((len(backend.captured), work.free()))
    assert made == [(5, True), (2, True), (1, True), (0, False), (5, True), (2, True)]


def test_a_capture_that_failed_counts_as_a_graph_to_free():
    class Full(CountingBackend):
        def capture_graph(self, work, inputs):
            raise torch.OutOfMemoryError("injected")

    work = GraphedWork(_sum, Full())
    work(*_pair(3))
    with pytest.raises(torch.OutOfMemoryError):
        work(*_pair(3))
    assert work.free()
    assert [float(work(*_pair(3))) for _ in range(3)] == [9.0, 9.0, 9.0]
    assert not work.free()


def test_plain_work_is_just_done():
    work = GraphedWork(_sum)
    assert float(work(*_pair(4))) == 12.0
    assert not work.free()
