"""Masked words: the likeliest words for those that are hidden in a text.

    Paris is the [MASK] of France.   →   Paris is the capital of France.

Hidden words are guessed independently of each other: each is the likeliest at its place, given the
words that are there.

A model guesses pieces, and some pieces go on with the word before them. They stay among the
candidates, so that probabilities are the model's own, but are shown as ##ing beside ing, and are
put in without the space before: "run [MASK]" → "running".
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data import Example
from regard.data.kinds import EOS, MASK_NUMBER, MASK_PIECE, SPECIALS
from regard.data.published_kinds import PART
from regard.data.subwords import Subwords
from regard.decoding import Beam, Sampling, Search
from regard.decoding.sentences import padded
from regard.errors import DataError, RecipeError, SettingError
from regard.hardware.hardware import Hardware
from regard.inspecting.record import Record
from regard.models import Reader
from regard.recipes.recipe import Recipe
from regard.tasks.embedding import check_is_encoder
from regard.tasks.loaded import Loaded
from regard.tasks.normalisation import normalised_around_masks
from regard.tasks.predictions import (
    Answer,
    AnswerOptions,
    Candidate,
    Prediction,
    ReadOnlyAnswers,
    Request,
    answer_line,
    left_out,
)
from regard.tasks.ready_run import ReadyRun
from regard.tasks.searched_texts import is_long, refuse_long
from regard.tasks.task import NO_POINTING, Task

LOSS_NOTE = "of words hidden by chance in the references, not of those hidden in the texts"
"""Which words the loss is of."""
TEXTS_PER_BATCH = 16
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


@final
class MaskedWords(Task):
    """A model guesses the words that are hidden in a text."""

    does = "guesses hidden words"
    is_searched = False
    has_free_length = False
    how_answered = "hidden words filled in"
    why_no_search = "hidden words are filled in and not searched for"
    loss_unit = "hidden sub-word"
    meaningless: Mapping[str, str] = {
        "words": "few of a text's words are asked for, and their loss is not that of all",
        "lengths": "it does not read the source, by whose length losses are sorted",
        "pointing": NO_POINTING,
    }
    n_special_pieces = 1

    def check_recipe(self, recipe: Recipe) -> None:
        """Hidden words are other ones in each pass, and give no whole texts."""
        check_is_encoder(recipe)
        training = recipe.training
        if training.validate_bleu or training.stop_on == "bleu":
            raise RecipeError(
                "training.validate_bleu and stop_on = 'bleu' score whole texts, but this model "
                "guesses hidden words (model.task = 'words'). Take stop_on = 'loss'."
            )
        if training.r_drop:
            raise RecipeError(
                f"training.r_drop = {training.r_drop:g} compares two passes over the same text, "
                "but each pass hides other words (model.task = 'words'). Leave it out."
            )

    def with_special_pieces(self, learned: Subwords) -> Subwords:
        """A vocabulary with a piece that stands for a hidden word."""
        return learned.with_mask()

    def read_text(self, recipe: Recipe, text: str) -> str:
        """A text normalised as the training data are; hidden words stay hidden."""
        return normalised_around_masks(recipe, text)

    def as_trained(self, recipe: Recipe, examples: Iterable[Example]) -> list[Example]:
        """Normalised examples in whose sources hidden words stay hidden."""
        given = list(examples)
        return [
            replace(one, source=self.read_text(recipe, before.source))
            for one, before in zip(super().as_trained(recipe, given), given, strict=True)
        ]

    def stays_whole(self, recipe: Recipe) -> bool:
        """A hidden word is guessed from the whole text."""
        return True

    def check_alone(self, others: Sequence[object]) -> None:
        """Hidden words are guessed by one run."""
        if others:
            raise SettingError(
                "predict: this run fills in hidden words, and an ensemble has no meaning for it. "
                "Leave the other runs out."
            )

    def answer_each(
        self, run: ReadyRun, requests: Sequence[Request], options: AnswerOptions
    ) -> Iterator[tuple[int, Prediction]]:
        """Texts with their hidden words filled in."""
        self.check_alone(run.others)
        short: list[tuple[int, Request]] = []
        for place, request in enumerate(requests):
            if not is_long(run, request):
                short.append((place, replace(request, text=run.read(request.text))))
            elif options.on_long == "skip":
                yield place, left_out(request, run.longest)
            else:
                refuse_long(run, request, stays_whole=True)
        for place, one in fill_each(run.loaded, run.hardware, short, options):
            yield place, one.prediction

    def answers_read_off(self, run: ReadyRun, text: str, search: Search) -> ReadOnlyAnswers:
        """The likeliest ways to fill in a text."""
        requests = [(0, Request(run.read(text)))]
        ((_, filled),) = fill_each(run.loaded, run.hardware, requests, AnswerOptions(search))
        found = filled.prediction
        return ReadOnlyAnswers(found.n_best, filled.probabilities, found.note)

    def look_at_own(self, run: ReadyRun, text: str, search: Search | None) -> Record:
        """Where the model looked as it read; however it is filled in, that is the same."""
        options = AnswerOptions(search or run.default_search())
        ((_, found),) = self.answer_each(run, [Request(text)], options)
        return replace(run.read_over(run.read(text), []), target=found.text, note=found.note)

    def default_metrics(self, recipe: Recipe) -> Sequence[str]:
        """The loss of words that are hidden at random."""
        return ("loss",)

    def check_can_answer(self, examples: Sequence[Example], who: str, remedy: str) -> None:
        """Answers are scored only where words are hidden."""
        if not any(MASK_PIECE in example.source for example in examples):
            raise DataError(
                f"{who} needs texts in which words are hidden, but no source given holds "
                f"{MASK_PIECE}. Give such texts (--source), or {remedy}."
            )

    def loss_note(self, examples: Sequence[Example]) -> str:
        """Which words the loss is of."""
        return LOSS_NOTE if any(MASK_PIECE in one.source for one in examples) else ""

    def n_best_lines(self, number: int, answer: Prediction) -> str:
        """The candidates of hidden words stand on the text's own line."""
        return answer_line(answer)

    def as_example(self, text: str) -> str:
        """A text in which one word is hidden."""
        return with_hidden_word(text)


