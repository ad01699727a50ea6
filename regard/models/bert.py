"""BERT: an encoder without a decoder, and small heads on it for words, labels and tags.

    h = encoder(embed([begin] + tokens))
    masked language model   logits[i] = LN(gelu(W h[i])) Eᵀ        the words that were hidden
    classifier              logits = tanh(W h[0]) Oᵀ               one label for the text
    tagger                  logits[i] = h[first(i)] Oᵀ             one label for each word

Labels have ids from 4 on, like tokens, and only labels have a logit: O's first row is label 4. Ids
0 to 3 stay padding, begin, end and unknown; a position with one of these has no loss. A word of
several pieces is labelled at its first, first(i); the later ones are marked in their ids
(`Subwords.for_tagging`).

Paper: Devlin et al. 2019, sections 3 and 4.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention import FULL, all_of, padding
from regard.attention.links import Pattern
from regard.choices import find
from regard.data.subword_kinds import BOS, EOS, MASK_NUMBER, PAD, SPECIALS, UNK
from regard.dims import Dims
from regard.errors import SettingError, ShapeError
from regard.layers import Norm
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.by_length import read_apart
from regard.models.embedding import Embedding
from regard.models.masking import MASK, masked, masked_alone
from regard.models.shapes import Indices, SourceTokens, TargetTokens, Tokens
from regard.models.trainable import LossInputs
from regard.places import ROOT, Places, Tree

N_SPECIAL = len(SPECIALS)


@final
class Encoder(nn.Module):
    """One stack that reads a text in both directions; padding (token 0) never leaks.

    Without a pattern each word sees all. `is_by_length` means that the pattern, or a layer, depends
    on where a text ends: rows of one length are then read together, so that no text depends on the
    others of its batch. With `carries_heads` a token's id holds its word's head as well
    (parsed_words.py), with `carries_marks` that of a word's later piece is larger by the size of
    the vocabulary (`Subwords.for_tagging`).
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: Sequence[nn.Module],
        norm: nn.Module,
        pattern: Pattern | None = None,
        is_by_length: bool = False,
        carries_heads: bool = False,
        carries_marks: bool = False,
    ) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.pattern, self.is_by_length = pattern, is_by_length
        self.carries_heads, self.carries_marks = carries_heads, carries_marks

    def forward(
        self, tokens: Tokens, segments: Indices | None = None, heads: Indices | None = None
    ) -> Float[Tensor, "b 1+n m"]:
        """The states at the begin token, which is put first, and at each token.

        `segments` are the part of the row that each token is in, for an embedding with segments;
        unless given, a new part begins after each end token. `heads` are the index of each word's
        head, -1 for a root, for positions and relations that use trees.
        """
        n_words = self.embedding.E.num_embeddings
        if self.carries_heads:
            tokens, heads = tokens % n_words, tokens // n_words - 1
        elif self.carries_marks:
            tokens = torch.where(tokens < n_words, tokens, tokens - n_words)
        read = pad(tokens, (1, 0), value=BOS)
        parts = None if segments is None else pad(segments, (1, 0))
        if parts is None and self.embedding.n_segments:
            ended = (read == EOS).cumsum(1) - (read == EOS).long()
            parts = ended.clamp(max=self.embedding.n_segments - 1)
        tree = None if heads is None else Tree.from_heads(_behind_begin(heads))
        if not self.is_by_length:
            mask = padding(read != PAD)
            seen = mask if self.pattern is None else all_of(self.pattern, mask)
            return self._read(read, parts, tree, seen)
        return read_apart(
            read,
            lambda rows, n: self._read(
                read[rows, :n],
                None if parts is None else parts[rows, :n],
                None if tree is None else tree.part(rows, n),
                self.pattern or FULL,
            ),
        )

    def _read(
        self, read: Tensor, parts: Tensor | None, tree: Tree | None, mask: Pattern | Tensor
    ) -> Float[Tensor, "b n m"]:
        x = self.embedding(read, segments=parts, tree=tree)
        places = Places.between(*(2 * read.shape[1:]), tree=tree, device=read.device)
        for layer in self.layers:
            x = layer(x, mask=mask, places=places)
        return self.norm(x)


