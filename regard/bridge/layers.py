"""Layers: the attentions of a transformers model, each with its kind and its number.

An attention is a module whose code fetches its function from transformers' table. What looks from
one sequence at another is told by what the model itself records as cross-attention.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from regard.errors import SettingError

TABLE = "ALL_ATTENTION_FUNCTIONS"
"""The name of transformers' table in the code of its models."""


class Layer(NamedTuple):
    """One attention of a model."""

    path: str
    """Where it is in the model, such as "encoder.layer.0.attention.self"."""
    kind: str
    """encoder, decoder or cross; its path without numbers where a model has several of a kind."""
    number: int
    """Counted from 0 in its kind."""
    part: nn.Module

    @property
    def is_causal(self) -> bool:
        """Whether it reads only what came before."""
        return bool(getattr(self.part, "is_causal", False))


def layers_of(model: nn.Module) -> tuple[Layer, ...]:
    """Every attention that goes through transformers' table, in the order of the model."""
    kinds_of_parts = {type(part) for part in model.modules()}
    # a whole model is no layer: its base class reads the table to check names
    calling = {
        kind
        for kind in kinds_of_parts
        if not hasattr(kind, "set_attn_implementation") and names_in_code(kind, TABLE)
    }
    found = [(path, part) for path, part in model.named_modules() if type(part) in calling]
    crossing = _crossing(model)
    kinds = {path: _kind(path, part, crossing) for path, part in found}
    places = {path: without_numbers(path) for path, _ in found}
    apart = {
        kind
        for kind in kinds.values()
        if len({places[path] for path, one in kinds.items() if one == kind}) > 1
    }
    layers: list[Layer] = []
    for path, part in found:
        kind = places[path] if kinds[path] in apart else kinds[path]
        number = sum(layer.kind == kind for layer in layers)
        layers.append(Layer(path, kind, number, part))
    return tuple(layers)


def check_is_model(who: str, given: object) -> None:
    """Refuse what is no model: the name of one, its class, or a run."""
    if isinstance(given, nn.Module):
        return
    if isinstance(given, type):
        got, remedy = f"the class {given.__name__}", "Make one of it"
    elif isinstance(given, str):
        got, remedy = f"the text '{given[:40]}'", f"Write AutoModel.from_pretrained('{given[:40]}')"
    else:
        got, remedy = f"an object of {type(given).__name__}", "A run of ours has it as run.model"
    raise SettingError(f"{who}: expected a model (a torch module), got {got}. {remedy}.")


def check_heard(model: nn.Module, layers: Sequence[Layer]) -> None:
    """Refuse a model of which some attention is computed past transformers' table.

    A part that is told apart by its name alone, such as a linear attention, may stay where the
    model is made for boolean masks, as for torch's own function.
    """
    deaf = {type(part).__name__ for part in model.modules() if not _can_switch(type(part))}
    if not deaf and layers:
        strict = (one for one in published(model) if not getattr(one, "_supports_sdpa", False))
        deaf = {name for one in strict for name in by_hand(one, layers)}
    if deaf or not layers:
        names = ", ".join(sorted(deaf)) or type(model).__name__
        raise SettingError(
            f"bridge: {names} computes its attention by itself and not through transformers' "
            "AttentionInterface, so no other attention can take its place. Import its weights "
            "(regard import says which families it reads), and use the run; or "
            "take an architecture of the interface, such as BERT, Llama, T5, BART or ViT."
        )


def published(model: nn.Module) -> tuple[nn.Module, ...]:
    """The models of transformers in a model: itself, or the outermost ones among its parts."""
    if hasattr(model, "set_attn_implementation"):
        return (model,)
    return tuple(one for part in model.children() for one in published(part))


def by_hand(model: nn.Module, layers: Sequence[Layer]) -> tuple[str, ...]:
    """The classes of parts that are called attention, and which no listener hears."""
    own = {id(layer.part) for layer in layers}
    heard = {id(part) for layer in layers for part in layer.part.modules()}
    names = (
        type(part).__name__
        for part in model.modules()
        if "Attention" in type(part).__name__
        and id(part) not in heard
        and not any(id(inner) in own for inner in part.modules())
        and not isinstance(part, nn.MultiheadAttention)
        and not names_in_code(type(part), scaled_dot_product_attention.__name__)
    )
    return tuple(dict.fromkeys(names))


def without_numbers(path: str) -> str:
    """A place in a model without the numbers of layers."""
    return ".".join(part for part in path.split(".") if not part.isdigit()) or "self"


def _kind(path: str, part: nn.Module, crossing: frozenset[str]) -> str:
    if path in crossing:
        return "cross"
    return "decoder" if getattr(part, "is_causal", False) else "encoder"


def names_in_code(kind: type, name: str) -> bool:
    """Whether the code of a class mentions a name."""
    return any(
        name in inspect.unwrap(function).__code__.co_names
        for _, function in inspect.getmembers(kind, inspect.isfunction)
    )


def _can_switch(kind: type[nn.Module]) -> bool:
    """Whether a class is no model of transformers, or one whose attention can be switched."""
    ask: Any = getattr(kind, "_can_set_attn_implementation", None)
    return ask is None or bool(ask())


def _crossing(model: nn.Module) -> frozenset[str]:
    """The places of what the models inside record as cross-attention, and of all parts of it."""
    paths: set[str] = set()
    for place, part in model.named_modules():
        recorded: Mapping[str, Any] = getattr(part, "_can_record_outputs", None) or {}
        for recorder in _as_list(recorded.get("cross_attentions")):
            for path, inner in part.named_modules(prefix=place):
                if _records(recorder, path, inner):
                    paths.update(name for name, _ in inner.named_modules(prefix=path))
    return frozenset(paths)


def _as_list(recorders: Any) -> Iterator[Any]:
    if recorders is not None:
        yield from recorders if isinstance(recorders, list | tuple) else (recorders,)


def _records(recorder: Any, path: str, part: nn.Module) -> bool:
    """Whether one of transformers' recorders, or a bare class, means this part."""
    target = getattr(recorder, "target_class", recorder)
    name = getattr(recorder, "layer_name", None)
    if not (isinstance(target, type) and isinstance(part, target)):
        return False
    return name is None or f".{name.strip('.')}." in f".{path}."
