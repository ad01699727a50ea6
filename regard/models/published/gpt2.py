"""GPT-2: one stack under a causal mask goes on writing a text that somebody began.

    x = E[token] + P[position],   logits[t] = LN(layers(x)[t]) Eᵀ + c

Nothing stands between what was begun and what is written: our begin token, with which every search
starts, is read as the last token of the prompt. Where there is no prompt it is the token that parts
two documents, as in the training of the model. c is 0, and very low for pieces that only we have.

Paper: Radford et al. 2019.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention import AttentionMap, KeyValues, all_of, padding
from regard.attention.caches import reordered
from regard.attention.capture import captured
from regard.attention.patterns.causal import CausalPattern
from regard.choices import find
from regard.dims import Dims
from regard.layers import EncoderLayer
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.checking import check_future
from regard.models.embedding import Embedding
from regard.models.model import Model
from regard.models.published.layering import AppendOne, Layering, tied_output
from regard.models.published.sizes import check_one_vocabulary, check_shares, check_sizes
from regard.models.stepping import BOS, EOS, PAD, rows_of
from regard.positions import LearnedPositions

CAUSAL = CausalPattern()


@dataclass(frozen=True, kw_only=True)
class Gpt2Spec:
    """Sizes and switches; everything has the value of the smallest published model."""

    kind: str = "gpt2"
    """What is built."""
    d_model: int = 768
    """Width of the model."""
    n_heads: int = 12
    """Heads of every attention."""
    d_hidden: int = 3072
    """Inner width of the feed-forward."""
    n_layers: int = 12
    """Layers."""
    dropout: float = 0.1
    """On embeddings and on every sublayer's output, before it is added."""
    attention_dropout: float = 0.1
    """On the attention weights, in training."""
    feed_forward: str = "gelu_tanh"
    """"gelu_tanh", "gelu", "relu" or "swish"."""
    norm_eps: float = 1e-5
    """What is added to a variance before its root is taken."""
    max_len: int = 512
    """Longest prompt, and longest continuation: there are positions for both together."""

    def __post_init__(self) -> None:
        check_sizes(self, ("d_model", "n_heads", "d_hidden", "n_layers", "max_len"))
        check_shares(self, ("dropout", "attention_dropout", "norm_eps"))
        find(self.kind, {"gpt2": None}, key="model.kind")
        find(self.feed_forward, ACTIVATIONS, key="model.feed_forward")
        _ = self.dims.d_head

    @property
    def dims(self) -> Dims:
        """The sizes every attention of the model shares."""
        return Dims(d_model=self.d_model, n_heads=self.n_heads, max_len=2 * self.max_len)

    @property
    def has_one_vocabulary(self) -> bool:
        """Whether source and target must be of one; here they are one text."""
        return True


class _Begun(NamedTuple):
    """Prompts with their padding in front, and the last token of each apart."""

    tokens: Int[Tensor, "b s"]
    last: Int[Tensor, " b"]


class ContinuerState(NamedTuple):
    """What decoding remembers: every layer's cache, what in it is padding, and where it begins."""

    caches: tuple[KeyValues | None, ...]
    length: int
    """Positions read so far, padding counted."""
    valid: Bool[Tensor, "r k"] | None
    """The positions that hold a token; None if all do, which the fastest kernels want to know."""
    skipped: Int[Tensor, " r"]
    """How many positions before a row's first token are padding."""
    last: Int[Tensor, " r"]
    """What the begin token stands for."""


