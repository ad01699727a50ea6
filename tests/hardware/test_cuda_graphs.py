"""Recording a CUDA graph: Python's garbage collector waits, whatever happens."""

import gc
from contextlib import contextmanager

import pytest
import torch

from regard.hardware.cuda_graphs import GraphPool

POOL = (0, 7)


@pytest.fixture
def card(monkeypatch):
    """A card that notes what was recorded where, and whether garbage could be collected."""
    notes = []

    @contextmanager
    def graph(which, *, pool, stream):
        notes.append((which, pool, stream, gc.isenabled()))
        yield

    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: POOL)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: "the graph")
    monkeypatch.setattr(torch.cuda, "graph", graph)
    return notes


def test_no_garbage_is_collected_while_recording(card):
    with GraphPool().recording() as graph:
        assert not gc.isenabled()
    assert card == [(graph, POOL, None, False)]
    assert gc.isenabled()


def test_garbage_is_collected_again_after_a_recording_that_failed(card):
    with pytest.raises(torch.OutOfMemoryError), GraphPool().recording():
        raise torch.OutOfMemoryError("injected")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(card):
    gc.disable()
    try:
        with GraphPool().recording():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
