"""A run and test texts → answers → scores and speed, for the verbs evaluate, compare and verify."""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import final

import numpy as np

from regard.choices import find
from regard.data import Corpus, Example
from regard.data.scenes import is_scene
from regard.decoding import Beam, GnmtPenalty, Greedy, Limits, Rule, Search
from regard.errors import DataError, SettingError
from regard.evaluating import MetricScore, bleu, chrf, length_ratio, loss_and_perplexity, ter
from regard.evaluating.accuracy import measured_exact_match, measured_token_accuracy
from regard.evaluating.comparison import by_length
from regard.evaluating.label_counts import LabelCounts
from regard.evaluating.metrics import score_captions
from regard.evaluating.neural_cache import SHARES, SHARPNESSES, NeuralCache, chosen_cache
from regard.evaluating.perplexity import loss_per_word, measured_loss
from regard.evaluating.rouge import measured_rouge
from regard.hardware.hardware import Hardware
from regard.recipes.cache_recipe import CacheRecipe
from regard.runs.evaluation_texts import texts_of_split
from regard.runs.trained import Trained
from regard.tasks import task_of
from regard.tasks.captioning import pointing_scores
from regard.tasks.loaded_run import Loaded
from regard.tasks.predictions import AnswerOptions, Request, one_line, unseen_note
from regard.tasks.sources import Split
from regard.training.corpus_losses import RowLosses, read_in_order, row_losses, summed_loss
from regard.training.loop import Material


def search_for(
    trained: Trained,
    *,
    beam: int,
    length_penalty: float,
    n_best: int = 1,
    limits: Limits | None = None,
    rules: Sequence[Rule] | None = None,
) -> Search:
    """Beam search with the Transformer paper's length penalty; a beam of one is greedy.

    A beam is at least as wide as there are answers wanted. The rules are the recipe's unless given.
    """
    if beam < 1:
        raise SettingError(f"--beam must be at least 1, got {beam}.")
    usual = trained.default_search()
    limits, rules = limits or usual.limits, usual.rules if rules is None else rules
    if beam == n_best == 1:
        return Greedy(limits=limits, rules=rules)
    penalty, width = GnmtPenalty(length_penalty), max(beam, n_best)
    return Beam(width=width, n_best=n_best, penalty=penalty, limits=limits, rules=rules)


@final
@dataclass(frozen=True)
class Answers:
    """A run's answers to some texts, and how long they took."""

    texts: tuple[str, ...]
    tokens: int
    """Tokens written, end tokens counted."""
    seconds: float
    """The time of the search, from texts to texts, without loading the run."""
    notes: tuple[str, ...] = ()
    """Notes for the reader: how many texts were left out, split or cut."""

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
    options: AnswerOptions | None = None,
    *,
    each: Callable[[], object] = lambda: None,
) -> Answers:
    """Answer each text, as `Trained.predict` does; `each` is called after each answer."""
    texts, tokens, counts = [""] * len(sources), 0, Counter[str]()
    unseen: dict[int, tuple[str, ...]] = {}
    start = time.perf_counter()
    requests = [Request(text, name=f"text {number:,}") for number, text in enumerate(sources, 1)]
    options = options or AnswerOptions(trained.default_search())
    for place, one in trained.predict_each(requests, options):
        texts[place] = one_line(one.text)
        # a text without an answer has no end token either
        tokens += len(one.tokens) + bool(one.tokens or one.n_best)
        counts.update([one.note] if one.note else [])
        unseen |= {place + 1: one.unseen} if one.unseen else {}
        each()
    seconds = time.perf_counter() - start
    notes = [f"{count:,} of {len(sources):,} texts: {note}" for note, count in counts.items()]
    named = {f"text {number:,}": words for number, words in sorted(unseen.items())}
    told = unseen_note(named, len(sources))
    notes += [] if told is None else [told]
    return Answers(tuple(texts), tokens, seconds, tuple(notes))


