"""A run and test texts → predictions → scores and speed.

What the verbs evaluate, compare and verify have in common.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, final

import numpy as np

from regard.choices import find
from regard.data import Corpus, Example, too_long
from regard.data.scenes import is_scene
from regard.decoding import Beam, Greedy, Limits, PaperPenalty, Search
from regard.errors import DataError, SettingError
from regard.evaluating import Score, bleu, chrf, length_ratio, loss_and_perplexity, ter
from regard.evaluating.buckets import by_length
from regard.evaluating.captions import score_captions
from regard.evaluating.exact_match import measured_exact_match
from regard.evaluating.rouge import rouge
from regard.evaluating.row_losses import loss_per_word, measured_loss
from regard.evaluating.token_accuracy import measured_token_accuracy
from regard.hardware.hardware import Hardware
from regard.runs.trained import Trained
from regard.tasks import task_of
from regard.tasks.loaded import Loaded
from regard.tasks.pointing_game import pointing_scores
from regard.tasks.predictions import Request
from regard.tasks.sources import Split
from regard.training.loop import summed_loss
from regard.training.row_losses import RowLosses, row_losses


def search_for(
    trained: Trained, *, beam: int, length_penalty: float, limits: Limits | None = None
) -> Search:
    """Beam search; a beam of one is greedy.

    Args:
        trained: the run.
        beam: its width.
        length_penalty: the Transformer paper's alpha.
        limits: how long an answer may be; as the run has it unless given.
    """
    if beam < 1:
        raise SettingError(f"--beam must be at least 1, got {beam}.")
    limits = limits or trained.default_search().limits
    if beam == 1:
        return Greedy(limits=limits)
    return Beam(width=beam, penalty=PaperPenalty(length_penalty), limits=limits)


def _nothing() -> None:
    pass


@final
@dataclass(frozen=True)
class Answers:
    """What a run said to some texts, and how long that took."""

    texts: tuple[str, ...]
    tokens: int
    """That were written, end tokens counted."""
    seconds: float
    """To search for them, from text to text; reading the run does not count."""
    notes: tuple[str, ...] = ()
    """What a reader should know: how many texts were left out, in pieces, or cut."""

    @property
    def sentences_per_second(self) -> float:
        """How fast the run answers."""
        return len(self.texts) / self.seconds

    @property
    def tokens_per_second(self) -> float:
        """How fast the run writes."""
        return self.tokens / self.seconds


def answer(
    trained: Trained,
    sources: Sequence[str],
    search: Search | None = None,
    *,
    on_long: str = "error",
    dictionary: Mapping[str, str] | None = None,
    each: Callable[[], object] = _nothing,
) -> Answers:
    """Answer each text.

    Args:
        trained: the run.
        sources: what is asked.
        search: how answers are found; the run's own way unless given.
        on_long: what becomes of a text that is too long: "error", "skip" or "split".
        dictionary: by which unknown words are replaced, if they are to be.
        each: called after each answer, so that a bar can count them.
    """
    texts, tokens, notes = [""] * len(sources), 0, Counter[str]()
    start = time.perf_counter()
    asked = [Request(source, name=f"text {number:,}") for number, source in enumerate(sources, 1)]
    for place, said in trained.predict_each(
        asked, search=search, on_long=on_long, dictionary=dictionary
    ):
        texts[place] = " ".join(said.text.splitlines())
        # of a text that was not answered no end was written either
        tokens += len(said.tokens) + bool(said.tokens or said.n_best)
        notes.update([said.note] if said.note else [])
        each()
    seconds = time.perf_counter() - start
    return Answers(
        tuple(texts),
        tokens,
        seconds,
        tuple(f"{count:,} of {len(sources):,} texts: {note}" for note, count in notes.items()),
    )


@dataclass(frozen=True)
class Judged:
    """What a score may be computed from."""

    trained: Trained
    examples: Sequence[Example]
    texts: Sequence[str]
    tokenizer: str | None = None

    @property
    def references(self) -> list[tuple[str, ...]]:
        """All references of each text."""
        return [example.targets for example in self.examples]

    @cached_property
    def surprise(self) -> "Surprise":
        """What every reference that the model can read costs; read once for all scores."""
        trained, limit = self.trained, self.trained.longest
        with numbered(self.examples, trained.loaded, trained.hardware) as corpus:
            long = too_long(corpus, max_source=limit, max_target=limit)
            rows = np.setdiff1d(np.arange(len(corpus)), long)
            recipe = trained.loaded.recipe
            task_of(recipe).check_corpus(recipe, corpus, rows, "evaluate")
            losses = row_losses(
                trained.loaded.model,
                corpus,
                rows,
                target_tokens=trained.loaded.recipe.training.target_tokens_per_batch,
                hardware=trained.hardware,
            )
            return Surprise(losses, rows.tolist(), _long_note(len(long), len(corpus), limit))


class Surprise(NamedTuple):
    """How surprised a run is by references, each of which is a row."""

    losses: RowLosses
    rows: list[int]
    """Which of all references they are."""
    note: str
    """About those that are too long."""


def loss(judged: Judged) -> tuple[Score, ...]:
    """How surprised the run is by what was asked of it: loss per sub-word, and perplexity.

    A running text has no end that is asked for, and of a text with hidden words only these are.
    """
    recipe = judged.trained.loaded.recipe
    task = task_of(recipe)
    summed = _summed_by_row if task.sources.has_lengths else _summed_at_once
    nats, tokens, note = summed(judged)
    if not tokens:
        return ()
    note = "; ".join(filter(None, (note, task.loss_note(judged.examples))))
    found = loss_and_perplexity(nats, tokens, unit=task.loss_unit)
    return tuple(replace(one, note=note) for one in found)


def _summed_by_row(judged: Judged) -> tuple[float, int, str]:
    """All nats, for how many tokens, and a note."""
    losses, _, note = judged.surprise
    return sum(losses.nats, 0.0), sum(losses.tokens), note


def _summed_at_once(judged: Judged) -> tuple[float, int, str]:
    """The same; a picture may be looked at several times, and every token is asked for."""
    trained = judged.trained
    limit, loaded = trained.longest, trained.loaded
    with numbered(judged.examples, loaded, trained.hardware) as corpus:
        long = too_long(corpus, max_source=limit, max_target=limit)
        rows = np.setdiff1d(np.arange(len(corpus)), long)
        note = _long_note(len(long), len(corpus), limit)
        if not len(rows):
            return 0.0, 0, note
        total, tokens = summed_loss(
            loaded.model,
            corpus,
            target_tokens=loaded.recipe.training.target_tokens_per_batch,
            hardware=trained.hardware,
            rows=rows,
        )
    return total, tokens, note


def words(judged: Judged) -> tuple[Score, ...]:
    """The same per word between spaces, which does not depend on the sub-words."""
    losses, rows, note = judged.surprise
    targets = [text for example in judged.examples for text in example.targets]
    read = [targets[row] for row in rows]
    if not any(text.split() for text in read):
        return ()
    return tuple(replace(one, note=note) for one in loss_per_word(sum(losses.nats), read))


def lengths(judged: Judged) -> tuple[Score, ...]:
    """Loss per sub-word of references whose sources are of like length."""
    losses, _, note = judged.surprise
    if not any(losses.tokens):
        return ()
    classes = by_length([measured_loss(losses.nats, losses.tokens)], losses.source_tokens)
    return tuple(
        Score("loss", one.values[0], f"nats|per:sub-word|rows:{one.count}|source:{one.label}", note)
        for one in classes
    )


def _long_note(n_long: int, n_all: int, limit: int) -> str:
    if not n_long:
        return ""
    return (
        f"{n_long:,} of {n_all:,} pairs have more tokens than the {limit:,} that the model reads; "
        "they do not count"
    )


METRICS: Mapping[str, Callable[[Judged], tuple[Score, ...]]] = {
    "bleu": lambda it: (bleu(it.texts, it.references, tokenizer=it.tokenizer),),
    "chrf": lambda it: (chrf(it.texts, it.references),),
    "ter": lambda it: (ter(it.texts, it.references),),
    "exact": lambda it: (measured_exact_match(it.texts, it.references).score,),
    "ratio": lambda it: (length_ratio(it.texts, it.references, tokenizer=it.tokenizer),),
    "loss": loss,
    "words": words,
    "lengths": lengths,
    "rouge": lambda it: rouge(it.texts, it.references),
    "accuracy": lambda it: (measured_token_accuracy(it.texts, it.references).score,),
    "captions": lambda it: score_captions(it.texts, it.references, tokenizer=it.tokenizer),
    "pointing": lambda it: pointing_scores(it.trained, it.examples),
}
"""Scores by the name under which they are asked for."""


def score(judged: Judged, metrics: Sequence[str]) -> tuple[Score, ...]:
    """The scores of a run's answers, in the order in which they were asked for."""
    return tuple(one for some in score_each(judged, metrics).values() for one in some)


