"""Products: the attentions of a model that calls `F.scaled_dot_product_attention` itself.

    with scaled_dot_products(model) as calls: model(x)

A torch function mode of this thread hears every call while the model runs, and lets it run
unchanged. Only queries, keys, values and masks are kept; row numbers are computed when a map is
first read.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.overrides import TorchFunctionMode

from regard.attention import FULL, AttentionMap, Chain
from regard.attention.additive_masks import split_mask
from regard.attention.links import NO_RELATION
from regard.attention.masks import all_of
from regard.attention.patterns.causal import CausalPattern
from regard.bridge.layers import names_in_code
from regard.inspecting.lazy_map import LazyMap
from regard.inspecting.torch_attention import LISTENING, soft_map
from regard.places import Places

ARGUMENTS = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
"""Those of `scaled_dot_product_attention` that may come without a name."""


@final
@dataclass(frozen=True)
class ProductCall:
    """One call, and what it was given."""

    query: Float[Tensor, "b h q d"]
    key: Float[Tensor, "b g k d"]
    value: Float[Tensor, "b g k dv"]
    mask: Tensor | None
    is_causal: bool
    scale: float | None

    @property
    def is_self(self) -> bool:
        """Whether there are as many queries as keys, as where a sequence looks at itself."""
        return self.query.shape[-2] == self.key.shape[-2]

    def map(self, example: int) -> LazyMap:
        """The map of one sentence of the batch, computed when it is first read."""
        shape = (*self.query.shape[:-1], self.key.shape[-2])
        return LazyMap(partial(_rebuilt, self), shape, example)


@contextmanager
def scaled_dot_products(model: nn.Module) -> Iterator[dict[str, ProductCall]]:
    """Collect every call inside the block, by the place in the model of the module that makes it.

    Of a module that runs several times the last run is kept; its second call in one run has the
    place `….call2`. A model whose attentions are all chains or torch's own is not listened to: a
    mode would switch torch's fast path off.
    """
    heard: dict[str, ProductCall] = {}
    with ExitStack() as stack:
        if _may_call(model):
            stack.enter_context(_Listener(heard, stack.enter_context(_running(model))))
        yield heard


def _may_call(model: nn.Module) -> bool:
    """Whether a model has code of its own for attention, or none that is known otherwise."""
    known = [part for part in model.modules() if isinstance(part, Chain) or type(part) in LISTENING]
    return not known or any(
        names_in_code(kind, scaled_dot_product_attention.__name__)
        for kind in {type(part) for part in model.modules()}
    )


@dataclass
class _Run:
    """A module that is running, and how many calls it has made."""

    place: str
    n_calls: int = 0


@contextmanager
def _running(model: nn.Module) -> Iterator[list[_Run]]:
    """The model's modules that are running in this thread, the innermost last."""
    places = {id(part): place for place, part in model.named_modules()}
    thread, running = threading.get_ident(), list[_Run]()

    def enter(part: nn.Module, _: Any) -> None:
        if id(part) in places and threading.get_ident() == thread:
            running.append(_Run(places[id(part)]))

    def leave(part: nn.Module, *_: Any) -> None:
        if id(part) in places and threading.get_ident() == thread:
            running.pop()

    handles = (
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave, always_call=True),
    )
    try:
        yield running
    finally:
        for handle in handles:
            handle.remove()


class _Listener(TorchFunctionMode):
    """Hears the calls of this thread while a module of the model runs."""

    def __init__(self, heard: dict[str, ProductCall], running: list[_Run]) -> None:
        super().__init__()
        self.heard, self.running = heard, running

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        given = {**dict(zip(ARGUMENTS, args, strict=False)), **(kwargs or {})}
        if func is scaled_dot_product_attention and self.running:
            run = self.running[-1]
            run.n_calls += 1
            place = run.place if run.n_calls == 1 else f"{run.place}.call{run.n_calls}"
            self.heard.pop(place, None)
            self.heard[place] = _call(given)
        return func(*args, **(kwargs or {}))


def _call(given: Mapping[str, Any]) -> ProductCall:
    query, key, value = (_by_head(given[side].detach()) for side in ARGUMENTS[:3])
    mask = given.get("attn_mask")
    return ProductCall(
        query,
        key,
        value,
        None if mask is None else mask.detach(),
        bool(given.get("is_causal")),
        given.get("scale"),
    )


def _by_head(side: Tensor) -> Float[Tensor, "b h n d"]:
    """Four axes: further ones count as sentences, and a missing one is a single head."""
    while side.dim() < 4:
        side = side.unsqueeze(-3)
    return side.flatten(0, -4)


def _rebuilt(call: ProductCall) -> AttentionMap:
    """The map of one call."""
    query, n_heads = call.query, call.query.shape[1]
    key, value = (
        side.repeat_interleave(n_heads // side.shape[1], 1) for side in (call.key, call.value)
    )
    if call.scale is not None:
        query = query * (call.scale * query.shape[-1] ** 0.5)
    given = FULL if call.mask is None else call.mask
    places = Places.between(query.shape[-2], key.shape[-2], device=query.device)
    mask, relation = split_mask(given, NO_RELATION, places)
    # torch counts both sides from their first place
    mask = all_of(mask, CausalPattern()) if call.is_causal else mask
    return soft_map(query, key, value, mask, relation)
