"""A forward pass of a model of transformers: eager, torch's SDPA, our chains, and a capture.

The model has two layers of 8 heads of 64 and random weights. Each contestant runs in a process of
its own, after its outputs were compared with eager's on a short text, and with a capture also the
weights.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, final

import torch
from torch import Tensor

from regard.bench.environment import environment, versions
from regard.bench.measure import WARM_UP, peak_bytes, problem_of, quickest
from regard.bridge import attach, capture
from regard.errors import MissingExtra
from regard.hardware.memory import in_a_fork, limit_memory

CPU = torch.device("cpu")
TOLERANCE = 1e-4
"""The most by which outputs may differ from eager's."""
CHECKED = 256
"""Tokens of the text on which outputs are compared."""
VOCABULARY = 1000
SIZES: Mapping[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 512, "num_hidden_layers": 2,
    "num_attention_heads": 8, "intermediate_size": 1024, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip

Around = Callable[[Any], AbstractContextManager[Any]]

CONTESTANTS: Mapping[str, tuple[str, Around]] = {
    "eager": ("eager", nullcontext),
    "sdpa": ("sdpa", nullcontext),
    "bridge": ("eager", attach),
    "capture": ("eager", capture),
}
"""The attention of transformers that is switched on, and what stands around the pass."""


@final
@dataclass(frozen=True)
class MeasuredPass:
    """One contestant at one length; seconds and bytes are None if it did not fit."""

    name: str
    n: int
    seconds: float | None
    n_bytes: int | None
    difference: float | None
    """The largest difference from eager's outputs, and with a capture from its weights."""
    problem: str | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether it differs from eager, which makes its speed meaningless."""
        return self.difference is not None and not self.difference <= TOLERANCE


def model_named(name: str, n: int) -> Any:
    """A model of random weights that reads n tokens, in eager mode."""
    try:
        import transformers
    except ImportError as error:
        raise MissingExtra(
            "bench: 'bridge' needs transformers: pip install 'regard[transformers]'."
        ) from error
    config, kind = MODELS[name]
    torch.manual_seed(0)
    settings = {**SIZES, "max_position_embeddings": n + 2}
    model: Any = getattr(transformers, kind)(getattr(transformers, config)(**settings))
    model.set_attn_implementation("eager")
    return model.eval()


MODELS: Mapping[str, tuple[str, str]] = {
    "llama": ("LlamaConfig", "LlamaModel"),
    "bert": ("BertConfig", "BertModel"),
    "gpt2": ("GPT2Config", "GPT2Model"),
}
"""The configuration and the class of each model: a decoder, an encoder, and learned positions."""


def measure_pass(model: str, name: str, n: int, *, memory_bytes: int, threads: int) -> MeasuredPass:
    """Run a contestant in a fork, and read its measurements."""
    found = in_a_fork(lambda: _in_child(model, name, n, memory_bytes, threads))
    if found is None:
        return MeasuredPass(name, n, None, None, None, "too large: the system ended the process")
    return MeasuredPass(**found)


def _in_child(model: str, name: str, n: int, memory_bytes: int, threads: int) -> dict[str, Any]:
    torch.set_num_threads(threads)
    limit_memory(memory_bytes)
    seconds, n_bytes, difference, problem = None, None, None, None
    made = model_named(model, n)
    try:
        difference = _difference(made, name, min(n, CHECKED))
        ids = _ids(n)
        _run(made, name, _ids(min(n, WARM_UP)))
        if difference <= TOLERANCE:
            n_bytes = peak_bytes(lambda: _run(made, name, ids), CPU)
            seconds = quickest(lambda: _run(made, name, ids), CPU)
        else:
            problem = f"wrong: differs from eager by {difference:.1e}"
    except (RuntimeError, MemoryError) as error:
        problem = problem_of(error)
    return asdict(MeasuredPass(name, n, seconds, n_bytes, difference, problem))


def _ids(n: int) -> Tensor:
    return torch.randint(VOCABULARY, (1, n), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def _run(model: Any, name: str, ids: Tensor) -> Tensor:
    implementation, around = CONTESTANTS[name]
    model.set_attn_implementation(implementation)
    with around(model):
        hidden: Tensor = model(input_ids=ids, use_cache=False).last_hidden_state
    return hidden


@torch.no_grad()
def _difference(model: Any, name: str, n: int) -> float:
    """The largest difference from eager; of a capture, from its weights too."""
    ids = _ids(n)
    model.set_attn_implementation("eager")
    want = model(input_ids=ids, output_attentions=True, use_cache=False)
    difference = float((_run(model, name, ids) - want.last_hidden_state).abs().max())
    if name != "capture":
        return difference
    with capture(model) as record:
        model(input_ids=ids, use_cache=False)
    (one,) = record.attention.values()
    for layer, weights in zip(one.layers, want.attentions, strict=True):
        got = layer.tile(slice(None), slice(None))
        difference = max(difference, float((got - weights).abs().max()))
    return difference


def bridge_report(model: str, passes: Sequence[MeasuredPass], threads: int) -> dict[str, object]:
    """Every pass with its ratios to eager and to SDPA."""
    by_name = {(one.name, one.n): one for one in passes}
    rows = []
    for one in passes:
        ratios = {}
        for peer in ("eager", "sdpa"):
            other = by_name.get((peer, one.n))
            ratios[f"time_of_{peer}"] = _ratio(one.seconds, other and other.seconds)
            ratios[f"memory_of_{peer}"] = _ratio(one.n_bytes, other and other.n_bytes)
        rows.append({**asdict(one), **ratios})
    return {
        **environment(CPU),
        "packages": versions(["transformers"]),
        "threads": threads,
        "model": model,
        "rows": rows,
    }


def _ratio(top: float | int | None, bottom: float | int | None) -> float | None:
    return top / bottom if top is not None and bottom else None


def bridge_text(report: Mapping[str, Any]) -> str:
    """The same as tables, one for each length."""
    lines = [
        f"regard {report['regard']}, torch {report['torch']}, transformers "
        f"{report['packages']['transformers']}, {report['threads']} threads; {report['model']} of "
        "2 layers, 8 heads of 64, batch 1, float32, forward pass.",
        "Time and memory as multiples of eager's (e) and of SDPA's (s); memory beside the model.",
    ]
    for n in dict.fromkeys(row["n"] for row in report["rows"]):
        lines += ["", f"n = {n:<8} {'time':>11} {'e':>7} {'s':>7} {'memory':>13} {'e':>7} {'s':>7}"]
        lines += [_line(row) for row in report["rows"] if row["n"] == n]
    return "\n".join(lines)


def _line(row: Mapping[str, Any]) -> str:
    if row["seconds"] is None:
        return f"  {row['name']:<10} {row['problem']}"
    return (
        f"  {row['name']:<10} {1000 * row['seconds']:>8.1f} ms"
        f" {_times(row['time_of_eager'])} {_times(row['time_of_sdpa'])}"
        f" {row['n_bytes'] / 2**20:>9.1f} MiB"
        f" {_times(row['memory_of_eager'])} {_times(row['memory_of_sdpa'])}"
    )


def _times(ratio: float | None) -> str:
    return f"{'-':>7}" if ratio is None or math.isinf(ratio) else f"{ratio:>7.2f}"