@final
class Continuer(Model):
    """Goes on with a text; no token sees a later one, and padding (token 0) never leaks.

    Args:
        embedding: tokens and positions.
        layers: pre-norm layers.
        norm: the last norm.
        output: maps `b n m` to logits; its weight is the embedding's.
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: Sequence[EncoderLayer],
        norm: nn.Module,
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.embedding, self.layers = embedding, nn.ModuleList(layers)
        self.norm, self.output = norm, output

    def hidden(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b t m"]:
        """What the output layer reads after each target token, all at once."""
        return self.norm(self._states(source, target))[:, -target.shape[1] :]

    def maps(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> dict[str, tuple[AttentionMap, ...]]:
        """Where each token of the whole text looks: "decoder", a map for each layer."""
        with captured(self) as maps:
            self._states(source, target)
        return {"decoder": tuple(maps.values())}

    def row(self, source: Sequence[int], target: Sequence[int]) -> list[int]:
        """What rows and columns of a map stand for: the prompt, and what goes on from it."""
        prompt = [token for token in source if token not in (PAD, EOS)]
        return [*(prompt or [BOS]), *target]

    def start(self, source: Int[Tensor, "b s"]) -> ContinuerState:
        """Read a prompt; rows may have different lengths, and padding stands at their ends."""
        tokens, last = _begun(source)
        missing = tokens == PAD
        valid = missing.new_zeros(len(tokens), 0) if bool(missing.any()) else None
        nothing = (None,) * len(self.layers)
        state = ContinuerState(nothing, 0, valid, missing.sum(1), last)
        return self._read(state, tokens)[1] if tokens.shape[1] else state

    def step(
        self, state: ContinuerState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t v"], ContinuerState]:
        """Logits after each new token; earlier ones are in the state."""
        x, after = self._read(state, _without_begin(tokens, state.last))
        return self.output(self.norm(x)), after

    def select(self, state: ContinuerState, rows: Int[Tensor, " r"]) -> ContinuerState:
        """The state of some rows, each with its own prompt."""
        caches = tuple(None if past is None else past.select(rows) for past in state.caches)
        return self._kept(state, caches, rows)

    def branch(self, state: ContinuerState, parents: Int[Tensor, "b w"]) -> ContinuerState:
        """Go on in w rows a sentence; a prompt is part of its row, and moves along."""
        rows = rows_of(parents, len(state.last))
        pasts = [past for past in state.caches if past is not None]
        caches = tuple(reordered(pasts, rows)) if pasts else state.caches
        return self._kept(state, caches, rows)

    def _kept(
        self, state: ContinuerState, caches: tuple[KeyValues | None, ...], rows: Int[Tensor, " r"]
    ) -> ContinuerState:
        valid = None if state.valid is None else state.valid[rows]
        return ContinuerState(caches, state.length, valid, state.skipped[rows], state.last[rows])

    def _states(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b n m"]:
        begun, last = _begun(source)
        row = torch.cat([begun, _without_begin(target, last)], 1)
        skipped = (begun == PAD).sum(1, keepdim=True)
        at = torch.arange(row.shape[1], device=row.device) - skipped
        x, mask = self.embedding(row, at=at.clamp(min=0)), all_of(CAUSAL, padding(row != PAD))
        for layer in self.layers:
            x = layer(x, mask=mask)
        return x

    def _read(
        self, state: ContinuerState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t m"], ContinuerState]:
        length, caches = state.length + tokens.shape[1], []
        at = torch.arange(state.length, length, device=tokens.device)
        x = self.embedding(tokens, at=(at - state.skipped[:, None]).clamp(min=0))
        valid = None if state.valid is None else torch.cat([state.valid, tokens != PAD], 1)
        mask = CAUSAL if valid is None else all_of(CAUSAL, padding(valid))
        layers = cast(list[EncoderLayer], list(self.layers))
        for layer, past in zip(layers, state.caches, strict=True):
            x, longer = layer.step(x, past, mask)
            # these layers keep all of their past
            caches.append(cast(KeyValues, longer))
        return x, ContinuerState(tuple(caches), length, valid, state.skipped, state.last)


def build_gpt2(spec: Gpt2Spec, *, n_source_tokens: int, n_target_tokens: int) -> Continuer:
    """Make the model; prompt and continuation have one vocabulary."""
    check_one_vocabulary(spec.kind, n_source_tokens, n_target_tokens)
    layering = Layering(
        dims=spec.dims,
        d_hidden=spec.d_hidden,
        activation=spec.feed_forward,
        norm="pre_norm",
        norm_eps=spec.norm_eps,
        dropout=spec.dropout,
        attention_dropout=spec.attention_dropout,
    )
    embedding = Embedding(
        spec.dims,
        n_tokens=n_target_tokens,
        positions=LearnedPositions(spec.dims),
        dropout=spec.dropout,
        scale=1.0,
        has_output_bias=True,
    )
    model = Continuer(
        embedding=embedding,
        layers=[layering.encoder_layer() for _ in range(spec.n_layers)],
        norm=nn.Sequential(layering.last_norm(), AppendOne()),
        output=tied_output(embedding.E),
    )
    if embedding.E.weight.device.type != "meta":
        check_future(model, lambda tokens: model.hidden(tokens[:, :0], tokens), n_target_tokens)
    return model


def _begun(source: Int[Tensor, "b s"]) -> _Begun:
    """Prompts as they are read before the first step."""
    tokens = pad(source.masked_fill(source == EOS, PAD), (1, 0), value=PAD)
    order = (tokens != PAD).long().argsort(dim=1, stable=True)
    # padding moves to the front, where it stands between no two tokens
    moved = tokens.gather(1, order)
    last = moved[:, -1].masked_fill(moved[:, -1] == PAD, BOS)
    if moved.is_cuda and torch.cuda.is_current_stream_capturing():
        # a recording cannot wait for a number; more padding changes nothing
        return _Begun(moved[:, :-1], last)
    longest = int((moved != PAD).sum(1).max()) if len(moved) else 0
    return _Begun(moved[:, max(0, moved.shape[1] - longest) : -1], last)


def _without_begin(tokens: Int[Tensor, "r t"], last: Int[Tensor, " r"]) -> Int[Tensor, "r t"]:
    """The tokens with what the begin token stands for in its place."""
    return torch.where(tokens == BOS, last[:, None], tokens)
