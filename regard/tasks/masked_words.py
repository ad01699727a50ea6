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
from dataclasses import replace
from itertools import count
from typing import NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor

from regard.data import Example
from regard.data.published_subwords import PART
from regard.data.subword_kinds import EOS, MASK_NUMBER, MASK_PIECE, SPECIALS
from regard.data.subwords import Subwords
from regard.decoding import Beam, Search
from regard.decoding.sentences import padded_tokens
from regard.errors import DataError, RecipeError, SettingError
from regard.inspecting.record import Record
from regard.models import Reader
from regard.recipes.recipe import Recipe
from regard.tasks.input_format import normalised_text
from regard.tasks.likeliest import likeliest_together
from regard.tasks.loaded_run import LoadedRun
from regard.tasks.predictions import (
    Answer,
    AnswerOptions,
    Prediction,
    ReadOnlyAnswers,
    Request,
    WordCandidate,
    answer_line,
    check_no_search,
    left_out,
)
from regard.tasks.samples import WordLooks, strongest_links
from regard.tasks.searched_texts import pieces_of
from regard.tasks.task import NO_CACHE, NO_POINTING, Task

TEXTS_PER_BATCH = 16


class _Piece(NamedTuple):
    """A candidate for a hidden word."""

    text: str
    goes_on: bool
    """Whether it continues the word before it."""
    probability: float

    def shown(self) -> str:
        """The text, marked with ## if it continues a word."""
        return PART * self.goes_on + self.text


