"""A vocabulary of ours as a file for another library, with its numbers and special pieces."""

import json
from collections.abc import Sequence
from typing import Any

from regard.data.kinds import BOS, EOS, SPECIALS, UNK
from regard.data.subwords import Subwords
from regard.errors import SettingError

NAMES = {EOS: "</s>", UNK: "<unk>", BOS: "<pad>"}
"""What our special pieces are called there."""


def their_tokenizer(subwords: Subwords, order: Sequence[int]) -> dict[str, Any]:
    """The content of tokenizer.json; a text gets an end token behind it.

    Args:
        subwords: the vocabulary.
        order: our number of each of their pieces.
    """
    content: dict[str, Any] = json.loads(subwords.as_json())
    clash = sorted({NAMES[EOS], NAMES[BOS]} & set(subwords.pieces[len(SPECIALS) :]))
    if clash:
        raise SettingError(
            f"export: the vocabulary has the word {clash[0]!r}, which is a special piece in "
            "Marian's layout. Such runs cannot be exported; train on texts without that word."
        )
    model = content["model"]
    if isinstance(model["vocab"], dict):
        names = {number: piece for piece, number in model["vocab"].items()}
        pieces = [NAMES.get(number, names[number]) for number in order]
        model["vocab"] = {piece: number for number, piece in enumerate(pieces)}
    else:
        held = [
            [NAMES.get(number, model["vocab"][number][0]), model["vocab"][number][1]]
            for number in order
        ]
        model |= {"vocab": held, "unk_id": order.index(UNK)}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    end = order.index(EOS)
    return {
        **content,
        "added_tokens": [
            {"id": number, "content": NAMES[ours], **special, "special": True}
            for number, ours in enumerate(order)
            if ours in NAMES
        ],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": NAMES[EOS], "type_id": 0}},
            ],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                {"SpecialToken": {"id": NAMES[EOS], "type_id": 0}},
            ],
            "special_tokens": {
                NAMES[EOS]: {"id": NAMES[EOS], "ids": [end], "tokens": [NAMES[EOS]]}
            },
        },
    }
