"""The graphed beam, on a stand-in for CUDA graphs: the same operations into the same memory."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.decoding import (
    Beam,
    Forbidden,
    GraphedBeam,
    Limits,
    NoRepeatedNgrams,
    RepetitionPenalty,
    Sentence,
)
from regard.decoding.gpu import graphed_beam
from tests.decoding.writers import SPECS, transformer

LIFT, WAIT = torch.ops.aten.lift_fresh.default, torch.ops.aten._local_scalar_dense.default
"""How a list becomes a tensor, and how a tensor becomes a number: both leave the device."""


class Operations(TorchDispatchMode):
    """Writes down what is done, and does it again into the same tensors."""

    def __init__(self):
        super().__init__()
        self.done = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        # a lone number is filled in by a kernel
        if operation is WAIT or (operation is LIFT and args[0].dim()):
            raise RuntimeError(f"{operation} cannot be captured")
        found = operation(*args, **(kwargs or {}))
        self.done.append((operation, args, kwargs or {}, found))
        return found

    def replay(self):
        for operation, args, kwargs, before in self.done:
            new = operation(*args, **kwargs)
            for place, each in zip(_tensors(before), _tensors(new), strict=True):
                if place.data_ptr() != each.data_ptr():
                    place.copy_(each)


def _tensors(found):
    several = found if isinstance(found, list | tuple) else [found]
    return [each for each in several if isinstance(each, torch.Tensor)]


class CpuCapture:
    """A stand-in for CUDA graphs on a CPU."""

    steps = 0

    def capture_graph(self, work):
        type(self).steps += 1
        with Operations() as operations:
            found = work()
        return found, operations.replay


@pytest.fixture
def captured(monkeypatch):
    """How much was captured on the CPU: one reading of the sources, and steps."""
    monkeypatch.setattr(graphed_beam, "GRAPH_CAPTURES", {"cpu": CpuCapture})
    monkeypatch.setattr(CpuCapture, "steps", 0)
    return lambda: CpuCapture.steps


RULES = {
    "none": [],
    "repetition_penalty": [RepetitionPenalty(1.5)],
    "no_repeated_ngrams": [NoRepeatedNgrams(2)],
    "forbidden": [Forbidden([5, 7])],
    "all": [RepetitionPenalty(1.5), NoRepeatedNgrams(2), Forbidden([5, 7])],
}


def _asked(n, n_tokens=6):
    return [Sentence(row) for row in torch.randint(4, 11, (n, n_tokens)).tolist()]


@pytest.mark.parametrize("rules", RULES)
def test_what_is_replayed_is_what_the_search_finds(rules, captured):
    model = transformer("post_norm")
    beam = Beam(width=3, n_best=2, limits=Limits(max_tokens=6), rules=RULES[rules])
    again = GraphedBeam(beam)
    counts = []
    for n in (5, 3, 7):
        asked = _asked(n)
        got, want = again(model, asked), beam(model, asked)
        counts.append(captured())
        for one, other in zip(got, want, strict=True):
            assert [h.tokens for h in one] == [h.tokens for h in other]
            assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-9)
    assert counts[0] == 0 < counts[1] <= 1 + 6, "the second batch of a shape is captured"
    assert counts[2] <= 1 + 6, "and nothing is captured twice"


@pytest.mark.parametrize("name", sorted(SPECS))
def test_whether_a_source_can_be_captured_is_known_on_any_device(name):
    model = transformer(name)
    is_capturable = model.is_capturable
    assert model.to("meta").is_capturable == is_capturable


@pytest.mark.parametrize(("name", "n_read"), [("post_norm", 1), ("sparsemax", 0)])
def test_sources_are_read_by_the_graph_only_if_kernels_read_them(name, n_read, captured):
    model, beam = transformer(name), Beam(width=2, limits=Limits(min_tokens=2, max_tokens=2))
    again = GraphedBeam(beam)
    assert model.is_capturable == bool(n_read)
    # 8 tokens leave no padding, and 6 are another graph
    for n_tokens in (8, 6, 8, 8):
        asked = _asked(3, n_tokens)
        got, want = again(model, asked), beam(model, asked)
        assert [h[0].tokens for h in got] == [h[0].tokens for h in want]
        assert [h[0].score for h in got] == pytest.approx([h[0].score for h in want], abs=1e-9)
    assert captured() == n_read + 2


def test_a_rule_that_makes_a_tensor_of_its_own_cannot_be_captured(captured):
    class Late:
        def to(self, device):
            return self

        def __call__(self, scores, written):
            return scores.index_fill(1, torch.tensor([5, 7]), -torch.inf)

    again = GraphedBeam(Beam(width=2, limits=Limits(max_tokens=4), rules=[Late()]))
    model = transformer("post_norm")
    again(model, _asked(2))
    with pytest.raises(RuntimeError, match=r"aten\.lift_fresh\.default cannot be captured"):
        again(model, _asked(2))
