"""Registers, spills and shared memory of attention's GPU kernels, compiled where no GPU is.

    make kernels && PYTHONPATH=.venv/triton python benchmarks/kernel_resources.py [KERNEL …]

Each kernel is compiled for Hopper with the sizes, strides and constants with which the engine calls
it; nothing runs. A kernel that spills, or takes so many registers that few programs share a
processor, is slow before it has met its data.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from regard import Chain, Dims
from regard.attention import all_of, padding, pair_network_kernel
from regard.attention.engine import (
    band_backward_kernel,
    band_kernel,
    related_backward_kernel,
    related_kernel,
    related_short_kernel,
    slope_kernel,
)
from regard.attention.engine.joined_on_gpu import attend_joined_on_gpu
from regard.attention.engine.sloped import attend_sloped
from regard.attention.engine.sparse_kernel import AttendInTiles
from regard.attention.engine.tiled_band import attend_over_tiles
from regard.attention.engine.tiles import Tiling
from regard.attention.masks import FULL
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.relations.bucketed import BucketedRelation
from regard.attention.relations.linear_bias import LinearBiasRelation
from regard.attention.relations.shaw import ShawRelation
from regard.places import Places

HOPPER = GPUTarget("cuda", 90, 32)
TYPES = {
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.uint8: "*u8",
    torch.bool: "*i1",
}
CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
DIMS = Dims(d_model=128, n_heads=2).head()

WANTED, SEEN = sys.argv[1:], set()


def compiled(kernel: Any, *args: Any, grid: Any = None, warmup: bool = False, **named: Any) -> None:
    """Compile a kernel as a call would, in place of the call."""
    name = f"{kernel.fn.__module__.rpartition('.')[2]}.{kernel.fn.__name__}"
    options = {key: named.pop(key) for key in ("num_warps", "num_stages") if key in named}
    given = {**dict(zip(kernel.arg_names, args, strict=False)), **named}
    signature, constants, divisible = {}, {}, {}
    for p in kernel.params:
        value, is_plain = given[p.name], not p.do_not_specialize
        is_constant = p.is_constexpr or (is_plain and type(value) is int and value == 1)
        if is_constant:
            constants[(p.num,)] = value
        signature[p.name] = "constexpr" if is_constant else _type(value)
        # what is a multiple of 16 lets numbers be read in groups
        is_multiple = type(value) is int and is_plain and value % 16 == 0
        if not is_constant and (isinstance(value, Tensor) or is_multiple):
            divisible[(p.num,)] = [["tt.divisibility", 16]]
    key = (name, tuple(signature.items()), tuple(constants.items()), tuple(options.items()))
    if key in SEEN or (WANTED and name.partition(".")[0] not in WANTED):
        return
    SEEN.add(key)
    made = triton.compile(ASTSource(kernel, signature, constants, divisible), HOPPER, options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(made.asm["cubin"])
        file.flush()
        command = [str(CUOBJDUMP), "-res-usage", file.name]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    registers, spilled = re.search(r"REG:(\d+) STACK:(\d+)", told).groups()
    shape = " ".join(f"{p.name}={constants[(p.num,)]}" for p in kernel.params if p.is_constexpr)
    print(
        f"{name}: {registers} registers, {spilled} bytes spilled, {made.metadata.shared} shared"
        f"   {shape} {options}",
        flush=True,
    )


def _type(value: Any) -> str:
    if isinstance(value, Tensor):
        return TYPES[value.dtype]
    return "fp32" if isinstance(value, float) else "i32"


def call(attend: Any, chain: Chain, n: int, mask: Any = FULL) -> None:
    """Call a path of the engine, forward and backward, with heads of 64 in bfloat16."""
    x = [torch.randn(1, 2, n, 64, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    chain = chain.bfloat16()
    context = attend(chain._case(*x, mask, None)).context
    torch.autograd.grad(context.sum(), [*x, *chain.parameters()], allow_unused=True)


def call_all() -> None:
    padded = all_of(CausalPattern(), padding(torch.tensor([297]), 300))
    for relation in (ShawRelation(DIMS), BucketedRelation(DIMS)):
        for n in (30, 60, 200):
            call(attend_over_tiles, Chain(relation=relation), n)
        call(attend_joined_on_gpu, Chain(relation=relation), 320)
        call(attend_joined_on_gpu, Chain(relation=relation), 300, padded)
    call(attend_sloped, Chain(relation=LinearBiasRelation(DIMS)), 320)
    call(attend_sloped, Chain(relation=LinearBiasRelation(DIMS)), 300, padded)
    x = [torch.randn(1, 2, 256, 64, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    window = SlidingWindowPattern(size=70)
    tiling = Tiling.of(window, Places.between(256, 256), 256, 256)
    torch.autograd.grad(AttendInTiles.apply(*x, tiling, 0.125)[0].sum(), x)
    rows, columns, v = (torch.randn(2, n, 64, dtype=torch.bfloat16) for n in (128, 256, 1))
    numbers = pair_network_kernel.numbers_of(rows, columns, v[:, 0], "tanh")
    pair_network_kernel.gradients_of(rows, columns, v[:, 0], numbers, "tanh")


if __name__ == "__main__":
    JITFunction.run = compiled
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
    }.items():
        library.impl(name, compute, "CPU")
    call_all()
