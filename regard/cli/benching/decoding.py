"""Decoding speed: regard, Hugging Face `generate` and CTranslate2 on the same weights, in turns.

Every answer has a fixed number of tokens, so that all write equally much. Peers take turns with
regard in one process and the quickest turn counts: other work can only slow one down. Before
anything is timed, the peers' logits are compared with ours.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.cli.benching.peers import as_ctranslate2, as_marian, names_of
from regard.decoding import AveragePenalty, Beam, Limits, Replaying, Sentence
from regard.decoding.arranging import arranged
from regard.errors import SettingError
from regard.models import SIZES, Transformer, TransformerSpec, build_transformer
from regard.models.stepping import BOS, PAD, UNK

WARM_UPS = 2

TOLERANCE = 1e-4
"""The largest difference of a peer's logits from ours, in float32."""


@dataclass(frozen=True, kw_only=True)
class DecodingCase:
    """What is decoded; the numbers of the project's own targets unless given."""

    n_sentences: int = 64
    batch: int = 64
    """Sentences decoded at a time."""
    n_source: int = 24
    n_target: int = 24
    beam: int = 4
    n_tokens: int = 32768
    """Size of the vocabulary."""
    size: str = "base"
    device: str = "cpu"
    dtype: str = "float32"
    turns: int = 3
    peers: Sequence[str] = ("huggingface", "ctranslate2")


