"""Gold alignments: links that people drew, beside those that each head draws.

The run is made to write the given translation, as `regard evaluate --alignment` does it.
"""

from dataclasses import replace
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.data.kinds import EOS
from regard.errors import DataError, LengthError, SettingError
from regard.evaluating import AlignmentCounts, Pieces, View, best_head
from regard.evaluating.heads import LEFT_OUT, Row, merge_pieces, views
from regard.inspecting.alignments import words_of
from regard.inspecting.capture import weights_of
from regard.inspecting.record import rounded
from regard.runs.alignment import Aligned, cross_maps, has_gold, read_gold
from regard.runs.evaluation_texts import texts_of_files
from regard.serving.link_drawing import Drawing
from regard.serving.lru_cache import Once, name_of_answer
from regard.serving.registry import GoldPairs, Registry, Served, WordWeights
from regard.serving.turns import held
from regard.tasks.normalisation import as_read

ROWS = {row.name.lower(): row for row in Row}
MOST_PAIRS = 300
"""How many pairs are scored, the first ones; all of a usual gold file are."""
ARGMAX = Drawing()
"""As `regard evaluate` draws links."""
Counts = dict[View, AlignmentCounts]


def read_pairs(
    source: Path,
    reference: Path,
    links: Path,
    *,
    kind: str | None = None,
    first: int | None = None,
    is_swapped: bool = False,
) -> GoldPairs:
    """Texts and links from files; links that do not fit the texts are refused.

    Args:
        source: texts, one a line.
        reference: their translations.
        links: in naacl or Pharaoh format.
        kind: "naacl" or "pharaoh"; as the file looks unless given.
        first: the number of a sentence's first word; 1 in naacl, 0 in Pharaoh, unless given.
        is_swapped: whether the file has target words first.
    """
    pairs = texts_of_files(source, [reference])
    golds = read_gold(links, sentences=len(pairs), kind=kind, first=first, is_swapped=is_swapped)
    try:
        return GoldPairs(tuple(pairs), tuple(golds))
    except DataError as error:
        raise DataError(f"serve: '{links}': {error}") from error


def sentences(registry: Registry) -> dict[str, object]:
    """The pairs that there are."""
    gold = _gold(registry)
    return {"sentences": [[pair.source, pair.targets[0]] for pair in gold.pairs[:MOST_PAIRS]]}


def errors_of_heads(registry: Registry, run: str, drawing: Drawing = ARGMAX) -> dict[str, object]:
    """The alignment error rate of every head over all pairs; the model computes once.

    Args:
        registry: all that is served.
        run: the name of a run.
        drawing: how links are drawn, and which of them count.
    """
    name = name_of_answer(run, drawing)
    return registry.errors_of_heads.put(name, Once(lambda: _errors(registry, run, drawing)))()


def _errors(registry: Registry, run: str, drawing: Drawing) -> dict[str, object]:
    gold = _gold(registry)
    halves: tuple[Counts, Counts] = ({}, {})
    weighed = registry.word_weights.put(run, Once(lambda: _all_word_weights(registry, run)))()
    for place, by_row in weighed.items():
        source, target = gold.words(place)
        table = halves[place % 2]
        for row, words in by_row.items():
            for view, weights in _by_view(words, row).items():
                counts = drawing.counts(weights, gold.links[place], source, target)
                table[view] = table.get(view, AlignmentCounts()) + counts
    aligned = _aligned(halves, len(weighed), min(MOST_PAIRS, len(gold.pairs)))
    n_without = sum(not gold.links[place].possible for place in weighed)
    return replace(aligned, without_gold=n_without).as_json()


def _aligned(halves: tuple[Counts, Counts], n_scored: int, n_asked: int) -> Aligned:
    none = AlignmentCounts()
    first, second = halves
    table = {view: first.get(view, none) + second.get(view, none) for view in first or second}
    has_both = has_gold(first) and has_gold(second)
    of_row = {
        row: best_head(*({v: n for v, n in half.items() if v.row is row} for half in halves))
        for row in (Row if has_both else ())
    }
    best = best_head(first, second) if has_both else None
    return Aligned(table, best, of_row, n_scored, n_asked - n_scored)


