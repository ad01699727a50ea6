"""Links as plain data, from which a map rebuilds its weights; a file holds no code.

A link is its name in the tables below, its plain settings and its tensors. Reading one makes an
object of a class in these tables and gives it those; a file cannot name any other class.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.additive_masks import AdditiveMask, SumOfRelations
from regard.attention.links import LocalRows, NoRelation, SoftRows
from regard.attention.masks import AllOf, AnyOf, Given, Padding
from regard.attention.memories.memory_compressed import CompleteSlots, HoldingSlots
from regard.attention.pair_network import ACTIVATIONS
from regard.attention.patterns.big_bird import NeighbourBlocks
from regard.attention.selections.hard import HardRows
from regard.attention.selections.sparsemax import SparseRows
from regard.attention.selections.top_k import TopRows
from regard.attention.sinks import SinkSelection
from regard.attention.soft_cap import SoftCappedScore
from regard.attention.tables import PATTERNS, RELATIONS, SCORES, SELECTIONS
from regard.attention.widths import Widths
from regard.errors import DataError, SettingError
from regard.inspecting.torch_attention import GivenBias
from regard.models.language.token_maps import Shared, SlotsOfTokens
from regard.models.recurrent.attention import Covered
from regard.places import Counted, Places, Tree

CLASSES: Mapping[str, type] = {
    one.__name__: one
    for one in (
        *(part for table in (SCORES, RELATIONS, PATTERNS, SELECTIONS) for part in table.values()),
        *(AllOf, AnyOf, Given, Padding, CompleteSlots, HoldingSlots, NeighbourBlocks),
        *(NoRelation, AdditiveMask, SumOfRelations, GivenBias, Covered, SlotsOfTokens, Shared),
        *(SoftCappedScore, SinkSelection),
        *(Counted, Places, Tree, Widths),
        *(SoftRows, HardRows, LocalRows, SparseRows, TopRows),
    )
    if isinstance(one, type)
}
"""Everything that a file may name."""

PLAIN = (type(None), bool, int, float, str)


class Tensors:
    """Tensors by name, each kept once."""

    def __init__(self) -> None:
        self.named: dict[str, Tensor] = {}
        self._names: dict[tuple[object, ...], str] = {}

    def keep(self, tensor: Tensor) -> str:
        """Keep a tensor, and give back the name under which it is kept."""
        known = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if known not in self._names:
            self._names[known] = f"t{len(self.named)}"
            self.named[self._names[known]] = tensor
        return self._names[known]


def as_plain(one: Any, tensors: Tensors) -> Any:
    """A link, a mask, places or row numbers as plain data; tensors are kept beside it."""
    if isinstance(one, float) and not math.isfinite(one):
        return {"number": str(one)}
    if isinstance(one, PLAIN):
        return one
    if isinstance(one, Tensor):
        return {"tensor": tensors.keep(one.detach())}
    name = next((name for name, function in ACTIVATIONS.items() if function is one), None)
    if name is not None:
        return {"function": name}
    if CLASSES.get(type(one).__name__) is type(one):
        fields = {key: as_plain(value, tensors) for key, value in _fields(one)}
        return {"class": type(one).__name__, "fields": fields}
    if type(one) in (tuple, list):
        return {"tuple": [as_plain(part, tensors) for part in one]}
    raise SettingError(
        f"record: a {type(one).__name__} cannot be written as plain data. Save the weights "
        "themselves, or build the model from the links that regard list names."
    )


def from_plain(data: Any, tensor: Callable[[str], Tensor]) -> Any:
    """The object of which `as_plain` gave the plain data; `tensor` finds a tensor by its name."""
    if not isinstance(data, dict):
        return data
    kind, content = next(iter(data.items()), ("", ""))
    if kind == "class":
        return _read_class(content, data.get("fields"), tensor)
    if kind == "function":
        if content not in ACTIVATIONS:
            raise DataError(
                f"record: there is no function '{content}'; the file is damaged or newer."
            )
        return ACTIVATIONS[content]
    if kind == "tensor":
        return tensor(str(content))
    if kind == "number":
        return float(content)
    if kind == "tuple":
        return tuple(from_plain(part, tensor) for part in content)
    raise DataError(f"record: expected a number, a text or a known part, got '{kind}'.")


def _read_class(name: Any, data: Any, tensor: Callable[[str], Tensor]) -> Any:
    if name not in CLASSES or not isinstance(data, dict):
        raise DataError(f"record: there is no part '{name}'; the file is damaged or newer.")
    fields = {key: from_plain(value, tensor) for key, value in data.items()}
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


def _fields(one: Any) -> Iterator[tuple[str, Any]]:
    """The fields of an object, by name."""
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
        # the device may be another one when the file is read
        yield from (
            (key, None if isinstance(value, torch.device) else value)
            for key, value in vars(one).items()
        )