def with_hidden_word(text: str) -> str:
    """A text with a word in its middle hidden, one of letters alone where there is such a word.

    >>> with_hidden_word("Paris is the capital of France .")
    'Paris is the [MASK] of France .'
    """
    if MASK_PIECE in text:
        return text
    words = list(re.finditer(r"\S+", text))
    plain = [word for word in words if word[0].isalpha()] or words
    hidden = plain[len(plain) // 2]
    return f"{text[: hidden.start()]}{MASK_PIECE}{text[hidden.end() :]}"


def fill_each(
    loaded: Loaded,
    hardware: Hardware,
    requests: Sequence[tuple[int, Request]],
    options: AnswerOptions,
) -> Iterator[tuple[int, Filled]]:
    """Fill texts in; each with its place.

    Args:
        loaded: a run whose model guesses hidden words.
        hardware: where it runs.
        requests: texts that are not too long, each with its place.
        options: how many candidates are asked for.
    """
    _check(requests, options)
    n_best = options.search.n_best if isinstance(options.search, Beam) else 1
    texts = [_Text(place, one, [*loaded.source.encode(one.text), EOS]) for place, one in requests]
    for first in range(0, len(texts), TEXTS_PER_BATCH):
        some = texts[first : first + TEXTS_PER_BATCH]
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


def _check(requests: Sequence[tuple[int, Request]], options: AnswerOptions) -> None:
    """Nothing is asked for that has no meaning here."""
    asked = {
        "a prefix": any(one.prefix for _, one in requests),
        "phrases to hold": any(one.must_contain for _, one in requests),
        "alignments": options.has_alignments,
        "replaced unknown words": options.dictionary is not None,
        "sampling": isinstance(options.search, Sampling),
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise SettingError(
                f"predict: this run fills in hidden words, and {what} has no meaning for it. Leave "
                "it out."
            )
