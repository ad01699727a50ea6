"""Llama's layout, and Qwen2's and Qwen3's: what differs are biases and norms of heads.

Channels of a head that turn together stand half a head apart there, and side by side here.

Paper: Touvron et al. 2023; Yang et al. 2024 and 2025.
"""

from collections.abc import Mapping
from typing import Any

import torch

from regard.choices import Choice
from regard.interop.importing.family import (
    GOES_ON,
    Family,
    Form,
    Languages,
    Layout,
    PublishedTensor,
    Roles,
    Side,
    TwoSides,
    by_piece,
    by_piece_with_bias,
    modules,
    refuse_languages,
    same,
    stacked,
    turning,
    weights,
)
from regard.interop.importing.folder import CONFIG, Folder
from regard.models import LlamaSpec

PIECES, OUTPUT = "embed_tokens.weight", "lm_head.weight"
GATES = {"silu": "gated", "swish": "gated", "gelu_pytorch_tanh": "gated_gelu"}
"""What config.json calls the activation of a gate of ours."""
LAYER = weights(
    {
        "attention.W_O": "self_attn.o_proj",
        "around_attention.norm": "input_layernorm",
        "feed_forward.W1": "mlp.gate_proj",
        "feed_forward.W3": "mlp.up_proj",
        "feed_forward.W2": "mlp.down_proj",
        "around_feed_forward.norm": "post_attention_layernorm",
    }
)
LEFT_OUT = (
    # the lengths of waves, which are computed here
    r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",
)
SWITCHES = {
    "hidden_act": tuple(GATES),
    "mlp_bias": (False, None),
    "use_sliding_window": (False, None),
    "pretraining_tp": (1, None),
}
SCALED = {
    "default": {},
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "low": "low_freq_factor",
        "high": "high_freq_factor",
        "trained_len": "original_max_position_embeddings",
    },
}
"""Ways to slow waves, and what each calls a setting of ours."""