class EncoderHead(nn.Module, ABC):
    """An encoder with an output layer that predicts words or labels.

    The output layer's weight may be the embedding's.
    """

    first = 0
    """The token of the output layer's first row."""
    unsaid: tuple[int, ...] = (PAD, BOS, EOS, UNK)
    """Tokens that are never predicted."""

    def __init__(self, *, encoder: Encoder, output: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.output = encoder, output

    def forward(self, tokens: Tokens, segments: Indices | None = None) -> Float[Tensor, "b n v"]:
        """Logits at each token."""
        return self.output(self.hidden(tokens, segments))

    def hidden(self, tokens: Tokens, segments: Indices | None = None) -> Float[Tensor, "b l m"]:
        """The input of the output layer."""
        return self.read_off(self.encoder(tokens, segments))

    @abstractmethod
    def read_off(self, states: Float[Tensor, "b k m"]) -> Float[Tensor, "b l d"]:
        """The input of the output layer, from the states at the begin token and at each token."""

    @abstractmethod
    def loss_inputs(self, source: SourceTokens, target: TargetTokens) -> LossInputs:
        """Read a batch; give the output layer's inputs and the right answers."""

    @abstractmethod
    def known(self, source: Tokens) -> Int[Tensor, "b l"]:
        """The answers that need no model, such as the end; padding (0) where the model predicts."""


@final
class MaskedLanguageModel(EncoderHead):
    """Predicts hidden words from the words around them; the others are given back unchanged.

    The head has an activation and a norm; `mask` is the token that stands for a hidden word.
    """

    unsaid = (*EncoderHead.unsaid, MASK_NUMBER)

    def __init__(
        self,
        dims: Dims,
        *,
        encoder: Encoder,
        output: nn.Linear,
        activation: str = "gelu",
        norm: nn.Module | None = None,
        mask: int = MASK,
    ) -> None:
        super().__init__(encoder=encoder, output=output)
        self.dense, self.norm = _dense(dims), norm or Norm(dims)
        self.activation, self.mask = find(activation, ACTIVATIONS), mask

    def read_off(self, states: Float[Tensor, "b k m"]) -> Float[Tensor, "b n d"]:
        """Dense layer, activation and norm at each token."""
        return self.norm(self.activation(self.dense(states[:, 1:])))

    def loss_inputs(
        self, source: SourceTokens, target: TargetTokens, generator: torch.Generator | None = None
    ) -> LossInputs:
        """Hide some words of the target, which are to be predicted; the source is not read.

        In training the generator (by default torch's) chooses them. In evaluation a hash of the row
        chooses them, so that its loss is the same in every batch.
        """
        n_tokens = self.output.out_features
        if generator is None and not self.training:
            read, gold = masked_alone(target, n_tokens=n_tokens, mask=self.mask)
        else:
            read, gold = masked(target, n_tokens=n_tokens, mask=self.mask, generator=generator)
        return LossInputs(self.hidden(read), gold)

    def known(self, source: Tokens) -> Tokens:
        """The words that are not hidden."""
        return source.masked_fill(source == PAD, EOS).masked_fill(source == MASK_NUMBER, PAD)


@final
class Classifier(EncoderHead):
    """Gives one label to a whole text, from the state at the begin token."""

    first = N_SPECIAL
    unsaid = ()

    def __init__(self, dims: Dims, *, encoder: Encoder, output: nn.Linear) -> None:
        super().__init__(encoder=encoder, output=output)
        self.dense = _dense(dims)

    def forward(self, tokens: Tokens, segments: Indices | None = None) -> Float[Tensor, "b v"]:
        """Logits for the label of each row."""
        return self.output(self.hidden(tokens, segments)).squeeze(1)

    def read_off(self, states: Float[Tensor, "b k m"]) -> Float[Tensor, "b 1 m"]:
        """tanh(W h[0]), the state at the begin token."""
        return self.dense(states[:, :1]).tanh()

    def loss_inputs(self, source: SourceTokens, target: TargetTokens) -> LossInputs:
        """Read the source; the first target token is its label."""
        return LossInputs(self.hidden(source), _labels(target[:, :1]), first=self.first)

    def known(self, source: Tokens) -> Int[Tensor, "b 1"]:
        """No answer is known: the model predicts the one label."""
        return torch.full_like(source[:, :1], PAD)


@final
class Tagger(EncoderHead):
    """Gives one label to each word of a text, from the state at its first piece."""

    first = N_SPECIAL
    unsaid = ()

    def hidden(self, tokens: Tokens, segments: Indices | None = None) -> Float[Tensor, "b n m"]:
        """The states at the first piece of each word, and then the others."""
        states = self.read_off(self.encoder(tokens, segments))
        order = (~self.begins_word(tokens)).long().argsort(dim=1, stable=True)
        return states.gather(1, order[..., None].expand_as(states))

    def begins_word(self, tokens: Tokens) -> Bool[Tensor, "b n"]:
        """Where a word begins; its later pieces are marked, if there are some."""
        is_word = (tokens != EOS) & (tokens != PAD)
        if self.encoder.carries_marks:
            return is_word & (tokens < self.encoder.embedding.E.num_embeddings)
        return is_word

    def read_off(self, states: Float[Tensor, "b k m"]) -> Float[Tensor, "b n m"]:
        """The states at each token."""
        return states[:, 1:]

    def loss_inputs(self, source: SourceTokens, target: TargetTokens) -> LossInputs:
        """Each target token is the label of the source's word of its number."""
        if source.shape[1] < target.shape[1]:
            raise ShapeError(
                f"tagger: every word needs one label, got a source of {source.shape[1]} and a "
                f"target of {target.shape[1]} tokens. Give as many labels as words in each line."
            )
        return LossInputs(
            self.hidden(source)[:, : target.shape[1]], _labels(target), first=self.first
        )

    def known(self, source: Tokens) -> Tokens:
        """The end token after the last word; every label is predicted."""
        n_words = self.begins_word(source).sum(1, keepdim=True)
        at = torch.arange(source.shape[1], device=source.device)
        return torch.where(at < n_words, PAD, EOS)


@final
class HeadlessEncoder(EncoderHead):
    """Gives vectors only: everything that needs an output layer raises an error."""

    def read_off(self, states: Float[Tensor, "b k m"]) -> Float[Tensor, "b n m"]:
        """Raise an error: there is no output layer."""
        raise SettingError(
            "encoder: this model has no head (model.task = 'vectors'); it gives a vector for each "
            "text and says nothing. Ask for vectors: regard predict RUN --vectors FILE.npy."
        )

    def loss_inputs(self, source: SourceTokens, target: TargetTokens) -> LossInputs:
        """Raise an error: without an output layer there is no loss."""
        return LossInputs(self.hidden(source), target)

    def known(self, source: Tokens) -> Tokens:
        """Raise an error: without an output layer there are no answers."""
        return self.hidden(source).argmax(-1)


def _labels(target: TargetTokens) -> TargetTokens:
    """Labels as they are; padding for an end and for a label that training never had."""
    return target.masked_fill(target < N_SPECIAL, PAD)


def _behind_begin(heads: Indices) -> Int[Tensor, "b 1+n"]:
    """The same heads with the begin token, a root of its own, before all words."""
    return pad(torch.where(heads == ROOT, ROOT, heads + 1), (1, 0), value=ROOT)


def _dense(dims: Dims) -> nn.Linear:
    layer = nn.Linear(dims.d_model, dims.d_model)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
