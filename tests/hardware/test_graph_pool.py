"""Capturing a CUDA graph: on one GPU, with Python's garbage collector waiting, whatever happens."""

import gc
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
import torch

from regard.hardware.cuda_graphs import CudaGraphs, GraphPool

GPU = torch.device("cuda:1")
GRAPH = SimpleNamespace(replay=lambda: None)


@pytest.fixture
def card(monkeypatch):
    """A card that notes what was captured where, and whether garbage could be collected."""
    notes, handles = [], iter([(0, 7), (0, 8)])
    before = SimpleNamespace(device_index=1)

    @contextmanager
    def graph(which, *, pool, stream, capture_error_mode):
        notes.append((which, pool, stream, capture_error_mode, gc.isenabled()))
        yield

    def end_allocating(index, pool):
        notes.append(("ended", index, pool))
        raise RuntimeError("endAllocatePool: not currently recording to mempool_id")

    for name, stand_in in {
        "graph_pool_handle": lambda: next(handles),
        "CUDAGraph": lambda: GRAPH,
        "graph": graph,
        "Stream": lambda device: ("stream", device),
        "device": lambda device: nullcontext(notes.append(("device", device))),
        "current_stream": lambda: before,
        "set_stream": lambda stream: notes.append(("current", stream)),
    }.items():
        monkeypatch.setattr(torch.cuda, name, stand_in)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", end_allocating, raising=False)
    return SimpleNamespace(notes=notes, before=before)


def test_no_garbage_is_collected_while_capturing_on_the_pool_s_own_gpu(card):
    was_on, replay = GraphPool(GPU).capture_graph(gc.isenabled)
    assert not was_on
    assert replay is GRAPH.replay
    capture = (GRAPH, (0, 7), ("stream", GPU), "thread_local", False)
    assert card.notes == [("device", GPU), capture]
    assert gc.isenabled()


def test_a_capture_that_failed_is_ended_and_garbage_is_collected_again(card):
    def fail():
        raise torch.OutOfMemoryError("injected")

    with pytest.raises(torch.OutOfMemoryError):
        GraphPool(GPU).capture_graph(fail)
    assert card.notes[2:] == [("current", card.before), ("ended", 1, (0, 7))]
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off(card):
    gc.disable()
    try:
        GraphPool(GPU).capture_graph(lambda: None)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_memory_is_given_back_even_if_torch_refuses_to_empty_its_cache(card, monkeypatch):
    def refuse():
        raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")

    monkeypatch.setattr(torch.cuda, "empty_cache", refuse)
    graphs = CudaGraphs(GPU)
    graphs.free()
    assert graphs.pool.pool == (0, 8)


def test_room_is_that_of_the_pool_s_own_gpu(card, monkeypatch):
    bytes_of = {"mem_get_info": (40, 100), "memory_reserved": 30, "memory_allocated": 20}
    for name, found in bytes_of.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, found=found: {GPU: found}[device])
    assert GraphPool(GPU).has_room()
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 21)
    assert not GraphPool(GPU).has_room()
