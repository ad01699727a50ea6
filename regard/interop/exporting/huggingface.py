"""Exporting: a translation run → a Marian folder in Hugging Face's layout.

    config.json  generation_config.json  model.safetensors  tokenizer.json  tokenizer_config.json

The tables are those of importing, read the other way. Numbers of pieces are Marian's: the end
first, then unknown, and last padding, with which Marian begins to write. Its vector is all zeros:
transformers reads it from the table, and CTranslate2 drops that row and begins from zeros.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.data.atomic_writes import write_text
from regard.data.kinds import BOS, EOS, PAD, SPECIALS, UNK
from regard.data.subwords import Subwords
from regard.errors import RunError, SettingError
from regard.interop.exporting.as_marian import AS_MARIAN, TABLE, as_marian
from regard.interop.exporting.vocabularies import their_tokenizer
from regard.interop.importing import marian
from regard.models import MarianSpec
from regard.runs.finished_runs import load_run
from regard.training.checkpoints import distinct_tensors, write_tensors
from regard.training.run_folder import check_can_be_made

ACTIVATIONS = {"swish": "swish", "gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu"}
"""What config.json calls an activation of ours."""


def export_huggingface(run: Path, out: Path) -> tuple[str, ...]:
    """Write the folder; one that holds something is never overwritten.

    Args:
        run: a finished run of kind marian, or of kind transformer where Marian can hold it.
        out: a new folder.
    """
    check_can_be_made(out, "export")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f"export: '{out}' is not empty. Choose another --out.")
    loaded = load_run(run)
    kind = loaded.recipe.model.kind
    if kind not in AS_MARIAN:
        raise SettingError(
            f"export: Hugging Face's layout is written for kinds {' and '.join(AS_MARIAN)}; this "
            f"run is of kind '{kind}'."
        )
    spec, tensors = as_marian(loaded.recipe.model, distinct_tensors(loaded.model))
    order = _order(loaded.source)
    config, generating = _configs(spec, len(order))
    files: dict[str, Mapping[str, Any]] = {
        "config.json": config,
        "generation_config.json": generating,
        "tokenizer.json": their_tokenizer(loaded.source, order),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "</s>",
            "unk_token": "<unk>",
            "pad_token": "<pad>",
            "model_max_length": spec.max_len,
        },
    }
    if not loaded.recipe.tokens.is_joint:
        files["target_tokenizer.json"] = their_tokenizer(loaded.target, order)
    out.mkdir(parents=True, exist_ok=True)
    for name, held in files.items():
        write_text(out / name, json.dumps(held, indent=1, ensure_ascii=False) + "\n")
    write_tensors(out / "model.safetensors", _theirs(spec, tensors, order))
    return (*files, "model.safetensors")


def _order(subwords: Subwords) -> list[int]:
    """Our number of each of their pieces; the last one is begin, which they call padding."""
    return [EOS, UNK, *range(len(SPECIALS), len(subwords)), BOS]


def _theirs(spec: MarianSpec, tensors: Mapping[str, Tensor], order: list[int]) -> dict[str, Tensor]:
    """Our tensors under their names."""
    table, held = tensors[TABLE], {}
    for name, theirs in marian.layout_of(spec).ours.items():
        if name != TABLE:
            held[f"{marian.PREFIX}{theirs.names[0]}"] = tensors[name].contiguous()
    bias = table[:, -1][[PAD if number == BOS else number for number in order]]
    return {
        **held,
        f"{marian.PREFIX}{marian.SHARED}": table[order, :-1].contiguous(),
        marian.BIAS: bias[None].contiguous(),
    }


def _configs(spec: MarianSpec, size: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """config.json and generation_config.json."""
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
        "d_model": spec.d_model,
        "encoder_layers": spec.n_encoder_layers,
        "decoder_layers": spec.n_decoder_layers,
        "encoder_attention_heads": spec.n_heads,
        "decoder_attention_heads": spec.n_heads,
        "encoder_ffn_dim": spec.d_hidden,
        "decoder_ffn_dim": spec.d_hidden,
        "activation_function": ACTIVATIONS[spec.feed_forward],
        "dropout": spec.dropout,
        "attention_dropout": spec.attention_dropout,
        "activation_dropout": 0.0,
        "scale_embedding": spec.is_scaled,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "max_position_embeddings": spec.max_len,
        "num_hidden_layers": spec.n_encoder_layers,
        **numbers,
    }
    generating = {**numbers, "bad_words_ids": [[size - 1]], "max_length": spec.max_len}
    return config, generating
