"""A document of 50,000 tokens: how fast its map can be looked at, and in how much memory.

    python benchmarks/long_map.py [--length 50000] [--layers 6] [--chains] [--record FILE]

A record of 6 layers × 8 heads of 64 is written to a file, queries and keys random and in half
precision, and looked at by a process of its own, which maps the file into memory: a leaf tile, the
first view of the whole map (sampled; rows used are printed), larger tiles, one summary. With
--chains also the chains themselves: the forward pass of full and windowed attention, and tiles.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from regard import Chain
from regard.attention import AttentionMap
from regard.attention.attend import SCALED_DOT, SOFT
from regard.attention.links import NO_RELATION, SoftRows
from regard.attention.masks import FULL
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.inspecting import Pyramid, load_record, save_record, summarise_map
from regard.inspecting.record import Attention, Record
from regard.inspecting.token_labels import Tokens
from regard.places import Places

HEADS, WIDTH = 8, 64


def milliseconds(work: Callable[[], object], repeats: int = 5) -> list[float]:
    """Each time, in order: the first one reads from the file."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - start))
    return times


def told(name: str, times: list[float]) -> None:
    print(f"  {name}: first {times[0]:.1f} ms, then at best {min(times[1:] or times):.1f} ms")


def memory() -> float:
    """The most that this process has held, in GiB."""
    if Path("/proc/self/status").exists():
        return memory_of("self")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)


def memory_of(process: int | str) -> float:
    """The most that a process has held, in GiB; what its parent held does not count."""
    status = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / (1 << 20)


def log_sums(query: Tensor, key: Tensor) -> Tensor:
    """The logarithm of each row's normaliser, a few rows at a time."""
    out = torch.empty(*query.shape[:-1], 1)
    for head in range(query.shape[1]):
        for rows in torch.arange(query.shape[-2]).split(512):
            scores = query[0, head, rows] @ key[0, head].T * query.shape[-1] ** -0.5
            out[0, head, rows] = scores.logsumexp(-1, keepdim=True)
    return out


def make(path: Path, n: int, n_layers: int, *, has_true_rows: bool) -> None:
    """Write a record; without true row numbers, those of scores that are normally distributed."""
    layers = []
    for _ in range(n_layers):
        query, key = torch.randn(1, HEADS, n, WIDTH), torch.randn(1, HEADS, n, WIDTH)
        # scores q·k/√d given q have variance |q|²/d, so that ln Σ exp is near ln n + |q|²/2d
        near = query.square().sum(-1, keepdim=True) / (2 * WIDTH) + torch.tensor(float(n)).log()
        rows = log_sums(query, key) if has_true_rows else near
        layers.append(
            AttentionMap(
                query=query.half(),
                key=key.half(),
                rows=SoftRows(rows),
                mask=FULL,
                places=Places.between(n, n),
                score=SCALED_DOT,
                relation=NO_RELATION,
                select=SOFT,
                precision=torch.float32,
            )
        )
    tokens = Tokens.numbered("token", n)
    one = Attention(tokens, tokens, tuple(layers), "query (source)", "key (source)", "soft", "full")
    save_record(Record("", "", {"encoder": one}), path)


def look(path: Path) -> None:
    start = time.perf_counter()
    record = load_record(path)
    layers = record.attention["encoder"].layers
    pyramid = Pyramid(layers[-1])
    n, last = pyramid.n_queries, pyramid.max_zoom
    print(
        f"{len(layers)} layers × {pyramid.n_heads} heads, {n:,} tokens, "
        f"{path.stat().st_size / 1e9:.2f} GB; read in {time.perf_counter() - start:.2f} s"
    )
    start = time.perf_counter()
    tile = pyramid.tile(3, 0, 0, 0)
    took = time.perf_counter() - start
    print(f"  first view of the whole map: {1000 * took:.0f} ms, {tile.rows_used} of "
          f"{pyramid.height(0)} queries a pixel, exact: {tile.is_exact}")  # fmt: skip
    middle = n // 512
    told("leaf tile of 256 × 256", milliseconds(lambda: pyramid.tile(5, last, middle, middle), 20))
    told("tile of 4,096 × 4,096, exact", milliseconds(lambda: pyramid.tile(5, last - 4, 1, 1), 3))
    told("tile of 8,192 × 8,192, sampled", milliseconds(lambda: pyramid.tile(5, last - 5, 1, 1), 3))
    told("the whole map again, sampled", milliseconds(lambda: pyramid.tile(5, 0, 0, 0), 3))
    for layer in layers:
        Pyramid(layer).tile(0, 0, 0, 0)
    start = time.perf_counter()
    found = summarise_map(layers[0], 0, every=64, count=20)
    print(f"  summary of {len(found.rows):,} rows: {time.perf_counter() - start:.1f} s")
    row = slice(n // 2, n // 2 + 4)
    total = layers[0].tile(row, slice(None))[0, 0].sum(-1)
    print(f"  rows sum to {float(total.min()):.4f} … {float(total.max()):.4f}")
    print(f"  peak resident memory of the process: {memory():.2f} GiB")


def chains(n: int) -> None:
    query, key, value = (torch.randn(1, HEADS, n, WIDTH) for _ in range(3))
    for name, chain in {
        "sliding_window": Chain(pattern=SlidingWindowPattern(size=256)),
        "full": Chain(),
    }.items():
        start = time.perf_counter()
        with torch.no_grad():
            attended = chain(query, key, value)
        print(f"{name}: forward at n = {n} took {time.perf_counter() - start:.1f} s", flush=True)
        whole, middle = attended.map, slice(n // 2, n // 2 + 256)
        told("tile of 256 × 256, all heads", milliseconds(partial(whole.tile, middle, middle)))
        few = slice(n // 2, n // 2 + 8)
        apart = (whole.tile(few, slice(None)) @ value - attended.context[..., few, :]).abs().max()
        print(f"  rebuilt weights @ value differ from the context by {apart:.1e}", flush=True)
    print(f"peak resident memory of the process: {memory():.2f} GiB")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=50_000)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--chains", action="store_true")
    parser.add_argument("--true-rows", action="store_true", help="true row numbers: minutes")
    parser.add_argument("--record", type=Path, help="look at this record only")
    asked = parser.parse_args()
    if asked.record is not None:
        look(asked.record)
        return 0
    if asked.chains:
        chains(asked.length)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "record.safetensors"
        make(path, asked.length, asked.layers, has_true_rows=asked.true_rows)
        print(f"peak while it was made: {memory():.2f} GiB", flush=True)
        subprocess.run([sys.executable, __file__, "--record", str(path)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
