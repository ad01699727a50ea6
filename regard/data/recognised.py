"""Recognised data: what a user's files hold, by their endings and their first examples.

    two files or more                 a source and its targets, line by line
    .tsv, .jsonl, a folder of these   pairs, or texts with labels
    .conllu                           words with tags
    pictures and a file of captions   captioned pictures
    any other file                    a text that goes on

A second side of few different short texts is labels; a word of few kinds for each word is tags.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from statistics import fmean
from typing import Any

from regard.choices import Choice
from regard.data.examples import Example, ExampleReader, from_json
from regard.data.files import check_is_file, lines
from regard.data.readers import PICTURE_READERS, READERS, check_has_reader, reader_for, unpacked
from regard.errors import DataError, counted

N_READ = 2_000
"""How many examples decide what data are; the sizes of all are counted."""
MAX_LABELS, MAX_LABEL_WORDS, MIN_TEXTS_PER_LABEL = 200, 5, 3
"""At most so many different targets, each of so few words and so often, are labels."""

KEY_PAIRS = (
    ("source", "target"),
    ("src", "tgt"),
    ("text", "label"),
    ("text", "labels"),
    ("sentence", "label"),
    ("review", "sentiment"),
    ("input", "output"),
    ("prompt", "completion"),
    ("question", "answer"),
    ("document", "summary"),
    ("article", "highlights"),
    ("article", "abstract"),
    ("text", "summary"),
)
"""Keys of a source and its target that JSON lines often have, in the order of preference."""
PICTURE_ENDINGS = frozenset({".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".zip"})


@dataclass(frozen=True)
class RecognisedData:
    """The data of a split: how they are read, what they are for, and how much there is."""

    choice: Choice
    """The reader by its name and settings, as a recipe has it."""
    reader: ExampleReader
    task: str
    reason: str
    """Why they are taken for that, as a phrase."""
    examples: int
    source_words: float
    """Of a source, on average; 0 of a picture."""
    target_words: float
    longest_words: int
    """Words of the longest source or target."""
    labels: int = 0
    """How many different labels there are, if targets are labels."""


def recognise(
    paths: Sequence[Path],
    *,
    keys: tuple[str, str] | None = None,
    suffixes: tuple[str, str] | None = None,
    task: str | None = None,
) -> RecognisedData:
    """What these files hold; a given task overrules the guess where the data allow it."""
    choice, reader = _reader(paths, keys, suffixes)
    read = reader.examples()
    first = list(islice(read, N_READ))
    if not first:
        raise DataError(f"data: {_named(paths)} holds no example. Give a file that has some.")
    found, reason = _task(choice, first)
    if task is not None and (why := _refusal(task, choice, first)) is not None:
        raise DataError(
            f"--task {task}: {why}. What {_named(paths)} holds suits '{found}' ({reason}). Leave "
            "--task out, or give other files."
        )
    return _counted(choice, reader, task or found, reason, chain(first, read))


def _counted(
    choice: Choice, reader: ExampleReader, task: str, reason: str, examples: Iterable[Example]
) -> RecognisedData:
    """The data with their numbers, for which every example is read."""
    sources, targets, labels, longest = [], [], Counter[str](), 0
    for one in examples:
        words = 0 if task == "captioning" else len(one.source.split())
        answers = [len(target.split()) for target in one.targets]
        sources.append(words)
        targets.append(fmean(answers))
        longest = max(longest, words, *answers)
        if task == "label":
            labels[one.targets[0]] += 1
    size = (len(sources), fmean(sources), fmean(targets))
    return RecognisedData(choice, reader, task, reason, *size, longest, len(labels))


def _reader(
    paths: Sequence[Path], keys: tuple[str, str] | None, suffixes: tuple[str, str] | None
) -> tuple[Choice, ExampleReader]:
    """The reader of these files, by its name and settings, and itself."""
    folders = [path for path in paths if path.is_dir() or path.suffix == ".zip"]
    if folders and (len(paths) == 2 or holds_pictures(folders[0])):
        return _captions(folders[0], [path for path in paths if path not in folders])
    if len(paths) > 1:
        # names what is missing
        reader_for(paths)
        return _made("parallel", {"source": paths[0], "target": tuple(paths[1:])})
    (path,) = paths
    if path.is_dir():
        return _made("shards", {"folder": path, **({"suffixes": suffixes} if suffixes else {})})
    check_is_file(path)
    ending = unpacked(path).rpartition(".")[2].lower()
    check_has_reader(path)
    if ending == "jsonl":
        source, target = keys or _keys(path)
        return _made("jsonl", {"path": path, "source": source, "target": target})
    if ending in ("tsv", "conllu"):
        return _made(ending, {"path": path})
    return _made("running_text", {"path": path})


def _made(name: str, settings: Mapping[str, Any]) -> tuple[Choice, ExampleReader]:
    plain = {
        key: str(value) if isinstance(value, Path) else value for key, value in settings.items()
    }
    if name == "parallel":
        targets = [str(path) for path in settings["target"]]
        plain["target"] = targets[0] if len(targets) == 1 else targets
    return Choice(name, plain), READERS[name](**settings)


def _keys(path: Path) -> tuple[str, str]:
    """The keys of source and target in JSON lines."""
    first = next((line for line in lines(path) if line.strip()), None)
    if first is None:
        raise DataError(f"data: '{path}' is empty. Give a file that has examples.")
    row = from_json(first, f"data: '{path}', line 1")
    names = _text_keys(row) if isinstance(row, dict) else []
    for source, target in KEY_PAIRS:
        if source in names and target in names:
            return source, target
    if len(names) == 2:
        return names[0], names[1]
    if len(names) < 2:
        raise DataError(
            f"data: '{path}', line 1 has {counted(len(names), 'key')} with a text; a source and a "
            'target need two, such as {"text": …, "label": …}. Write each row so.'
        )
    raise DataError(
        f"data: '{path}' has the keys {', '.join(names)}, and which are source and target "
        "cannot be seen from them. Say it: --keys SOURCE,TARGET."
    )


def _text_keys(row: Mapping[str, Any]) -> list[str]:
    """The keys whose values are texts, or lists of texts; those inside an object are dotted."""
    found = []
    for key, value in row.items():
        if isinstance(value, dict):
            found += [f"{key}.{inner}" for inner in _text_keys(value)]
        elif isinstance(value, str) or (isinstance(value, list) and value):
            found.append(key)
    return found


def holds_pictures(folder: Path) -> bool:
    """Whether a path is a folder with a picture in it."""
    return folder.is_dir() and any(
        path.suffix.lower() in PICTURE_ENDINGS for path in folder.iterdir()
    )


def _captions(pictures: Path, files: Sequence[Path]) -> tuple[Choice, ExampleReader]:
    """The reader of captions beside a folder or a zip of pictures, or inside that folder."""
    if not files:
        files = [
            path
            for path in sorted(pictures.iterdir())
            if path.is_file() and path.suffix.lower() not in PICTURE_ENDINGS
        ]
    if len(files) != 1:
        named = ", ".join(f"'{path.name}'" for path in files) or "none"
        raise DataError(
            f"data: one file of captions is needed for the pictures of '{pictures}'; found "
            f"{named}. Give it behind the folder."
        )
    (path,) = files
    check_is_file(path)
    first = next((line for line in lines(path) if line.strip()), "")
    name = "caption_lines" if first.lstrip().startswith("{") else "flickr8k"
    if unpacked(path).endswith(".json"):
        name = "karpathy"
    if name == "flickr8k" and "#" not in first.partition("\t")[0]:
        raise DataError(
            f"data: '{path}' begins with {first[:40]!r}. Captions are JSON lines "
            '({"image": "dog.jpg", "captions": ["A dog ."]}), Karpathy\'s .json, or lines of '
            "name.jpg#0 TAB caption. Write them in one of these forms."
        )
    return _made(name, {"path": path, "pictures": pictures})


def _task(choice: Choice, examples: Sequence[Example]) -> tuple[str, str]:
    """What these examples are for, and why, as a phrase."""
    if choice.name in PICTURE_READERS:
        return "captioning", "pictures with captions"
    if choice.name == "running_text":
        return "language_modelling", "a text that goes on; for pairs give both files"
    if choice.name == "conllu":
        return "tags", "words with their tags"
    if n_labels := _label_count([one.targets for one in examples]):
        return "label", f"texts with {n_labels} different labels"
    if _label_count([(one.source,) for one in examples]):
        raise DataError(
            f"data: the source of {_shown(choice)} looks like a label, and its target like a text. "
            "The text comes first: change the columns, or the order of --keys."
        )
    if _are_tags(examples):
        return "tags", "words with as many tags"
    return "translation", "pairs of texts"


def _refusal(task: str, choice: Choice, examples: Sequence[Example]) -> str | None:
    """Why these examples cannot be learned from for this task, as a clause; None if they can."""
    has_pictures = choice.name in PICTURE_READERS
    if has_pictures != (task == "captioning"):
        return "it reads texts, not pictures" if has_pictures else "it needs pictures with captions"
    if choice.name == "running_text" and task != "language_modelling":
        return "it needs a source and a target for each example, but a running text has one side"
    if task == "label":
        count, different = len(examples), len({one.targets for one in examples})
        if different < 2 or 2 * different > count:
            return (
                "a label stands for many texts, but "
                f"{counted(count, 'text')} have {counted(different, 'different label')}"
            )
    if task == "tags" and (odd := _untagged(examples)) is not None:
        return f"each word needs one tag, but example {odd:,} has other numbers of words and tags"
    return None


def _untagged(examples: Sequence[Example]) -> int | None:
    """The number, from 1, of the first example without one tag for each word."""
    sides = ((one.source.split(), one.targets[0].split()) for one in examples)
    wrong = (n for n, (words, tags) in enumerate(sides, 1) if len(words) != len(tags))
    return next(wrong, None)


def _label_count(sides: Sequence[tuple[str, ...]]) -> int:
    """How many labels there are if this side of examples is a label; 0 otherwise."""
    different = {side[0] for side in sides}
    is_label = (
        all(len(side) == 1 for side in sides)
        and 2 <= len(different) <= MAX_LABELS
        and len(sides) >= MIN_TEXTS_PER_LABEL * len(different)
        and all(len(text.split()) <= MAX_LABEL_WORDS for text in different)
    )
    return len(different) if is_label else 0


def _are_tags(examples: Sequence[Example]) -> bool:
    """Whether each word has a tag: as many words on both sides, and few kinds on the second."""
    pairs = [(one.source.split(), one.targets[0].split()) for one in examples]
    tags = {tag for _, target in pairs for tag in target}
    words = {word for source, _ in pairs for word in source}
    return (
        _untagged(examples) is None
        and any(len(source) > 1 for source, _ in pairs)
        and 2 * len(tags) <= len(words)
        and len(tags) <= MAX_LABELS
    )


def _shown(choice: Choice) -> str:
    return ", ".join(f"'{value}'" for value in choice.settings.values() if isinstance(value, str))


def _named(paths: Sequence[Path]) -> str:
    return ", ".join(f"'{path}'" for path in paths)
