"""Dictionaries: for each source word the target word that a run most often links to it.

    dictionary(s) = argmax over t of the times that t was written looking most at s

Teacher-forced passes over the references of the training data give links, which are counted; links
are those of prediction: by the mean of all cross-attention heads. A dictionary is learned at its
first use and kept as `dictionary.json` in the run. It holds the hash of the weights; for other
weights it is learned anew.

Paper: Luong, Sutskever, Le, Vinyals & Zaremba 2015.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.data import Example
from regard.data.atomic_writes import write_text
from regard.data.files import Unreadable, read_json
from regard.data.subword_kinds import BOS, EOS, PAD
from regard.data.subwords import Subwords
from regard.errors import RunError
from regard.inspecting.capture import crossing
from regard.recipes.data_paths import examples_of
from regard.runs.trained import Trained
from regard.tasks.word_links import check_has_unknown_words
from regard.training.card_json import MODEL, file_hash

FILE = "dictionary.json"
VERSION = 1
BATCH_PAIRS, SORTED_BATCHES = 64, 64
"""How many pairs a batch has, and from how many batches pairs of like length are put together."""

Counting = Callable[[str, int], AbstractContextManager[Callable[[], object]]]
"""A progress display: name and number of pieces → a function to call after each."""


def dictionary_of(
    trained: Trained, counting: Counting = lambda what, total: nullcontext(lambda: None)
) -> Mapping[str, str]:
    """The dictionary of a run, read from its file, or learned now and saved."""
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
    fields = {"version": VERSION, "weights": weights, "words": words}
    write_text(path, json.dumps(fields, indent=1, ensure_ascii=False) + "\n")
    return words


def read_dictionary(path: Path) -> tuple[str, dict[str, str]]:
    """The hash of the weights that a dictionary was learned with, and its words."""
    try:
        match read_json(path):
            case {"version": 1, "weights": str() as weights, "words": dict() as words}:
                pass
            case _:
                raise _malformed(path, "it does not have version 1, weights and words")
    except Unreadable as error:
        raise _malformed(path, f"it {error}") from error
    for source, target in words.items():
        if not isinstance(target, str) or len(source.split()) != 1 or len(target.split()) != 1:
            raise _malformed(path, f"{json.dumps({source: target})[:60]} is not a pair of words")
    if list(words) != sorted(words):
        raise _malformed(path, "its words are not in order")
    return weights, words


def learned_dictionary(
    trained: Trained, found: Iterable[Example], *, each: Callable[[], object] = lambda: None
) -> dict[str, str]:
    """Count links over examples; the alphabetically first of two equally frequent words wins.

    Pairs that are longer than the run reads are left out. `each` is called after each example.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    rest = iter(found)
    while part := list(islice(rest, BATCH_PAIRS * SORTED_BATCHES)):
        pairs = [pair for example in part for pair in _pairs(trained, example)]
        pairs.sort(key=lambda pair: (len(pair[1]), len(pair[0])))
        for first in range(0, len(pairs), BATCH_PAIRS):
            for source, target in _linked(trained, pairs[first : first + BATCH_PAIRS]):
                counts[source][target] += 1
        for _ in part:
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
    source, target = trained.loaded.source, trained.loaded.target
    read = source.encode_all([" ".join(words) for words, _ in pairs])
    given = target.encode_all([" ".join(words) for _, words in pairs])
    rows = (_padded([*ids, EOS] for ids in read), _padded([BOS, *ids] for ids in given))
    maps = crossing(model.maps(*(row.to(device) for row in rows)), "dictionary: this run")
    weights = torch.stack([layer.dense().mean(dim=1) for layer in maps]).mean(dim=0).cpu()
    for row, (read_words, written) in zip(weights, pairs, strict=True):
        # the end token and padding are not words
        most, places = row[: len(written), : len(read_words)].max(dim=-1)
        for word, weight, place in zip(written, most.tolist(), places.tolist(), strict=True):
            if weight > 0:
                yield read_words[place], word


def _padded(rows: Iterable[list[int]]) -> Int[Tensor, "b n"]:
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)


def _malformed(path: Path, why: str) -> RunError:
    return RunError(
        f"dictionary: '{path}' cannot be read: {why}. Delete it, and it is learned again."
    )
