"""A run and test texts → predictions → scores and speed.

    Test texts come from files, or from a split of the recipe's data.

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

from regard.choices import Choice, find
from regard.data import READERS, Corpus, Example, reader_for, too_long
from regard.data.elsewhere import LearnedElsewhere
from regard.data.kinds import MASK_PIECE
from regard.data.readers import Reader
from regard.decoding import Beam, Greedy, Limits, PaperPenalty, Search
from regard.errors import DataError, SettingError
from regard.evaluating import Score, bleu, chrf, length_ratio, loss_and_perplexity, ter
from regard.evaluating.buckets import by_length
from regard.evaluating.captions import score_captions
from regard.evaluating.exact_match import measured_exact_match
from regard.evaluating.rouge import rouge
from regard.evaluating.row_losses import loss_per_word, measured_loss
from regard.evaluating.token_accuracy import measured_token_accuracy
from regard.training.filling import fills_words
from regard.training.hardware import Hardware
from regard.training.labelling import check_labels
from regard.training.like_training import holds_objects, reader_like, text_like, whole_like
from regard.training.loading import Loaded
from regard.training.loop import summed_loss
from regard.training.pointing import pointing_scores
from regard.training.predictions import Request
from regard.training.recipes import Recipe, examples
from regard.training.row_losses import RowLosses, row_losses
from regard.training.source_kinds import Place, source_kind
from regard.training.suiting import check_metrics
from regard.training.trained import Trained

SPLITS: Mapping[str, Callable[[Recipe], Choice | None]] = {
    "valid": lambda recipe: recipe.data.valid,
    "test": lambda recipe: recipe.data.test,
}
"""What a run can be evaluated on: data that it has not learned from."""


def texts_of_files(
    source: Path, references: Sequence[Path], recipe: Recipe | None = None
) -> list[Example]:
    """Lines that belong together; a .tsv, .jsonl or .conllu file alone holds both sides.

    Args:
        source: a file.
        references: files whose lines answer the source's.
        recipe: of a run; JSON lines, treebanks and running texts are read as its data are.
    """
    train = None if recipe is None else recipe.data.train
    objects = [path for path in (source, *references) if holds_objects(path)]
    if objects and references:
        raise DataError(
            f"test texts: '{objects[0]}' holds JSON objects, which have both sides, but two files "
            "were given, and their lines would be taken for texts. Give it alone, as --source."
        )
    like: Reader | None = None
    if recipe is not None and not references:
        like = reader_like(recipe.data.train, source) if objects else whole_like(recipe, source)
    found = list((like or reader_for([source, *references])).examples())
    if not found:
        raise DataError(f"test texts: '{source}' is empty. Give at least one line.")
    if train is None or like is not None:
        return found
    return [
        replace(one, source=text_like(train, one.source, f"'{source}', line {number}"))
        for number, one in enumerate(found, 1)
    ]


def texts_of_split(recipe: Recipe, split: str) -> list[Example]:
    """A split of the recipe's data, with all its references."""
    choice = find(split, SPLITS, key="--split")(recipe)
    if choice is None:
        is_imported = READERS.get(recipe.data.valid.name) is LearnedElsewhere
        raise SettingError(
            f"test texts: the recipe has no data.{split}. Give --source and --reference"
            + ("." if is_imported else ", or take --split valid.")
        )
    found = list(examples(choice, split)())
    if not found:
        raise DataError(f"test texts: data.{split} is empty. Give at least one example.")
    return found


def chosen_texts(
    recipe: Recipe | None, source: Path | None, references: Sequence[Path], split: str | None
) -> list[Example]:
    """Test texts as they were asked for: by files, or by a split of a recipe's data.

    Args:
        recipe: of the run; None where there is no run.
        source: a file.
        references: files whose lines answer the source's.
        split: "valid" or "test".
    """
    if split is None and source is not None:
        return texts_of_files(source, references, recipe)
    if split is not None and recipe is not None and source is None and not references:
        return texts_of_split(recipe, split)
    given = {"--source": source, "--reference": references, "--split": split, "a run": recipe}
    said = ", ".join(name for name, value in given.items() if value) or "nothing"
    raise SettingError(
        f"test texts: expected --source with --reference, or a run with --split, got {said}. "
        "Give one of the two."
    )


def places_of_short(
    found: Sequence[Example], *, max_source_words: int | None, max_target_words: int | None
) -> list[int]:
    """Where the texts stand that have no more words between spaces than asked for; all if not.

    Args:
        found: test texts; of several references the first counts.
        max_source_words: of the source.
        max_target_words: of the reference.
    """
    limits = {"source": max_source_words, "target": max_target_words}
    for side, limit in limits.items():
        if limit is not None and limit < 1:
            raise SettingError(f"--max-{side}-words must be at least 1, got {limit}.")
    kept = [
        place
        for place, example in enumerate(found)
        if (max_source_words is None or len(example.source.split()) <= max_source_words)
        and (max_target_words is None or len(example.targets[0].split()) <= max_target_words)
    ]
    if not kept:
        raise DataError(f"test texts: all {len(found):,} have more words than asked for.")
    return kept


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
            check_labels(trained.loaded.recipe, corpus, rows, "evaluate")
            losses = row_losses(
                trained.loaded.model,
                corpus,
                rows,
                target_tokens=trained.loaded.recipe.training.target_tokens_per_batch,
                hardware=trained.hardware,
            )
            return Surprise(losses, rows.tolist(), _long_note(len(long), len(corpus), limit))


AT_RANDOM = "of words hidden by chance in the references, not of those hidden in the texts"
"""Which words the loss of a run that fills in words is of."""


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
    nats, tokens, note = find(recipe.source_kind, ASKED)(judged)
    if not tokens:
        return ()
    unit = "hidden sub-word" if fills_words(recipe) else "sub-word"
    if fills_words(recipe) and any(MASK_PIECE in one.source for one in judged.examples):
        note = "; ".join(filter(None, (note, AT_RANDOM)))
    return tuple(replace(one, note=note) for one in loss_and_perplexity(nats, tokens, unit=unit))


def _of_texts(judged: Judged) -> tuple[float, int, str]:
    """All nats, for how many tokens, and a note."""
    losses, _, note = judged.surprise
    return sum(losses.nats, 0.0), sum(losses.tokens), note


def _of_pictures(judged: Judged) -> tuple[float, int, str]:
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


ASKED: Mapping[str, Callable[[Judged], tuple[float, int, str]]] = {
    "texts": _of_texts,
    "pictures": _of_pictures,
}
"""What a loss is made of, by what a run reads (`Recipe.source_kind`)."""


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
    check_metrics(judged.trained.loaded.recipe, metrics, METRICS)
    chosen = {name: find(name, METRICS) for name in metrics}
    return {name: metric(judged) for name, metric in chosen.items()}


@contextmanager
def numbered(found: Sequence[Example], loaded: Loaded, hardware: Hardware) -> Iterator[Corpus]:
    """Examples as a run reads them, for a while, in a folder that is gone afterwards."""
    kind = source_kind(loaded.recipe)
    with tempfile.TemporaryDirectory() as folder:
        place, path = Place(loaded.recipe, Path(folder), "valid"), Path(folder) / "corpus"
        kind.write(path, place, lambda: found, loaded.source, loaded.target)
        yield kind.seen(kind.open(path, place), place, loaded.model, hardware)
