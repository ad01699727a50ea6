"""Filling: the likeliest words for those that are hidden in a text.

    Paris is the [MASK] of France.   →   Paris is the capital of France.

Hidden words are guessed independently of each other: each is the likeliest at its place, given the
words that are there.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data.kinds import EOS, MASK_NUMBER, MASK_PIECE, SPECIALS
from regard.data.subwords import Subwords
from regard.decoding import Beam, Sampling
from regard.decoding.sentences import padded
from regard.errors import SettingError
from regard.models import EncoderSpec, Reader
from regard.training.hardware import Hardware
from regard.training.loading import Loaded
from regard.training.predictions import Answer, Candidate, Prediction, Request, Wishes
from regard.training.recipes import Recipe

AT_ONCE = 16
"""How many texts are read together."""


class _Text(NamedTuple):
    """A text in pieces."""

    place: int
    request: Request
    tokens: list[int]


def fills_words(recipe: Recipe) -> bool:
    """Whether the model of a recipe guesses hidden words."""
    return isinstance(recipe.model, EncoderSpec) and recipe.model.task == "words"


def check_alone(recipe: Recipe, others: Sequence[object]) -> None:
    """Hidden words are guessed by one run: others that should write along would do nothing."""
    if others and fills_words(recipe):
        raise SettingError(
            "predict: this run fills in hidden words, and an ensemble has no meaning for it. Leave "
            "the other runs out."
        )


def fill_each(
    loaded: Loaded, hardware: Hardware, requests: Sequence[tuple[int, Request]], wishes: Wishes
) -> Iterator[tuple[int, Prediction]]:
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
            yield text.place, _filled(text.request, guesses, loaded.target, n_best)


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


def _filled(
    request: Request, guesses: Float[Tensor, "masks v"], target: Subwords, n_best: int
) -> Prediction:
    best = guesses.topk(min(n_best, guesses.shape[-1]))
    candidates = tuple(
        tuple(
            Candidate(target.readable(number).strip(), float(torch.tensor(score).exp()))
            for number, score in zip(numbers, scores, strict=True)
        )
        for numbers, scores in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
    answers = tuple(
        Answer(_with(request.text, words), score, words)
        for words, score in _together(candidates, best.values.tolist(), n_best)
    )
    return Prediction(
        source=request.text,
        text=answers[0].text,
        score=answers[0].score,
        tokens=answers[0].tokens,
        n_best=answers,
        note=None if candidates else f"no word is hidden in the text: write {MASK_PIECE} for it",
        candidates=candidates,
    )


def _together(
    candidates: Sequence[Sequence[Candidate]], scores: Sequence[Sequence[float]], n_best: int
) -> list[tuple[tuple[str, ...], float]]:
    """The likeliest ways to fill all hidden words; since they are independent, this is exact."""
    ways: list[tuple[tuple[str, ...], float]] = [((), 0.0)]
    for words, each in zip(candidates, scores, strict=True):
        longer = [
            ((*said, word.text), total + score)
            for said, total in ways
            for word, score in zip(words, each, strict=True)
        ]
        ways = sorted(longer, key=lambda way: -way[1])[:n_best]
    return ways


def _with(text: str, words: Sequence[str]) -> str:
    """The text with words in the places of its masks."""
    first, *rest = text.split(MASK_PIECE)
    return first + "".join(word + part for word, part in zip(words, rest, strict=True))


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
