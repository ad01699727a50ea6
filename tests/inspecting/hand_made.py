"""Records whose every weight is known, and one of a small model."""

from dataclasses import dataclass

import torch

from regard.data.subword_kinds import BPE
from regard.data.subwords import Subwords
from regard.inspecting.capture import look_at
from regard.inspecting.record import Attention, Record
from regard.inspecting.token_labels import Tokens
from regard.models import TransformerSpec, build_model

TEXT = "A dog ate the food because it was hungry."
ANSWER = "Ein Hund fraß, weil er hungrig war."


@dataclass(frozen=True)
class Dense:
    """Weights that somebody wrote down."""

    weights: torch.Tensor

    @property
    def shape(self):
        return tuple(self.weights.shape)

    def tile(self, rows, columns):
        return self.weights[..., rows, columns]


def tokens(*names):
    """One piece a word."""
    return Tokens(names, tuple(range(len(names))), names)


def written_down(*layers, queries, keys):
    """A record of cross-attention with these layers, each a list of heads."""
    maps = tuple(Dense(torch.tensor(heads, dtype=torch.float32)[None]) for heads in layers)
    cross = Attention(queries, keys, maps, mechanism="dot, soft")
    return Record(" ".join(keys.names), " ".join(queries.names), {"cross": cross})


def of_a_model(text=TEXT, answer=ANSWER):
    """A record of a random Transformer, 2 layers of 3 heads, and the vocabulary it read with."""
    spec = TransformerSpec(
        d_model=12, n_heads=3, d_hidden=8, n_encoder_layers=2, n_decoder_layers=2
    )
    return of_a(spec, text, answer)


def of_a(spec, text=TEXT, answer=ANSWER):
    """A record of a random model, and the vocabulary it read with."""
    subwords = Subwords.train([TEXT, ANSWER], kind=BPE, size=290)
    size = len(subwords)
    model = build_model(spec, n_source_tokens=size, n_target_tokens=size).eval()
    with torch.no_grad():
        # a fresh model looks everywhere alike; this one has opinions
        for parameter in model.parameters():
            parameter.mul_(1.7)
    return look_at(model, subwords, subwords, text, subwords.encode(answer)), subwords
