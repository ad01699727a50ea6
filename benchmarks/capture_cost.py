"""What capturing costs: a forward pass with a record against the same pass without one.

    python benchmarks/capture_cost.py [--length 1024] [--layers 6] [--repeats 9]

Our own Transformer (fused attention) and torch's `nn.TransformerEncoder` (its fast path), width
512, 8 heads, batch 1, float32. Passes with and without a record take turns; the best processor time
of each is compared, and the largest difference between the two outputs is printed beside it.
"""

import argparse
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.inspecting import capture
from regard.models import TransformerSpec, build_transformer


def seconds(work: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """Of processor time, which other processes on the machine do not change."""
    start = time.process_time()
    out = work()
    return time.process_time() - start, out


def compared(name: str, model: nn.Module, run: Callable[[], Tensor], repeats: int) -> float:
    plain, recorded, apart = [], [], 0.0
    for _ in range(repeats + 1):
        took, bare = seconds(run)
        plain.append(took)

        def with_record() -> Tensor:
            with capture(model):
                return run()

        took, out = seconds(with_record)
        recorded.append(took)
        apart = max(apart, float((out - bare).abs().max()))
    # the first pass warms up
    before, after = (min(times[1:]) for times in (plain, recorded))
    share = after / before - 1
    print(
        f"{name}: {1000 * before:.1f} ms without, {1000 * after:.1f} ms with a record: "
        f"{100 * share:+.1f} %; outputs differ by {apart:.1e}",
        flush=True,
    )
    return share


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=9)
    asked = parser.parse_args()
    torch.manual_seed(0)
    spec = TransformerSpec(
        d_model=512, n_heads=8, d_hidden=2048, n_encoder_layers=asked.layers, n_decoder_layers=1,
        max_len=max(asked.length, 64),
    )  # fmt: skip
    ours = build_transformer(spec, n_source_tokens=100, n_target_tokens=100).eval()
    tokens = torch.randint(5, 100, (1, asked.length))
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    theirs = nn.TransformerEncoder(layer, asked.layers, enable_nested_tensor=False).eval()
    x = torch.randn(1, asked.length, 512)
    with torch.inference_mode():
        compared("regard's Transformer", ours, lambda: ours.encode(tokens), asked.repeats)
        compared("nn.TransformerEncoder", theirs, lambda: theirs(x), asked.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
