"""Reader: an encoder-only model as training, searching and looking know models.

It reads a text once and says something at each place of it. A search asks for one token after
another; what a reader answers never depends on what was asked before, and where the text ends it
says the end token. So greedy search is the likeliest answer at every place, and a beam's answers
are the likeliest together.

    words   at a hidden word any word; at a word that is there, that word
    tags    at each word a tag
    label   one label
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import normalize, pad

from regard.attention import AttentionMap
from regard.attention.capture import captured
from regard.data.kinds import MASK_NUMBER
from regard.errors import SettingError
from regard.models.bert import Classifier, Encoder, MaskedLanguageModel, Tagger, mean
from regard.models.learner import Lesson
from regard.models.model import Model
from regard.models.stepper import BOS, EOS, PAD, UNK

NEVER = -torch.inf
"""The logit of what cannot be said."""


class ReaderState(NamedTuple):
    """What was read, once for each sentence, and how far a search has come."""

    hidden: Float[Tensor, "b n m"]
    """What the output layer reads at each place."""
    known: Int[Tensor, "b n"]
    """What is said whatever the model thinks; padding (0) where it is asked."""
    at: int
    """Places said so far."""
    width: int
    """Rows that a sentence has."""


@final
class Vectors(nn.Module):
    """An encoder without a head; its states say nothing but themselves."""

    def __init__(self, *, encoder: Encoder, output: nn.Linear) -> None:
        super().__init__()
        self.encoder, self.output = encoder, output

    def hidden(self, tokens: Int[Tensor, "b n"]) -> Float[Tensor, "b n m"]:
        """Nothing that could be read off."""
        raise _speechless()

    def lesson(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Lesson:
        """Nothing that could be learned."""
        raise _speechless()


Network = MaskedLanguageModel | Tagger | Classifier | Vectors


@final
class Reader(Model):
    """One network with its head.

    Args:
        network: reads a text, and says something at each place of it.
        task: what it says: "words", "tags", "label" or "vectors".
    """

    def __init__(self, network: Network, *, task: str) -> None:
        super().__init__()
        self.network, self.task = network, task
        self.output = network.output

    @property
    def encoder(self) -> Encoder:
        """What reads."""
        return self.network.encoder

    def hidden(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> Float[Tensor, "b n m"]:
        """What the output layer reads at each place; the target tells nothing."""
        return self.network.hidden(source)

    def lesson(self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]) -> Lesson:
        """What the network asks of its task."""
        return self.network.lesson(source, target)

    def vectors(self, source: Int[Tensor, "b s"]) -> Float[Tensor, "b m"]:
        """One vector of length 1 for each text: the mean over its tokens, begin and end too."""
        valid = pad(source != PAD, (1, 0), value=True)
        return normalize(mean(self.encoder(source), valid).squeeze(1), dim=-1)

    def maps(
        self, source: Int[Tensor, "b s"], target: Int[Tensor, "b t"]
    ) -> dict[str, tuple[AttentionMap, ...]]:
        """Where each word of the text looks: "encoder", a map for each layer."""
        with captured(self) as maps:
            self.encoder(source)
        return {"encoder": tuple(maps.values())}

    def row(self, source: Sequence[int], target: Sequence[int]) -> list[int]:
        """What rows and columns of a map stand for: the begin token, and the text."""
        return [BOS, *source]

    def start(self, source: Int[Tensor, "b s"]) -> ReaderState:
        """Read the text."""
        return ReaderState(self.network.hidden(source), KNOWN[self.task](source), at=0, width=1)

    def step(
        self, state: ReaderState, tokens: Int[Tensor, "r t"]
    ) -> tuple[Float[Tensor, "r t v"], ReaderState]:
        """What is said at the next places; beyond the text, the end token."""
        n_new, n_read = tokens.shape[1], state.known.shape[1]
        at = torch.arange(state.at, state.at + n_new, device=tokens.device)
        here = at.clamp(max=n_read - 1)
        known = state.known[:, here].masked_fill(at >= n_read, EOS)
        logits = self.output(state.hidden[:, here])
        # where something is asked, it is said
        logits[..., list(UNSAID[self.task])] = NEVER
        certain = torch.full_like(logits, NEVER).scatter(2, known.unsqueeze(2), 0.0)
        said = torch.where((known == PAD).unsqueeze(2), logits, certain)
        return said.repeat_interleave(state.width, 0), state._replace(at=state.at + n_new)

    def select(self, state: ReaderState, rows: Int[Tensor, " r"]) -> ReaderState:
        """The state of some rows, all or none of a sentence's."""
        sentences = rows[:: state.width] // state.width
        return state._replace(hidden=state.hidden[sentences], known=state.known[sentences])

    def branch(self, state: ReaderState, parents: Int[Tensor, "b w"]) -> ReaderState:
        """Go on in w rows a sentence; no row remembers anything of its own."""
        return state._replace(width=parents.shape[1])

    def repeated(self) -> Iterator[nn.Module]:
        """The layers of the encoder."""
        yield from self.encoder.layers


def _words(source: Int[Tensor, "b s"]) -> Int[Tensor, "b s"]:
    """All words but the hidden ones."""
    return _ended(source).masked_fill(source == MASK_NUMBER, PAD)


def _tags(source: Int[Tensor, "b s"]) -> Int[Tensor, "b s"]:
    """Nothing but where the text ends."""
    return torch.where((source == EOS) | (source == PAD), EOS, PAD)


def _label(source: Int[Tensor, "b s"]) -> Int[Tensor, "b 1"]:
    """Nothing: one label is asked for."""
    return torch.full_like(source[:, :1], PAD)


def _nothing(source: Int[Tensor, "b s"]) -> Int[Tensor, "b s"]:
    raise _speechless()


KNOWN: Mapping[str, Callable[[Tensor], Tensor]] = {
    "words": _words,
    "tags": _tags,
    "label": _label,
    "vectors": _nothing,
}
"""What is said for certain at each place, by task; padding (0) where the model is asked."""


UNSAID: Mapping[str, tuple[int, ...]] = {
    "words": (PAD, BOS, EOS, UNK, MASK_NUMBER),
    "tags": (PAD, BOS, EOS, UNK),
    "label": (PAD, BOS, EOS, UNK),
    "vectors": (),
}
"""What is no answer, by task."""


def _ended(source: Int[Tensor, "b s"]) -> Int[Tensor, "b s"]:
    return source.masked_fill(source == PAD, EOS)


def _speechless() -> SettingError:
    return SettingError(
        "encoder: this model has no head (model.task = 'vectors'); it gives a vector for each text "
        "and says nothing. Ask for vectors: regard predict RUN --vectors FILE.npy."
    )
