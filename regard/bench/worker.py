"""A worker process with one contestant, which runs a few updates per request.

    python -m regard.bench.worker NAME CORPUS MODEL SIZE DEVICE

A number on standard input requests that many updates; a line of JSON on standard output holds their
number of target tokens, their seconds, the last loss, and the peak of memory:
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
"""The libraries that are loaded before memory is counted."""


def main(name: str, corpus: str, model: str, size: str, device: str) -> None:
    """Run the requested updates until an empty line."""
    # output of the libraries goes to standard error, so that it does not mix with the answers
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
