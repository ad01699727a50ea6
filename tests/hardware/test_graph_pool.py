"""Capturing a CUDA graph: Python's garbage collector waits, whatever happens."""

import gc
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from regard.hardware.cuda_graphs import GraphPool

POOL = (0, 7)
GRAPH = SimpleNamespace(replay=lambda: None)


@pytest.fixture
def card(monkeypatch):
    """A card that notes what was captured where, and whether garbage could be collected."""
    notes = []

    @contextmanager
    def graph(which, *, pool, stream):
        notes.append((which, pool, stream, gc.isenabled()))
        yield

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: POOL)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: GRAPH)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    return notes


def test_no_garbage_is_collected_while_capturing(card):
    was_on, replay = GraphPool().capture_graph(gc.isenabled)
    assert not was_on
    assert replay is GRAPH.replay
    assert card == [(GRAPH, POOL, None, False)]
    assert gc.isenabled()


def test_garbage_is_collected_again_after_a_capture_that_failed(card):
    def fail():
        raise torch.OutOfMemoryError("injected")

    with pytest.raises(torch.OutOfMemoryError):
        GraphPool().capture_graph(fail)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(card):
    gc.disable()
    try:
        GraphPool().capture_graph(lambda: None)
        assert not gc.isenabled()
    finally:
        gc.enable()
