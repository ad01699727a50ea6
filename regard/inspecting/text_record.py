"""A model and a text → a record: what the model answered, and what it looked at while it did.

The answer is searched for in the ordinary way; then one teacher-forced pass over source and answer
gives the maps, so that looking never changes how a model runs.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import torch

import regard
from regard.attention.maps import AttentionMap
from regard.attention.tables import name_of
from regard.choices import find
from regard.data.kinds import BOS, EOS
from regard.data.subwords import Subwords
from regard.errors import DataError, SettingError
from regard.inspecting.capture import attention_of, frozen
from regard.inspecting.record import Attention, Record
from regard.inspecting.token_labels import Tokens, read_ids, read_text
from regard.models import Model
from regard.models.language.token_maps import Shared


def attention(
    kind: str, maps: Sequence[AttentionMap], source: Tokens, written: Tokens, read: Tokens
) -> Attention:
    """One kind of a translation's attention, with the tokens that its rows and columns stand for.

    Args:
        kind: "encoder", "decoder" or "cross".
        maps: one a layer.
        source: what the encoder reads.
        written: what each decoder row predicts.
        read: what each decoder row is given.
    """
    sides: Mapping[str, tuple[tuple[str, Tokens], tuple[str, Tokens]]] = {
        "encoder": (("source", source), ("source", source)),
        "decoder": (("target", written), ("target", read)),
        "cross": (("target", written), ("source", source)),
    }
    (query_side, queries), (key_side, keys) = find(kind, sides)
    first = maps[0]
    if first.columns != "keys":
        key_side, keys = first.columns, Tokens.numbered("slot", first.shape[-1])
    titles = f"query ({query_side})", f"key ({key_side})"
    layers = tuple(frozen(one) for one in maps)
    mechanisms, masks = map(mechanism_of, layers), map(mask_of, layers)
    return Attention(queries, keys, layers, *titles, by_layer(mechanisms), by_layer(masks))


def mechanism_of(one: AttentionMap) -> str:
    """The links of a map by name, and what they choose among if that is no single token."""
    select, among = one.select, [f"among {one.columns}"] if one.columns != "keys" else []
    if isinstance(select, Shared):
        among = [f"among slots of {select.tokens.stride} tokens"]
        select = select.among
    relation = [] if one.relation.is_zero else [one.relation]
    return ", ".join([*map(name_of, [one.score, *relation, select]), *among])


def mask_of(one: AttentionMap) -> str:
    """Who may see whom, by name: causal, padding, sliding_window; full where everybody may."""
    parts = getattr(one.mask, "parts", (one.mask,))
    return ", ".join(_apart(name_of(part).removesuffix("Pattern")) for part in parts)


def _apart(name: str) -> str:
    """A class name as words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()


def by_layer(texts: Iterable[str]) -> str:
    """What all layers have in common, or what the layers of these numbers have."""
    layers: dict[str, list[str]] = {}
    for number, text in enumerate(texts, start=1):
        layers.setdefault(text, []).append(str(number))
    if len(layers) == 1:
        return next(iter(layers))
    return "; ".join(
        f"layer{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}: {text}"
        for text, numbers in layers.items()
    )


def versions() -> dict[str, str]:
    """What made a record."""
    return {"regard": regard.__version__, "torch": str(torch.__version__)}


@runtime_checkable
class ReadsOneRow(Protocol):
    """A model whose maps are of one row of tokens at itself."""

    def row(self, source: Sequence[int], target: Sequence[int]) -> list[int]:
        """The tokens that rows and columns of a map stand for, special ones included."""


def _one_row(model: ReadsOneRow, source: Subwords, text: str, answer: Sequence[int]) -> Tokens:
    read = [*source.encode(text), EOS]
    row = model.row(read, answer)
    if row == [BOS, *read]:
        return read_text(source, text, before=[BOS], after=[EOS])
    return read_ids(source, row)


class Size(NamedTuple):
    """How much there is of one kind of attention."""

    n_layers: int
    n_heads: int


def sizes_of(model: Model) -> dict[str, Size]:
    """What there is to look at, by kind, before anything is: it does not depend on the text.

    Args:
        model: one that reads texts; it reads the shortest.
    """
    maps = attention_of(model, [EOS], [])
    return {kind: Size(len(layers), layers[0].shape[-3]) for kind, layers in maps.items()}


def reads_answers(model: Model) -> bool:
    """Whether what a model looks at depends on an answer too, and not on the text alone."""
    return not isinstance(model, ReadsOneRow) or model.row([EOS], [EOS]) != model.row([EOS], [])


def check_reads_answers(model: Model) -> None:
    """A given answer changes where a model looks only if the model reads it."""
    if not reads_answers(model):
        raise SettingError(
            "look: this run reads a text at once, and where it looks does not depend on an answer: "
            "a target would change nothing. Leave it out."
        )


def look_at(
    model: Model, source: Subwords, target: Subwords, text: str, answer: Sequence[int]
) -> Record:
    """Record one answer.

    Args:
        model: what wrote it, not in training.
        source: cuts the text.
        target: cuts the answer.
        text: what the model reads.
        answer: the tokens of what it wrote, or of what it might have written; no begin, no end.
    """
    if not text.strip():
        raise DataError("look: the text is empty; there is nothing to look at. Give a sentence.")
    maps = attention_of(model, [*source.encode(text), EOS], answer)
    sides = (
        read_text(source, text, after=[EOS]),
        read_ids(target, answer, after=[EOS]),
        read_ids(target, answer, before=[BOS]),
    )
    if isinstance(model, ReadsOneRow):
        sides = (_one_row(model, source, text, answer),) * 3
    kinds = {kind: attention(kind, layers, *sides) for kind, layers in maps.items()}
    return Record(text, target.decode(answer), kinds, versions=versions())
