"""Kernels for GPUs on a CPU: Triton's interpreter runs them, a program at a time.

Only `make kernels` collects these tests, in a process of its own: the interpreter is chosen when
Triton is imported, and our operators are given their kernels on the CPU for the whole process.
"""

import os
import zlib
from collections.abc import Iterator

import pytest
import torch


def pytest_addoption(parser: pytest.Parser) -> None:
    """A part of the tests, where time is short: the interpreter takes minutes for all."""
    parser.addoption("--every", type=int, default=1, help="Run about one in so many tests.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose by a hash of the name, which takes some of every kernel, size and mask."""
    every = config.getoption("--every")
    left = [one for one in items if zlib.crc32(one.nodeid.encode()) % every]
    items[:] = [one for one in items if not zlib.crc32(one.nodeid.encode()) % every]
    config.hook.pytest_deselected(items=left)


@pytest.fixture(scope="session", autouse=True)
def _interpreted() -> Iterator[None]:
    """Choose the interpreter, and let operators run their kernels on a CPU."""
    os.environ["TRITON_INTERPRET"] = "1"
    from regard.attention.engine import (
        band_backward_kernel,
        band_kernel,
        related_backward_kernel,
        related_kernel,
        related_short_kernel,
        short_kernel,
        slope_kernel,
        window_kernel,
    )

    library = torch.library.Library("regard", "FRAGMENT")
    for name, compute in {
        "band": band_kernel.attend_band,
        "turned_rows": band_kernel._turned,
        "band_to_queries": band_backward_kernel._for_queries,
        "band_to_keys": band_backward_kernel._for_keys,
        "related": related_kernel._attend,
        "related_backward": related_backward_kernel._differentiate,
        "related_tile": related_short_kernel._attend,
        "related_tile_backward": related_short_kernel._differentiate,
        "sloped": slope_kernel._attend,
        "sloped_backward": slope_kernel._differentiate,
        "tile": short_kernel._attend,
        "tile_backward": short_kernel._differentiate,
        "windows": window_kernel._attend,
        "windows_backward": window_kernel._differentiate,
    }.items():
        library.impl(name, compute, "CPU")
    yield
    library._destroy()
