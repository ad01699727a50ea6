"""What every contestant builds: sizes of a Transformer, and how it learns."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Size:
    """An encoder-decoder with as many layers on either side, ReLU, tied embeddings."""

    d_model: int
    n_heads: int
    d_hidden: int
    n_layers: int
    n_tokens: int
    """The output layer's rows; at least the vocabulary."""


SMALL = Size(d_model=256, n_heads=4, d_hidden=1024, n_layers=3, n_tokens=8000)
"""What is trained on the CPU."""

BASE = Size(d_model=512, n_heads=8, d_hidden=2048, n_layers=6, n_tokens=32768)
"""What is trained on a GPU: the Transformer paper's base."""

SIZES: Mapping[str, Size] = {"small": SMALL, "base": BASE}

DROPOUT, SMOOTHING, CLIP, RATE = 0.1, 0.1, 1.0, 3e-4
BATCH_TOKENS = 4096
"""Target tokens of a batch on the CPU, padding counted."""
SEED = 1
