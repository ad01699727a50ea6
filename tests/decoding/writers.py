"""Models to search with: one that is a table of random numbers, and small ones of every kind."""

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.choices import Choice
from regard.data.subword_kinds import BOS
from regard.decoding import decode_each
from regard.models import (
    ConvolutionalSpec,
    RecurrentSpec,
    TransformerSpec,
    build_language_model,
    build_model,
    build_transformer,
)
from regard.models.recurrent.spec import PAPERS
from regard.models.stepper import rows_of

TINY = TransformerSpec(
    d_model=16, n_heads=2, d_hidden=16, n_encoder_layers=1, n_decoder_layers=2, max_len=64
)
SPECS = {
    "post_norm": TINY,
    "pre_norm": replace(TINY, norm="pre_norm", feed_forward="gated"),
    "rotary": replace(TINY, positions=Choice("rotary")),
    "learned": replace(TINY, positions=Choice("learned")),
    "shaw": replace(TINY, relation=Choice("shaw", {"clip": 2}), positions=Choice("none")),
    "linear_bias": replace(TINY, relation=Choice("linear_bias")),
    "bucketed": replace(TINY, relation=Choice("bucketed", {"is_causal": False, "n_buckets": 8})),
    "additive": replace(TINY, score=Choice("additive")),
    "general": replace(TINY, score=Choice("general")),
    "sparsemax": replace(TINY, select=Choice("sparsemax")),
    "top_k": replace(TINY, select=Choice("top_k", {"count": 2})),
    "local_monotonic": replace(TINY, select=Choice("local_monotonic", {"half_width": 2})),
    "local_predictive": replace(TINY, select=Choice("local_predictive", {"half_width": 2})),
    "weighted_branches": replace(TINY, layer="weighted_branches"),
}
"""Every kind of Transformer there is."""


def decode_all(model, sentences, search, **sizes):
    """The answers of each sentence, in the order of the sentences."""
    found = decode_each(model, sentences, search, **sizes)
    return [answers for _, answers in sorted(found, key=lambda one: one[0])]


def decided(model, scale=4.0):
    """The same model with strong opinions, so that each token depends on all before it."""
    with torch.no_grad():
        model.output.weight.normal_(std=scale / model.output.weight.shape[1] ** 0.5)
    return model.eval()


def transformer(name, n_tokens=11):
    """A small Transformer, in float64."""
    model = build_transformer(SPECS[name], n_source_tokens=n_tokens, n_target_tokens=n_tokens)
    return decided(model.double())


def language_model(name, n_tokens=11):
    """A small language model, in float64."""
    return decided(build_language_model(SPECS[name], n_tokens=n_tokens).double())


RECURRENT = {
    name: RecurrentSpec(**{**PAPERS[name], "d_embedding": 16, "d_hidden": 16, "n_layers": 1})
    for name in PAPERS
}
WITHOUT_SELF_ATTENTION = {
    **RECURRENT,
    "at once": replace(
        RECURRENT["luong"], feeds_input=False, select=Choice("local_predictive", {"half_width": 2})
    ),
    "coverage": replace(RECURRENT["luong"], has_coverage=True),
    "windows": ConvolutionalSpec(d_model=16, n_encoder_layers=2, n_decoder_layers=2, max_len=64),
}
"""Recurrent and convolutional models."""


def other_model(name, n_tokens=11):
    """A small model without self-attention, in float64."""
    spec = WITHOUT_SELF_ATTENTION[name]
    return decided(build_model(spec, n_source_tokens=n_tokens, n_target_tokens=n_tokens).double())


class TableState(NamedTuple):
    source: Tensor
    written: Tensor


class Table:
    """A stepper whose logits are random numbers, fixed by the source and all tokens before."""

    def __init__(self, n_tokens, seed=0, sharpness=1.0):
        self.n_tokens, self.seed, self.sharpness = n_tokens, seed, sharpness

    def logits(self, source, written):
        generator = torch.Generator()
        generator.manual_seed(hash((self.seed, *source, -1, *written)) % 2**31)
        return torch.randn(self.n_tokens, generator=generator, dtype=torch.float64) * self.sharpness

    def log_probs(self, source, written):
        return self.logits(source, written).log_softmax(-1).tolist()

    def start(self, source):
        return TableState(source, source.new_zeros(len(source), 0))

    def step(self, state, tokens):
        width = len(tokens) // len(state.source)
        written = torch.cat([state.written.repeat(len(tokens) // len(state.written), 1), tokens], 1)
        rows = []
        for i, row in enumerate(written.tolist()):
            assert row[0] == BOS
            source = [token for token in state.source[i // width].tolist() if token]
            rows.append(self.logits(source, row[1:]))
        return torch.stack(rows)[:, None], TableState(state.source, written)

    def select(self, state, rows):
        width = len(state.written) // len(state.source)
        return TableState(state.source[rows[::width] // width], state.written[rows])

    def branch(self, state, parents):
        return TableState(state.source, state.written[rows_of(parents, len(state.written))])