@final
class MaskedWords(Task):
    """A model guesses the words that are hidden in a text."""

    does = "guesses hidden words"
    needs_kind = "encoder"
    is_searched = False
    has_free_length = False
    how_answered = "hidden words filled in"
    why_no_search = "hidden words are filled in and not searched for"
    loss_unit = "hidden sub-word"
    meaningless: Mapping[str, str] = {
        "words": "few of a text's words are asked for, and their loss is not that of all",
        "lengths": "it does not read the source, by whose length losses are sorted",
        "cache": NO_CACHE,
        "pointing": NO_POINTING,
    }
    hides_words = True

    def verb(self, recipe: Recipe) -> str:
        """The hidden words of a text."""
        return "Fill in"

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse R-Drop and BLEU: each pass hides other words, and no whole texts are written."""
        super().check_recipe(recipe)
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

    def read_text(self, recipe: Recipe, text: str) -> str:
        """A text normalised as the training data are; hidden words stay hidden.

        A lower-case word replaces each mask during normalisation, so that the text beside a mask is
        treated as beside a word: [MASK]. becomes [MASK] and a full stop.
        """
        others = normalised_text(recipe, text.replace(MASK_PIECE, " "))
        # such words cannot overlap, and no following accent combines with their last letter
        word = next(word for n in count(1) if (word := "x" * n + "q") not in others)
        return normalised_text(recipe, text.replace(MASK_PIECE, word)).replace(word, MASK_PIECE)

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
        """Refuse an ensemble: hidden words are guessed by one run."""
        if others:
            raise SettingError(
                "predict: this run fills in hidden words, and an ensemble has no meaning for it. "
                "Leave the other runs out."
            )

    def answer_each(
        self, run: LoadedRun, requests: Sequence[Request], options: AnswerOptions
    ) -> Iterator[tuple[int, Prediction]]:
        """Texts with their hidden words filled in."""
        self.check_alone(run.others)
        short = pieces_of(run, requests, options.on_long, stays_whole=True)
        yield from left_out(requests, short, run.longest)
        for place, one in _filled_each(run, short, options):
            yield place, one.prediction

    def stream(self, run: LoadedRun, request: Request, search: Search) -> Iterator[str]:
        """The answer, which is known at once."""
        run.check_length(request)
        yield self.sample_answer(run, request.text, search)

    def answers_read_off(self, run: LoadedRun, text: str, search: Search) -> ReadOnlyAnswers:
        """The likeliest ways to fill in a text."""
        ((_, found),) = _filled_each(run, [(0, Request(text))], AnswerOptions(search))
        return found

    def look_at_own(self, run: LoadedRun, text: str, search: Search | None) -> Record:
        """Where the model looked as it read, which does not depend on the filled-in words."""
        options = AnswerOptions(search or run.default_search())
        ((_, found),) = self.answer_each(run, [Request(text)], options)
        return replace(run.read_over(run.read(text), []), target=found.text, note=found.note)

    def sample_of(self, source: str, reference: str) -> tuple[str, str]:
        """A text in which one word is hidden, and the whole text; training reads the targets."""
        return with_hidden_word(reference), reference

    def sample_links(
        self, run: LoadedRun, text: str, answer: str, search: Search
    ) -> tuple[WordLooks, ...]:
        """What the hidden word looked at."""
        record = run.read_over(run.read(text), [])
        names = record.attention["encoder"].queries.names
        hidden = [place for place, name in enumerate(names) if MASK_PIECE in name]
        return strongest_links(record, rows=hidden)

    def default_metrics(self, recipe: Recipe) -> Sequence[str]:
        """The loss of words that are hidden at random."""
        return ("loss",)

    def check_can_answer(self, examples: Sequence[Example], who: str, remedy: str) -> None:
        """Refuse examples without hidden words."""
        if not any(MASK_PIECE in example.source for example in examples):
            raise DataError(
                f"{who} needs texts in which words are hidden, but no source given holds "
                f"{MASK_PIECE}. Give such texts (--source), or {remedy}."
            )

    def loss_note(self, examples: Sequence[Example]) -> str:
        """A note on the words in the loss, if the texts themselves hide words."""
        note = "of words hidden by chance in the references, not of those hidden in the texts"
        return note if any(MASK_PIECE in one.source for one in examples) else ""

    def n_best_lines(self, number: int, answer: Prediction) -> str:
        """One line with the answer and the candidates of its hidden words."""
        return answer_line(answer)

    def as_example(self, recipe: Recipe, text: str) -> str:
        """A text with a hidden word."""
        return with_hidden_word(text)


def with_hidden_word(text: str) -> str:
    """A text with a word in its middle hidden; a word of letters only is preferred.

    >>> with_hidden_word("Paris is the capital of France .")
    'Paris is the [MASK] of France .'
    """
    if MASK_PIECE in text:
        return text
    words = list(re.finditer(r"\S+", text))
    plain = [word for word in words if word[0].isalpha()] or words
    hidden = plain[len(plain) // 2]
    return f"{text[: hidden.start()]}{MASK_PIECE}{text[hidden.end() :]}"


def _filled_each(
    run: LoadedRun, requests: Sequence[tuple[int, Request]], options: AnswerOptions
) -> Iterator[tuple[int, ReadOnlyAnswers]]:
    """Fill in texts that are not too long, each with its place."""
    check_no_search("fills in hidden words", [request for _, request in requests], options)
    n_best = options.search.n_best if isinstance(options.search, Beam) else 1
    for first in range(0, len(requests), TEXTS_PER_BATCH):
        batch = requests[first : first + TEXTS_PER_BATCH]
        texts = [run.read(request.text) for _, request in batch]
        for (place, _), text, guesses in zip(batch, texts, _guesses(run, texts), strict=True):
            yield place, filled(text, guesses, run.loaded.target, n_best)


@torch.inference_mode()
def _guesses(run: LoadedRun, texts: Sequence[str]) -> Sequence[Float[Tensor, "masks v"]]:
    """The log-probabilities of all words at each hidden one, text by text."""
    model, hardware = run.loaded.model, run.hardware
    assert isinstance(model, Reader)
    tokens = padded_tokens(
        [[*run.loaded.source.encode(text), EOS] for text in texts], hardware.device
    )
    is_hidden = tokens == MASK_NUMBER
    with hardware.products():
        hidden = model.hidden(tokens, tokens)[is_hidden]
        logits = model.output(hidden).float()
    # special pieces, the mask itself and pieces without a letter to show are no words
    logits[:, [*range(len(SPECIALS)), MASK_NUMBER, *run.loaded.target.blank_pieces]] = -torch.inf
    return logits.log_softmax(-1).cpu().split(is_hidden.sum(1).tolist())


def filled(
    text: str, guesses: Float[Tensor, "masks v"], target: Subwords, n_best: int
) -> ReadOnlyAnswers:
    """A text with the likeliest pieces for its hidden words.

    `guesses` are the log-probabilities of all pieces at each mask; a mask has `n_best` candidates,
    and there are as many texts.
    """
    # the vocabulary may have fewer words than `n_best`
    n_words = int(guesses[:1].isfinite().sum()) or guesses.shape[-1]
    best = guesses.topk(min(n_best, n_words))
    is_first = text.lstrip().startswith(MASK_PIECE)
    candidates, scored = [], []
    for place, (numbers, scores) in enumerate(zip(best.indices, best.values, strict=True)):
        pieces = [
            _Piece(
                target.readable(number).strip(),
                target.goes_on(number, is_first=is_first and not place),
                float(score.exp()),
            )
            for number, score in zip(numbers.tolist(), scores, strict=True)
        ]
        candidates.append(tuple(WordCandidate(one.shown(), one.probability) for one in pieces))
        scored.append([*zip(pieces, scores.tolist(), strict=True)])
    # hidden words are independent, so these are exactly the likeliest combinations
    ways = [
        (tuple(piece for piece, _ in way), score)
        for way, score in likeliest_together(scored, n_best)
    ]
    answers = [
        Answer(_with(text, pieces), score, tuple(piece.shown() for piece in pieces))
        for pieces, score in ways
    ]
    note = None if candidates else f"no word is hidden in the text: write {MASK_PIECE} for it"
    prediction = Prediction.of(text, answers, note=note)
    return ReadOnlyAnswers(
        replace(prediction, candidates=tuple(candidates)),
        tuple(tuple(piece.probability for piece in pieces) for pieces, _ in ways),
    )


def _with(text: str, pieces: Sequence[_Piece]) -> str:
    """The text with pieces in the places of its masks."""
    whole, *rest = text.split(MASK_PIECE)
    for piece, part in zip(pieces, rest, strict=True):
        before = whole.rstrip() if piece.goes_on else whole
        whole = f"{before}{piece.text}{part}"
    return whole
