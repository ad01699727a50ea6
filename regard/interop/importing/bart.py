"""BART's layout, and those of mBART, M2M100 and NLLB: Marian's layers, other norms and positions.

A model of many languages becomes a run that translates from one to one other: the pieces of the two
languages stand around its texts.

Paper: Lewis et al. 2020 (BART); Liu et al. 2020 (mBART); Fan et al. 2020 (M2M100); NLLB Team 2022.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from regard.choices import Choice
from regard.interop.importing import marian
from regard.interop.importing.bert import ACTIVATIONS
from regard.interop.importing.family import (
    WRITES,
    Family,
    Languages,
    Layout,
    PublishedTensor,
    Roles,
    Side,
    TwoSides,
    always,
    by_piece,
    by_piece_with_bias,
    modules,
    same,
)
from regard.interop.importing.folder import Folder
from regard.models import BartSpec

LANGUAGE = re.compile(r"__[a-z]+(_[A-Za-z]+)?__|[a-z]{2,3}_[A-Za-z]{2,4}")
"""A piece that names a language: __de__, de_DE or deu_Latn."""
MAX_NAMED = 200
FIRST = 2
"""The position of a text's first token."""
SUFFIXED = ("MBartTokenizer", "MBartTokenizerFast")
"""Tokenizers that put the piece of a source's language behind its end."""
ROLES = Roles(padding="<pad>", begin="</s>", end="</s>", unknown="<unk>", mask="<mask>")

SWITCHES = {
    "normalize_before": (False, None),
    "extra_pos_embeddings": (FIRST, None),
    "static_position_embeddings": (False, None),
    "add_bias_logits": (False, None),
    "tie_word_embeddings": (True, None),
    "activation_function": ("gelu", *ACTIVATIONS),
}
LAST_NORMS = {
    f"{ours}.{name}": PublishedTensor((f"{theirs}.layer_norm.{part}",), same)
    for ours, theirs in (("encoder_norm", "encoder"), ("decoder_norm.0", "decoder"))
    for name, part in (("gain", "weight"), ("bias", "bias"))
}
COPIES = (marian.SOURCE, marian.TARGET, marian.OUTPUT)


def _spec(folder: Folder) -> BartSpec:
    return BartSpec(
        **marian.sizes_of(folder),
        feed_forward=ACTIVATIONS[folder.config.get("activation_function", "gelu")],
        is_scaled=folder.config.get("scale_embedding") is True,
    )


def bart_spec(folder: Folder) -> BartSpec:
    """config.json of BART → [model]."""
    folder.check_switches({**SWITCHES, "add_final_layer_norm": (False, None)})
    return _spec(folder)


def mbart_spec(folder: Folder) -> BartSpec:
    """config.json of mBART → [model]."""
    folder.check_switches({**SWITCHES, "normalize_before": (True, None)})
    # what ends a source is no piece that ends a target
    return replace(_spec(folder), norm="pre_norm", is_shared=not _is_suffixed(folder))


def m2m100_spec(folder: Folder) -> BartSpec:
    """config.json of M2M100 and NLLB → [model]."""
    folder.check_switches({**SWITCHES, "static_position_embeddings": (True, None)})
    positions = Choice("offset_sines")
    return replace(_spec(folder), norm="pre_norm", norms_embeddings=False, positions=positions)


def layout_of(folder: Folder, spec: BartSpec) -> Layout:
    """Every tensor."""
    table = {
        f"{'source' if spec.is_shared else 'target'}.E.weight": by_piece_with_bias(
            marian.SHARED, *({marian.BIAS} & folder.tensor_names())
        )
    }
    if not spec.is_shared:
        table["source.E.weight"] = by_piece(marian.SHARED, side="source")
    learned = {
        f"{ours}.positions.P.weight": PublishedTensor(
            (f"{stack}.embed_positions.weight",), lambda found, rows: found[0][FIRST:]
        )
        for ours, stack in (("source", "encoder"), ("target", "decoder"))
    }
    norms = {
        "source.norm": "encoder.layernorm_embedding",
        "target.norm": "decoder.layernorm_embedding",
    }
    return Layout(
        {
            **table,
            **(learned if spec.positions.name == "learned" else {}),
            **(modules(norms) if spec.norms_embeddings else {}),
            **(LAST_NORMS if spec.norm == "pre_norm" else {}),
            **marian.layers_of(spec),
        },
        # sines, which are computed here
        (r"(en|de)coder\.embed_positions\.weights?",) if spec.positions.name != "learned" else (),
        dict.fromkeys(COPIES, marian.SHARED),
    )


def many_languages(folder: Folder, numbers: Mapping[str, int], languages: Languages) -> TwoSides:
    """The pieces of the two languages, before the texts of either side."""
    source, target = (
        _piece(folder, numbers, said, option)
        for said, option in zip(languages, ("source", "target"), strict=True)
    )
    if not _is_suffixed(folder):
        return TwoSides(Side(ROLES, (source,)), Side(ROLES, (target,)))
    return TwoSides(
        Side(ROLES._replace(end=source, begin=None), after=("</s>",)),
        Side(ROLES._replace(begin=target)),
    )


def _is_suffixed(folder: Folder) -> bool:
    name = "tokenizer_config.json"
    said = folder.json(name) if folder.has(name) else {}
    is_legacy = said.get("legacy_behaviour") is True
    return is_legacy or said.get("tokenizer_class") in SUFFIXED


def _piece(folder: Folder, numbers: Mapping[str, int], said: str | None, option: str) -> str:
    """The piece of a language, which may be said by its first letters if they are its alone."""
    known = sorted(piece for piece in numbers if LANGUAGE.fullmatch(piece))
    found = [piece for piece in known if said in (piece, piece.strip("_"))] or [
        piece for piece in known if said and piece.startswith(f"{said}_")
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(piece.strip("_") for piece in known[:MAX_NAMED])
    raise folder.refusal(
        f" knows many languages: give --{option}-language "
        f"{'' if said is None else f'(got {said!r}) '}as one of {names}."
    )


def note_on_languages(folder: Folder) -> tuple[str, ...]:
    """How the run knows its languages."""
    return ("the run translates between the two languages it was imported for",)


BART = Family("bart", "model.", always(ROLES, before=("<s>",)), bart_spec, layout_of, WRITES)
MBART, M2M100 = (
    Family(name, "model.", many_languages, spec, layout_of, WRITES, note_on_languages)
    for name, spec in (("mbart", mbart_spec), ("m2m_100", m2m100_spec))
)
