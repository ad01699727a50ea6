"""How far a run's attention aligns words as people do: the heads of a run, scored on a gold file.

One teacher-forced pass over the reference gives the weights; their links are compared with those
that people drew. Each head, each layer's mean and the mean of all are scored, by the row
that predicts a word and by the next. The best head is chosen on odd lines, reported on even ones.

Words are those of the texts as they were given. Where the run reads texts in another form
(regard.data.normalisation), a word has the weights of the words that it became.

regard/evaluating/alignment.py has links, their files and the error rate, attention_links.py there
reads links from maps.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.data import Example, lines
from regard.data.subword_kinds import EOS
from regard.errors import DataError, SettingError
from regard.evaluating import (
    AlignmentCounts,
    Gold,
    HeadView,
    PieceWords,
    best_head,
    check_links,
    read_naacl,
    read_pharaoh,
    view_table,
)
from regard.evaluating.alignment import NAACL
from regard.evaluating.attention_links import LEFT_OUT, BestHead, DecoderRow
from regard.inspecting.capture import attention_of, crossing, weights_of
from regard.inspecting.token_labels import words_of
from regard.runs.trained import Trained
from regard.tasks.input_format import as_read

FORMATS: Mapping[str, tuple[int, Callable[[Sequence[str], int, int], list[Gold]]]] = {
    "naacl": (1, lambda found, first, n: read_naacl(found, first=first, sentences=n)),
    "pharaoh": (0, lambda found, first, n: read_pharaoh(found, first=first)),
}
"""Formats of gold links: the usual number of a sentence's first word, and what reads the lines."""

CountsTable = Mapping[HeadView, AlignmentCounts]
PieceWeights = Float[Tensor, "layers heads rows columns"]


@final
@dataclass(frozen=True)
class AlignmentErrors:
    """Errors of every view, and of the best head."""

    table: CountsTable
    """Over all sentences."""
    best: BestHead | None
    """Chosen on the 1st, 3rd, 5th … line, reported on the others; None where one half has no
    gold links."""
    best_of_row: Mapping[DecoderRow, BestHead]
    """The same among the heads read at each row; empty if one half has no gold links."""
    sentences: int
    left_out: int
    """Sentences that are longer than the model can read."""
    without_gold: int = 0
    """Sentences that are scored though they have no gold link: all links there are wrong."""

    @classmethod
    def of_halves(
        cls,
        halves: tuple[CountsTable, CountsTable],
        *,
        sentences: int,
        left_out: int,
        without_gold: int = 0,
    ) -> "AlignmentErrors":
        """Join the counts of the 1st, 3rd, 5th … line and those of the others."""
        first, second = halves
        none = AlignmentCounts()
        table = {view: first.get(view, none) + second.get(view, none) for view in first or second}
        # without gold links no head is better than another
        has_gold = all(any(one.possible for one in half.values()) for half in halves)
        best = best_head(first, second) if has_gold else None
        of_row = {
            row: best_head(*({v: n for v, n in half.items() if v.row is row} for half in halves))
            for row in DecoderRow
            if best
        }
        return cls(table, best, of_row, sentences, left_out, without_gold)

    def as_json(self) -> dict[str, Any]:
        """Plain values; layers and heads count from 1, and null is a mean."""
        rows = self.best_of_row.items()
        return {
            "sentences": self.sentences,
            "left_out": self.left_out,
            "without_gold": self.without_gold,
            "views": [{**_view_json(view), **_rates(one)} for view, one in self.table.items()],
            "best_head": None if self.best is None else _best_json(self.best),
            "best_of_row": {row.name.lower(): _best_json(head) for row, head in rows},
        }