def _by_view(words: WordWeights, row: Row) -> dict[View, Float[Tensor, "t s"]]:
    """The weights of every head, every layer's mean, and the mean of all."""
    stacked = [*words.flatten(0, 1), *words.mean(dim=1), words.mean(dim=(0, 1))]
    layers, heads = words.shape[:2]
    return dict(zip(views(layers, heads, row), stacked, strict=True))


def sentence(
    registry: Registry, run: str, place: int, row: str, drawing: Drawing = ARGMAX
) -> dict[str, object]:
    """One pair: its words, the gold links, every head's weights, and the links they draw.

    Args:
        registry: all that is served.
        run: the name of a run.
        place: of the pair, counted from 0.
        row: "predicting" or "next"; which decoder row speaks for a word.
        drawing: how links are drawn, and which of them count.
    """
    served, gold, reading = registry.run(run), _gold(registry), find(row, ROWS)
    if not 0 <= place < len(gold.pairs):
        raise SettingError(f"gold: there are {len(gold.pairs)} pairs, counted from 0; got {place}.")
    found = _word_weights(served, gold, place)
    if found is None:
        raise LengthError(
            f"gold: pair {place + 1} has more tokens than the {served.trained.longest} that the "
            "model reads. Take another."
        )
    source, target = gold.words(place)
    counting = drawing.gold(gold.links[place], source, target)
    return {
        "source": source,
        "target": target,
        "sure": [list(link) for link in sorted(counting.sure)],
        "possible": [list(link) for link in sorted(counting.possible - counting.sure)],
        "weights": [[rounded(head) for head in layer] for layer in found[reading]],
        "drawn": [
            {
                "layer": None if view.layer is None else view.layer + 1,
                "head": None if view.head is None else view.head + 1,
                "links": sorted(map(list, drawing.links(weights, source, target))),
                "error_rate": drawing.counts(weights, gold.links[place], source, target).error_rate,
            }
            for view, weights in _by_view(found[reading], reading).items()
        ],
        "row": row,
    }


def _all_word_weights(registry: Registry, run: str) -> dict[int, dict[Row, WordWeights]]:
    """The weights between the words of every pair that fits, by its place and by reading."""
    served, gold = registry.run(run), _gold(registry)
    places = range(min(MOST_PAIRS, len(gold.pairs)))
    found = {place: _word_weights(served, gold, place) for place in places}
    fitting = {place: one for place, one in found.items() if one is not None}
    if not fitting:
        raise DataError(
            f"gold: all {len(places)} pairs have more tokens than the {served.trained.longest} "
            "that the model reads. Train with a larger model.max_len."
        )
    return fitting


def _word_weights(served: Served, gold: GoldPairs, place: int) -> dict[Row, WordWeights] | None:
    """The weights between the words of one pair; None where it is too long for the model."""
    served.trained.check_reads_texts("gold")
    loaded, pair = served.trained.loaded, gold.pairs[place]
    text, origins = _form(served, pair.source)
    said, answered = _form(served, pair.targets[0])
    read, written = [*loaded.source.encode(text), EOS], loaded.target.encode(said)
    if max(len(read), len(written) + 1) > served.trained.longest:
        return None
    with held(served.busy):
        cross = cross_maps(served.trained, read, written)
    pieces = Pieces(
        [*(origins[word] for word in words_of(text, loaded.source.offsets(text))), LEFT_OUT],
        [answered[word] for word in words_of(said, loaded.target.offsets(said))],
    )
    weights = weights_of(cross).cpu()
    return {row: merge_pieces(weights, pieces, row) for row in Row}


def _form(served: Served, text: str) -> tuple[str, dict[int, int]]:
    """A text as the run reads it, and the word of the given text that each of its words is of."""
    form = as_read(served.trained.loaded.recipe, text)
    if form is None:
        return text, {place: place for place in range(LEFT_OUT, len(text.split()))}
    return form.text, {LEFT_OUT: LEFT_OUT, **dict(enumerate(form.origins))}


def _gold(registry: Registry) -> GoldPairs:
    if registry.gold is None:
        raise SettingError(
            "gold: no gold links were given. Start with regard serve RUN --source FILE "
            "--reference FILE --alignment FILE."
        )
    return registry.gold
