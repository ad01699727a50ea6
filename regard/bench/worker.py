"""One contestant in a process of its own, run a few updates at a time for whoever asks.

    python -m regard.bench.worker NAME CORPUS MODEL SIZE DEVICE

A number on standard input asks for that many updates; a line of JSON on standard output says how
many target tokens they held, what they took, the last loss, and how much memory was taken at most:
on the CPU how far resident memory has risen since the libraries were loaded, on a GPU what torch
has reserved. An empty line ends it.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path

from regard.bench.contestants import CONTESTANTS
from regard.bench.joeynmt_worker import METERS
from regard.bench.sizes import MODELS
from regard.data.corpus import Corpus
from regard.hardware.hardware import Hardware

LIBRARIES = {"marian": "transformers.models.marian.modeling_marian"}
"""What is loaded before memory is counted."""


def main(name: str, corpus: str, model: str, size: str, device: str) -> None:
    """Answer until there are no more questions."""
    # what the libraries print must not mix with what is said here
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if name in LIBRARIES:
        importlib.import_module(LIBRARIES[name])
    meter, hardware = METERS[device](), Hardware.chosen(device, None)
    given = Corpus.open(Path(corpus))
    contestant = CONTESTANTS[name](given, MODELS[model](**json.loads(size)), hardware)
    while asked := sys.stdin.readline().strip():
        start = time.perf_counter()
        done = [next(contestant.updates) for _ in range(int(asked))]
        meter.settle()
        said = {
            "tokens": sum(update.tokens for update in done),
            "seconds": time.perf_counter() - start,
            "loss": float(done[-1].loss),
            "peak_bytes": meter.peak_bytes,
            "parameters": contestant.parameters,
        }
        print(json.dumps(said), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