def read_gold(
    path: Path,
    *,
    sentences: int,
    kind: str | None = None,
    first: int | None = None,
    is_swapped: bool = False,
) -> list[Gold]:
    """Gold links of so many sentences, from a file in naacl or in Pharaoh format.

    Args:
        path: the file.
        sentences: how many sentences the text has.
        kind: "naacl" or "pharaoh"; guessed from the first line unless given.
        first: the number of a sentence's first word in this file; 1 in naacl, 0 in Pharaoh.
        is_swapped: whether the file has target words first.
    """
    found = list(lines(path))
    begin = next((line.strip() for line in found if line.strip()), None)
    if begin is None:
        raise DataError(f"alignment: '{path}' is empty. Give a file with gold links.")
    name = kind or ("naacl" if NAACL.fullmatch(begin) else "pharaoh")
    usual, read = find(name, FORMATS)
    first = usual if first is None else first
    if first not in (0, 1):
        raise SettingError(f"alignment: words count from 0 or from 1, got {first}.")
    try:
        golds = read(found, first, sentences)
    except DataError as error:
        raise DataError(f"alignment: '{path}': {str(error).removeprefix('links: ')}") from error
    return [gold.swapped() for gold in golds] if is_swapped else golds


def align(
    trained: Trained,
    examples: Sequence[Example],
    golds: Sequence[Gold],
    *,
    places: Sequence[int] | None = None,
    each: Callable[[], object] = lambda: None,
) -> AlignmentErrors:
    """Score every head on the first reference of each example, whose links are in `golds`.

    `places`, counted from 0, are the examples to score; `each` is called after each of them.
    """
    trained.check_reads_texts("alignment")
    n_source = [len(example.source.split()) for example in examples]
    check_links(golds, n_source, [len(example.targets[0].split()) for example in examples])
    wanted, fitting = range(len(examples)) if places is None else places, []

    def weighed(half: int) -> Iterator[tuple[PieceWeights, PieceWords, Gold]]:
        for place in wanted:
            if place % 2 == half and (found := piece_weights(trained, examples[place])):
                fitting.append(place)
                yield *found, golds[place]
                each()

    first, second = (view_table(weighed(half)) for half in (0, 1))
    if not fitting:
        raise DataError(
            f"alignment: all {len(wanted)} sentences have more tokens than the {trained.longest} "
            "that the model reads. Train with a larger model.max_len."
        )
    return AlignmentErrors.of_halves(
        (first, second),
        sentences=len(fitting),
        left_out=len(wanted) - len(fitting),
        without_gold=sum(not golds[place].possible for place in fitting),
    )


def piece_weights(trained: Trained, example: Example) -> tuple[PieceWeights, PieceWords] | None:
    """The weights of a teacher-forced pass over a reference, and the words of its pieces.

    None where the pair is longer than the model reads; a run that looks at no source is refused.
    """
    source, target = trained.loaded.source, trained.loaded.target
    text, origins = as_read(trained.loaded.recipe, example.source)
    answer, answered = as_read(trained.loaded.recipe, example.targets[0])
    read, written = [*source.encode(text), EOS], target.encode(answer)
    if max(len(read), len(written) + 1) > trained.longest:
        return None
    maps = attention_of(trained.loaded.model, read, written)
    weights = weights_of(crossing(maps, f"alignment: the run '{trained.path}'")).cpu()
    return weights, PieceWords(
        [*_given(origins, words_of(text, source.offsets(text))), LEFT_OUT],
        _given(answered, words_of(answer, target.offsets(answer))),
    )


def _given(origins: Sequence[int], words: Sequence[int]) -> list[int]:
    """The words of the given text for those of the normalised text."""
    return [LEFT_OUT if word == LEFT_OUT else origins[word] for word in words]


def _view_json(view: HeadView) -> dict[str, int | str | None]:
    layer, head = (None if place is None else place + 1 for place in (view.layer, view.head))
    return {"layer": layer, "head": head, "row": view.row.name.lower()}


def _best_json(best: BestHead) -> dict[str, Any]:
    rates = {"chosen_on": _rates(best.chosen_on), "reported_on": _rates(best.reported_on)}
    return {**_view_json(best.view), **rates}


def _rates(counts: AlignmentCounts) -> dict[str, float]:
    return {name: getattr(counts, name) for name in ("error_rate", "precision", "recall")}
