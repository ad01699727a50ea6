"""Streamed blocks: outputs and gradients of blocks of queries, in memory reserved once.

What outlives a block is written into tensors that were there before it. Were it kept as the block
made it, it would lie between the memory of two blocks, and a C library's allocator would not take
the room of one for the next.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import get_device_states, set_device_states

from regard.attention.links import wide
from regard.errors import SettingError

RowNumbers = tuple[Tensor, ...]


class QueryBlock(NamedTuple):
    """Some queries, and the function from them, all keys and all values to their outputs."""

    rows: slice
    attend: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, RowNumbers]]
    """Gives their context, and their row numbers."""


class Probe(NamedTuple):
    """What the outputs of one row say of all rows."""

    learned: list[Tensor] | None
    """The leaves of a graph that get a gradient besides queries, keys and values; None if a row
    reads what was computed from such leaves before, as a mask's matrix may be: the graph of that
    can be walked through once, and not for each block."""
    numbers: type[RowNumbers]
    """The class of the row numbers."""

    @classmethod
    def of(cls, first: QueryBlock, query: Tensor, key: Tensor, value: Tensor) -> "Probe":
        """Attend for a block of one row, drawing no random number from the caller's."""
        wants = torch.is_grad_enabled()
        own, key, value = (
            x.detach().requires_grad_(wants) for x in (query[..., first.rows, :], key, value)
        )
        begun = own.sum().grad_fn
        with torch.random.fork_rng(get_device_states(query)[0]):
            context, rows = first.attend(own, key, value)
        if begun is None:
            return cls([], type(rows))
        leaves: dict[int, Tensor] = {}
        for node in _graph_of((context, *rows)):
            if hasattr(node, "variable"):
                leaves[id(node.variable)] = node.variable
            elif node._sequence_nr() < begun._sequence_nr():
                return cls(None, type(rows))
        ours = {id(own), id(key), id(value)}
        return cls([leaf for name, leaf in leaves.items() if name not in ours], type(rows))


def _graph_of(outputs: tuple[Tensor, ...]) -> list[Any]:
    """All nodes behind the outputs, in an order that the same graph always has."""
    nodes = list(dict.fromkeys(x.grad_fn for x in outputs if x.grad_fn is not None))
    seen = set(nodes)
    # the list grows while it is read
    for node in nodes:
        for behind, _ in node.next_functions:
            if behind is not None and behind not in seen:
                seen.add(behind)
                nodes.append(behind)
    return nodes


class AttendInBlocks(torch.autograd.Function):
    """The outputs of all blocks, differentiable in queries, keys, values and learned leaves."""

    @staticmethod
    def forward(
        ctx: Any,
        blocks: list[QueryBlock],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *learned: Tensor,
    ) -> tuple[Tensor, ...]:
        """Attend block by block."""
        ctx.blocks, ctx.circumstances = blocks, _Circumstances.of(query)
        ctx.save_for_backward(query, key, value, *learned)
        whole: list[Tensor] = []
        for rows, attend in blocks:
            context, numbers = attend(query[..., rows, :], key, value)
            if not whole:
                whole = [x.new_empty(*query.shape[:-1], x.shape[-1]) for x in (context, *numbers)]
            for out, part in zip(whole, (context, *numbers), strict=True):
                out[..., rows, :] = part
        ctx.mark_non_differentiable(*(x for x in whole if not x.is_floating_point()))
        return tuple(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Compute each block again as it was computed, and differentiate it."""
        query, key, value, *learned = ctx.saved_tensors
        inputs, is_read = (query, key, value, *learned), set()
        # sums over many blocks lose too much in half precision
        total = [torch.zeros_like(x, dtype=wide(x[:0]).dtype) for x in inputs]
        key, value = key.detach().requires_grad_(), value.detach().requires_grad_()
        with ctx.circumstances.again(), torch.enable_grad():
            for rows, attend in ctx.blocks:
                own = query[..., rows, :].detach().requires_grad_()
                leaves = (own, key, value, *learned)
                context, numbers = attend(own, key, value)
                outputs = zip((context, *numbers), grads, strict=True)
                # integers and numbers of no tensor with a gradient have none to give
                pairs = [(x, g[..., rows, :]) for x, g in outputs if x.requires_grad]
                found = torch.autograd.grad(
                    [x for x, _ in pairs], leaves, [g for _, g in pairs], allow_unused=True
                )
                parts = (total[0][..., rows, :], *total[1:])
                for number, (part, gradient) in enumerate(zip(parts, found, strict=True)):
                    if gradient is not None:
                        part += gradient
                        is_read.add(number)
        if lost := sum(number not in is_read for number in range(3, len(inputs))):
            raise SettingError(
                f"engine: {lost} of the {len(learned)} parameters of the forward pass are not "
                "those of the links now. Exchange a link's parameters after the backward pass, or "
                'set the chain\'s path = "dense".'
            )
        return (None, *(x.to(like.dtype) for x, like in zip(total, inputs, strict=True)))


@dataclass(frozen=True)
class _Circumstances:
    """The random numbers and the precision with which blocks were computed."""

    device: str
    state: Tensor
    device_states: tuple[list[int], list[Tensor]]
    dtype: torch.dtype | None
    """Autocast's precision, if that was on."""

    @classmethod
    def of(cls, query: Tensor) -> "_Circumstances":
        device = query.device.type
        is_cast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if is_cast else None
        return cls(device, torch.get_rng_state(), get_device_states(query), dtype)

    @contextmanager
    def again(self) -> Iterator[None]:
        """The same random numbers and precision once more."""
        devices, states = self.device_states
        with torch.random.fork_rng(devices):
            torch.set_rng_state(self.state)
            if devices:
                set_device_states(devices, states)
            with torch.autocast(self.device, dtype=self.dtype, enabled=self.dtype is not None):
                yield
