"""Training on a GPU in bfloat16: regard beside Hugging Face's Marian under torch.compile.

Both learn from the same full batches of random tokens. Then regard learns from real sentences of
many lengths, and the speed on their own tokens is given as a share of that on full batches.

    python -c "from regard.bench.training_gpu import main; main()" [MULTI30K]

Only the clock and the memory counter depend on a GPU, so that the tests can run it on a CPU.
"""

import gc
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.bench.contestants import (
    build_marian,
    build_regard,
    marian_loss,
    recipe_of,
)
from regard.bench.race import loss_problem
from regard.bench.sentences import VOCABULARY, english_german
from regard.bench.sizes import BASE, RATE, SMOOTHING, TransformerSize
from regard.data.batches import Batch, collate, epoch_batches
from regard.data.corpus import Corpus
from regard.data.subword_kinds import SPECIALS
from regard.hardware.hardware import Hardware
from regard.hardware.memory import resident
from regard.training.accumulation import Accumulator
from regard.training.checkpoints import Progress
from regard.training.loop import Material, learn, make_optimiser
from regard.training.losses import Objective

Update = Callable[[Batch], Tensor | float]


@dataclass(frozen=True)
class TrainingWork:
    """Amounts of work: a batch's rows and tokens per row, a real batch's tokens, and repeats."""

    rows: int = 1024
    length: int = 32
    real_tokens: int = 32768
    """Target tokens of a real batch, padding counted."""
    warm_up: int = 5
    repeats: int = 20
    warm_epochs: int = 8
    """Epochs of real sentences before one is timed; a training has dozens."""


@dataclass(frozen=True)
class Row:
    """The measurements of one contestant on one kind of batch."""

    name: str
    tokens_per_second: float
    peak_bytes: int
    first_loss: float
    last_loss: float
    problem: str | None = None
    regard_is_faster: float | None = None
    regard_memory: float | None = None


def gpu_report(
    data: Path | None,
    *,
    device: torch.device,
    peers: Sequence[str] = ("marian",),
    size: TransformerSize = BASE,
    work: TrainingWork = TrainingWork(),
    each_part: Callable[[float], None] = lambda share: None,
) -> dict[str, Any]:
    """Measure, and give rows with ratios to regard."""
    is_gpu = device.type == "cuda"
    precision = torch.bfloat16 if is_gpu else torch.float32
    hardware = Hardware(device, precision, compiles=is_gpu, replays=is_gpu)
    full = full_batch(size, work, device)
    rows = [_on_full_batches("regard", regard_update, full, size, hardware, work)]
    each_part(0.3)
    if "marian" in peers:
        marian = _on_full_batches("marian, compiled", marian_update, full, size, hardware, work)
        rows.append(_beside(rows[0], marian))
    each_part(0.6)
    report: dict[str, Any] = {
        "precision": "bfloat16" if is_gpu else "float32",
        "model": size.model,
        "size": asdict(size),
        "described": size.described,
        "work": asdict(work),
    }
    if data is not None:
        with tempfile.TemporaryDirectory() as folder:
            corpus = english_german(data, Path(folder) / "c", size=min(VOCABULARY, size.n_tokens))
            rows += _on_sentences(corpus, size, hardware, work)
        report["real_share"] = rows[-2].tokens_per_second / rows[0].tokens_per_second
        report["real_loop_share"] = rows[-1].tokens_per_second / rows[0].tokens_per_second
    each_part(1.0)
    return {**report, "rows": [asdict(row) for row in rows]}


def full_batch(size: TransformerSize, work: TrainingWork, device: torch.device) -> Batch:
    """Random tokens without padding."""
    draws = torch.Generator().manual_seed(0)
    shape = (work.rows, work.length)
    ids = [torch.randint(len(SPECIALS), size.n_tokens, shape, generator=draws) for _ in range(2)]
    lengths = torch.full((work.rows,), work.length)
    source, target = (each.to(device) for each in ids)
    return Batch(source, target, lengths, lengths, torch.arange(work.rows))


def regard_update(size: TransformerSize, hardware: Hardware) -> Update:
    """One update of regard, as its loop makes it."""
    model = hardware.place(build_regard(size))
    optimiser, accumulator = _adam(model), Accumulator(model, Objective(SMOOTHING), hardware)

    def update(batch: Batch) -> Tensor | float:
        tokens = int(batch.target_lengths.sum())
        nll = accumulator.gather([batch], tokens).nll / tokens
        optimiser.step()
        return nll

    return update


