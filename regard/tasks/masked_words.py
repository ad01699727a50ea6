"""Filling: the likeliest words for those that are hidden in a text.

    Paris is the [MASK] of France.   →   Paris is the capital of France.

Hidden words are guessed independently of each other: each is the likeliest at its place, given the
words that are there.

A model guesses pieces, and some pieces go on with the word before them. They stay among the
candidates, so that probabilities are the model's own, but are shown as ##ing beside ing, and are
put in without the space before: "run [MASK]" → "running".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.kinds import EOS, MASK_NUMBER, MASK_PIECE, SPECIALS
from regard.data.published_kinds import PART
from regard.data.subwords import Subwords
from regard.decoding import Beam, Sampling
from regard.decoding.sentences import padded
from regard.errors import SettingError
from regard.hardware.hardware import Hardware
from regard.models import EncoderSpec, Reader
from regard.recipes.recipe import Recipe
from regard.tasks.loaded import Loaded
from regard.tasks.predictions import Answer, Candidate, Prediction, Request, Wishes

AT_ONCE = 16
"""How many texts are read together."""


class _Text(NamedTuple):
    """A text in pieces."""

    place: int
    request: Request
    tokens: list[int]


class _Piece(NamedTuple):
    """What may stand for a hidden word."""

    text: str
    goes_on: bool
    """With the word before it."""
    probability: float

    def shown(self) -> str:
        """As readers can tell it from a whole word."""
        return PART * self.goes_on + self.text


@dataclass(frozen=True)
class Filled:
    """A text that was filled in, and how sure the model was of each piece.

    Different pieces may be shown alike, so that the text of a piece does not tell.
    """

    prediction: Prediction
    probabilities: tuple[tuple[float, ...], ...]
    """Of the pieces of each answer, in the order of the prediction's."""


def fills_words(recipe: Recipe) -> bool:
    """Whether the model of a recipe guesses hidden words."""
    return isinstance(recipe.model, EncoderSpec) and recipe.model.task == "words"


def asked_of(recipe: Recipe) -> str:
    """What is asked of a run: "hidden_words", or answers to what `Recipe.source_kind` says."""
    return "hidden_words" if fills_words(recipe) else recipe.source_kind


def check_alone(recipe: Recipe, others: Sequence[object]) -> None:
    """Hidden words are guessed by one run: others that should write along would do nothing."""
    if others and fills_words(recipe):
        raise SettingError(
            "predict: this run fills in hidden words, and an ensemble has no meaning for it. Leave "
            "the other runs out."
        )


def fill_each(
    loaded: Loaded, hardware: Hardware, requests: Sequence[tuple[int, Request]], wishes: Wishes
) -> Iterator[tuple[int, Filled]]:
    """Fill texts in; each with its place.

    Args:
        loaded: a run whose model guesses hidden words.
        hardware: where it runs.
        requests: texts that are not too long, each with its place.
        wishes: how many candidates are asked for.
    """
    _check(requests, wishes)
    n_best = wishes.search.n_best if isinstance(wishes.search, Beam) else 1
    texts = [_Text(place, one, [*loaded.source.encode(one.text), EOS]) for place, one in requests]
    for first in range(0, len(texts), AT_ONCE):
        some = texts[first : first + AT_ONCE]
        for text, guesses in zip(some, _guesses(loaded, hardware, some), strict=True):
            yield text.place, filled(text.request, guesses, loaded.target, n_best)


@torch.inference_mode()
def _guesses(
    loaded: Loaded, hardware: Hardware, texts: Sequence[_Text]
) -> list[Float[Tensor, "masks v"]]:
    """The log-probabilities of all words at each hidden one, text by text."""
    model = loaded.model
    assert isinstance(model, Reader)
    tokens = padded([text.tokens for text in texts], hardware.device)
    is_hidden = tokens == MASK_NUMBER
    with hardware.products():
        hidden = model.hidden(tokens, tokens)[is_hidden]
        logits = model.output(hidden).float()
    # neither special pieces nor the mask itself are words
    logits[:, [*range(len(SPECIALS)), MASK_NUMBER]] = -torch.inf
    return list(logits.log_softmax(-1).cpu().split(is_hidden.sum(1).tolist()))


def filled(
    request: Request, guesses: Float[Tensor, "masks v"], target: Subwords, n_best: int
) -> Filled:
    """A text with the likeliest pieces for its hidden words.

    Args:
        request: the text.
        guesses: the log-probabilities of all pieces at each mask.
        target: the pieces.
        n_best: how many candidates a mask has, and how many texts there are.
    """
    # there may be fewer words than are asked for
    n_words = int(guesses[:1].isfinite().sum()) or guesses.shape[-1]
    best = guesses.topk(min(n_best, n_words))
    is_first = request.text.lstrip().startswith(MASK_PIECE)
    scores = best.values.tolist()
    pieces = [
        [
            _piece(number, score, target, is_first=is_first and not place)
            for number, score in zip(numbers, each, strict=True)
        ]
        for place, (numbers, each) in enumerate(zip(best.indices.tolist(), scores, strict=True))
    ]
    candidates = tuple(
        tuple(Candidate(piece.shown(), piece.probability) for piece in some) for some in pieces
    )
    ways = _together(pieces, scores, n_best)
    answers = tuple(
        Answer(_with(request.text, said), score, tuple(piece.shown() for piece in said))
        for said, score in ways
    )
    prediction = Prediction(
        source=request.text,
        text=answers[0].text,
        score=answers[0].score,
        tokens=answers[0].tokens,
        n_best=answers,
        note=None if candidates else f"no word is hidden in the text: write {MASK_PIECE} for it",
        candidates=candidates,
    )
    return Filled(prediction, tuple(tuple(piece.probability for piece in said) for said, _ in ways))


def _piece(number: int, score: float, target: Subwords, *, is_first: bool) -> _Piece:
    return _Piece(
        target.readable(number).strip(),
        target.goes_on(number, is_first=is_first),
        float(torch.tensor(score).exp()),
    )


def _together(
    pieces: Sequence[Sequence[_Piece]], scores: Sequence[Sequence[float]], n_best: int
) -> list[tuple[tuple[_Piece, ...], float]]:
    """The likeliest ways to fill all hidden words; since they are independent, this is exact."""
    ways: list[tuple[tuple[_Piece, ...], float]] = [((), 0.0)]
    for some, each in zip(pieces, scores, strict=True):
        longer = [
            ((*said, piece), total + score)
            for said, total in ways
            for piece, score in zip(some, each, strict=True)
        ]
        ways = sorted(longer, key=lambda way: -way[1])[:n_best]
    return ways


def _with(text: str, pieces: Sequence[_Piece]) -> str:
    """The text with pieces in the places of its masks."""
    whole, *rest = text.split(MASK_PIECE)
    for piece, part in zip(pieces, rest, strict=True):
        before = whole.rstrip() if piece.goes_on else whole
        whole = f"{before}{piece.text}{part}"
    return whole


def _check(requests: Sequence[tuple[int, Request]], wishes: Wishes) -> None:
    """Nothing is asked for that has no meaning here."""
    asked = {
        "a prefix": any(one.prefix for _, one in requests),
        "phrases to hold": any(one.must_contain for _, one in requests),
        "alignments": wishes.has_alignments,
        "replaced unknown words": wishes.dictionary is not None,
        "sampling": isinstance(wishes.search, Sampling),
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise SettingError(
                f"predict: this run fills in hidden words, and {what} has no meaning for it. Leave "
                "it out."
            )
