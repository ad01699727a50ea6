"""The table of docs/exporting.md: every recipe, and the formats that can hold what it trains.

Each recipe's model is built with its own choices and small sizes, and handed to the exports
themselves: what they refuse, they refuse here, with the same reason.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import torch

from regard.errors import MissingExtra, NotPortable, SettingError
from regard.interop.ctranslate2.model_specs import model_spec
from regard.interop.exporting.as_marian import as_marian
from regard.interop.exporting.hub_models import hub_model
from regard.models import Model, Spec, build_model
from regard.models.portable import portable_model, tensor_functions
from regard.recipes import read_recipe
from regard.training.checkpoints import distinct_tensors

RECIPES = Path(__file__).parent.parent / "recipes"
N_TOKENS = 40
HEAD_WIDTH = 4
SMALL = {"max_len": 16, "n_layers": 2, "n_encoder_layers": 2, "n_decoder_layers": 2}


def small(spec: Spec) -> Spec:
    """The same choices with small sizes, where sizes are those of attention layers."""
    names = {each.name for each in fields(spec)}
    if not {"d_model", "n_heads", "d_hidden"} <= names:
        return spec
    width = HEAD_WIDTH * spec.n_heads
    sizes = {name: value for name, value in SMALL.items() if name in names}
    return replace(spec, **sizes, d_model=width, d_hidden=width)


def built(spec: Spec) -> Model:
    """The model of a spec, with random weights in every tensor."""
    torch.manual_seed(1)
    model = build_model(spec, n_source_tokens=N_TOKENS, n_target_tokens=N_TOKENS)
    with torch.no_grad():
        for weight in model.parameters():
            # numbers that begin as zeros do not stay so in training
            weight.add_(0.1 * torch.randn_like(weight))
    return model


def to_ctranslate2(spec: Spec, model: Model) -> str:
    found = portable_model(model, spec)
    model_spec(found)
    return (
        "Encoder"
        if found.decoder is None
        else "Generator"
        if found.encoder is None
        else "Translator"
    )


def to_huggingface(spec: Spec, model: Model) -> str:
    found = portable_model(model, spec)
    if found.encoder and found.decoder and not found.decoder.layers[0].is_pre_norm:
        as_marian(spec, distinct_tensors(model))
        return "Marian"
    return str(hub_model(found).config["architectures"][0])


def to_onnx(spec: Spec, model: Model) -> str:
    tensor_functions(model)
    return "2 graphs"


TARGETS: dict[str, Callable[[Spec, Model], str]] = {
    "CTranslate2": to_ctranslate2,
    "Hugging Face": to_huggingface,
    "ONNX": to_onnx,
}


def exports_of(path: Path) -> list[str]:
    """What each target makes of a recipe, and behind it the reasons of those that cannot."""
    spec = read_recipe(path).model
    cells, reasons = [], dict[str, str]()
    try:
        model = built(small(spec))
    except MissingExtra:
        # captioners alone need other packages, and no target holds one
        reason = "a model of kind Captioner is no Transformer"
        return [f"`{path.stem}`", *("-" for _ in TARGETS), f"CTranslate2: {reason}"]
    for name, make in TARGETS.items():
        try:
            cells.append(make(small(spec), model))
        except (NotPortable, SettingError) as refused:
            cells.append("-")
            reasons.setdefault(_short(str(refused)), name)
    said = "; ".join(f"{name}: {reason}" for reason, name in reasons.items())
    return [f"`{path.stem}`", *cells, said]


def _short(reason: str) -> str:
    """The reason without what to take instead."""
    first = reason.removeprefix("export: ").split("; take ")[0].split("; leave ")[0]
    return first.removesuffix(".").split(". Such models")[0].split(", which ")[0]


def export_table() -> str:
    """The table, and how many recipes can go somewhere."""
    rows = [exports_of(path) for path in sorted(RECIPES.glob("*.toml"))]
    able = sum(row[1:-1] != ["-"] * len(TARGETS) for row in rows)
    lines = [
        f"{able} of {len(rows)} recipes can be exported to at least one of these.",
        "",
        f"| recipe | {' | '.join(TARGETS)} | why not |",
        f"|---|{'---|' * len(TARGETS)}---|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(export_table())
