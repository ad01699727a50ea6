"""A new recipe: the text of a recipe for recognised data, sized to them and to the machine.

Every key that people change often stands in it with what it means. Widths, layers, batches and
updates follow from how many words there are: a model that is too large for its data learns them by
heart, and one that is too large for a CPU is not trained in an evening.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.choices import Choice, find
from regard.data.recognised import RecognisedData

PIECES_PER_WORD = 1.4
"""Sub-words of a word, about."""
COMMENT_COLUMN = 28
MOST_TOKENS = 512
"""Longer texts take their own decision: they are counted, and left out."""


@dataclass(frozen=True)
class ModelSize:
    """A model and its training for data of up to so many words."""

    most_words: float
    d_model: int
    n_layers: int
    vocabulary: int
    tokens_per_update: int
    epochs: int
    dropout: float
    learning_rate: float


SIZES = (
    ModelSize(2e4, 128, 2, 1000, 1024, 40, 0.3, 2e-3),
    ModelSize(2e5, 128, 2, 2000, 2048, 30, 0.3, 2e-3),
    ModelSize(3e6, 256, 3, 8000, 4096, 20, 0.3, 1e-3),
    ModelSize(3e7, 512, 6, 16000, 16384, 10, 0.2, 7e-4),
    ModelSize(math.inf, 512, 6, 32000, 25000, 5, 0.1, 7e-4),
)
"""From little data to much."""
LARGEST_ON_CPU = 2
"""The place of the largest size that two CPU cores train in hours."""


@dataclass(frozen=True)
class RecipeLine:
    """A key of a recipe, its value, and what it means."""

    name: str
    value: Any
    comment: str = ""

    def __str__(self) -> str:
        line = f"{self.name} = {_toml(self.value)}"
        return f"{line:<{COMMENT_COLUMN - 2}}  # {self.comment}" if self.comment else line


@dataclass(frozen=True)
class SplitData:
    """Where validation and test examples come from, if the user has files of them."""

    valid: Choice | None = None
    test: Choice | None = None


def new_recipe(data: RecognisedData, splits: SplitData, *, has_gpu: bool, name: str) -> str:
    """The text of a recipe that trains on these data; `name` is the file that it is written to."""
    size = size_for(data, has_gpu=has_gpu)
    sections = find(data.task, TASKS)(data, size)
    split = "valid" if splits.test is None else "test"
    evaluate = f"evaluate runs/mine --split {split}"
    commands = (f"plan {name}", f"train {name} --out runs/mine", evaluate)
    head = [
        f"# {_TITLES[data.task]}: {data.examples:,} examples, {data.reason}.",
        "#",
        *(f"#     regard {command}" for command in commands),
        "#",
        "# Other sizes and settings: docs/training.md, and the recipes that `regard recipe` lists.",
    ]
    parts = {"data": _data(data, splits, size), **sections, "training": _training(data, size)}
    texts = ["\n".join([f"[{section}]", *map(str, keys)]) for section, keys in parts.items()]
    return "\n".join(head) + "\n\n" + "\n\n".join(texts) + "\n"


def size_for(data: RecognisedData, *, has_gpu: bool) -> ModelSize:
    """The size of model and training for these data on this machine."""
    words = data.examples * max(data.source_words, data.target_words)
    place = next(place for place, size in enumerate(SIZES) if words <= size.most_words)
    return SIZES[place if has_gpu else min(place, LARGEST_ON_CPU)]


def _data(data: RecognisedData, splits: SplitData, size: ModelSize) -> Iterator[RecipeLine]:
    yield RecipeLine("train", data.choice)
    if splits.valid is None:
        yield RecipeLine("valid", Choice("held_out", {"share": _share(data)}), "taken out of train")
    else:
        yield RecipeLine("valid", splits.valid)
    if splits.test is not None:
        yield RecipeLine("test", splits.test)
    yield RecipeLine("max_tokens", _most_tokens(data), "longest source or target, the end included")
    yield RecipeLine("on_long", "skip", 'left out, and counted; "error" refuses them')


def _translation(data: RecognisedData, size: ModelSize) -> Mapping[str, Sequence[RecipeLine]]:
    return {
        "tokens": _subwords(size),
        "model": [
            *_widths(size, "on embeddings and sublayers; little data want much of it"),
            RecipeLine("n_encoder_layers", size.n_layers),
            RecipeLine("n_decoder_layers", size.n_layers),
            RecipeLine("norm", "pre_norm", 'or "post_norm", as the paper has it'),
            RecipeLine("tied", "all", "one table for source, target and output layer"),
            RecipeLine("max_len", 2 * _most_tokens(data), "longest text that can be answered"),
        ],
    }


def _label(data: RecognisedData, size: ModelSize) -> Mapping[str, Sequence[RecipeLine]]:
    return _encoder("label", "one label for the whole text", data, size, _subwords(size))


def _tags(data: RecognisedData, size: ModelSize) -> Mapping[str, Sequence[RecipeLine]]:
    words = [
        RecipeLine("kind", "words", "a tag for each word"),
        RecipeLine("size", 10000, "rarer words are all one unknown word"),
        RecipeLine("is_joint", value=False, comment="words and tags have a vocabulary each"),
    ]
    return _encoder("tags", "a tag for each word", data, size, words)


def _encoder(
    task: str, meaning: str, data: RecognisedData, size: ModelSize, tokens: Sequence[RecipeLine]
) -> Mapping[str, Sequence[RecipeLine]]:
    return {
        "tokens": tokens,
        "model": [
            RecipeLine("kind", "encoder"),
            RecipeLine("task", task, meaning),
            *_widths(size, "on embeddings and sublayers"),
            RecipeLine("n_layers", size.n_layers),
            RecipeLine("norm", "pre_norm"),
            RecipeLine("max_len", _most_tokens(data)),
        ],
    }


def _language_modelling(
    data: RecognisedData, size: ModelSize
) -> Mapping[str, Sequence[RecipeLine]]:
    return {
        "tokens": _subwords(size),
        "model": [
            RecipeLine("kind", "language_model"),
            RecipeLine("rows", "running", "a text that goes on"),
            RecipeLine("asks", "all", "every token of a row has a loss"),
            *_widths(size, "on embeddings and sublayers"),
            RecipeLine("n_layers", size.n_layers),
            RecipeLine("positions", "rotary"),
            RecipeLine("max_len", _most_tokens(data)),
        ],
    }


def _captioning(data: RecognisedData, size: ModelSize) -> Mapping[str, Sequence[RecipeLine]]:
    residual = {"width": 32, "n_stages": 3, "n_blocks": 2}
    return {
        "tokens": [
            RecipeLine("kind", "words"),
            RecipeLine("size", size.vocabulary, "largest vocabulary"),
        ],
        "pictures": [
            RecipeLine("framing", "squeeze", 'the whole picture; "crop" takes the middle square'),
            RecipeLine(
                "may_mirror", value=False, comment="true where captions never say left or right"
            ),
        ],
        "model": [
            RecipeLine("kind", "captioner"),
            RecipeLine("encoder", Choice("residual", residual), "trained with the rest"),
            RecipeLine("picture_size", 128, "pixels along a side: 8 x 8 cells"),
            RecipeLine("decoder", "lstm", 'or "transformer"'),
            RecipeLine("select", "soft", 'or "hard", which looks at one cell for each word'),
            RecipeLine("d_embedding", size.d_model),
            RecipeLine("d_hidden", 2 * size.d_model, "width of the LSTM"),
            RecipeLine("d_attention", size.d_model),
            RecipeLine("dropout", size.dropout),
            RecipeLine("tied", "none"),
            RecipeLine("max_len", _most_tokens(data), "longest caption that is written"),
        ],
    }


TASKS: Mapping[str, Callable[[RecognisedData, ModelSize], Mapping[str, Sequence[RecipeLine]]]] = {
    "translation": _translation,
    "label": _label,
    "tags": _tags,
    "language_modelling": _language_modelling,
    "captioning": _captioning,
}
"""Tasks that a recipe can be made for, and the sections of each between data and training."""
_TITLES = {
    "translation": "Texts to texts by a Transformer",
    "label": "One label for each text by an encoder",
    "tags": "A tag for each word by an encoder",
    "language_modelling": "A language model that goes on with texts",
    "captioning": "Captions of pictures",
}


def _subwords(size: ModelSize) -> Sequence[RecipeLine]:
    return [
        RecipeLine("kind", "bpe", '"bpe", "unigram", "characters" or "words"'),
        RecipeLine("size", size.vocabulary, "largest vocabulary"),
    ]


def _widths(size: ModelSize, dropout: str) -> Iterator[RecipeLine]:
    yield RecipeLine("d_model", size.d_model, "width")
    yield RecipeLine("n_heads", max(4, size.d_model // 64), "heads of every attention")
    yield RecipeLine("d_hidden", 4 * size.d_model, "inner width of the feed-forward")
    yield RecipeLine("dropout", size.dropout, dropout)


def _training(data: RecognisedData, size: ModelSize) -> Iterator[RecipeLine]:
    steps = _steps(data, size)
    tenth = max(1, steps // 10)
    yield RecipeLine("steps", steps, f"updates, about {size.epochs} epochs")
    yield RecipeLine("target_tokens_per_update", size.tokens_per_update)
    yield RecipeLine(
        "target_tokens_per_batch", min(size.tokens_per_update, 8192), "in memory at once"
    )
    yield RecipeLine("schedule", "cosine", '"noam", "inverse_square_root", "constant" or "halving"')
    yield RecipeLine("learning_rate", size.learning_rate, "the peak")
    yield RecipeLine("warmup_steps", tenth, "updates until the peak")
    if data.task not in ("translation", "captioning"):
        yield RecipeLine("label_smoothing", 0.0)
    yield RecipeLine("checkpoint_every", tenth)
    yield RecipeLine("validate_every", tenth)
    yield RecipeLine("validation_share", 0.1, "share of the training's time for validations")
    yield RecipeLine("seed", 1)


def _steps(data: RecognisedData, size: ModelSize) -> int:
    """The updates of so many epochs, to two digits, and enough of them to learn something."""
    words = data.examples * (data.target_words if data.task != "label" else data.source_words)
    updates = size.epochs * PIECES_PER_WORD * words / size.tokens_per_update
    updates = max(200.0, updates)
    digits = 10 ** (math.floor(math.log10(updates)) - 1)
    return int(round(updates / digits) * digits)


def _most_tokens(data: RecognisedData) -> int:
    """A power of two that holds the longest text, as far as that is usual."""
    wanted = 2 * PIECES_PER_WORD * data.longest_words + 1
    return min(MOST_TOKENS, max(32, 1 << math.ceil(math.log2(wanted))))


def _share(data: RecognisedData) -> float:
    """The share of examples that validation takes: about 1,000, or a tenth; about 5 of very few."""
    at_most = max(0.1, min(0.5, 5 / data.examples))
    return max(0.001, round(min(at_most, 1000 / data.examples), 3))


def _toml(value: Any) -> str:
    """A value as TOML has it, a choice as its name or as a table."""
    if isinstance(value, Choice):
        if not value.settings:
            return _toml(value.name)
        pairs = {"name": value.name, **value.settings}
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in pairs.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    # JSON's texts, numbers and truth values are TOML's
    return json.dumps(value, ensure_ascii=False)