def spec_of(folder: Folder) -> LlamaSpec:
    """config.json → [model]; the names of the weights show which parts there are."""
    folder.check_switches(SWITCHES)
    heads, names = folder.setting(int, "num_attention_heads"), folder.tensor_names()
    has_groups = folder.config.get("num_key_value_heads") is not None
    has_width = folder.config.get("head_dim") is not None
    is_tied = folder.config.get("tie_word_embeddings") is True
    if OUTPUT not in names and not is_tied:
        raise folder.refusal(
            f" lacks '{OUTPUT}', and 'tie_word_embeddings' is not true: the model cannot write. "
            "Save it with its output layer.",
            CONFIG,
        )
    return LlamaSpec(
        d_model=folder.setting(int, "hidden_size"),
        n_heads=heads,
        n_groups=folder.setting(int, "num_key_value_heads") if has_groups else heads,
        head_width=folder.setting(int, "head_dim") if has_width else None,
        d_hidden=folder.setting(int, "intermediate_size"),
        n_layers=folder.setting(int, "num_hidden_layers"),
        attention_dropout=float(folder.config.get("attention_dropout") or 0.0),
        feed_forward=GATES[folder.config.get("hidden_act", "silu")],
        norm_eps=folder.setting(float, "rms_norm_eps"),
        has_bias=any(name.endswith("self_attn.q_proj.bias") for name in names),
        norms_heads=any(name.endswith("self_attn.q_norm.weight") for name in names),
        is_tied=is_tied,
        rows="begun" if _begins(folder) else "continued",
        positions=_positions(folder),
        # prompt and continuation share the positions that the model was trained for
        max_len=max(1, folder.setting(int, "max_position_embeddings") // 2),
    )


def _positions(folder: Folder) -> Choice:
    said: dict[str, Any] = {"rope_theta": folder.config.get("rope_theta", 10000.0)}
    for name in ("rope_scaling", "rope_parameters"):
        if isinstance(held := folder.config.get(name), dict):
            said |= held
    kind = said.get("rope_type") or said.get("type") or "default"
    if kind not in SCALED or said.get("partial_rotary_factor", 1.0) != 1.0:
        raise folder.refusal(
            f": 'rope_parameters' must turn whole heads by waves of kind {', '.join(SCALED)}, got "
            f"{kind!r} and a share of {said.get('partial_rotary_factor', 1.0)}: such models are "
            "not read.",
            CONFIG,
        )
    settings = {ours: said.get(theirs) for ours, theirs in SCALED[kind].items()}
    settings["base"] = said["rope_theta"]
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise folder.refusal(
                f": 'rope_parameters' must give a number as {name}, got {value!r}.", CONFIG
            )
    return Choice("rotary", settings)


def layout_of(folder: Folder, spec: LlamaSpec) -> Layout:
    """Every tensor."""
    groups = spec.n_groups or spec.n_heads
    make = modules if spec.has_bias else weights
    forms: Mapping[str, tuple[str, Form]] = {
        "attention.W_Q": ("self_attn.q_proj", turning(spec.n_heads)),
        "attention.W_K": ("self_attn.k_proj", turning(groups)),
        "attention.W_V": ("self_attn.v_proj", same),
    }
    layer = dict(LAYER)
    for ours, (theirs, form) in forms.items():
        layer |= make({ours: theirs}, form)
    if spec.has_bias:
        # the four projections have biases together here; the last one's is 0 where it has none
        has_last = any(name.endswith("self_attn.o_proj.bias") for name in folder.tensor_names())
        name = "self_attn.o_proj.bias" if has_last else "input_layernorm.weight"
        layer["attention.W_O.bias"] = PublishedTensor(
            (name,), same if has_last else lambda found, rows: torch.zeros_like(found[0])
        )
    if spec.norms_heads:
        for name in ("query", "key"):
            layer[f"attention.{name}_norm.weight"] = PublishedTensor(
                (f"self_attn.{name[0]}_norm.weight",), turning(1)
            )
    pieces = (
        {"embedding.E.weight": by_piece_with_bias(PIECES)}
        if spec.is_tied
        else {"embedding.E.weight": by_piece(PIECES), "output.weight": by_piece_with_bias(OUTPUT)}
    )
    last = {"norm.0.gain": PublishedTensor(("norm.weight",), same)}
    layers = stacked("layers.{i}.", "layers.{i}.", layer, spec.n_layers)
    copies = {OUTPUT: PIECES} if spec.is_tied else {}
    return Layout({**pieces, **layers, **last}, LEFT_OUT, copies)


def sides(folder: Folder, numbers: Mapping[str, int], languages: Languages) -> TwoSides:
    """Begin and end are those that the configuration names."""
    refuse_languages(folder, languages)
    end = _special(folder, numbers, "eos")
    if end is None:
        raise folder.refusal(": 'eos_token_id' names no piece that ends a text.", CONFIG)
    side = Side(
        Roles(
            padding="<pad>" if "<pad>" in numbers else None,
            begin=_special(folder, numbers, "bos") or end,
            end=end,
            unknown="<unk>" if "<unk>" in numbers else None,
        )
    )
    return TwoSides(side, side)


def _special(folder: Folder, numbers: Mapping[str, int], name: str) -> str | None:
    """A special piece by what its tokenizer, or else its model, says."""
    said = _tokenizer_config(folder).get(f"{name}_token")
    piece = said.get("content") if isinstance(said, dict) else said
    if isinstance(piece, str) and piece in numbers:
        return piece
    number = folder.config.get(f"{name}_token_id")
    first = number[0] if isinstance(number, list) and number else number
    return next((piece for piece, own in numbers.items() if own == first), None)


def _begins(folder: Folder) -> bool:
    """Whether a begin piece stands before every text."""
    said = _tokenizer_config(folder).get("add_bos_token")
    if isinstance(said, bool):
        return said
    frame = (
        folder.json("tokenizer.json").get("post_processor")
        if folder.has("tokenizer.json")
        else None
    )
    for part in (frame or {}).get("processors", [frame]) if isinstance(frame, dict) else []:
        if isinstance(part, dict) and part.get("type") == "TemplateProcessing":
            first = (part.get("single") or [{}])[0]
            return "SpecialToken" in first
    return False


def _tokenizer_config(folder: Folder) -> Mapping[str, Any]:
    name = "tokenizer_config.json"
    return folder.json(name) if folder.has(name) else {}


def notes_on(folder: Folder) -> tuple[str, ...]:
    """How the positions are shared."""
    return ("half of its positions are for a prompt, and half for what it writes",)


LLAMA, QWEN2, QWEN3 = (
    Family(name, "model.", sides, spec_of, layout_of, GOES_ON, notes_on)
    for name in ("llama", "qwen2", "qwen3")
)