def marian_update(size: TransformerSize, hardware: Hardware) -> Update:
    """One update of Marian on full batches, in an ordinary training loop."""
    model = build_marian(size).to(hardware.device).train()
    optimiser = _adam(model)
    forward = torch.compile(model) if hardware.compiles else model

    def update(batch: Batch) -> Tensor | float:
        optimiser.zero_grad(set_to_none=True)
        with hardware.products():
            loss = marian_loss(forward, batch.source, batch.target, None)
        loss.backward()
        optimiser.step()
        return loss.detach()

    return update


def _adam(model: nn.Module) -> torch.optim.Adam:
    return torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), fused=True)


def _on_full_batches(
    name: str,
    build: Callable[[TransformerSize, Hardware], Update],
    batch: Batch,
    size: TransformerSize,
    hardware: Hardware,
    work: TrainingWork,
) -> Row:
    """The mean of the repeats, after a warm-up that compiles."""
    _forget(hardware.device)
    update = build(size, hardware)
    losses = [update(batch) for _ in range(work.warm_up)]
    clock = Clock(hardware.device)
    # one after another without waiting, as in a training
    with clock:
        losses += [update(batch) for _ in range(work.repeats)]
    speed = work.repeats * int(batch.target_lengths.sum()) / clock.seconds
    ends = float(losses[0]), float(losses[-1])
    return Row(name, speed, clock.peak_bytes, *ends, loss_problem(*ends, size.n_tokens))


def _on_sentences(
    corpus: Corpus, size: TransformerSize, hardware: Hardware, work: TrainingWork
) -> list[Row]:
    """An epoch by updates alone, then one by the whole loop; epochs before each warm up."""
    _forget(hardware.device)
    update = regard_update(size, hardware)
    multiple = hardware.multiple
    losses = [
        update(batch)
        for epoch in range(work.warm_epochs)
        for batch in _epoch(corpus, work, epoch, multiple)
    ]
    batches = list(_epoch(corpus, work, work.warm_epochs, multiple))
    tokens = sum(int(batch.target_lengths.sum()) for batch in batches)
    clock = Clock(hardware.device)
    with clock:
        losses += [update(batch) for batch in batches]
    ends = float(losses[0]), float(losses[-1])
    problem = loss_problem(*ends, size.n_tokens)
    rows = [Row("regard, real", tokens / clock.seconds, clock.peak_bytes, *ends, problem)]
    _forget(hardware.device)
    steps = _loop(corpus, size, hardware, work)
    warm = [next(steps) for _ in range(work.warm_epochs) for _ in batches]
    clock = Clock(hardware.device)
    with clock:
        timed = [next(steps) for _ in batches]
    tokens = sum(step.target_tokens for step in timed)
    ends = (warm[0].nll, timed[-1].nll)
    problem = loss_problem(*ends, size.n_tokens)
    speed = tokens / clock.seconds
    return [*rows, Row("regard, real, whole loop", speed, clock.peak_bytes, *ends, problem)]


def _epoch(corpus: Corpus, work: TrainingWork, epoch: int, multiple: int) -> Iterator[Batch]:
    for rows in epoch_batches(corpus, target_tokens=work.real_tokens, seed=1, epoch=epoch):
        yield collate(corpus, rows, pad_to_multiple=multiple)


def _loop(
    corpus: Corpus, size: TransformerSize, hardware: Hardware, work: TrainingWork
) -> Iterator[Any]:
    recipe = recipe_of(replace(size, batch_tokens=work.real_tokens))
    model = hardware.place(build_regard(size))
    optimiser = make_optimiser(model, recipe.training)
    return learn(
        model, optimiser, lambda _: Material(corpus), recipe, Progress(), hardware=hardware
    )


def _beside(regard: Row, other: Row) -> Row:
    faster = regard.tokens_per_second / other.tokens_per_second
    memory = regard.peak_bytes / other.peak_bytes if other.peak_bytes else None
    found = {**asdict(other), "regard_is_faster": faster, "regard_memory": memory}
    return Row(**found)


class Clock:
    """Seconds between entering and leaving, by the device's own events, and its peak memory."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.seconds = device, 0.0
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    def __enter__(self) -> "Clock":
        self.start = time.perf_counter()
        if self.device.type == "cuda":
            self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            self.events[0].record()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self.start
        if self.device.type == "cuda":
            self.events[1].record()
            torch.cuda.synchronize(self.device)
            self.seconds = self.events[0].elapsed_time(self.events[1]) / 1000

    @property
    def peak_bytes(self) -> int:
        """The most that was taken from the card; the resident peak on a CPU."""
        if self.device.type == "cuda":
            # recorded graphs allocate once, so only reserved memory shows their use
            return torch.cuda.max_memory_reserved(self.device)
        return resident("VmHWM")


def _forget(device: torch.device) -> None:
    """Free the memory of the last contestant."""
    torch.compiler.reset()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
