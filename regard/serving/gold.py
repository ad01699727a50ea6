"""Gold alignments: links that people drew, beside those that each head draws.

The run is made to write the given translation, as `regard evaluate --alignment` does it.
"""

from pathlib import Path

from regard.choices import find
from regard.data.kinds import EOS
from regard.errors import LengthError, SettingError
from regard.evaluating.heads import LEFT_OUT, Pieces, Row, merge_pieces
from regard.inspecting.alignments import words_of
from regard.inspecting.capture import weights_of
from regard.serving.kept import Once
from regard.serving.shelf import GoldPairs, Served, Shelf
from regard.training.aligning import align, cross_maps, read_gold
from regard.training.evaluation import texts_of_files
from regard.training.source_kinds import check_reads_texts
from regard.training.text_form import as_read

ROWS = {row.name.lower(): row for row in Row}
MOST_PAIRS = 300
"""How many pairs are scored, the first ones; all of a usual gold file are."""


def read_pairs(source: Path, reference: Path, links: Path) -> GoldPairs:
    """Texts and links from files.

    Args:
        source: texts, one a line.
        reference: their translations.
        links: in naacl or Pharaoh format.
    """
    pairs = texts_of_files(source, [reference])
    return GoldPairs(tuple(pairs), tuple(read_gold(links, sentences=len(pairs))))


def sentences(shelf: Shelf) -> dict[str, object]:
    """The pairs that there are."""
    gold = _gold(shelf)
    return {"sentences": [[pair.source, pair.targets[0]] for pair in gold.pairs[:MOST_PAIRS]]}


def errors_of_heads(shelf: Shelf, run: str) -> dict[str, object]:
    """The alignment error rate of every head over all pairs; computed once."""
    served, gold = shelf.run(run), _gold(shelf)

    def compute() -> dict[str, object]:
        with served.busy:
            places = range(min(MOST_PAIRS, len(gold.pairs)))
            return align(served.trained, gold.pairs, gold.links, places=places).as_json()

    return shelf.errors_of_heads.put(run, Once(compute))()


def sentence(shelf: Shelf, run: str, place: int, row: str) -> dict[str, object]:
    """One pair: its words, the gold links, and every head's weights between its words.

    Args:
        shelf: all that is served.
        run: the name of a run.
        place: of the pair, counted from 0.
        row: "predicting" or "next"; which decoder row speaks for a word.
    """
    served, gold, reading = shelf.run(run), _gold(shelf), find(row, ROWS)
    if not 0 <= place < len(gold.pairs):
        raise SettingError(f"gold: there are {len(gold.pairs)} pairs, counted from 0; got {place}.")
    check_reads_texts(served.trained.loaded.recipe, "gold")
    pair, links = gold.pairs[place], gold.links[place]
    loaded = served.trained.loaded
    text, origins = _form(served, pair.source)
    said, answered = _form(served, pair.targets[0])
    read, written = [*loaded.source.encode(text), EOS], loaded.target.encode(said)
    if max(len(read), len(written) + 1) > served.trained.longest:
        raise LengthError(
            f"gold: pair {place + 1} has more tokens than the {served.trained.longest} that the "
            "model reads. Take another."
        )
    with served.busy:
        cross = cross_maps(served.trained, read, written)
    pieces = Pieces(
        [*(origins[word] for word in words_of(text, loaded.source.offsets(text))), LEFT_OUT],
        [answered[word] for word in words_of(said, loaded.target.offsets(said))],
    )
    weights = merge_pieces(weights_of(cross).cpu(), pieces, reading)
    sure = sorted(links.sure)
    return {
        "source": pair.source.split(),
        "target": pair.targets[0].split(),
        "sure": [list(link) for link in sure],
        "possible": [list(link) for link in sorted(links.possible - links.sure)],
        "weights": [[[[round(weight, 7) for weight in line] for line in head] for head in layer]
                    for layer in weights.tolist()],
        "row": row,
    }  # fmt: skip


def _form(served: Served, text: str) -> tuple[str, dict[int, int]]:
    """A text as the run reads it, and the word of the given text that each of its words is of."""
    form = as_read(served.trained.loaded.recipe, text)
    if form is None:
        return text, {place: place for place in range(LEFT_OUT, len(text.split()))}
    return form.text, {LEFT_OUT: LEFT_OUT, **dict(enumerate(form.origins))}


def _gold(shelf: Shelf) -> GoldPairs:
    if shelf.gold is None:
        raise SettingError(
            "gold: no gold links were given. Start with regard serve RUN --source FILE "
            "--reference FILE --alignment FILE."
        )
    return shelf.gold
