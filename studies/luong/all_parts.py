"""The whole study of Luong's mechanisms, by one command.

    python -m studies.luong.all_parts --data data --out runs/luong --at-once 8

DATA holds multi30k, hansards, alignment, tatoeba and treebank. The parts run one after another, and
each goes on where it was stopped: every system on Multi30k, five of them with two more seeds; the
Hansards with their gold alignments; the Transformer whose head aligns best; German; tags by
selection. At the end studies/luong/results.json is written; `make docs` makes the tables.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from studies.luong.study import LANGUAGES, SPLITS
from studies.side_by_side import ROOT

BEST = (
    "general, soft, both ways, fed, covered",
    "general, soft, both ways, fed",
    "general, soft, both ways",
    "general, soft, fed",
    "general, local_monotonic",
)
"""Systems of which three seeds are trained."""


def parts(data: Path, out: Path, at_once: int) -> Iterator[Sequence[str]]:
    """What Python is given, part by part."""
    gold = ["--gold", str(data / "alignment")]
    many = ["--at-once", str(at_once)]
    captions = ["--data", str(data / "multi30k"), "--out", str(out), *many]
    best = [word for name in BEST for word in ("--system", name)]
    seeds = ["--seed", "2", "--seed", "3"]
    yield ["-m", "studies.luong.study", "multi30k", *captions]
    yield ["-m", "studies.luong.study", "multi30k", *captions, *seeds, *best]
    yield ["-m", "studies.luong.study", "hansards", "--data", str(data / "hansards"), *gold,
           "--out", str(out), *many]  # fmt: skip
    yield from transformer(data, out / "hansards-transformer")
    yield ["-m", "studies.luong.german", "--data", str(data / "tatoeba"), *gold,
           "--out", str(out), "--seed", "1", "--seed", "2"]  # fmt: skip
    yield ["-m", "studies.luong.tagging", "--data", str(data / "treebank"),
           "--out", str(out / "tagging"), *many, "--seed", "1", *seeds]  # fmt: skip
    yield ["-m", "studies.luong.summary", str(out / "results.jsonl"), *gold,
           "--german", str(out / "german.jsonl"), "--tagging", str(out / "tagging/results.jsonl"),
           *tests(data), "--out", str(ROOT / "studies" / "luong" / "results.json")]  # fmt: skip


def transformer(data: Path, run: Path) -> Iterator[Sequence[str]]:
    """Train the recipe, and hold each of its heads against the gold links."""
    texts = [
        word
        for split, (source, target) in files(data, "hansards").items()
        for side, path in (("source", source), ("target", target))
        for word in ("--set", f"data.{split}.{side}={path}")
    ]
    recipe = str(ROOT / "recipes" / "hansards-transformer.toml")
    resume = ["--resume"] if run.exists() else []
    yield ["-m", "regard", "train", recipe, "--out", str(run), *resume, *texts]
    sides = gold_sides(run.parent)
    yield ["-m", "regard", "evaluate", str(run), "--source", str(sides[0]),
           "--reference", str(sides[1]), "--alignment", str(data / "alignment" / "enfr.gold"),
           "--alignment-first", "1", "--max-source-words", "18", "--metrics", "loss"]  # fmt: skip


def gold_sides(out: Path) -> list[Path]:
    """Where the two sides of the gold sentences are put, a sentence a line."""
    return [out / f"gold.{language}" for language in ("en", "fr")]


def write_gold_sides(data: Path, out: Path) -> None:
    """The gold sentences stand in one file, English before French."""
    text = (data / "alignment" / "enfr.src-tgt").read_text()
    columns = zip(*(line.split("|||") for line in text.splitlines()), strict=True)
    for path, column in zip(gold_sides(out), columns, strict=True):
        path.write_text("".join(f"{' '.join(each.split())}\n" for each in column))


def files(data: Path, study: str) -> dict[str, tuple[Path, Path]]:
    """The two sides of each split."""
    source, target, packed = LANGUAGES[study]
    return {
        split: (
            data / study / f"{file}.{source}.{packed}",
            data / study / f"{file}.{target}.{packed}",
        )
        for split, file in SPLITS[study].items()
    }


def tests(data: Path) -> list[str]:
    """Where the summary finds the test texts."""
    sides = {study: files(data, study)["test"] for study in SPLITS}
    return [word for study, both in sides.items() for word in ("--test", study, *map(str, both))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="The folder of all data sets.")
    parser.add_argument("--out", type=Path, required=True, help="A folder for runs and results.")
    parser.add_argument("--at-once", type=int, default=1, help="Trainings side by side.")
    given = parser.parse_args()
    data, out = given.data.absolute(), given.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    write_gold_sides(data, out)
    for words in parts(data, out, given.at_once):
        print(" ".join(words), file=sys.stderr, flush=True)
        done = subprocess.run([sys.executable, *words], cwd=ROOT, check=False)
        if done.returncode:
            raise SystemExit(f"all_parts: this part ended with {done.returncode}. Run it again.")


if __name__ == "__main__":
    main()
