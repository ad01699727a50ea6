"""A stand-in for CUDA graphs: the same operations into the same memory; and what is searched."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.decoding import (
    Beam,
    Ensemble,
    Forbidden,
    Greedy,
    Limits,
    NoRepeatedNgrams,
    RepetitionPenalty,
    Sampling,
    Sentence,
)
from tests.decoding.writers import language_model, other_model, transformer

aten = torch.ops.aten
WAITS = (aten._local_scalar_dense.default, aten.nonzero.default)
"""How tensors become numbers or shapes, which leaves the device."""


class Operations(TorchDispatchMode):
    """Writes down what is done, and does it again into the same tensors."""

    def __init__(self):
        super().__init__()
        self.done = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        # a list becomes a tensor on the host; a lone number is filled in by a kernel
        if operation in WAITS or (operation is aten.lift_fresh.default and args[0].dim()):
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
    """A stand-in for CUDA graphs on a CPU: a capture computes nothing that counts."""

    n_captured, n_freed, is_full = 0, 0, False

    def has_room(self):
        return not self.is_full

    def free(self):
        self.n_freed += 1

    def capture_graph(self, work):
        type(self).n_captured += 1
        with Operations() as operations:
            found = work()
        return found, operations.replay


LIMITS = Limits(max_tokens=6)
RULES = (RepetitionPenalty(1.5), NoRepeatedNgrams(2), Forbidden((5, 7)))
SEARCHES = {
    "greedy": Greedy(limits=LIMITS),
    "beam": Beam(width=3, n_best=3, limits=LIMITS),
    "beam with rules": Beam(width=3, n_best=2, limits=LIMITS, rules=RULES),
    "sampling": Sampling(n_samples=2, top_p=0.9, limits=LIMITS),
}
MODELS = {
    "transformer": lambda: transformer("post_norm"),
    "language model": lambda: language_model("rotary"),
    "recurrent": lambda: other_model("luong"),
    "ensemble": lambda: Ensemble([transformer("post_norm"), transformer("shaw")]),
}


def asked(n, n_tokens=8, *, seed=0, prefix=()):
    rows = torch.randint(4, 11, (n, n_tokens), generator=torch.Generator().manual_seed(seed))
    return [Sentence(row, seed=i + seed, prefix=prefix) for i, row in enumerate(rows.tolist())]


def single(model):
    """The same model in float32, in which users search."""
    parts = model.models if isinstance(model, Ensemble) else [model]
    for part in parts:
        part.float()
    return model


def again_is_plain(again, model, search, sentences):
    return search(again, sentences) == search(model, sentences)


def assert_close_answers(found, want):
    for one, other in zip(found, want, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-9)
