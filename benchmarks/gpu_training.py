"""What a GPU does while it trains and decodes: CUDA graphs, a full memory, random numbers.

    python benchmarks/gpu_training.py

The gradient of a batch is compared with the CPU's in float64, by parameter: worked through,
recorded, played again, and cut in pieces since it really did not fit.
"""

import copy
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.choices import Choice
from regard.data.batches import Batch
from regard.data.subword_kinds import SPECIALS
from regard.decoding import Beam, Limits, RecordedModel, Sentence, recorded
from regard.hardware.hardware import Hardware, random_states, restore
from regard.models import RecurrentSpec, Transformer, TransformerSpec, build_transformer
from regard.models.recurrent.network import build_recurrent
from regard.training.accumulation import Accumulator
from regard.training.losses import Objective

GPU = torch.device("cuda")
TOKENS = 1003
LIMIT = 1e-4
"""The largest error of a gradient in float32, beside that in float64."""


RECURRENT: Mapping[str, dict[str, Any]] = {
    "at once": {"feeds_input": False},
    "at once, local": {"feeds_input": False, "select": Choice("local_predictive")},
    "fed": {},
    "fed, covered": {"score": Choice("additive"), "has_coverage": True},
    "fed, gated": {"cell": "gru", "select": Choice("local_monotonic")},
    "no attention": {"attends": "none", "feeds_input": False, "readout": "state"},
}


def model(dropout: float) -> Transformer:
    """The same small model at every call."""
    torch.manual_seed(0)
    spec = TransformerSpec(
        d_model=64, n_heads=4, d_hidden=96, n_encoder_layers=2, n_decoder_layers=2, dropout=dropout
    )
    return build_transformer(spec, n_source_tokens=TOKENS, n_target_tokens=TOKENS)


def batch(rows: int, source: int, target: int) -> Batch:
    """Random tokens; every row but the first is padded."""
    draws = torch.Generator().manual_seed(rows)
    lengths = [
        torch.full((rows,), n - 2).index_fill(0, torch.tensor([0]), n) for n in (source, target)
    ]
    ids = [
        torch.randint(len(SPECIALS), TOKENS, (rows, n), generator=draws) for n in (source, target)
    ]
    for each, n in zip(ids, lengths, strict=True):
        each[torch.arange(each.shape[1]) >= n[:, None]] = 0
    return Batch(*ids, *lengths, torch.arange(rows))


def gradient(accumulator: Accumulator, given: Batch) -> tuple[dict[str, Tensor], int]:
    """By parameter, and into how many more pieces the batch was cut."""
    splits = accumulator.gather([given], int(given.target_lengths.sum())).splits
    named = accumulator.model.named_parameters()
    return {name: p.grad.double().cpu() for name, p in named if p.grad is not None}, splits


def worst(got: dict[str, Tensor], want: dict[str, Tensor]) -> float:
    """The largest relative error of any parameter's gradient."""
    assert got.keys() == want.keys()
    # keys' biases have no gradient but rounding
    return max(float((got[n] - want[n]).norm() / want[n].norm().clamp(min=1e-2)) for n in want)


def accumulator(of: nn.Module, *, replays: bool, compiles: bool = False) -> Accumulator:
    """On the GPU in float32."""
    hardware = Hardware(GPU, torch.float32, compiles=compiles, replays=replays)
    return Accumulator(hardware.place(copy.deepcopy(of)), Objective(0.1), hardware)


def cuda_graphs() -> bool:
    """Three shapes in turn: the first time worked through, then captured, then replayed."""
    plain, good = model(0.0), True
    batches = [
        batch(rows, source, target)
        for rows, source, target in ((7, 13, 9), (3, 20, 31), (16, 8, 8))
    ]
    law = Accumulator(copy.deepcopy(plain).double(), Objective(0.1), Hardware())
    want = [gradient(law, each)[0] for each in batches]
    for compiles in (False, True):
        ours = accumulator(plain, replays=True, compiles=compiles)
        for turn in ("worked through", "recorded", "played", "played again"):
            error = max(worst(gradient(ours, b)[0], w) for b, w in zip(batches, want, strict=True))
            good &= error < LIMIT
            print(f"{turn}, {'compiled' if compiles else 'as is'}: error {error:.1e}")
    return good


