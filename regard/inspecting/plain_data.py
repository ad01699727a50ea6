"""Links as plain data: what a map needs to rebuild its weights, without a line of code in a file.

A link is its name in the tables below, its plain settings and its tensors. Reading one makes an
object of a class that stands here and gives it these; a file can name nothing else.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.links import NoRelation, SoftRows
from regard.attention.masks import AllOf, AnyOf, Given, Padding
from regard.attention.memories.memory_compressed import CompleteSlots, HoldingSlots
from regard.attention.patterns.big_bird import NeighbourBlocks
from regard.attention.scores.additive import ACTIVATIONS
from regard.attention.selections.hard import HardRows
from regard.attention.selections.local_monotonic import LocalRows
from regard.attention.selections.sparsemax import SparseRows
from regard.attention.selections.top_k import TopRows
from regard.attention.tables import PATTERNS, RELATIONS, SCORES, SELECTIONS
from regard.errors import DataError, SettingError
from regard.inspecting.foreign import GivenBias
from regard.models.language.token_maps import Shared, SlotsOfTokens
from regard.models.recurrent.attention import Covered
from regard.places import Counted, Places, Tree

CLASSES: Mapping[str, type] = {
    one.__name__: one
    for one in (
        *(part for table in (SCORES, RELATIONS, PATTERNS, SELECTIONS) for part in table.values()),
        *(AllOf, AnyOf, Given, Padding, CompleteSlots, HoldingSlots, NeighbourBlocks),
        *(NoRelation, GivenBias, Covered, SlotsOfTokens, Shared),
        *(Counted, Places, Tree),
        *(SoftRows, HardRows, LocalRows, SparseRows, TopRows),
    )
    if isinstance(one, type)
}
"""Everything that a file may name."""

FUNCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {**ACTIVATIONS}
"""Functions that a link may hold, by name."""

PLAIN = (type(None), bool, int, float, str)


class Tensors:
    """Tensors by name, each kept once."""

    def __init__(self) -> None:
        self.named: dict[str, Tensor] = {}
        self._names: dict[tuple[object, ...], str] = {}

    def keep(self, tensor: Tensor) -> str:
        """The name under which it is kept."""
        known = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if known not in self._names:
            self._names[known] = f"t{len(self.named)}"
            self.named[self._names[known]] = tensor
        return self._names[known]


def written(one: Any, tensors: Tensors) -> Any:
    """An object as plain data; tensors are kept beside it.

    Args:
        one: a link, a mask, places, row numbers, or plain data.
        tensors: where tensors go.
    """
    if isinstance(one, float) and not math.isfinite(one):
        return {"number": str(one)}
    if isinstance(one, PLAIN):
        return one
    if isinstance(one, Tensor):
        return {"tensor": tensors.keep(one.detach())}
    name = next((name for name, function in FUNCTIONS.items() if function is one), None)
    if name is not None:
        return {"function": name}
    if CLASSES.get(type(one).__name__) is type(one):
        fields = {key: written(value, tensors) for key, value in _fields(one)}
        return {"class": type(one).__name__, "fields": fields}
    if type(one) in (tuple, list):
        return {"tuple": [written(part, tensors) for part in one]}
    raise SettingError(
        f"record: a {type(one).__name__} cannot be written as plain data. Save the weights "
        "themselves, or build the model from the links that regard list names."
    )


def read(data: Any, tensor: Callable[[str], Tensor]) -> Any:
    """The object that plain data stands for.

    Args:
        data: what `written` gave.
        tensor: finds a tensor by its name.
    """
    if not isinstance(data, dict):
        return data
    kind, content = next(iter(data.items()), ("", None))
    if kind not in READING:
        raise DataError(f"record: expected a number, a text or a known part, got '{kind}'.")
    return READING[kind](data, content, tensor)


def _read_class(data: Any, name: Any, tensor: Callable[[str], Tensor]) -> Any:
    if name not in CLASSES or not isinstance(data.get("fields"), dict):
        raise DataError(f"record: there is no part '{name}'; the file is damaged or newer.")
    fields = {key: read(value, tensor) for key, value in data["fields"].items()}
    made = CLASSES[name]
    if issubclass(made, tuple):
        return made(**fields)
    one = made.__new__(made)
    if isinstance(one, nn.Module):
        nn.Module.__init__(one)
    for key, value in fields.items():
        if key.startswith("__"):
            raise DataError(f"record: '{name}' has no '{key}'; the file is damaged.")
        is_parameter = isinstance(one, nn.Module) and isinstance(value, Tensor)
        kept = nn.Parameter(value, requires_grad=False) if is_parameter else value
        setter = setattr if isinstance(one, nn.Module) else object.__setattr__
        setter(one, key, kept)
    return one


def _read_function(data: Any, name: Any, tensor: Callable[[str], Tensor]) -> Any:
    if name not in FUNCTIONS:
        raise DataError(f"record: there is no function '{name}'; the file is damaged or newer.")
    return FUNCTIONS[name]


READING: Mapping[str, Callable[[Any, Any, Callable[[str], Tensor]], Any]] = {
    "class": _read_class,
    "function": _read_function,
    "tensor": lambda data, name, tensor: tensor(str(name)),
    "number": lambda data, text, tensor: float(text),
    "tuple": lambda data, parts, tensor: tuple(read(part, tensor) for part in parts),
}


def _fields(one: Any) -> Iterator[tuple[str, Any]]:
    """What an object holds, by name."""
    if isinstance(one, tuple):
        yield from one._asdict().items()  # type: ignore[attr-defined] # named
    elif isinstance(one, nn.Module):
        own = set(nn.Module().__dict__)
        yield from ((key, value) for key, value in vars(one).items() if key not in own)
        yield from one.named_parameters(recurse=False)
        yield from one.named_buffers(recurse=False)
        yield from one.named_children()
        yield "training", one.training
        for key, value in one._parameters.items():
            if value is None:
                yield key, None
    else:
        # a device is where things are now, not what they are
        yield from (
            (key, None if isinstance(value, torch.device) else value)
            for key, value in vars(one).items()
        )
