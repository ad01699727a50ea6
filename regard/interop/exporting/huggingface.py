"""Exporting: a run → a folder in Hugging Face's layout, with vocabulary and card.

    post-norm, source and target     Marian      as_marian.py
    all others                                   hub_models.py

The tables of Marian are those of importing, read the other way. Numbers of its pieces are Marian's:
the end first, then unknown, and last padding, with which Marian begins to write. Its vector is all
zeros: transformers reads it from the table, and CTranslate2 drops that row and begins from zeros.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.atomic_writes import write_text, written_beside
from regard.data.subword_kinds import BOS, EOS, PAD, SPECIALS, UNK
from regard.errors import NotPortable, SettingError
from regard.interop.exporting.as_marian import TABLE, as_marian
from regard.interop.exporting.exported import Exported, check_is_new
from regard.interop.exporting.hub_cards import hub_card
from regard.interop.exporting.hub_models import ACTIVATIONS, hub_model, mask_of
from regard.interop.exporting.tokenizers import Cutting, tokenizer_content
from regard.interop.exporting.transformers_answers import answered_by_transformers
from regard.interop.importing import marian
from regard.models import MarianSpec
from regard.models.portable import portable_model
from regard.runs.trained import Trained, load
from regard.training.checkpoints import distinct_tensors, write_tensors

NAMES = {EOS: "</s>", UNK: "<unk>", BOS: "<pad>"}
"""The names of our special pieces in Marian's vocabulary."""


MARIAN = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "eos_token": NAMES[EOS],
    "unk_token": NAMES[UNK],
    "pad_token": NAMES[BOS],
}
"""What the vocabulary of a Marian folder says of itself."""


def export_huggingface(run: Path, out: Path) -> Exported:
    """Write a new folder in the layout that holds the run's model, and have transformers answer.

    A folder that holds something is never overwritten.
    """
    check_is_new(out)
    trained = load(run, device="cpu")
    try:
        with written_beside(out) as partial:
            partial.mkdir(parents=True)
            notes = _written(trained, partial)
            names = tuple(sorted(path.name for path in partial.iterdir()))
    except NotPortable as reason:
        raise SettingError(
            f"export: Hugging Face's layouts cannot hold the run '{run}': {reason}."
        ) from reason
    return Exported(names, notes)


def _written(trained: Trained, folder: Path) -> tuple[str, ...]:
    """Write a folder, and give notes on what transformers answers from it."""
    loaded, spec = trained.loaded, trained.loaded.recipe.model
    if loaded.source.framing or loaded.target.framing:
        raise NotPortable(
            "pieces of its own stand around every text, such as those of languages; take the "
            "folder that the run was imported from"
        )
    found = portable_model(loaded.model, spec)
    if found.encoder and found.decoder and not found.decoder.layers[0].is_pre_norm:
        marian_spec, tensors = as_marian(spec, distinct_tensors(loaded.model))
        order = order_of(len(loaded.source))
        config = {**MARIAN, "model_max_length": spec.max_len}
        cutting = Cutting(order, NAMES, (), (EOS,))
        write_marian(folder, marian_spec, tensors)
        tag = "translation"
    else:
        model = hub_model(found)
        before, behind = _around(trained) if found.encoder is None else ((), (EOS,))
        if found.decoder is None:
            before = (BOS,)
        cutting = Cutting(model.order, model.names, before, behind)
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{role: model.names[number] for role, number in model.special.items()},
            **mask_of(model),
            "model_max_length": trained.longest,
        }
        _write(folder, {"config.json": {**model.config, "dtype": "float32"}})
        if model.generating is not None:
            _write(folder, {"generation_config.json": model.generating})
        own = {name: tensor.float().clone().contiguous() for name, tensor in model.tensors.items()}
        write_tensors(folder / "model.safetensors", own)
        tag = model.tag
    files = {
        "tokenizer.json": tokenizer_content(loaded.source, cutting),
        "tokenizer_config.json": config,
    }
    if not loaded.recipe.tokens.is_joint:
        files["target_tokenizer.json"] = tokenizer_content(loaded.target, cutting)
    _write(folder, files)
    notes = answered_by_transformers(trained, folder, cutting.order)
    write_text(folder / "README.md", hub_card(trained, tag, notes))
    return notes


def _around(trained: Trained) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special pieces before and behind a text, where a language model goes on with it."""
    # an unknown piece stands for the text
    prompt = trained.loaded.model.prompt([UNK, EOS])
    at = prompt.index(UNK)
    return tuple(prompt[:at]), tuple(prompt[at + 1 :])


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
