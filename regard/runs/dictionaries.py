"""Dictionaries: for each source word the target word that a run most often read off it.

    dictionary(s) = argmax over t of the times that t was written looking most at s

The run is made to write the references of its training data, and the links of each are counted, as
they are when it predicts: by the mean of all cross-attention heads. A dictionary is learned when
first asked for and kept as `dictionary.json` in the run: most runs never need one, and a run that
is finished can still be given one. It holds the hash of the weights; with others it is learned
anew.

Paper: Luong, Sutskever, Le, Vinyals & Zaremba 2015.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.data import Example
from regard.data.atomic_writes import write_text
from regard.data.kinds import BOS, EOS, PAD
from regard.data.regular_files import Unreadable, read_json
from regard.data.subwords import Subwords
from regard.errors import RunError
from regard.inspecting.capture import crossing
from regard.recipes.data_paths import examples_of
from regard.runs.trained import Trained
from regard.tasks.unknown_words import check_has_unknown_words
from regard.training.card_json import MODEL, file_hash

FILE = "dictionary.json"
VERSION = 1
AT_ONCE = 64
"""How many pairs are read together."""
SORTED = 64
"""From how many batches pairs of like length are put together."""

Counting = Callable[[str, int], AbstractContextManager[Callable[[], object]]]
"""What shows how far some work is: its name and how many pieces it has → called after each."""


def _silently(what: str, total: int) -> AbstractContextManager[Callable[[], object]]:
    return nullcontext(lambda: None)


def dictionary_of(trained: Trained, counting: Counting = _silently) -> Mapping[str, str]:
    """The dictionary of a run: the one it has, or one that is learned now and kept."""
    trained.check_reads_texts("unknown words")
    check_has_unknown_words(trained.loaded)
    path, weights = trained.path / FILE, file_hash(trained.path / MODEL)
    if path.exists():
        made_with, words = read_dictionary(path)
        if made_with == weights:
            return words
    found = list(examples_of(trained.loaded.recipe.data.train, "train", trained.path)())
    with counting("learning a dictionary", len(found)) as each:
        words = learned_dictionary(trained, found, each=each)
    said = {"version": VERSION, "weights": weights, "words": words}
    write_text(path, json.dumps(said, indent=1, ensure_ascii=False) + "\n")
    return words


def read_dictionary(path: Path) -> tuple[str, dict[str, str]]:
    """The hash of the weights that a dictionary was learned with, and its words."""
    try:
        said: Any = read_json(path)
    except Unreadable as error:
        raise _malformed(path, f"it {error}") from error
    match said:
        case {"version": 1, "weights": str() as weights, "words": dict() as words}:
            pass
        case _:
            raise _malformed(path, "it does not have version 1, weights and words")
    for source, target in words.items():
        if not isinstance(target, str) or len(source.split()) != 1 or len(target.split()) != 1:
            raise _malformed(path, f"{json.dumps({source: target})[:60]} is not a pair of words")
    if list(words) != sorted(words):
        raise _malformed(path, "its words are not in order")
    return weights, words


def learned_dictionary(
    trained: Trained,
    found: Iterable[Example],
    *,
    each: Callable[[], object] = lambda: None,
) -> dict[str, str]:
    """Count links over examples; of two words linked equally often the first by letters is taken.

    Args:
        trained: the run; its tokens are words.
        found: what it learned from; pairs that are longer than it reads are left out.
        each: called after each example, so that a bar can count them.
    """
    trained.check_reads_texts("unknown words")
    check_has_unknown_words(trained.loaded)
    counts: dict[str, Counter[str]] = {}
    rest = iter(found)
    while some := list(islice(rest, AT_ONCE * SORTED)):
        pairs = [pair for example in some for pair in _pairs(trained, example)]
        pairs.sort(key=lambda pair: (len(pair[1]), len(pair[0])))
        for first in range(0, len(pairs), AT_ONCE):
            for source, target in _linked(trained, pairs[first : first + AT_ONCE]):
                counts.setdefault(source, Counter())[target] += 1
        for _ in some:
            each()
    return {
        source: min(counts[source], key=lambda target: (-counts[source][target], target))
        for source in sorted(counts)
    }


Pair = tuple[Sequence[str], Sequence[str]]


def _pairs(trained: Trained, example: Example) -> Iterator[Pair]:
    """The words of both sides, once for each reference that the run can read."""
    source = _words(trained.loaded.source, example.source)
    for text in example.targets:
        target = _words(trained.loaded.target, text)
        if source and target and max(len(source), len(target)) < trained.longest:
            yield source, target


def _words(subwords: Subwords, text: str) -> list[str]:
    return [text[start:end] for start, end in subwords.offsets(text)]


@torch.inference_mode()
def _linked(trained: Trained, pairs: Sequence[Pair]) -> Iterator[tuple[str, str]]:
    """Each target word with the source word that is looked at most when it is written."""
    model, device = trained.loaded.model, trained.hardware.device
    read = _numbers(trained.loaded.source, [source for source, _ in pairs], after=(EOS,))
    given = _numbers(trained.loaded.target, [target for _, target in pairs], before=(BOS,))
    maps = crossing(model.maps(read.to(device), given.to(device)), "dictionary: this run")
    weights = torch.stack([layer.dense().mean(dim=1) for layer in maps]).mean(dim=0).cpu()
    for row, (source, target) in zip(weights, pairs, strict=True):
        # the end token and padding are no words
        most, places = row[: len(target), : len(source)].max(dim=-1)
        for word, weight, place in zip(target, most.tolist(), places.tolist(), strict=True):
            if weight > 0:
                yield source[place], word


def _numbers(
    subwords: Subwords,
    rows: Sequence[Sequence[str]],
    *,
    before: tuple[int, ...] = (),
    after: tuple[int, ...] = (),
) -> Int[Tensor, "b n"]:
    numbers = subwords.encode_all([" ".join(words) for words in rows])
    each = [torch.tensor([*before, *ids, *after]) for ids in numbers]
    return pad_sequence(each, batch_first=True, padding_value=PAD)


def _malformed(path: Path, why: str) -> RunError:
    return RunError(
        f"dictionary: '{path}' cannot be read: {why}. Delete it, and it is learned again."
    )
