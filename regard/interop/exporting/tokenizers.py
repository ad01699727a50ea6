"""Tokenizers: a vocabulary as another library's tokenizer.json, with its own numbers and names."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.data.subword_kinds import UNK
from regard.data.subwords import Subwords
from regard.errors import SettingError


@dataclass(frozen=True)
class Cutting:
    """How another library cuts texts into the pieces of a vocabulary of ours."""

    order: Sequence[int]
    """Our number of each of its pieces; those that are left out are not there."""
    names: Mapping[int, str]
    """Its names of our special pieces."""
    before: tuple[int, ...]
    """Our numbers of the pieces that it puts before every text."""
    behind: tuple[int, ...]
    """And behind it."""


def tokenizer_content(subwords: Subwords, cutting: Cutting) -> dict[str, Any]:
    """The content of tokenizer.json."""
    content: dict[str, Any] = json.loads(subwords.as_json())
    order, model = cutting.order, content["model"]
    names = {number: name for number, name in cutting.names.items() if number in order}
    renamed = {name for number, name in names.items() if name != subwords.pieces[number]}
    clash = sorted(renamed & set(subwords.pieces[max(names) + 1 :]))
    if clash:
        raise SettingError(
            f"export: the vocabulary has the word {clash[0]!r}, which is a special piece in "
            "that layout. Such runs cannot be exported; train on texts without that word."
        )
    if isinstance(model["vocab"], dict):
        pieces = [names.get(number, subwords.pieces[number]) for number in order]
        model["vocab"] = {piece: number for number, piece in enumerate(pieces)}
    else:
        scores = [model["vocab"][number] for number in order]
        held = [
            [names.get(number, piece), score]
            for number, (piece, score) in zip(order, scores, strict=True)
        ]
        model |= {"vocab": held, "unk_id": list(order).index(UNK)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    own = [one for one in content["added_tokens"] if one["content"] not in subwords.pieces[:4]]
    first, second = ({"Sequence": {"id": text, "type_id": 0}} for text in "AB")
    around = {number: names[number] for number in (*cutting.before, *cutting.behind)}
    before, behind = (
        [{"SpecialToken": {"id": names[number], "type_id": 0}} for number in side]
        for side in (cutting.before, cutting.behind)
    )
    return {
        **content,
        "added_tokens": [
            *(
                {"id": number, "content": names[ours], **flags, "special": True}
                for number, ours in enumerate(order)
                if ours in names
            ),
            *own,
        ],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [*before, first, *behind],
            "pair": [*before, first, second, *behind],
            "special_tokens": {
                name: {"id": name, "ids": [list(order).index(number)], "tokens": [name]}
                for number, name in around.items()
            },
        },
    }
