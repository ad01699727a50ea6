"""Adapters: low-rank products beside the linear maps of a run, learned while its weights stay.

    W' = W + alpha / rank · B A

peft puts them into the model and computes them. A finished run keeps W' as its weights, so that
every verb works on it, and the adapters alone in a folder that peft reads.

Paper: Hu et al. 2021 (LoRA), section 4.1; B begins as zeros.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.data.atomic_writes import written_beside
from regard.errors import MissingExtra, SettingError
from regard.models import Model
from regard.recipes.training_recipe import LoraRecipe
from regard.training.checkpoints import write_tensors

FOLDER = "adapter"
"""Where a run keeps its adapters, as peft writes them."""
NAME = "default"
"""What peft calls the only adapters of a model."""
WHOLE = ".base_layer."
"""A part of the names of weights that have an adapter."""


def adapt(model: Model, lora: LoraRecipe) -> None:
    """Put adapters into a model, in place; all its other weights are frozen."""
    peft = _peft()
    known = sorted(
        {
            name.rpartition(".")[2]
            for name, part in model.named_modules()
            if type(part) is nn.Linear and part is not model.output
        }
    )
    if strange := [name for name in lora.modules if name not in known]:
        raise SettingError(
            f"training.lora.modules: the model has no '{strange[0]}'. Take some of "
            f"{', '.join(known)}."
        )
    peft.inject_adapter_in_model(_config(peft, lora), model, adapter_name=NAME)


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """A context in which adapted maps are plain ones with W' as their weight."""
    held: list[tuple[str, nn.Module, torch.Tensor]] = []
    for name, layer in list(model.named_modules()):
        if hasattr(layer, "base_layer"):
            plain: Any = layer.base_layer
            held.append((name, layer, plain.weight.data))
            with torch.no_grad():
                plain.weight.data = plain.weight + layer.get_delta_weight(NAME)
            model.set_submodule(name, plain)
    try:
        yield
    finally:
        for name, layer, weight in held:
            plain = layer.base_layer
            plain.weight.data = weight
            model.set_submodule(name, layer)


def write_adapters(run: Path, model: nn.Module, lora: LoraRecipe) -> None:
    """Write the adapters of a model into a run, in peft's layout."""
    peft = _peft()
    tensors = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in peft.get_peft_model_state_dict(model, adapter_name=NAME).items()
    }
    with written_beside(run / FOLDER) as partial:
        partial.mkdir(parents=True)
        write_tensors(partial / "adapter_model.safetensors", tensors)
        _config(peft, lora).save_pretrained(str(partial))


def _config(peft: Any, lora: LoraRecipe) -> Any:
    return peft.LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=[*lora.modules],
    )


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtra(
            "train: training.lora needs peft: pip install 'regard[peft]'."
        ) from error
    return peft
