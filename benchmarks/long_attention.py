"""Sparse attention on a GPU beside Hugging Face's block-sparse layer, and how long it can be.

    python benchmarks/long_attention.py [--out FILE]

One attention layer, width 512, 8 heads, bfloat16, two sequences, forward and backward:

    race      big_bird (blocks of 64, 3 random) against BigBirdBlockSparseAttention, in turns
    memory    what the layer takes from 4,096 to 65,536 positions, and the slope of its logarithm
    reach     sliding_window over 262,144 positions
    training  one update of T-DMCA over 16,384 tokens, and of T-D as fused and as dense algebra

Outputs and gradients are compared with the dense chain in float64 first. Every part runs in turn on
an otherwise idle card; nothing is asserted about time.
"""

import argparse
import gc
import importlib
import json
import math
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from regard import Chain, Dims
from regard.attention import GroupedQueryHeads, multi_head
from regard.attention.links import Pattern
from regard.attention.patterns.big_bird import BigBirdPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.choices import Choice
from regard.hardware.hardware import Hardware
from regard.models import LanguageSpec, build_language_model
from regard.training.losses import token_loss

WIDTH, N_HEADS, BATCH, BLOCK, N_RANDOM = 512, 8, 2, 64, 3
RACED, REACH, TRAINED = 16_384, 262_144, 16_384
LENGTHS = (4_096, 8_192, 16_384, 32_768, 65_536)
TURNS = 7
VOCABULARY = 8_192
GIB = 2**30


def our_layer(pattern: Pattern, dtype: torch.dtype = torch.bfloat16) -> GroupedQueryHeads:
    """Multi-head attention with a pattern."""
    heads = multi_head(Dims(d_model=WIDTH, n_heads=N_HEADS), chain=Chain(pattern=pattern))
    return heads.to("cuda", dtype)


def attending(pattern: Pattern) -> Callable[[Tensor], Tensor]:
    """The layer as a function."""
    layer = our_layer(pattern)
    return lambda tokens: layer(tokens).context


def big_bird() -> BigBirdPattern:
    """The pattern that is raced."""
    return BigBirdPattern(block=BLOCK, n_random=N_RANDOM)


class TheirLayer(nn.Module):
    """Hugging Face's block-sparse attention, and the output projection that stands behind it."""

    def __init__(self, n: int) -> None:
        super().__init__()
        theirs = importlib.import_module("transformers.models.big_bird.modeling_big_bird")
        config = importlib.import_module("transformers").BigBirdConfig(
            hidden_size=WIDTH,
            num_attention_heads=N_HEADS,
            max_position_embeddings=n,
            block_size=BLOCK,
            num_random_blocks=N_RANDOM,
            attention_type="block_sparse",
            attention_probs_dropout_prob=0.0,
            hidden_dropout_prob=0.0,
        )
        self.attention = theirs.BigBirdBlockSparseAttention(config, seed=0)
        self.output = nn.Linear(WIDTH, WIDTH)
        blocked, band, of_queries, of_keys = theirs.BigBirdModel.create_masks_for_block_sparse_attn(
            torch.ones(BATCH, n, device="cuda", dtype=torch.bfloat16), BLOCK
        )
        self.masks = {
            "band_mask": band,
            "from_mask": of_queries,
            "to_mask": of_keys,
            "from_blocked_mask": blocked,
            "to_blocked_mask": blocked,
        }
        self.to("cuda", torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, and mix the heads."""
        return self.output(self.attention(x, **self.masks)[0])


def inputs(n: int) -> Tensor:
    """Two sequences."""
    torch.manual_seed(1)
    x = torch.randn(BATCH, n, WIDTH, device="cuda", dtype=torch.bfloat16)
    return x.requires_grad_()


def both(layer: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], None]:
    """Forward and backward."""

    def work() -> None:
        out = layer(x)
        out.backward(torch.ones_like(out))
        x.grad = None

    return work


def milliseconds(work: Callable[[], None]) -> float:
    """One run, the host's part included."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def peak(work: Callable[[], None]) -> float:
    """GiB that were taken above what stood there."""
    work()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / GIB


def worst_error(pattern: Pattern, n: int) -> dict[str, float]:
    """Outputs and gradients against the dense chain in float64, by relative norm."""
    torch.manual_seed(0)
    exact = our_layer(pattern, torch.float64)
    x = torch.randn(BATCH, n, WIDTH, device="cuda", dtype=torch.float64)

    def found(dtype: torch.dtype, path: str | None) -> list[Tensor]:
        layer = our_layer(pattern, dtype)
        layer.load_state_dict(exact.state_dict())
        layer.chain.path = path
        leaf = x.to(dtype).requires_grad_()
        out = layer(leaf).context
        weight = torch.linspace(0.5, 1.5, WIDTH, device="cuda", dtype=dtype)
        return [out, *torch.autograd.grad((out * weight).sum(), (leaf, *layer.parameters()))]

    law = found(torch.float64, "dense")

    def error(got: list[Tensor]) -> float:
        pairs = zip(got, law, strict=True)
        return max(
            float((g.detach().double() - w.detach()).norm() / w.detach().norm()) for g, w in pairs
        )

    return {
        "tiles": error(found(torch.bfloat16, None)),
        "dense": error(found(torch.bfloat16, "dense")),
    }


def race() -> dict[str, object]:
    """Both layers in turns."""
    x = inputs(RACED)
    works = {
        "regard": both(attending(big_bird()), x),
        "huggingface": both(TheirLayer(RACED), x),
    }
    for work in works.values():
        for _ in range(3):
            work()
    turns = [{name: milliseconds(work) for name, work in works.items()} for _ in range(TURNS)]
    return {
        "n": RACED,
        "milliseconds": {name: [turn[name] for turn in turns] for name in works},
        "ratio": statistics.median(turn["huggingface"] / turn["regard"] for turn in turns),
        "peak_gib": {name: peak(work) for name, work in works.items()},
    }


def memory() -> dict[str, object]:
    """What length costs."""
    found = []
    for n in LENGTHS:
        work = both(attending(big_bird()), inputs(n))
        taken = peak(work)
        found.append((n, taken, statistics.median(milliseconds(work) for _ in range(3))))
    return {
        "lengths": [n for n, _, _ in found],
        "peak_gib": [gib for _, gib, _ in found],
        "milliseconds": [ms for _, _, ms in found],
        "slope": slope([(n, gib) for n, gib, _ in found]),
        "slope_of_time": slope([(n, ms) for n, _, ms in found]),
    }


def slope(points: list[tuple[int, float]]) -> float:
    """Of the least-squares line through the logarithms.

    >>> slope([(10, 1.0), (100, 10.0), (1000, 100.0)])
    1.0
    """
    xs, ys = [math.log(n) for n, _ in points], [math.log(y) for _, y in points]
    x_mean, y_mean = statistics.mean(xs), statistics.mean(ys)
    along = sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True))
    return along / sum((x - x_mean) ** 2 for x in xs)