def score_each(judged: Judged, metrics: Sequence[str]) -> dict[str, tuple[Score, ...]]:
    """The same by the name under which each was asked for; some may have no number."""
    recipe = judged.trained.loaded.recipe
    task_of(recipe).check_metrics(recipe, metrics, METRICS)
    chosen = {name: find(name, METRICS) for name in metrics}
    return {name: metric(judged) for name, metric in chosen.items()}


@contextmanager
def numbered(found: Sequence[Example], loaded: Loaded, hardware: Hardware) -> Iterator[Corpus]:
    """Examples as a run reads them, for a while, in a folder that is gone afterwards."""
    sources = task_of(loaded.recipe).sources
    with tempfile.TemporaryDirectory() as folder:
        split, path = Split(loaded.recipe, Path(folder), "valid"), Path(folder) / "corpus"
        sources.write(path, split, lambda: found, loaded.source, loaded.target)
        yield sources.as_model_sees(sources.open(path, split), split, loaded.model, hardware)


def check_has_sources(examples: Sequence[Example], who: str, remedy: str) -> None:
    """Refuse to score answers where every source is empty.

    Args:
        examples: what a run is asked.
        who: scores it, for errors.
        remedy: what else could be done, besides giving other texts.
    """
    if examples and not any(example.source.strip() for example in examples):
        raise DataError(
            f"{who} needs texts to answer, but every source is empty, as those of a running text "
            f"without context are. Give texts (--source), or {remedy}."
        )


def check_has_scenes(examples: Sequence[Example], metrics: Sequence[str]) -> None:
    """Refuse the pointing game where the boxes of words are not known."""
    if "pointing" in metrics and not any(is_scene(example.source) for example in examples):
        raise DataError(
            "evaluate: pointing needs scenes, the only pictures in which the boxes of words are "
            "known, but no picture given is one. Leave pointing out of --metrics, or take scenes."
        )
