"""How far a run's attention aligns words as people do.

The run is made to write the given reference (one teacher-forced pass), so that its links can be
held against links that people drew between just these two texts. Each head, each layer's mean and
the mean of all are scored, by the row that predicts a word and by the one after it. The best head
is chosen on the 1st, 3rd, 5th … line and reported on the others.

Words are those of the texts as they were given. Where the run reads texts in another form
(regard.data.normalisation), a word's weights are those of the words that were made of it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.choices import find
from regard.data import Example, lines
from regard.data.kinds import EOS
from regard.errors import DataError, SettingError
from regard.evaluating import (
    AlignmentCounts,
    Gold,
    Pieces,
    View,
    best_head,
    check_links,
    read_naacl,
    read_pharaoh,
    view_table,
)
from regard.evaluating.heads import LEFT_OUT, BestHead, Row
from regard.evaluating.links import NAACL
from regard.inspecting.alignments import words_of
from regard.inspecting.capture import attention_of, crossing, weights_of
from regard.runs.trained import Trained
from regard.tasks.normalisation import as_read

Weighed = tuple[Float[Tensor, "layers heads rows columns"], Pieces, Gold]


@final
@dataclass(frozen=True)
class Aligned:
    """Errors of every view, and of the best head."""

    table: Mapping[View, AlignmentCounts]
    """Over all sentences."""
    best: BestHead | None
    """Chosen on the 1st, 3rd, 5th … line, reported on the others; None where one half has no
    gold links."""
    best_of_row: Mapping[Row, BestHead]
    """The same among the heads read at each row; empty where one half is."""
    sentences: int
    left_out: int
    """Sentences that are longer than the model can read."""
    without_gold: int = 0
    """Sentences that are scored though nobody drew a link in them: all links there are wrong."""

    def as_json(self) -> dict[str, Any]:
        """Plain values; layers and heads count from 1, and null is a mean."""
        best = self.best
        return {
            "sentences": self.sentences,
            "left_out": self.left_out,
            "without_gold": self.without_gold,
            "views": [{**_named(view), **_rates(count)} for view, count in self.table.items()],
            "best_head": None if best is None else _head_row(best),
            "best_of_row": {
                row.name.lower(): _head_row(head) for row, head in self.best_of_row.items()
            },
        }


def read_gold(
    path: Path,
    *,
    sentences: int,
    kind: str | None = None,
    first: int | None = None,
    is_swapped: bool = False,
) -> list[Gold]:
    """Gold links of so many sentences.

    Args:
        path: a file in naacl or in Pharaoh format.
        sentences: how many sentences the text has.
        kind: "naacl" or "pharaoh"; as the first line looks unless given.
        first: the number of a sentence's first word in this file; 1 in naacl, 0 in Pharaoh.
        is_swapped: whether the file has target words first.
    """
    found = list(lines(path))
    if not any(line.strip() for line in found):
        raise DataError(f"alignment: '{path}' is empty. Give a file with gold links.")
    begins = next(line.strip() for line in found if line.strip())
    name = kind or ("naacl" if NAACL.fullmatch(begins) else "pharaoh")
    reader = find(name, FORMATS)
    try:
        golds = reader(found, sentences, reader.first if first is None else first)
    except DataError as error:
        # which of several files is at fault, its lines do not know
        what = str(error).removeprefix("links: ")
        raise DataError(f"alignment: '{path}': {what}") from error
    return [gold.swapped() for gold in golds] if is_swapped else golds


@dataclass(frozen=True)
class Format:
    """How a file of links is read."""

    first: int
    """The number of the first word, unless somebody says otherwise."""
    read: Callable[[Sequence[str], int, int], list[Gold]]

    def __call__(self, found: Sequence[str], sentences: int, first: int) -> list[Gold]:
        """The links of each sentence."""
        if first not in (0, 1):
            raise SettingError(f"alignment: words count from 0 or from 1, got {first}.")
        return self.read(found, sentences, first)


FORMATS: Mapping[str, Format] = {
    "naacl": Format(1, lambda found, n, first: read_naacl(found, first=first, sentences=n)),
    "pharaoh": Format(0, lambda found, n, first: read_pharaoh(found, first=first)),
}


def align(
    trained: Trained,
    examples: Sequence[Example],
    golds: Sequence[Gold],
    *,
    places: Sequence[int] | None = None,
    each: Callable[[], object] = lambda: None,
) -> Aligned:
    """Score every head on the first reference of each example.

    Args:
        trained: the run.
        examples: sources and references; words are what stands between spaces.
        golds: the links of each example.
        places: which of them to score, counted from 0; all unless given. A sentence is in the same
            half whichever others are scored.
        each: called after each sentence, so that a bar can count them.
    """
    trained.check_reads_texts("alignment")
    targets = [example.targets[0] for example in examples]
    check_links(
        golds,
        [len(example.source.split()) for example in examples],
        [len(target.split()) for target in targets],
    )
    asked = range(len(examples)) if places is None else places
    fitting = [place for place in asked if _fits(trained, examples[place])]
    if not fitting:
        raise DataError(
            f"alignment: all {len(asked)} sentences have more tokens than the {trained.longest} "
            "that the model reads. Train with a larger model.max_len."
        )
    halves = [
        view_table(
            _weighed(trained, [(examples[p], golds[p]) for p in fitting if p % 2 == half], each)
        )
        for half in (0, 1)
    ]
    none = AlignmentCounts()
    table = {
        view: halves[0].get(view, none) + halves[1].get(view, none)
        for view in halves[0] or halves[1]
    }
    best = best_head(*halves) if all(has_gold(half) for half in halves) else None
    of_row = {row: best_head(*(_at(row, half) for half in halves)) for row in Row if best}
    n_without = sum(not golds[place].possible for place in fitting)
    return Aligned(table, best, of_row, len(fitting), len(asked) - len(fitting), n_without)


def has_gold(table: Mapping[View, AlignmentCounts]) -> bool:
    """Whether a table is of sentences with gold links; without any, all heads are alike wrong."""
    return any(counts.possible for counts in table.values())


def _at(row: Row, table: Mapping[View, AlignmentCounts]) -> dict[View, AlignmentCounts]:
    return {view: counts for view, counts in table.items() if view.row is row}


def _weighed(
    trained: Trained, pairs: Sequence[tuple[Example, Gold]], each: Callable[[], object]
) -> Iterator[Weighed]:
    source, target = trained.loaded.source, trained.loaded.target
    for example, gold in pairs:
        text, origins = _as_read(trained, example.source)
        said, answered = _as_read(trained, example.targets[0])
        read, written = [*source.encode(text), EOS], target.encode(said)
        maps = cross_maps(trained, read, written)
        words = Pieces(
            [*(origins[word] for word in words_of(text, source.offsets(text))), LEFT_OUT],
            [answered[word] for word in words_of(said, target.offsets(said))],
        )
        yield weights_of(maps).cpu(), words, gold
        each()


def cross_maps(
    trained: Trained, read: Sequence[int], written: Sequence[int]
) -> tuple[AttentionMap, ...]:
    """Where the words of an answer look in its source, a map for each layer.

    Args:
        trained: a run; one whose model has no such maps is refused.
        read: the tokens of the source, the end token last.
        written: those of the answer.
    """
    maps = attention_of(trained.loaded.model, read, written)
    return crossing(maps, f"alignment: the run '{trained.path}'")


def _as_read(trained: Trained, text: str) -> tuple[str, dict[int, int]]:
    """A text as the run reads it, and the word of the given text that each of its words is of."""
    form = as_read(trained.loaded.recipe, text)
    if form is None:
        return text, {place: place for place in range(LEFT_OUT, len(text.split()))}
    return form.text, {LEFT_OUT: LEFT_OUT, **dict(enumerate(form.origins))}


def _fits(trained: Trained, example: Example) -> bool:
    sides = (
        (trained.loaded.source, example.source),
        (trained.loaded.target, example.targets[0]),
    )
    return all(
        len(subwords.encode(_as_read(trained, text)[0])) + 1 <= trained.longest
        for subwords, text in sides
    )


def _named(view: View) -> dict[str, int | str | None]:
    return {
        "layer": None if view.layer is None else view.layer + 1,
        "head": None if view.head is None else view.head + 1,
        "row": view.row.name.lower(),
    }


def _head_row(best: BestHead) -> dict[str, Any]:
    return {
        **_named(best.view),
        "chosen_on": _rates(best.chosen_on),
        "reported_on": _rates(best.reported_on),
    }


def _rates(counts: AlignmentCounts) -> dict[str, float]:
    return {
        "error_rate": counts.error_rate,
        "precision": counts.precision,
        "recall": counts.recall,
    }
