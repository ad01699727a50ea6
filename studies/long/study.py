"""Long sequences: who sees how far, what it costs, and what it is good for.

    python -m studies.long.listops data/listops
    python -m studies.long.study cost    --text data/wikitext2 --out runs/long
    python -m studies.long.study text    --text data/wikitext2 --out runs/long --at-once 8
    python -m studies.long.study listops --listops data/listops --out runs/long --at-once 8

The systems are those of studies/long/systems.py. *cost* times a training step of each at each
length, alone on the device; *text* teaches language models on the same number of tokens in rows of
each length; *listops* asks for the values of long expressions. Results are added to
OUT/results.jsonl, a line for each cell as it ends; what is there is not done again.
studies/long/summary.py makes results.json of them, and docs/long.md says what was found.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from studies.long.systems import LENGTHS, SYSTEMS, TAUGHT, TIMED

Cell = tuple[str, int | None]
"""A system and the length of its rows, where that is the study's to say."""
ROOT = Path(__file__).parents[2]
STUDIES: Mapping[str, Sequence[Cell]] = {
    "cost": [(name, n) for name, one in SYSTEMS.items() for n in TIMED if n <= one.longest],
    # what takes longest comes first, so that the others fill up what is left
    "text": [(name, n) for n in reversed(LENGTHS) for name in TAUGHT],
    "listops": [(name, None) for name in TAUGHT],
}


def _cost(name: str, length: int | None, given: argparse.Namespace) -> dict[str, Any]:
    from studies.long.cells import cost

    assert length is not None
    return cost(name, length, given)


def _text(name: str, length: int | None, given: argparse.Namespace) -> dict[str, Any]:
    from studies.long.cells import text_cell

    assert length is not None
    return text_cell(name, length, given)


def _listops(name: str, length: int | None, given: argparse.Namespace) -> dict[str, Any]:
    from studies.long.cells import listops_cell

    return listops_cell(name, given)


WORK: Mapping[str, Callable[[str, int | None, argparse.Namespace], dict[str, Any]]] = {
    "cost": _cost,
    "text": _text,
    "listops": _listops,
}
"""The functions that compute a study's cells; imports are late, for processes that only wait."""


def pending(results: Path, study: str, wanted: Sequence[Cell]) -> list[Cell]:
    """The cells that no line of the results is about."""
    lines = results.read_text().splitlines() if results.exists() else []
    done = {(row["study"], row["system"], row["length"]) for row in map(json.loads, lines)}
    return [(name, length) for name, length in wanted if (study, name, length) not in done]


def batches(study: str, left: Sequence[Cell]) -> list[list[Cell]]:
    """What one process does: all lengths of a system that is timed, one cell that is taught."""
    if study != "cost":
        return [[cell] for cell in left]
    return [[cell for cell in left if cell[0] == name] for name in dict(left)]


def in_a_process(given: argparse.Namespace, work: Sequence[Cell]) -> Iterator[str]:
    """Lines of JSON as they come, and a word on standard error if it failed."""
    command = [sys.executable, "-m", "studies.long.study", given.study]
    for key in ("text", "listops", "out", "device", "until", "step_tokens"):
        value = getattr(given, key)
        command += [f"--{key.replace('_', '-')}", str(value)] if value is not None else []
    command += [word for change in given.set for word in ("--set", change)]
    command += [word for name, n in work for word in ("--do", f"{name}/{n or ''}")]
    quiet = {"OMP_NUM_THREADS": "1", **os.environ}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet, cwd=ROOT)
    assert child.stdout is not None
    yield from child.stdout
    if child.wait():
        print(f"long: {work} ended with {child.returncode}", file=sys.stderr, flush=True)


def gathered(given: argparse.Namespace, left: Sequence[Cell]) -> None:
    """Do what is left, several processes at once, and keep each line as it comes."""
    results, lock = given.out / "results.jsonl", Lock()

    def one(work: Sequence[Cell]) -> None:
        if is_late(given):
            return
        for line in in_a_process(given, work):
            with lock, results.open("a") as file:
                file.write(line)
            row = json.loads(line)
            print("long:", *(row[key] for key in ("study", "system", "length")), flush=True)

    with ThreadPoolExecutor(given.at_once) as pool:
        list(pool.map(one, batches(given.study, left)))


def is_late(given: argparse.Namespace) -> bool:
    """Whether nothing more should begin."""
    return given.until is not None and time.time() > given.until


def cell(text: str) -> Cell:
    """`full/512` or `full/`."""
    name, _, length = text.partition("/")
    return name, int(length) if length else None


def parsed(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--text", type=Path, default=Path("data/wikitext2"), help="A folder.")
    parser.add_argument("--listops", type=Path, default=Path("data/listops"), help="A folder.")
    parser.add_argument("--out", type=Path, required=True, help="A folder for the results.")
    parser.add_argument("--system", action="append", help="All unless given; repeatable.")
    parser.add_argument("--length", type=int, action="append", help="All unless given.")
    parser.add_argument("--set", action="append", default=[], help="Change a key for all.")
    parser.add_argument("--at-once", type=int, default=1, help="Processes side by side.")
    parser.add_argument("--step-tokens", type=int, default=65536, help="Of a step that is timed.")
    parser.add_argument("--until", type=float, help="Unix time after which nothing goes on.")
    parser.add_argument("--device", help="cpu or cuda; cuda where there is one.")
    parser.add_argument("--do", action="append", type=cell, help="SYSTEM/LENGTH, here and now.")
    return parser.parse_args(words)


def main() -> None:
    given = parsed()
    if given.do is not None:
        for name, length in given.do:
            if is_late(given):
                return
            print(json.dumps(WORK[given.study](name, length, given)), flush=True)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    wanted = [
        (name, length)
        for name, length in STUDIES[given.study]
        if name in (given.system or SYSTEMS)
        and (length is None or length in (given.length or TIMED))
    ]
    gathered(given, pending(given.out / "results.jsonl", given.study, wanted))


if __name__ == "__main__":
    main()
