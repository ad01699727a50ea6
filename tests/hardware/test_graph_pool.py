"""Recording a CUDA graph: Python's garbage collector waits, whatever happens."""

import gc
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from regard.hardware.recorded_work import GraphPool

POOL = (0, 7)
GRAPH = SimpleNamespace(replay=lambda: None)


@pytest.fixture
def card(monkeypatch):
    """A card that notes what was recorded where, and whether garbage could be collected."""
    notes = []

    @contextmanager
    def graph(which, *, pool, stream):
        notes.append((which, pool, stream, gc.isenabled()))
        yield

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: POOL)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: GRAPH)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    return notes


def test_no_garbage_is_collected_while_recording(card):
    was_on, play = GraphPool().record(gc.isenabled)
    assert not was_on
    assert play is GRAPH.replay
    assert card == [(GRAPH, POOL, None, False)]
    assert gc.isenabled()


def test_garbage_is_collected_again_after_a_recording_that_failed(card):
    def fail():
        raise torch.OutOfMemoryError("injected")

    with pytest.raises(torch.OutOfMemoryError):
        GraphPool().record(fail)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(card):
    gc.disable()
    try:
        GraphPool().record(lambda: None)
        assert not gc.isenabled()
    finally:
        gc.enable()