@dataclass(frozen=True)
class ScoredAnswers:
    """The inputs of a score: a run, its examples and its answers."""

    trained: Trained
    examples: Sequence[Example]
    texts: Sequence[str]
    tokenizer: str | None = None

    @property
    def references(self) -> list[tuple[str, ...]]:
        """All references of each text."""
        return [example.targets for example in self.examples]

    @contextmanager
    def readable(self) -> Iterator[tuple[Corpus, np.ndarray, str]]:
        """The examples as numbers, the rows that the model can read, and a note on the others."""
        trained, limit = self.trained, self.trained.longest
        with numbered(self.examples, trained.loaded, trained.hardware) as corpus:
            rows = Material.within(corpus, limit).used
            n_long = len(corpus) - len(rows)
            note = (
                f"{n_long:,} of {len(corpus):,} pairs have more tokens than the {limit:,} that the "
                "model reads; they do not count"
            )
            yield corpus, rows, note if n_long else ""

    @cached_property
    def labels(self) -> LabelCounts:
        """How often each label was answered by each."""
        return LabelCounts.of(self.texts, self.references, is_whole=self.trained.task.answers_whole)

    @cached_property
    def surprise(self) -> tuple[RowLosses, list[int], str]:
        """The losses of the references that the model can read, their rows, and a note on others.

        They are computed once for all scores.
        """
        trained, recipe = self.trained, self.trained.loaded.recipe
        model, limit = trained.loaded.model, recipe.training.target_tokens_per_batch
        with self.readable() as (corpus, rows, note):
            task_of(recipe).check_corpus(recipe, corpus, rows, "evaluate")
            losses = row_losses(model, corpus, rows, target_tokens=limit, hardware=trained.hardware)
            return losses, rows.tolist(), note


def loss(answers: ScoredAnswers) -> tuple[MetricScore, ...]:
    """Loss per sub-word and perplexity of the tokens that the run should predict.

    Running text has no end token, and in a text with hidden words only these count.
    """
    task = answers.trained.task
    if task.sources.has_lengths:
        losses, _, note = answers.surprise
        nats, tokens = sum(losses.nats, 0.0), sum(losses.tokens)
    else:
        nats, tokens, note = _summed_at_once(answers)
    if not tokens:
        return ()
    note = "; ".join(filter(None, (note, task.loss_note(answers.examples))))
    found = loss_and_perplexity(nats, tokens, unit=task.loss_unit)
    return tuple(replace(one, note=note) for one in found)


def _summed_at_once(answers: ScoredAnswers) -> tuple[float, int, str]:
    """The summed loss in nats, the number of tokens, and a note; for pictures."""
    loaded, hardware = answers.trained.loaded, answers.trained.hardware
    limit = loaded.recipe.training.target_tokens_per_batch
    with answers.readable() as (corpus, rows, note):
        if not len(rows):
            return 0.0, 0, note
        found = summed_loss(loaded.model, corpus, target_tokens=limit, hardware=hardware, rows=rows)
    return *found, note


def words(answers: ScoredAnswers) -> tuple[MetricScore, ...]:
    """Loss and perplexity per word between spaces, which do not depend on the sub-words."""
    losses, rows, note = answers.surprise
    targets = [text for example in answers.examples for text in example.targets]
    read = [targets[row] for row in rows]
    if not any(text.split() for text in read):
        return ()
    return tuple(replace(one, note=note) for one in loss_per_word(sum(losses.nats), read))


def lengths(answers: ScoredAnswers) -> tuple[MetricScore, ...]:
    """Loss per sub-word of references whose sources are of like length."""
    losses, _, note = answers.surprise
    if not any(losses.tokens):
        return ()
    classes = by_length([measured_loss(losses.nats, losses.tokens)], losses.source_tokens)
    signature = "nats|per:sub-word|rows:{0.count}|source:{0.label}"
    return tuple(MetricScore("loss", one.values[0], signature.format(one), note) for one in classes)


