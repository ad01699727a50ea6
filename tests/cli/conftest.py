"""What several tests of the benches need: a folder that looks like Multi30k, and its corpus."""

import gzip

import numpy as np
import pytest

from regard.bench.sentences import english_german


@pytest.fixture
def folder(tmp_path):
    draws = np.random.default_rng(5)
    for name in ("train.en.gz", "train.de.gz"):
        lines = [" ".join(draws.choice(["a", "dog", "sees", "two"], size=7)) for _ in range(40)]
        (tmp_path / name).write_bytes(gzip.compress("\n".join(lines).encode() + b"\n"))
    return tmp_path


@pytest.fixture
def corpus(folder, tmp_path):
    return english_german(folder, tmp_path / "corpus", size=300)