@dataclass(frozen=True)
class DecodingResult:
    """Tokens a second, and how the answers compare."""

    case: DecodingCase
    tokens_per_s: Mapping[str, float]
    better_or_equal: Mapping[str, float] = field(default_factory=dict)
    """Share of sentences for which our answer is at least as likely as the peer's."""

    def ratio(self, peer: str) -> float:
        """How many times as fast as the peer."""
        return self.tokens_per_s["regard"] / self.tokens_per_s[peer]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ratios included."""
        peers = [name for name in self.tokens_per_s if name != "regard"]
        return {**asdict(self), "ratio": {name: self.ratio(name) for name in peers}}


def decoding_text(result: DecodingResult) -> str:
    """A table for people."""
    case = result.case
    lines = [
        f"{case.size}, {case.n_tokens:,} tokens, {case.dtype} on {case.device}; {case.n_sentences} "
        f"sentences of {case.n_source} to {case.n_target} tokens, {case.batch} at a time, beam "
        f"{case.beam}.",
        "",
        f"{'':<14} {'tokens/s':>10} {'regard is':>10} {'as likely or more':>18}",
    ]
    for name, speed in result.tokens_per_s.items():
        ratio = "" if name == "regard" else f"{result.ratio(name):.2f} ×"
        share = result.better_or_equal.get(name)
        likely = "" if share is None else f"{100 * share:.1f} %"
        lines.append(f"{name:<14} {speed:>10,.0f} {ratio:>10} {likely:>18}")
    return "\n".join(lines)


Decoder = Callable[[Tensor], list[list[int]]]
"""Sources of one length → the tokens of the best answers, without begin and end."""


def bench_decoding(case: DecodingCase) -> DecodingResult:
    """Check that all compute the same function, then let them take turns."""
    torch.manual_seed(0)
    model = random_model(case)
    source = torch.randint(UNK + 1, case.n_tokens, (case.n_sentences, case.n_source))
    with tempfile.TemporaryDirectory() as folder:
        decoders: dict[str, Decoder] = {"regard": _regard(model, case)}
        for name in case.peers:
            decoders[name] = _PEERS[name](model, case, Path(folder))
        quickest = dict.fromkeys(decoders, float("inf"))
        answers: dict[str, list[list[int]]] = {}
        # kernels are compiled, and ours recorded, before anything counts
        for decode in decoders.values():
            for _ in range(WARM_UPS):
                decode(source[: case.batch])
        for _ in range(case.turns):
            for name, decode in decoders.items():
                start = time.perf_counter()
                answers[name] = [row for part in source.split(case.batch) for row in decode(part)]
                quickest[name] = min(quickest[name], time.perf_counter() - start)
    written = case.n_sentences * case.n_target
    scores = {name: _scored(model, source, rows, case) for name, rows in answers.items()}
    better = {
        name: float((scores["regard"] >= scores[name] - 1e-3).double().mean())
        for name in case.peers
    }
    return DecodingResult(case, {n: written / s for n, s in quickest.items()}, better)


def random_model(case: DecodingCase) -> Transformer:
    """A Transformer as the paper has it, with random weights."""
    spec = TransformerSpec(**SIZES[case.size])  # type: ignore[arg-type] # the spec checks the row
    model = build_transformer(spec, n_source_tokens=case.n_tokens, n_target_tokens=case.n_tokens)
    return model.eval()


def _regard(model: Transformer, case: DecodingCase) -> Decoder:
    ours = _placed(model, case)
    beam = Beam(
        width=case.beam,
        penalty=AveragePenalty(),
        limits=Limits(min_tokens=case.n_target, max_tokens=case.n_target),
    )

    search = Replaying(beam)

    def decode(source: Tensor) -> list[list[int]]:
        sentences = [Sentence(row) for row in source.tolist()]
        return [list(row[0].tokens) for row in search(ours, sentences, device=case.device)]

    return decode


def _huggingface(model: Transformer, case: DecodingCase, folder: Path) -> Decoder:
    theirs = as_marian(model)
    _compare(model, theirs, case)
    theirs = theirs.to(case.device, getattr(torch, case.dtype))
    length = {"max_new_tokens": case.n_target, "min_new_tokens": case.n_target}

    @torch.inference_mode()
    def decode(source: Tensor) -> list[list[int]]:
        exists = torch.ones_like(source, device=case.device)
        got = theirs.generate(
            source.to(case.device), attention_mask=exists, num_beams=case.beam, **length
        )
        return got[:, 1:].tolist()

    return decode


def _ctranslate2(model: Transformer, case: DecodingCase, folder: Path) -> Decoder:
    translator = as_ctranslate2(model, folder, threads=torch.get_num_threads())
    length = {"max_decoding_length": case.n_target, "min_decoding_length": case.n_target}

    def decode(source: Tensor) -> list[list[int]]:
        rows = [names_of(row) for row in source.tolist()]
        got = translator.translate_batch(
            rows,
            beam_size=case.beam,
            max_batch_size=case.batch,
            suppress_sequences=[[name] for name in names_of([PAD, BOS])],
            **length,
        )
        return [[int(name[1:]) for name in one.hypotheses[0]] for one in got]

    return decode


_PEERS: Mapping[str, Callable[[Transformer, DecodingCase, Path], Decoder]] = {
    "huggingface": _huggingface,
    "ctranslate2": _ctranslate2,
}


def _placed(model: Transformer, case: DecodingCase) -> Transformer:
    if case.device == "cpu" and case.dtype == "float32":
        return arranged(model)
    copy = random_model(case)
    copy.load_state_dict(model.state_dict())
    return copy.to(case.device, getattr(torch, case.dtype))


@torch.inference_mode()
def _compare(model: Transformer, theirs: Any, case: DecodingCase) -> None:
    source = torch.randint(UNK + 1, case.n_tokens, (2, case.n_source))
    target = torch.randint(UNK + 1, case.n_tokens, (2, case.n_target))
    got = theirs(input_ids=source, decoder_input_ids=target).logits
    difference = float((got - model(source, target)).abs().max())
    if difference > TOLERANCE:
        raise SettingError(
            f"bench: Hugging Face's logits differ from ours by {difference:.1e}, so that their "
            "speeds cannot be compared. Try another version of transformers (bench extra)."
        )


@torch.inference_mode()
def _scored(
    model: Transformer, source: Tensor, rows: list[list[int]], case: DecodingCase
) -> Tensor:
    """The log-probability of each answer in float32 on the CPU, a few at a time."""
    target = torch.tensor([[BOS, *row][: case.n_target + 1] for row in rows])
    found = []
    for sources, targets in zip(source.split(8), target.split(8), strict=True):
        own = model(sources, targets[:, :-1]).log_softmax(-1)
        found.append(own.gather(2, targets[:, 1:, None]).sum((1, 2)))
    return torch.cat(found)