def recurrent() -> bool:
    """Recurrent models, all steps at once or one by one, have the gradients of the CPU."""
    given, good = batch(33, 13, 11), True
    for name, changes in RECURRENT.items():
        torch.manual_seed(0)
        spec = RecurrentSpec(
            d_embedding=64, d_hidden=64, n_layers=2, dropout=0.0, initialisation="scaled", **changes
        )
        plain = build_recurrent(spec, n_source_tokens=TOKENS, n_target_tokens=TOKENS)
        law = Accumulator(copy.deepcopy(plain).double(), Objective(0.1), Hardware())
        want = gradient(law, given)[0]
        for precision, limit in ((torch.float32, 1e-3), (torch.bfloat16, 2e-2)):
            where = Hardware(GPU, precision, replays=True)
            ours = Accumulator(where.place(copy.deepcopy(plain)), Objective(0.1), where)
            error = max(worst(gradient(ours, given)[0], want) for _ in range(3))
            good &= error < limit
            print(f"recurrent, {name}, {precision}: error {error:.1e}, limit {limit:.0e}")
    return good


def dropout() -> bool:
    """A graph drops other units each time, and the same ones from the same random state."""
    ours, given = accumulator(model(0.3), replays=True), batch(7, 13, 9)
    for _ in range(3):
        gradient(ours, given)
    before = random_states(GPU)
    first, second = (gradient(ours, given)[0] for _ in range(2))
    restore(before, GPU)
    again = gradient(ours, given)[0]
    differs, returns = worst(second, first), worst(again, first)
    print(f"dropout: another draw differs by {differs:.2f}, the same one by {returns:.1e}")
    return differs > 0.1 and returns < LIMIT


def full_memory() -> bool:
    """A batch that does not fit is cut, and its gradient stays what it was."""
    plain, given, good = model(0.0), batch(2048, 64, 64), True
    for replays in (False, True):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        ours = accumulator(plain, replays=replays)
        want, _ = gradient(ours, given)
        peak = torch.cuda.max_memory_reserved()
        del ours
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(GPU).total_memory
        torch.cuda.set_per_process_memory_fraction(0.6 * peak / total)
        ours = accumulator(plain, replays=replays)
        for _ in range(3):
            got, splits = gradient(ours, given)
            error = worst(got, want)
            good &= splits > 0 and error < LIMIT
            print(f"memory of {peak >> 20:,} MiB cut to 60 %: {splits} cuts, error {error:.1e}")
        del ours
        torch.cuda.set_per_process_memory_fraction(1.0)
    return good


def short_memory() -> bool:
    """An update of many shapes in hardly more memory than its largest batch ends as it should."""
    shapes = [(2048 - 64 * i, 64 - 8 * (i % 3), 64) for i in range(6)]
    plain, given = model(0.0), [batch(*shape) for shape in shapes] * 3
    tokens = sum(int(each.target_lengths.sum()) for each in given)
    found = []
    for replays in (False, True):
        torch.cuda.reset_peak_memory_stats()
        ours = accumulator(plain, replays=replays)
        gathered = [ours.gather(given, tokens) for _ in range(2)]
        if not replays:
            peak = torch.cuda.max_memory_reserved()
            torch.cuda.empty_cache()
            total = torch.cuda.get_device_properties(GPU).total_memory
            torch.cuda.set_per_process_memory_fraction(1.02 * peak / total)
        named = ours.model.named_parameters()
        found.append({name: p.grad.double().cpu() for name, p in named if p.grad is not None})
        del ours
        torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction(1.0)
    error, splits = worst(found[1], found[0]), [each.splits for each in gathered]
    print(f"{peak >> 20:,} MiB for the graphs of six shapes: {splits} cuts, error {error:.1e}")
    return error < LIMIT


def decoding() -> bool:
    """A beam that is replayed writes what a plain one writes."""
    writer = model(0.0).to(GPU).eval()
    beam = Beam(width=4, limits=Limits(min_tokens=1, max_tokens=20))
    rows = batch(33, 13, 9).source.tolist()
    sentences = [Sentence([token for token in row if token]) for row in rows]
    again = recorded(writer, GPU, 64)
    assert isinstance(again, RecordedModel)
    plain = beam(writer, sentences, device="cuda")
    for _ in range(3):
        replayed = beam(again, sentences, device="cuda")
    said = again.recordings.said
    same = [[h.tokens for h in row] for row in plain] == [
        [h.tokens for h in row] for row in replayed
    ]
    print(f"decoding: {said}, {'the same' if same else 'OTHER answers'}")
    return same and said == "recorded"


if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    checks = (cuda_graphs, recurrent, dropout, decoding, full_memory, short_memory)
    passed = [check() for check in checks]
    print("every check passed" if all(passed) else "some check failed")
    sys.exit(0 if all(passed) else 1)
