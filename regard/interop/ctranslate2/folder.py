"""Folder: what CTranslate2 reads, and beside it what says how texts become its tokens.

    model.bin  config.json  *vocabulary.json    CTranslate2's own
    regard.json                                 the class that opens it, and what it was made from

Padding and begin are never written by a run, though their share of probability counts. A folder for
others says so by two biases, and shares that probability among the other pieces; one for this
package's own searches leaves the model as it is.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from regard.data.atomic_writes import write_text
from regard.data.subword_kinds import BOS, EOS, PAD, SPECIALS, UNK
from regard.interop.ctranslate2.model_specs import library, model_spec
from regard.models.portable import PortableLinear, PortableModel, portable_model
from regard.tasks.loaded_run import Loaded

NEVER_WRITTEN = (PAD, BOS)
NEVER_WRITTEN_BIAS = -1e4
"""float16 can hold it."""
ABOUT = "regard.json"
VERSION = 1
"""The version of folders; one of another version is made anew."""


def write_model(
    folder: Path,
    loaded: Loaded,
    *,
    quantization: str | None,
    is_closed: bool,
    about: Mapping[str, Any],
) -> str:
    """Write the model of a run into a folder, and give the name of the class that opens it.

    `is_closed` forbids padding and begin by biases; `about` comes into regard.json.
    """
    found = portable_model(loaded.model, loaded.recipe.model)
    spec = model_spec(_closed(found) if is_closed else found)
    config = spec.config
    config.unk_token, config.bos_token, config.eos_token = (SPECIALS[i] for i in (UNK, BOS, EOS))
    if found.encoder is None or found.decoder is None:
        opened_by = "Encoder" if found.decoder is None else "Generator"
        spec.register_vocabulary(list(loaded.source.pieces))
    else:
        opened_by = "Translator"
        spec.register_source_vocabulary(list(loaded.source.pieces))
        spec.register_target_vocabulary(list(loaded.target.pieces))
        config.decoder_start_token, config.add_source_eos = SPECIALS[BOS], True
    spec.validate()
    spec.optimize(quantization=quantization)
    folder.mkdir(parents=True, exist_ok=True)
    spec.save(str(folder))
    held = {
        "version": VERSION,
        "opened_by": opened_by,
        "ctranslate2": library().__version__,
        **about,
    }
    write_text(folder / ABOUT, json.dumps(held, indent=1, ensure_ascii=False) + "\n")
    return opened_by


def _closed(model: PortableModel) -> PortableModel:
    if model.output is None:
        return model
    weight, bias = model.output
    closed = torch.zeros(len(weight)) if bias is None else bias.float().cpu().clone()
    closed[list(NEVER_WRITTEN)] = NEVER_WRITTEN_BIAS
    return model._replace(output=PortableLinear(weight, closed))
