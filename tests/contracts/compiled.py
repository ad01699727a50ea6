"""Every mechanism of the tables compiled into one graph, and exported, against itself run eagerly.

A script, because the checks of types in a test end a graph. It checks a share of them
(`python -m tests.contracts.compiled 0 2` every second one) and prints how many were the same.
"""

import sys
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from regard import Dims
from regard.attention import HEADS, Chain, all_of, given, padding
from regard.attention.engine import sparse, streamed
from regard.attention.memories.linformer import LinformerMemory
from regard.attention.memories.memory_compressed import MemoryCompressedMemory
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.selections.hard import HardSelection
from regard.attention.selections.sparsemax import SparsemaxSelection
from tests.assertions import assert_close, assert_same_gradients, doubles
from tests.contracts.building import PATTERNS, TABLES, Inputs, chain_of, part_of, small_dims

N = 13
"""Queries and keys: chunks of 4 and blocks of 7 rows are several, and the last one is short."""

CAUSAL, DIMS = CausalPattern(), Dims(d_model=12, n_heads=3)


class Trial(NamedTuple):
    """What is compiled, what it is given, and what gets gradients."""

    name: str
    module: nn.Module
    arguments: tuple[object, ...]
    inputs: dict[str, Tensor]
    is_drawn: bool = False
    """Whether the result depends on random numbers."""


def paths_of(name: str) -> tuple[str | None, ...]:
    """The path that is chosen, and those which a link takes in longer rows alone."""
    part = part_of(name)
    if name in ("local_monotonic", "local_predictive"):
        return (None, "windowed", "streamed")
    if name in ("full", "causal"):
        return (None, "sparse")
    if name in ("shaw", "bucketed", "linear_bias"):
        return (None, "joined", "streamed")
    return (None,) if part == "memory" or name in PATTERNS else (None, "streamed")


def links() -> Iterator[Trial]:
    """Each link of the tables by each of its paths."""
    for name in (name for table in TABLES.values() for name in table):
        for path in paths_of(name):
            dims = small_dims(name)
            chain = chain_of(name, dims=dims)
            chain.path = path
            x = Inputs.of(dims, N, N)
            arguments = (x.query, x.key, x.value, x.mask, x.places)
            yield Trial(f"{name}, {path or 'any path'}", chain, arguments, x.named(chain))


def masked() -> Iterator[Trial]:
    """Masks that a call brings, under a window and alone."""
    window = Chain(pattern=SlidingWindowPattern(size=3))
    slots = MemoryCompressedMemory(Dims(d_model=4, n_heads=3))
    some = (torch.rand(N, N) < 0.5) | torch.eye(N, dtype=torch.bool)
    far = all_of(CAUSAL, padding(torch.tensor([N, 5]), N))
    for name, chain, mask in (
        ("causal window", window, CAUSAL),
        ("causal window of padding", window, far),
        ("window of a matrix", window, given(some)),
        ("matrix", Chain(), some),
        ("causal and padding", Chain(), far),
        ("causal slots of padding", Chain(memory=slots.double()), far),
    ):
        x = {part: doubles(2, 3, N, 4, requires_grad=True) for part in ("query", "key", "value")}
        yield Trial(name, chain, (*x.values(), mask), x)


def drawn() -> Iterator[Trial]:
    """Random numbers, which are drawn again for the gradient."""
    for name, chain in (
        ("hard in training", Chain(select=HardSelection(), path="streamed")),
        ("dropout", Chain(select=SparsemaxSelection(), dropout=0.3, path="streamed")),
    ):
        x = {part: doubles(2, 3, N, 4, requires_grad=True) for part in ("query", "key", "value")}
        yield Trial(name, chain.train(), tuple(x.values()), x, is_drawn=True)


def heads() -> Iterator[Trial]:
    """The heads of the table, plain, in a window and before a memory."""
    for name, make in HEADS.items():
        for link, chain in (
            ("soft", Chain()),
            ("sliding_window", Chain(pattern=SlidingWindowPattern(size=3))),
            ("linformer", Chain(memory=LinformerMemory(DIMS.head(), slots=5))),
        ):
            made = make(DIMS, chain=chain).double()
            x = doubles(2, N, 12, requires_grad=True)
            yield Trial(f"{name}, {link}", made, (x,), {"x": x, **dict(made.named_parameters())})


def check_compiled(trial: Trial) -> None:
    """One graph gives the context, map, row numbers and gradients of the eager run."""
    torch.compiler.reset()
    compiled = torch.compile(trial.module, fullgraph=True, backend="aot_eager")
    torch.manual_seed(5)
    got = compiled(*trial.arguments)
    torch.manual_seed(5)
    want = trial.module(*trial.arguments)
    assert_close("context", got.context, want.context)
    assert_close("map", got.map.dense(), want.map.dense())
    for number, (ours, theirs) in enumerate(zip(got.rows, want.rows, strict=True)):
        assert_close(f"row number {number}", ours.double(), theirs.double())
    assert_same_gradients(got.context, want.context, trial.inputs)


def check_exported(trial: Trial) -> None:
    """An exported graph gives the context of the eager run."""
    tensors = [x for x in trial.arguments if isinstance(x, Tensor)]
    others = trial.arguments[len(tensors) :]

    class Forward(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = trial.module

        def forward(self, *x: Tensor) -> Tensor:
            return self.attention(*x, *others).context

    graph = torch.export.export(Forward(), tuple(x.detach() for x in tensors)).module()
    want = trial.module(*trial.arguments).context
    assert_close("exported context", graph(*(x.detach() for x in tensors)), want)


def check_lengths() -> None:
    """The second length makes a graph for all of them."""
    torch.compiler.reset()
    chain = Chain(pattern=SlidingWindowPattern(size=3))
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(chain, fullgraph=True, backend=graphs)
    for n in (11, 13, 17, 19):
        x = {part: doubles(2, 3, n, 4, requires_grad=True) for part in ("query", "key", "value")}
        mask = padding(torch.tensor([n, n - 4]), n)
        want = chain(*x.values(), mask).context
        assert_same_gradients(compiled(*x.values(), mask).context, want, x)
    assert graphs.frame_count == 2, f"{graphs.frame_count} graphs"


def check_share(share: int, shares: int) -> int:
    """Check every `shares`-th trial, and say how many these were."""
    every = [*links(), *masked(), *heads(), *drawn()]
    for trial in every[share::shares]:
        try:
            check_compiled(trial)
            # what is drawn in one run is not drawn in the next
            if not trial.is_drawn:
                check_exported(trial)
        except Exception as error:
            raise SystemExit(f"{trial.name}: {error}") from error
    return len(every[share::shares])


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(3)
    sparse.CHUNKS, streamed.NUMBERS_AT_ONCE, streamed.UNROLLED = (4,), 2 * 3 * 2 * N * 7, 2
    count = check_share(int(sys.argv[1]), int(sys.argv[2]))
    check_lengths()
    print(f"{count} chains are the same in one graph")
