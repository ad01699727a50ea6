"""Reader: an encoder-only model behind the `Model` interface of training, decoding and inspecting.

It reads a text once and predicts a token at each position. A search steps through the positions;
a prediction never depends on earlier tokens of the answer, and after the text the end token is
certain. So greedy search gives the likeliest answer at every position, and beam search the answers
that are likeliest as a whole.

    words   at a hidden word any word; at a word that is there, that word
    tags    at each word a tag, at its first piece
    label   one label
"""

from collections.abc import Callable, Iterator, Mapping
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from regard.attention.capture import captured
from regard.data.subword_kinds import EOS, MASK_NUMBER, PAD
from regard.models.bert import (
    Classifier,
    Encoder,
    EncoderHead,
    HeadlessEncoder,
    MaskedLanguageModel,
    Tagger,
)
from regard.models.encoders.big_bird import FirstBlockRelation, PublishedBigBirdPattern
from regard.models.encoders.spec import READING_PATTERNS, EncoderSpec
from regard.models.mask_checks import check_padding
from regard.models.model import Model
from regard.models.parts import AppendOne, Parts, tied_output
from regard.models.shapes import Logits, Maps, NewTokens, SourceTokens, TargetTokens
from regard.models.stepper import DecodingState
from regard.models.trainable import LossInputs

NEVER = -torch.inf
"""The logit of tokens that cannot be predicted."""
INITIAL_STD = 0.02
"""Of embeddings and of the weights of labels, as in BERT."""


@final
class Reader(Model):
    """An encoder with its head, as a model."""

    reads_answers = False

    def __init__(self, network: EncoderHead) -> None:
        super().__init__()
        self.network, self.output = network, network.output

    @property
    def encoder(self) -> Encoder:
        """The network's encoder."""
        return self.network.encoder

    def hidden(self, source: SourceTokens, target: TargetTokens) -> Float[Tensor, "b n m"]:
        """The output layer's input at each position; the target is not read."""
        return self.network.hidden(source)

    def loss_inputs(self, source: SourceTokens, target: TargetTokens) -> LossInputs:
        """What the loss of the network's task takes."""
        return self.network.loss_inputs(source, target)

    def logits(self, source: SourceTokens) -> Float[Tensor, "b l v"]:
        """The logits of the output layer at each place that has an answer."""
        return self.output(self.network.hidden(source))

    def vectors(self, source: SourceTokens) -> Float[Tensor, "b m"]:
        """One vector of length 1 for each text: the mean over its tokens, begin and end too."""
        h = self.encoder(source)
        is_real = pad(source != PAD, (1, 0), value=True).unsqueeze(-1).to(h.dtype)
        return normalize((h * is_real).sum(1) / is_real.sum(1), dim=-1)

    def maps(self, source: SourceTokens, target: TargetTokens) -> Maps:
        """Where each word of the text looks: "encoder", a map for each layer."""
        with captured(self) as maps:
            self.encoder(source)
        return {"encoder": tuple(maps.values())}

    def start(self, source: SourceTokens) -> DecodingState:
        """Read the text: keep the output layer's inputs and the answers that need no model."""
        read = (self.network.hidden(source), self.network.known(source))
        # rows carry no state; the empty tensor keeps their number
        return DecodingState(read, source[:, :0])

    def step(self, state: DecodingState, tokens: NewTokens) -> tuple[Logits, DecodingState]:
        """Logits at the next positions; beyond the text the end token is certain."""
        hidden, known = state.source
        after, n_read = state.length + tokens.shape[1], known.shape[1]
        at = torch.arange(state.length, after, device=tokens.device)
        here = at.clamp(max=n_read - 1)
        known = known[:, here].masked_fill(at >= n_read, EOS)
        # special tokens are never predicted; in front of labels they have no logits
        logits = pad(self.output(hidden[:, here]), (self.network.first, 0), value=NEVER)
        logits[..., list(self.network.unsaid)] = NEVER
        certain = torch.full_like(logits, NEVER).scatter(2, known.unsqueeze(2), 0.0)
        said = torch.where((known == PAD).unsqueeze(2), logits, certain)
        width = len(tokens) // max(1, len(known))
        return said.repeat_interleave(width, 0), state._replace(length=after)

    def without_special_rows(self) -> None:
        """Delete the output layer's rows of special tokens, which earlier versions had."""
        layer, first = self.output, self.network.first
        layer.weight = nn.Parameter(layer.weight.detach()[first:].clone())
        layer.out_features -= first

    def repeated(self) -> Iterator[nn.Module]:
        """The layers of the encoder."""
        yield from self.encoder.layers


def build_encoder(spec: EncoderSpec, *, n_source_tokens: int, n_target_tokens: int) -> Reader:
    """Make the model, and check that padding changes nothing."""
    spec.check_vocabularies(n_source_tokens, n_target_tokens)
    encoder = _encoder(spec, n_source_tokens)
    network = HEADS[spec.task](spec, encoder, n_target_tokens)
    check_padding(encoder, encoder, n_source_tokens)
    return Reader(network)


def _encoder(spec: EncoderSpec, n_tokens: int) -> Encoder:
    pattern = None if spec.pattern is None else spec.pattern.build(READING_PATTERNS, spec.dims)
    relations = {}
    if isinstance(pattern, PublishedBigBirdPattern) and not pattern.has_random_links:
        relations["encoder"] = FirstBlockRelation(pattern)
    parts = Parts(spec, relations=relations)
    has_output_bias = spec.task == "words" and spec.has_output_bias
    embedding = parts.embedding(n_tokens, has_output_bias=has_output_bias)
    nn.init.normal_(embedding.E.weight[:, : spec.d_model].detach(), std=INITIAL_STD)
    return Encoder(
        embedding=embedding,
        layers=parts.encoder_layers(spec.n_layers),
        norm=parts.last_norm(),
        pattern=pattern,
        is_by_length=pattern is not None and pattern.needs_length,
        carries_heads=spec.needs_trees,
        carries_marks=spec.labels_words and not spec.needs_trees,
    )


def _words(spec: EncoderSpec, encoder: Encoder, n_words: int) -> MaskedLanguageModel:
    norm: nn.Module = Parts(spec).norm()
    if encoder.embedding.has_output_bias:
        norm = nn.Sequential(norm, AppendOne())
    return MaskedLanguageModel(
        spec.dims,
        encoder=encoder,
        output=tied_output(encoder.embedding.E),
        activation=spec.feed_forward,
        norm=norm,
        mask=MASK_NUMBER,
    )


def _labels(spec: EncoderSpec, count: int) -> nn.Linear:
    layer = nn.Linear(spec.d_model, count, bias=False)
    nn.init.normal_(layer.weight, std=INITIAL_STD)
    return layer


HEADS: Mapping[str, Callable[[EncoderSpec, Encoder, int], EncoderHead]] = {
    "words": _words,
    "tags": lambda spec, encoder, n: Tagger(
        encoder=encoder, output=_labels(spec, n - Tagger.first)
    ),
    "label": lambda spec, encoder, n: Classifier(
        spec.dims, encoder=encoder, output=_labels(spec, n - Classifier.first)
    ),
    "vectors": lambda spec, encoder, n: HeadlessEncoder(
        encoder=encoder, output=tied_output(encoder.embedding.E)
    ),
}
"""The function that makes a task's head, given the size of the vocabulary of answers."""
