"""What a kernel gives beside the dense chain, from the same numbers in double precision."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from regard.attention import Chain
from regard.attention.attend import Attended
from regard.attention.engine.case import Case
from regard.attention.masks import FULL
from regard.places import Places
from tests.assertions import assert_close, gradients

B, H, D = 2, 2, 16
"""Sentences, heads, and the width of a head, which the kernels for tiles take."""

NEAR = 2e-5
"""Single precision, in which kernels count at least."""


def drawn(n_queries: int, n_keys: int) -> dict[str, Tensor]:
    """Queries, keys and values in double precision."""
    sizes = {"query": n_queries, "key": n_keys, "value": n_keys}
    return {k: torch.randn(B, H, n, D, dtype=torch.float64) for k, n in sizes.items()}


def assert_kernel_is_dense(
    attend: Callable[[Case], Attended],
    links: dict[str, Any],
    n_queries: int,
    n_keys: int | None = None,
    *,
    past: int = 0,
    mask: Any = FULL,
    near: float = NEAR,
) -> None:
    """Equal contexts, maps and gradients by name, learned tables included."""
    exact = Chain(**deepcopy(links), path="dense").double()
    for parameter in exact.parameters():
        parameter.data.normal_(std=0.7)
    chain = deepcopy(exact).float()
    places = Places.between(n_queries, n_keys or n_queries, past=past)
    tensors = drawn(n_queries, n_keys or n_queries)
    wanted = {k: x.clone().requires_grad_() for k, x in tensors.items()}
    given = {k: x.float().requires_grad_() for k, x in tensors.items()}
    want = exact(*wanted.values(), mask, places)
    got = attend(chain._case(*given.values(), mask, places))
    assert_close("context", got.context.double(), want.context, atol=near)
    assert_close("map", got.map.dense().double(), want.map.dense(), atol=near)
    ours = gradients(got.context, {**given, **dict(chain.named_parameters())})
    theirs = gradients(want.context, {**wanted, **dict(exact.named_parameters())})
    for name, gradient in theirs.items():
        scale = max(1.0, float(gradient.abs().max()))
        ours_scaled = ours[name].double() / scale
        assert_close(f"gradient of {name}", ours_scaled, gradient / scale, atol=near)
