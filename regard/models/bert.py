"""BERT: an encoder alone reads a text, and a small head on it says something about it.

    h = encoder(embed([begin] + tokens))
    masked language model   logits[i] = LN(gelu(W h[i])) Eᵀ        the words that were hidden
    classifier              logits = tanh(W h[0]) Oᵀ               one label for the text
    tagger                  logits[i] = h[i] Oᵀ                    one label for each token

Labels have ids like tokens: 0 to 3 stay padding, begin, end and unknown, so that padding means
that nothing is asked.

Paper: Devlin et al. 2019, sections 3 and 4.
"""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention import FULL, all_of, padding
from regard.attention.links import Pattern
from regard.choices import find
from regard.dims import Dims
from regard.errors import ShapeError
from regard.layers import Norm
from regard.layers.feed_forward import ACTIVATIONS
from regard.models.by_length import read_apart
from regard.models.embedding import Embedding
from regard.models.learner import Lesson
from regard.models.masking import MASK, masked, masked_alone
from regard.models.stepper import BOS, EOS, PAD
from regard.places import ROOT, Places, Tree


@final
class Encoder(nn.Module):
    """One stack that reads a text in both directions; padding (token 0) never leaks.

    Args:
        embedding: tokens, positions and, if it has them, segments.
        layers: map `b n m` to `b n m`, given a mask.
        norm: the last norm; identity if the layers are post-norm.
        pattern: which words each word sees; all unless given.
        is_by_length: whether the pattern, or a layer, asks where a text ends; rows of one length
            are then read together, so that no text depends on the others of its batch.
        carries_heads: whether a token's number holds its word's head as well (parsed_words.py).
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
    ) -> None:
        super().__init__()
        self.embedding, self.layers, self.norm = embedding, nn.ModuleList(layers), norm
        self.pattern, self.is_by_length = pattern, is_by_length
        self.carries_heads = carries_heads

    def forward(
        self,
        tokens: Int[Tensor, "b n"],
        segments: Int[Tensor, "b n"] | None = None,
        heads: Int[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b 1+n m"]:
        """What stands at the begin token, which is put first, and at each token.

        Args:
            tokens: the text.
            segments: which part of the row a token belongs to, for an embedding that knows
                segments. Unless given, a new part begins after each end token.
            heads: the index of the word that each word hangs from, -1 for a root (and for what is
                no word), for positions and relations that know trees.
        """
        if self.carries_heads:
            n_words = self.embedding.E.num_embeddings
            tokens, heads = tokens % n_words, tokens // n_words - 1
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


@final
class MaskedLanguageModel(nn.Module):
    """Guesses hidden words from the words around them.

    Args:
        dims: the model width.
        encoder: reads the text.
        output: maps `b n m` to logits; its weight may be the embedding's.
        activation: of the head.
        norm: of the head; a plain one unless given.
        mask: the token that stands for a hidden word.
    """

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
        super().__init__()
        self.encoder, self.output = encoder, output
        self.dense, self.norm = _dense(dims), norm or Norm(dims)
        self.activation, self.mask = find(activation, ACTIVATIONS), mask

    def forward(
        self, tokens: Int[Tensor, "b n"], segments: Int[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b n v"]:
        """Logits for the word at each token; the mask stands for an unknown one."""
        return self.output(self.hidden(tokens, segments))

    def hidden(
        self, tokens: Int[Tensor, "b n"], segments: Int[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b n m"]:
        """What the output layer reads."""
        return self.norm(self.activation(self.dense(self.encoder(tokens, segments)[:, 1:])))

    def lesson(
        self,
        source: Int[Tensor, "b s"],
        target: Int[Tensor, "b t"],
        generator: torch.Generator | None = None,
    ) -> Lesson:
        """Some words of the target are hidden and asked for; the source is not read.

        In training chance comes from the generator, or from torch's own. In evaluation it comes
        from the row itself, so that its loss is the same in every batch.
        """
        n_tokens = self.output.out_features
        if generator is None and not self.training:
            read, gold = masked_alone(target, n_tokens=n_tokens, mask=self.mask)
        else:
            read, gold = masked(target, n_tokens=n_tokens, mask=self.mask, generator=generator)
        return Lesson(self.hidden(read), gold)


def mean(h: Float[Tensor, "b n m"], valid: Bool[Tensor, "b n"]) -> Float[Tensor, "b 1 m"]:
    """The mean over the begin token and all real tokens."""
    weights = valid.unsqueeze(-1).to(h.dtype)
    return (h * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True)


@final
class Classifier(nn.Module):
    """Gives one label to a whole text, from the state at the begin token."""

    def __init__(self, dims: Dims, *, encoder: Encoder, output: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.output = encoder, output
        self.dense = _dense(dims)

    def forward(
        self, tokens: Int[Tensor, "b n"], segments: Int[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b v"]:
        """Logits for the label of each row."""
        return self.output(self.hidden(tokens, segments)).squeeze(1)

    def hidden(
        self, tokens: Int[Tensor, "b n"], segments: Int[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b 1 m"]:
        """What the output layer reads."""
        return self.dense(self.encoder(tokens, segments)[:, :1]).tanh()

    def lesson(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Lesson:
        """The source is read; the first target token is its label."""
        return Lesson(self.hidden(source), target[:, :1])


@final
class Tagger(nn.Module):
    """Gives one label to each token of a text."""

    def __init__(self, *, encoder: Encoder, output: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.output = encoder, output

    def forward(
        self, tokens: Int[Tensor, "b n"], segments: Int[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b n v"]:
        """Logits for the label of each token."""
        return self.output(self.hidden(tokens, segments))

    def hidden(
        self, tokens: Int[Tensor, "b n"], segments: Int[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b n m"]:
        """What the output layer reads."""
        return self.encoder(tokens, segments)[:, 1:]

    def lesson(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Lesson:
        """Each target token is the label of the source token above it; ends are not asked for."""
        if source.shape != target.shape:
            raise ShapeError(
                f"tagger: every token needs one label, got a source of {source.shape[1]} and a "
                f"target of {target.shape[1]} tokens. Take tokens of kind words on both sides, "
                "and as many labels as words in each line."
            )
        return Lesson(self.hidden(source), target.masked_fill(target == EOS, PAD))


def _behind_begin(heads: Int[Tensor, "b n"]) -> Int[Tensor, "b 1+n"]:
    """The same heads where the begin token stands before all words, a root of its own."""
    return pad(torch.where(heads == ROOT, ROOT, heads + 1), (1, 0), value=ROOT)


def _dense(dims: Dims) -> nn.Linear:
    layer = nn.Linear(dims.d_model, dims.d_model)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer
