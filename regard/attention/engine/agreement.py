"""Agreement: compares a GPU's kernel with the dense chain on a small map, before its first use.

Kernels are compiled where they run, for a GPU and by a compiler that may be newer than our tests.
So each is tried once in a process for a device, a precision, widths and kinds of links. Where it
fails, or differs from the dense chain, another path runs, and `explain` gives the reason.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.attention.attend import Attended
from regard.attention.engine.case import Case
from regard.attention.engine.dense import DensePath
from regard.attention.links import wide
from regard.attention.masks import FULL
from regard.places import Places

T = TypeVar("T")

LIMIT, LIMIT_IN_HALF = 1e-3, 5e-2
"""Largest relative error of a context or gradient, in single and in half precision."""

NEARLY_ZERO = 0.1
"""The share of the largest gradient below which one may be nothing but rounding."""

_FOUND: dict[object, str | None] = {}
"""What was found for each kernel and kind of case."""


def disagreement(case: Case, attend: Callable[[Case], Attended], n: int) -> str | None:
    """The reason why a kernel may not run here, found once over `n` queries and keys; or None."""
    widths = (case.query.shape[1], *(x.shape[-1] for x in (case.query, case.key, case.value)))
    kinds = (type(case.score), type(case.relation), type(case.select))
    known_as = (attend, n, case.query.device, case.query.dtype, widths, kinds)
    if known_as in _FOUND:
        return _FOUND[known_as]
    if torch.compiler.is_compiling() or torch.cuda.is_current_stream_capturing():
        # nothing can be tried inside a graph; what leads to one ran the kernel before
        return None
    return _FOUND.setdefault(known_as, compare(case, attend, n))


def compare(case: Case, attend: Callable[[Case], Attended], n: int) -> str | None:
    """How a kernel fails or differs from the dense chain over `n` random queries and keys."""
    limit = LIMIT if case.query.dtype.itemsize > 2 else LIMIT_IN_HALF
    with torch.inference_mode(mode=False), torch.enable_grad():
        small = _small(case, n)
        try:
            got = _with_gradients(small, attend)
        except Exception as failure:
            first_line = str(failure).split("\n")[0]
            return f"its kernel fails on this device ({type(failure).__name__}: {first_line})"
        wanted = _with_gradients(_in_single(small), DensePath().run)
        least = NEARLY_ZERO * max(want.norm().item() for want in wanted.values())
        for name, want in wanted.items():
            error = (got[name].double() - want).norm().item()
            # NaN fails this comparison
            if not error <= limit * max(least, want.norm().item()):
                return f"its kernel differs from the dense chain on this device ({name})"
    return None


def _small(case: Case, n: int) -> Case:
    """The same links over random tensors, drawn apart from the caller's random numbers."""
    draws = torch.Generator(case.query.device).manual_seed(n)

    def drawn(like: Tensor) -> Tensor:
        shape = (1, like.shape[1], n, like.shape[-1])
        numbers = torch.randn(shape, generator=draws, device=like.device, dtype=torch.float32)
        return numbers.to(like.dtype).requires_grad_()

    return replace(
        case,
        query=drawn(case.query),
        key=drawn(case.key),
        value=drawn(case.value),
        mask=FULL,
        places=Places.between(n, n, device=case.query.device),
    )


def _in_single(case: Case) -> Case:
    """The same numbers in single precision at least, in which the dense chain is exact enough."""
    precision = wide(case.query[:0]).dtype

    def exact(link: T) -> T:
        return deepcopy(link).to(precision) if isinstance(link, nn.Module) else link

    return replace(
        case,
        query=case.query.detach().to(precision).requires_grad_(),
        key=case.key.detach().to(precision).requires_grad_(),
        value=case.value.detach().to(precision).requires_grad_(),
        score=exact(case.score),
        relation=exact(case.relation),
        select=exact(case.select),
    )


def _with_gradients(case: Case, attend: Callable[[Case], Attended]) -> dict[str, Tensor]:
    """The context, and its gradients for a fixed direction, by name."""
    inputs = {"query": case.query, "key": case.key, "value": case.value}
    for link in (case.score, case.relation, case.select):
        if isinstance(link, nn.Module):
            inputs |= {name: x for name, x in link.named_parameters() if x.requires_grad}
    context = attend(case).context
    direction = torch.linspace(-1, 1, context.numel(), device=context.device)
    found = torch.autograd.grad(
        context,
        list(inputs.values()),
        direction.view_as(context).to(context.dtype),
        materialize_grads=True,
    )
    gradients = {f"gradient of {k}": g for k, g in zip(inputs, found, strict=True)}
    return {"context": context} | gradients
