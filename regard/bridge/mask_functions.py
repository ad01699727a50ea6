"""Mask functions: the masks of transformers as patterns, which take no memory until they are read.

    mask_function(sentence, head, i, j) → True = may attend

transformers describes a mask by such functions, joined by "and" and "or". Those that it makes
itself (causal, sliding window, padding) become the patterns of the same meaning, so that a fast
path knows them; any other becomes a pattern that calls it.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Bool
from torch import Tensor
from torch.utils._pytree import tree_map_only

from regard.attention.links import Pattern
from regard.attention.masks import FULL, all_of, any_of, padding
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.places import Places

MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@final
class CalledPattern(Pattern):
    """The pairs for which a mask function is True.

    The function counts keys from the beginning of the text, of which the first `dropped` are not
    kept any more.
    """

    def __init__(self, function: MaskFunction, n_sentences: int, dropped: int = 0) -> None:
        self.function, self.n_sentences, self.dropped = function, n_sentences, dropped

    def visible(self, places: Places) -> Bool[Tensor, "*b #q #k"]:
        """The function's answers at these places."""
        query, key = places.query + self.dropped, places.key + self.dropped
        sentence = torch.arange(self.n_sentences, device=key.device).view(-1, 1, 1, 1)
        shape = torch.broadcast_shapes(sentence.shape, query.shape, key.shape)
        head = torch.zeros(1, 1, 1, 1, dtype=torch.int64, device=key.device)
        return self.function(sentence, head, query, key).expand(shape)


@final
class SymbolicMask(Tensor):
    """A boolean mask `b 1 q k` that is a pattern; an operation on it makes its numbers."""

    pattern: Pattern
    places: Places

    @staticmethod
    def __new__(
        cls: type["SymbolicMask"], pattern: Pattern, places: Places, n_sentences: int
    ) -> "SymbolicMask":
        """A tensor with a shape and without memory."""
        shape = (n_sentences, 1, places.n_queries, places.length)
        make: Any = Tensor._make_wrapper_subclass
        mask: SymbolicMask = make(cls, shape, dtype=torch.bool, device=places.device)
        mask.pattern, mask.places = pattern, places
        return mask

    def __repr__(self) -> str:  # type: ignore[override] # torch's takes tensor_contents too
        return f"SymbolicMask({type(self.pattern).__name__}, {tuple(self.shape)})"

    def numbers(self) -> Bool[Tensor, "b 1 q k"]:
        """The mask as an ordinary tensor."""
        visible = self.pattern.visible(self.places)
        return visible.reshape(*(1,) * (4 - visible.dim()), *visible.shape).expand(self.shape)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override] # torch declares a function, not a method
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Any operation works on the numbers."""
        args, named = tree_map_only(SymbolicMask, SymbolicMask.numbers, (args, kwargs or {}))
        return func(*args, **named)


def symbolic_mask(
    function: MaskFunction,
    valid: Bool[Tensor, "b n"] | None,
    *,
    n_sentences: int,
    places: Places,
    dropped: int = 0,
) -> SymbolicMask:
    """The mask of a function and of the keys that exist.

    `valid` counts from the beginning of the text; `dropped` keys are before the first place.
    """
    pattern = pattern_of(function, n_sentences, dropped)
    if valid is not None:
        valid = valid[:, dropped : dropped + places.length]
        valid = torch.nn.functional.pad(valid, (0, places.length - valid.shape[-1]))
        # kernels are quicker where no key is padding
        pattern = pattern if bool(valid.all()) else all_of(pattern, padding(valid))
    return SymbolicMask(pattern, places, n_sentences)


def pattern_of(function: MaskFunction, n_sentences: int, dropped: int = 0) -> Pattern:
    """The pattern of the same meaning."""
    if _name(function) == "or_masks":
        choices = _joined(function, "or_masks")
        return any_of(*(pattern_of(one, n_sentences, dropped) for one in choices))
    parts = _joined(function, "and_masks")
    if len(parts) > 1 and not any(_name(part) == "causal_mask_function" for part in parts):
        return all_of(*(pattern_of(part, n_sentences, dropped) for part in parts))
    called = partial(CalledPattern, n_sentences=n_sentences, dropped=dropped)
    return all_of(*(_known(part, called, is_causal=len(parts) > 1) for part in parts))


def _known(
    function: MaskFunction, called: Callable[[MaskFunction], Pattern], *, is_causal: bool
) -> Pattern:
    """The pattern of one function; a causal mask's window is one-sided, and alone no window."""
    name, closed = _name(function), _closed(function)
    if name == "bidirectional_mask_function":
        return FULL
    if name == "causal_mask_function":
        return CausalPattern()
    # a model that uses no window may still describe one of size 0
    if name == "sliding_window_overlay" and is_causal and closed["sliding_window"] > 0:
        return SlidingWindowPattern(size=closed["sliding_window"] - 1)
    if name == "sliding_window_bidirectional_overlay":
        return SlidingWindowPattern(size=closed["sliding_window"])
    return called(function)


def _joined(function: MaskFunction, name: str) -> Sequence[MaskFunction]:
    """The functions that a function joins, those inside joins of the same name included."""
    if _name(function) != name:
        return (function,)
    return [one for part in _closed(function)["mask_functions"] for one in _joined(part, name)]


def _name(function: MaskFunction) -> str | None:
    """The function of transformers that made this one, or is it."""
    if getattr(function, "__module__", None) != "transformers.masking_utils":
        return None
    return function.__qualname__.partition(".")[0]


def _closed(function: MaskFunction) -> dict[str, Any]:
    return dict(inspect.getclosurevars(function).nonlocals)