def reach() -> dict[str, object]:
    """A window over a very long sequence."""
    work = both(attending(SlidingWindowPattern(size=256)), inputs(REACH))
    taken = peak(work)
    return {"n": REACH, "peak_gib": taken, "milliseconds": milliseconds(work)}


def training() -> dict[str, object]:
    """One update over long rows, or the words of a device that has no room for it."""
    systems = {
        "T-DMCA": (("blocks:size=256", "memory_compressed:stride=3"), 5, None),
        "T-D, fused": (("full",), 5, None),
        "T-D, dense": (("full",), 5, "dense"),
    }
    found: dict[str, object] = {}
    for name, (attends, n_layers, path) in systems.items():
        spec = LanguageSpec(
            d_model=WIDTH,
            n_heads=N_HEADS,
            n_layers=n_layers,
            attends=tuple(map(Choice.parse, attends)),
            rows="running",
            asks="all",
            dropout=0.0,
            max_len=TRAINED,
        )
        try:
            found[name] = _update(spec, path)
        except torch.cuda.OutOfMemoryError as error:
            found[name] = {"out_of_memory": str(error).splitlines()[0]}
        gc.collect()
        torch.cuda.empty_cache()
    return found


def _update(spec: LanguageSpec, path: str | None) -> dict[str, float]:
    hardware = Hardware.chosen("cuda", None, compiles=False)
    model = hardware.place(build_language_model(spec, n_tokens=VOCABULARY))
    for part in model.modules():
        if isinstance(part, Chain):
            part.path = path
    optimiser = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(4, VOCABULARY, (BATCH, TRAINED + 1), device="cuda")

    def work() -> None:
        with hardware.products():
            hidden = model.read(tokens[:, :-1])
            loss = token_loss(hidden, model.output.weight, tokens[:, 1:], scale=1 / tokens.numel())
        loss.total.backward()
        optimiser.step()
        optimiser.zero_grad()

    taken = peak(work)
    return {"peak_gib": taken, "milliseconds": milliseconds(work)}


def main() -> None:
    """Check, then measure what there is time for, writing down each part as it comes."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--out", type=Path)
    out = asked.parse_args().out
    errors = {n: worst_error(big_bird(), n) for n in (1_024, 1_000)}
    print(json.dumps({"error": errors}), flush=True)
    if any(error["tiles"] > 2 * error["dense"] for error in errors.values()):
        sys.exit("wrong: tiles differ from the law by more than twice what rounding does")
    found: dict[str, object] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "error": errors,
    }
    for part in (race, memory, reach, training):
        gc.collect()
        torch.cuda.empty_cache()
        found[part.__name__] = part()
        print(json.dumps({part.__name__: found[part.__name__]}), flush=True)
        if out is not None:
            out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
