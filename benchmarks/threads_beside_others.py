"""How far `regard train` is from the best number of threads: alone, beside others, in a quota.

    python benchmarks/threads_beside_others.py --data FOLDER --steps 200 recipes/copy.toml demo

Each recipe is trained by the command line with every number of threads and as it chooses itself, in
turns, and the demo by its name. FOLDER holds `data/`, where recipes look for their files. Compared
are the median seconds of an update in `metrics.jsonl`, summed over the updates, and the wall time
of the process. Quotas need root and control groups; where they cannot be made, that part is left
out and the table says so. Exit 1 if a choice takes more than 1.5 times as long as the best number.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

LIMIT = 1.5
BUSY = "while True: pass"
PERIOD_US = 100_000
GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Place:
    """Where a training runs: beside so many busy processes, in a quota of so many cores."""

    name: str
    n_busy: int = 0
    quota: float | None = None


PLACES = (Place("alone"), Place("beside 2 busy", n_busy=2), Place("half a core", quota=0.5),
          Place("1.5 cores", quota=1.5))  # fmt: skip


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that never rest."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextmanager
def quota_group(cores: float) -> Iterator[Path]:
    """A control group with a quota, of version 1 or 2; an OSError where none can be made."""
    old = (GROUPS / "cpu" / "cpu.cfs_quota_us").exists()
    folder = GROUPS / ("cpu" if old else "") / f"regard-threads-{os.getpid()}"
    folder.mkdir()
    try:
        limit = int(cores * PERIOD_US)
        if old:
            (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (folder / "cpu.cfs_quota_us").write_text(str(limit))
        else:
            (folder / "cpu.max").write_text(f"{limit} {PERIOD_US}")
        yield folder
    finally:
        folder.rmdir()


def run(words: Sequence[str], out: Path, group: Path | None, folder: Path) -> tuple[float, float]:
    """Seconds of the updates and of the whole process; the shell joins the group first."""
    join = "" if group is None else f"echo $$ > {group}/cgroup.procs && "
    command = [sys.executable, "-m", "regard", *words, "--out", str(out)]
    environment = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    begun = time.perf_counter()
    subprocess.run(
        ["sh", "-c", f'{join}exec "$@"', "sh", *command],
        cwd=folder, check=True, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wall = time.perf_counter() - begun
    rows = map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
    return sum(row["seconds"] for row in rows if "train_loss" in row), wall


def verb(recipe: str, steps: int, counts: str | None, settings: Sequence[str]) -> list[str]:
    """The words behind `regard` that train a recipe, or the demo, on a number of threads."""
    words = (
        ["demo"] if recipe == "demo" else ["train", str(Path(recipe).resolve()), "--device", "cpu"]
    )
    words += ["--set", f"training.steps={steps}"]
    words += [word for one in settings if recipe != "demo" for word in ("--set", one)]
    return words if counts is None else [*words, "--threads", counts]


def main() -> None:
    """Print a table, and exit 1 if a choice is too far from the best."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", default=["recipes/copy.toml", "demo"])
    parser.add_argument("--data", type=Path, default=Path(), help="The folder that holds data/.")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--threads", default="1,2", help="The fixed numbers, separated by commas.")
    parser.add_argument("--only", help="Only the place of this name.")
    given = parser.parse_args()
    # so that the busy processes end with this one
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    fixed, is_far = given.threads.split(","), False
    places = [place for place in PLACES if given.only in (None, place.name)]
    print(f"{'place':<16}{'recipe':<26}{'threads':>8}{'updates s':>11}{'wall s':>9}{'ratio':>7}")
    for place in places:
        with ExitStack() as held:
            try:
                group = None if place.quota is None else held.enter_context(
                    quota_group(place.quota))  # fmt: skip
            except OSError as error:
                print(f"{place.name:<16}left out: no quota can be made here ({error})")
                continue
            held.enter_context(busy(place.n_busy))
            for recipe in given.recipes:
                took: dict[str | None, tuple[float, float]] = {}
                for count in [*fixed, None]:
                    with tempfile.TemporaryDirectory() as name:
                        out = Path(name) / "run"
                        words = verb(recipe, given.steps, count, given.settings)
                        took[count] = run(words, out, group, given.data)
                        chosen = json.loads((out / "environment.json").read_text())["threads"]
                        shutil.rmtree(out)
                best = min(took[count][1] for count in fixed)
                for count, (updates, wall) in took.items():
                    told = count or f"own: {chosen}"
                    print(f"{place.name:<16}{Path(recipe).name:<26}{told:>8}{updates:>11.1f}"
                          f"{wall:>9.1f}{wall / best:>7.2f}", flush=True)  # fmt: skip
                is_far |= took[None][1] > LIMIT * best
    sys.exit(is_far)


if __name__ == "__main__":
    main()
