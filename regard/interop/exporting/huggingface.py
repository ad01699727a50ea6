"""Exporting: a translation run → a Marian folder in Hugging Face's layout.

    config.json  generation_config.json  model.safetensors  tokenizer.json  tokenizer_config.json

The tables are those of importing, read the other way. Numbers of pieces are Marian's: the end
first, then unknown, and last padding, with which Marian begins to write. Its vector is all zeros:
transformers reads it from the table, and CTranslate2 drops that row and begins from zeros.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.atomic_writes import write_text
from regard.data.subword_kinds import BOS, EOS, PAD, SPECIALS, UNK
from regard.data.subwords import Subwords
from regard.errors import SettingError
from regard.interop.exporting.as_marian import AS_MARIAN, TABLE, as_marian
from regard.interop.exporting.exported import check_is_new
from regard.interop.importing import marian
from regard.models import MarianSpec
from regard.runs.trained import load_run
from regard.training.checkpoints import distinct_tensors, write_tensors

ACTIVATIONS = {"swish": "swish", "gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
"""What config.json calls an activation of ours."""
NAMES = {EOS: "</s>", UNK: "<unk>", BOS: "<pad>"}
"""The names of our special pieces in Marian's vocabulary."""


def export_huggingface(run: Path, out: Path) -> tuple[str, ...]:
    """Write a new folder from a run of kind marian, or of kind transformer if Marian can hold it.

    A folder that holds something is never overwritten.
    """
    check_is_new(out)
    loaded = load_run(run)
    spec = loaded.recipe.model
    if spec.kind not in AS_MARIAN:
        raise SettingError(
            f"export: Hugging Face's layout is written for kinds {' and '.join(AS_MARIAN)}; this "
            f"run is of kind '{spec.kind}'."
        )
    marian_spec, tensors = as_marian(spec, distinct_tensors(loaded.model))
    order = order_of(len(loaded.source))
    files = {
        "tokenizer.json": _tokenizer(loaded.source, order),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": NAMES[EOS],
            "unk_token": NAMES[UNK],
            "pad_token": NAMES[BOS],
            "model_max_length": spec.max_len,
        },
    }
    if not loaded.recipe.tokens.is_joint:
        files["target_tokenizer.json"] = _tokenizer(loaded.target, order)
    out.mkdir(parents=True, exist_ok=True)
    _write(out, files)
    *configs, weights = write_marian(out, marian_spec, tensors)
    return (*configs, *files, weights)


def order_of(n_tokens: int) -> list[int]:
    """Our number of each of Marian's pieces; the last is begin, which Marian calls padding."""
    return [EOS, UNK, *range(len(SPECIALS), n_tokens), BOS]


def write_marian(out: Path, spec: MarianSpec, tensors: Mapping[str, Tensor]) -> tuple[str, ...]:
    """Write what `as_marian` gives: two configurations, and the weights under their names."""
    table, held = tensors[TABLE], {}
    order = order_of(len(table))
    for name, theirs in marian.layout_of(spec).ours.items():
        if name != TABLE:
            held[f"{marian.PREFIX}{theirs.names[0]}"] = tensors[name].contiguous()
    bias = table[:, -1][[PAD if number == BOS else number for number in order]]
    held[f"{marian.PREFIX}{marian.SHARED}"] = table[order, :-1].contiguous()
    held[marian.BIAS] = bias[None].contiguous()
    config, generating = _configs(spec, len(order))
    files = {"config.json": config, "generation_config.json": generating}
    _write(out, files)
    write_tensors(out / "model.safetensors", held)
    return (*files, "model.safetensors")


def _write(out: Path, files: Mapping[str, Mapping[str, Any]]) -> None:
    for name, held in files.items():
        write_text(out / name, json.dumps(held, indent=1, ensure_ascii=False) + "\n")


def _configs(spec: MarianSpec, size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """config.json and generation_config.json."""
    sizes = {theirs: getattr(spec, ours) for ours, theirs in marian.SIZES.items()}
    numbers = {
        "eos_token_id": 0,
        "pad_token_id": size - 1,
        "decoder_start_token_id": size - 1,
        "forced_eos_token_id": 0,
    }
    config = {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "is_encoder_decoder": True,
        "dtype": str(torch.float32).removeprefix("torch."),
        "vocab_size": size,
        "decoder_vocab_size": size,
        **sizes,
        **{other: sizes[one] for one, other in marian.EQUAL_SIZES.items()},
        "activation_function": ACTIVATIONS[spec.feed_forward],
        "activation_dropout": 0.0,
        "scale_embedding": spec.is_scaled,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "num_hidden_layers": spec.n_encoder_layers,
        **numbers,
    }
    generating = {**numbers, "bad_words_ids": [[size - 1]], "max_length": spec.max_len}
    return config, generating


def _tokenizer(subwords: Subwords, order: Sequence[int]) -> dict[str, Any]:
    """The content of tokenizer.json; a text gets an end token behind it."""
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
    first, second = ({"Sequence": {"id": text, "type_id": 0}} for text in "AB")
    name = NAMES[EOS]
    closing = {"SpecialToken": {"id": name, "type_id": 0}}
    return {
        **content,
        "added_tokens": [
            {"id": number, "content": NAMES[ours], **special, "special": True}
            for number, ours in enumerate(order)
            if ours in NAMES
        ],
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, closing],
            "pair": [first, second, closing],
            "special_tokens": {name: {"id": name, "ids": [order.index(EOS)], "tokens": [name]}},
        },
    }
