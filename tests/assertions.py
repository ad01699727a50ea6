"""Assertions that name what differs. Everything here raises; nothing returns a verdict."""

import numpy as np
import torch
from torch import Tensor


def doubles(*shape: int, requires_grad: bool = False) -> Tensor:
    """Fresh float64 numbers."""
    return torch.randn(*shape, dtype=torch.float64, requires_grad=requires_grad)


def assert_close(name: str, got: Tensor, want: Tensor | np.ndarray, *, atol: float = 1e-10) -> None:
    """Equal shapes, finite, and equal numbers within `atol` (and as much relatively)."""
    want = torch.as_tensor(want, dtype=got.dtype)
    assert got.shape == want.shape, f"{name}: shape {tuple(got.shape)}, want {tuple(want.shape)}"
    assert torch.isfinite(got).all(), f"{name}: not finite"
    torch.testing.assert_close(
        got, want, atol=atol, rtol=atol, msg=lambda text: f"{name} differs: {text}"
    )


def gradients(output: Tensor, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The gradient of a fixed random projection of the output, by name."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output.dtype)
    found = torch.autograd.grad((output * weights).sum(), list(inputs.values()), allow_unused=True)
    return {
        name: torch.zeros_like(tensor) if grad is None else grad
        for (name, tensor), grad in zip(inputs.items(), found, strict=True)
    }


def assert_same_gradients(
    got: Tensor, want: Tensor, inputs: dict[str, Tensor], *, atol: float = 1e-10
) -> None:
    """Two outputs have the same gradient for every named input."""
    ours, theirs = gradients(got, inputs), gradients(want, inputs)
    for name in inputs:
        assert_close(f"gradient of {name}", ours[name], theirs[name], atol=atol)
