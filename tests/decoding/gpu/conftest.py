"""A model whose searches are recorded on the CPU."""

import pytest

from regard.decoding import trellis
from regard.decoding.gpu.recordings import RecordedModel, Recordings
from tests.decoding.gpu.cpu_capture import CpuCapture


@pytest.fixture
def recorded(monkeypatch):
    """Makes a model whose searches are recorded on the CPU; no sentence leaves a plain batch."""
    monkeypatch.setattr(CpuCapture, "n_captured", 0)
    # batches that shrink are rounded otherwise
    monkeypatch.setattr(trellis, "DONE_SHARE", 2)
    return lambda model: RecordedModel(model, Recordings(model, CpuCapture()), 64)
