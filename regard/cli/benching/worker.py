"""One contestant in a process of its own, run a few updates at a time for whoever asks.

    python -m regard.cli.benching.worker NAME CORPUS SIZE

A number on standard input asks for that many updates; a line of JSON on standard output says how
many target tokens they held, what they took, the last loss, and how far resident memory has risen
since the libraries were loaded. An empty line ends it.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path

from regard.cli.benching.contestants import CONTESTANTS
from regard.cli.benching.sizes import Size
from regard.data.corpus import Corpus
from regard.training.measuring import resident

LIBRARIES = {"marian": "transformers.models.marian.modeling_marian"}
"""What is loaded before memory is counted."""


def main(name: str, corpus: str, size: str) -> None:
    """Answer until there are no more questions."""
    # what the libraries print must not mix with what is said here
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    if name in LIBRARIES:
        importlib.import_module(LIBRARIES[name])
    before = resident("VmRSS")
    updates = CONTESTANTS[name](Corpus.open(Path(corpus)), Size(**json.loads(size)))
    while asked := sys.stdin.readline().strip():
        start = time.perf_counter()
        done = [next(updates) for _ in range(int(asked))]
        said = {
            "tokens": sum(update.tokens for update in done),
            "seconds": time.perf_counter() - start,
            "loss": done[-1].loss,
            "peak_bytes": resident("VmHWM") - before,
        }
        print(json.dumps(said), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
