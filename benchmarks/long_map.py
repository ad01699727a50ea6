"""A map of 50,000 tokens: how long a tile takes, and how much memory the process needs.

    python benchmarks/long_map.py [--length 50000]

Batch 1, 8 heads of 64, float32. For full attention (fused) and a sliding window (sparse): the
forward pass, a tile of 256 × 256, a row, and for the window the statistics over the whole map.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from regard import Chain
from regard.attention.patterns.sliding_window import SlidingWindowPattern


def milliseconds(work: Callable[[], object], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return 1000 * min(times)


def look(name: str, chain: Chain, query: Tensor, key: Tensor, value: Tensor) -> None:
    n, start = query.shape[-2], time.perf_counter()
    with torch.no_grad():
        attended = chain(query, key, value)
    print(f"{name}: forward at n = {n} took {time.perf_counter() - start:.1f} s", flush=True)
    whole, middle = attended.map, slice(n // 2, n // 2 + 256)
    print(f"  tile of 256 x 256: {milliseconds(lambda: whole.tile(middle, middle)):.1f} ms")
    print(f"  row: {milliseconds(lambda: whole.row(n // 2)):.1f} ms")
    few = slice(n // 2, n // 2 + 8)
    apart = (whole.tile(few, slice(None)) @ value - attended.context[..., few, :]).abs().max()
    print(f"  rebuilt weights @ value differ from the context by {apart:.1e}", flush=True)
    if name == "sliding_window":
        for statistic in ("entropy", "received"):
            took = milliseconds(getattr(whole, statistic), repeats=1)
            print(f"  {statistic}: {took / 1000:.1f} s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=50_000)
    n = parser.parse_args().length
    query, key, value = (torch.randn(1, 8, n, 64) for _ in range(3))
    chains = {
        "sliding_window": Chain(pattern=SlidingWindowPattern(size=256)),
        "full": Chain(),
    }
    for name, chain in chains.items():
        look(name, chain, query, key, value)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    print(f"peak resident memory of the process: {peak:.2f} GiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