def cache(answers: ScoredAnswers) -> tuple[MetricScore, ...]:
    """Loss and perplexity per word of a running text, with a cache of the words before."""
    trained, recipe = answers.trained, answers.trained.loaded.recipe
    model, hardware = trained.loaded.model, trained.hardware
    with answers.readable() as (corpus, rows, note):
        if not len(rows):
            return ()
        text = read_in_order(model, corpus, rows, hardware=hardware)
    known = _cache_of(trained, recipe.cache or CacheRecipe())
    targets = [text for example in answers.examples for text in example.targets]
    words = loss_per_word(float(known.nats(text).sum()), [targets[row] for row in rows])
    with_cache = f"cache:{known.size}|sharpness:{known.sharpness:g}|share:{known.share:g}"
    return tuple(
        replace(one, signature=f"{one.signature}|{with_cache}", note=note) for one in words
    )


def _cache_of(trained: Trained, given: CacheRecipe) -> NeuralCache:
    """The recipe's cache; what it leaves open is chosen on the validation text."""
    sharpnesses = SHARPNESSES if given.sharpness is None else (given.sharpness,)
    shares = SHARES if given.share is None else (given.share,)
    if len(sharpnesses) == len(shares) == 1:
        return NeuralCache(size=given.size, sharpness=sharpnesses[0], share=shares[0])
    loaded, hardware = trained.loaded, trained.hardware
    valid = texts_of_split(loaded.recipe, "valid", trained.path)
    with numbered(valid, loaded, hardware) as corpus:
        rows = Material.within(corpus, trained.longest).used
        text = read_in_order(loaded.model, corpus, rows, hardware=hardware)
    return chosen_cache(text, size=given.size, sharpnesses=sharpnesses, shares=shares)


EVALUATE_METRICS: Mapping[str, Callable[[ScoredAnswers], tuple[MetricScore, ...]]] = {
    "bleu": lambda it: (bleu(it.texts, it.references, tokenizer=it.tokenizer),),
    "chrf": lambda it: (chrf(it.texts, it.references),),
    "ter": lambda it: (ter(it.texts, it.references),),
    "exact": lambda it: (measured_exact_match(it.texts, it.references).score,),
    "ratio": lambda it: (length_ratio(it.texts, it.references, tokenizer=it.tokenizer),),
    "loss": loss,
    "words": words,
    "lengths": lengths,
    "cache": cache,
    "rouge": lambda it: tuple(one.score for one in measured_rouge(it.texts, it.references)),
    "accuracy": lambda it: (
        measured_token_accuracy(
            it.texts, it.references, is_whole=it.trained.task.answers_whole
        ).score,
    ),
    "labels": lambda it: it.labels.scores(),
    "captions": lambda it: score_captions(it.texts, it.references, tokenizer=it.tokenizer),
    "pointing": lambda it: pointing_scores(it.trained, it.examples),
}
"""The scores that `regard evaluate --metrics` takes, by name. A new metric is a function and a line
here; `regard.evaluating.metrics` holds those that `regard compare` resamples."""


def score(answers: ScoredAnswers, metrics: Sequence[str]) -> tuple[MetricScore, ...]:
    """The scores of a run's answers, in the order of `metrics`."""
    return tuple(chain.from_iterable(score_each(answers, metrics).values()))


def score_each(
    answers: ScoredAnswers, metrics: Sequence[str]
) -> dict[str, tuple[MetricScore, ...]]:
    """The scores by metric; a metric that cannot be computed has none."""
    answers.trained.task.check_metrics(answers.trained.loaded.recipe, metrics, EVALUATE_METRICS)
    chosen = {name: find(name, EVALUATE_METRICS) for name in metrics}
    return {name: metric(answers) for name, metric in chosen.items()}


@contextmanager
def numbered(found: Sequence[Example], loaded: Loaded, hardware: Hardware) -> Iterator[Corpus]:
    """The corpus of some examples, encoded for a run, in a temporary folder."""
    sources = task_of(loaded.recipe).sources
    with tempfile.TemporaryDirectory() as folder:
        split, path = Split(loaded.recipe, Path(folder), "valid"), Path(folder) / "corpus"
        sources.write(path, split, lambda: found, loaded.source, loaded.target)
        yield sources.as_model_sees(sources.open(path, split), split, loaded.model, hardware)


def check_has_sources(examples: Sequence[Example], who: str, remedy: str) -> None:
    """Refuse to score answers if every source is empty; `remedy` is the error's alternative."""
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
