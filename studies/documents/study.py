"""Papers to their abstracts: encoder-decoders and language models, at three lengths of the paper.

    python -m studies.documents.study --data data/documents --out runs/documents --at-once 12
    python -m studies.documents.summary runs/documents/results

A cell is a system at a length. All learn by their recipe (recipes/arxiv-*.toml) with one vocabulary
and the same updates of the same papers, and have about the same parameters; they differ in their
[model], and in how many tokens of a paper they read. A paper is cut at a multiple of 768 tokens (a
block of 256, three times), so that those of one length are answered together. Each cell's losses
and answers are a file in OUT/results; what is there is not done again. summary.py
makes studies/documents/results.json of them, with ROUGE, and docs/documents.md says what was found.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard import load
from regard.data import Corpus, Subwords
from regard.data.atomic_writes import write_text
from regard.data.corpus import write_corpus
from regard.data.subword_kinds import BPE
from regard.decoding import Greedy, Limits, Sentence
from regard.decoding.batching import decode_each
from regard.decoding.rules import NoRepeatedNgrams
from regard.hardware.hardware import Hardware
from regard.recipes.recipe import Recipe, examples, read_recipe
from regard.runs.trained import Trained
from regard.training.checkpoints import checkpoints, read_tensors, write_tensors
from regard.training.corpus_losses import row_losses
from regard.training.events import Finished, Notice, Step, Validated
from regard.training.run import run

ROOT = Path(__file__).parents[2]
PIECE = 768
"""Papers are cut at a multiple of so many tokens."""
LENGTHS = (768, 3072, 9216)
"""The most tokens that are read of a paper: about 500, 2,000 and 6,000 words."""
FILES: Mapping[str, str] = {"train": "train", "valid": "dev", "test": "test"}
CORPORA: Mapping[str, Sequence[str]] = {
    "train": ("train",),
    "valid": ("valid",),
    "asked": ("valid", "test"),
}
"""What is kept as numbers. Nothing is chosen by the validation split, so it is asked as well."""
SYSTEMS: Mapping[str, tuple[str, Sequence[str]]] = {
    "recurrent": ("arxiv-luong", ()),
    "encoder-decoder": ("arxiv-encoder-decoder", ()),
    "T-D": ("arxiv-td", ('model.asks="target"',)),
    "T-DMCA": ("arxiv-tdmca", ('model.asks="target"',)),
    "window": ("arxiv-td", ('model.asks="target"', 'model.attends=["sliding_window:size=256"]')),
    "BigBird": ("arxiv-td", ('model.asks="target"', 'model.attends=["big_bird:block=64"]')),
    "BigBird encoder": ("arxiv-encoder-decoder", ('model.encoder_attends=["big_bird:block=64"]',)),
    "Linformer encoder": (
        "arxiv-encoder-decoder",
        ('model.encoder_attends=["linformer:slots=256"]',),
    ),
    "T-DMCA, all tokens": ("arxiv-tdmca", ('model.asks="all"', "training.clip_norm=10.0")),
}
"""The recipe of each, and what is changed in it; all but the last learn from abstracts alone."""
ANSWER = 320
"""The most tokens of an abstract that is written."""
AT_ONCE = 64
"""How many papers are answered together."""


class Cell(NamedTuple):
    """A system, and how much of a paper it reads."""

    system: str
    length: int

    @property
    def name(self) -> str:
        """As results and folders call it."""
        return f"{self.system}, {self.length}"


CELLS: Mapping[str, Cell] = {
    cell.name: cell for cell in (Cell(system, length) for length in LENGTHS for system in SYSTEMS)
}


class Cut:
    """Sub-words of which a paper keeps the first, a whole number of pieces of them."""

    def __init__(self, subwords: Subwords, most: int) -> None:
        self.subwords, self.most = subwords, most
        self.fingerprint = subwords.fingerprint

    def __len__(self) -> int:
        return len(self.subwords)

    def encode_all(self, texts: list[str]) -> list[list[int]]:
        """Each text's first numbers; the end token, which follows them, is counted."""
        return [ids[: self._kept(len(ids) + 1) - 1] for ids in self.subwords.encode_all(texts)]

    def _kept(self, length: int) -> int:
        return min(self.most, max(length // PIECE * PIECE, min(length, PIECE)))


def recipe_of(cell: Cell, given: argparse.Namespace) -> Recipe:
    """Its system's recipe, at its length."""
    name, changes = SYSTEMS[cell.system]
    data = [
        f"data.{split}={{name='documents', path='{given.data}/arxiv.{file}.jsonl.xz'}}"
        for split, file in FILES.items()
    ]
    # the begin token and the abstract stand behind the paper
    sizes = [f"data.max_tokens={cell.length}", f"model.max_len={cell.length + 768}"]
    seed = [f"training.seed={given.seed}"]
    path = ROOT / "recipes" / f"{name}.toml"
    return read_recipe(path, [*data, *sizes, *changes, *seed, *given.set])


def prepare(given: argparse.Namespace) -> None:
    """One vocabulary for all, and papers as numbers at each length; what is there is kept."""
    folder = given.out / "prepared"
    folder.mkdir(parents=True, exist_ok=True)
    recipe = recipe_of(next(iter(CELLS.values())), given)
    read = {split: examples(getattr(recipe.data, split), split) for split in FILES}
    vocabulary = folder / "tokenizer.json"
    if given.tokenizer is not None and not vocabulary.exists():
        shutil.copy(given.tokenizer, vocabulary)
    if not vocabulary.exists():
        texts = (text for one in read["train"]() for text in (one.source, *one.targets))
        Subwords.train(texts, kind=BPE, size=recipe.tokens.size).save(vocabulary)
    subwords = Subwords.load(vocabulary)
    for length in sorted({CELLS[name].length for name in given.cell}):
        for name, splits in CORPORA.items():
            path = folder / str(length) / name
            if not path.exists():
                found = (one for split in splits for one in read[split]())
                write_corpus(path, found, Cut(subwords, length), subwords)


def learned(cell: Cell, given: argparse.Namespace) -> None:
    """Train one cell, and let it judge and write the abstracts that it has not learned from.

    What is found is written as soon as it is there.
    """
    began = time.monotonic()
    out, prepared = given.out / folder_of(cell), given.out / "prepared"
    for split in ("train", "valid"):
        if not (out / "corpus" / split).exists():
            shutil.copytree(prepared / str(cell.length) / split, out / "corpus" / split)
    shutil.copy(prepared / "tokenizer.json", out)
    plain = Hardware.chosen(given.device, None, compiles=False)
    is_gpu = plain.device.type == "cuda"
    facts = learn(recipe_of(cell, given), out, plain, given.seconds, cell.name)
    trained = load(out, device=given.device, precision="bfloat16" if is_gpu else None)
    found = {
        "cell": cell.name, "system": cell.system, "length": cell.length, "seed": given.seed,
        "parameters": sum(p.numel() for p in trained.loaded.model.parameters()),
        **facts, "trained_s": time.monotonic() - began,
        "learning_bytes": torch.cuda.max_memory_allocated() if is_gpu else None,
    }  # fmt: skip
    corpus = Corpus.open(prepared / str(cell.length) / "asked")
    for part in (surprise, written):
        found |= part(trained, corpus)
        found["seconds"] = time.monotonic() - began
        found["peak_bytes"] = torch.cuda.max_memory_allocated() if is_gpu else None
        write_text(result_of(cell, given), json.dumps(found) + "\n")


def learn(
    recipe: Recipe, out: Path, hardware: Hardware, seconds: float, name: str
) -> dict[str, Any]:
    """Train to the end, or until time is up; what is there then is a finished run."""
    began, losses, done = time.monotonic(), [], 0
    for event in run(recipe, out, resume=out.exists(), hardware=hardware):
        if isinstance(event, Validated):
            losses.append((event.step, event.loss))
        if isinstance(event, Finished):
            done = event.progress.step
        if isinstance(event, Step) and time.monotonic() - began > seconds:
            # as a person would ask for it: this update's state is kept, and the training ends
            os.kill(os.getpid(), signal.SIGTERM)
        if line := _said(event):
            print(f"{name}: {time.monotonic() - began:.0f} s {line}", file=sys.stderr)
    _settle(out)
    return {"updates": done, "losses": losses}


def _said(event: object) -> str | None:
    if isinstance(event, Notice):
        return event.text
    if isinstance(event, Validated):
        return f"step {event.step}, validation loss {event.loss:.4f}"
    if isinstance(event, Step) and event.progress.step % 50 == 0:
        return f"step {event.progress.step}, loss {event.nll:.3f}"
    return None


def _settle(out: Path) -> None:
    """A training that was ended before its last update is finished by what it had."""
    if not (out / "model.safetensors").exists():
        newest = checkpoints(out / "checkpoints")[-1]
        held = [newest / name for name in ("average.safetensors", "model.safetensors")]
        write_tensors(
            out / "model.safetensors", read_tensors(next(path for path in held if path.exists()))
        )


def surprise(trained: Trained, corpus: Corpus) -> dict[str, Any]:
    """The loss of each abstract that people wrote."""
    rows = torch.arange(len(corpus)).numpy()
    found = row_losses(
        trained.loaded.model, corpus, rows, target_tokens=1024, hardware=trained.hardware
    )
    return {"nats": found.nats, "tokens": found.tokens, "source_tokens": found.source_tokens}


def written(trained: Trained, corpus: Corpus) -> dict[str, Any]:
    """The abstract that is written for each paper, and what that takes."""
    model, hardware = trained.loaded.model, trained.hardware
    search = Greedy(limits=Limits(max_tokens=ANSWER), rules=(NoRepeatedNgrams(3),))
    sentences = [Sentence(corpus.source(row).tolist()) for row in range(len(corpus))]
    answers, n_tokens, began = [""] * len(corpus), 0, time.monotonic()
    for group in by_length(sentences):
        with hardware.products():
            for place, said in decode_each(
                model,
                [sentences[row] for row in group],
                search,
                batch_tokens=AT_ONCE * len(sentences[group[0]].source),
                device=hardware.device,
            ):
                answers[group[place]] = trained.loaded.target.decode(said[0].tokens)
                n_tokens += len(said[0].tokens) + 1
    longest = max((one.source for one in sentences), key=len)
    return {
        "answers": answers, "answer_tokens": n_tokens, "answer_seconds": time.monotonic() - began,
        "kept_bytes": kept_bytes(trained, longest), "kept_of": len(longest),
    }  # fmt: skip


def by_length(sentences: Sequence[Sentence]) -> list[list[int]]:
    """The places of sentences of one length together, the longest first."""
    groups: dict[int, list[int]] = {}
    for place, sentence in enumerate(sentences):
        groups.setdefault(len(sentence.source), []).append(place)
    return [groups[length] for length in sorted(groups, reverse=True)]


@torch.inference_mode()
def kept_bytes(trained: Trained, source: Sequence[int]) -> int:
    """What the model remembers of a paper while it writes: keys and values of all layers."""
    tokens = torch.tensor([list(source)], device=trained.hardware.device)
    with trained.hardware.products():
        state = trained.loaded.model.start(tokens)
    return sum(
        each.numel() * each.element_size() for each in _tensors(state) if each.is_floating_point()
    )


def _tensors(held: object) -> Iterator[torch.Tensor]:
    if isinstance(held, torch.Tensor):
        yield held
    elif isinstance(held, tuple | list):
        for each in held:
            yield from _tensors(each)


def folder_of(cell: Cell) -> str:
    """What its run is called."""
    return cell.name.replace(", ", "-").replace(" ", "-").lower()


def result_of(cell: Cell, given: argparse.Namespace) -> Path:
    """Where its result is."""
    return given.out / "results" / f"{folder_of(cell)}.json"


def is_done(cell: Cell, given: argparse.Namespace) -> bool:
    """Whether nothing of its result is missing."""
    path = result_of(cell, given)
    return path.exists() and "answers" in json.loads(path.read_text())


def in_a_process(given: argparse.Namespace, name: str) -> None:
    """Do one cell, and say a word on standard error if it failed."""
    command = [
        sys.executable,
        "-m",
        "studies.documents.study",
        "--do",
        name,
        "--data",
        given.data,
        "--out",
        given.out,
        "--seconds",
        str(given.seconds),
        "--seed",
        str(given.seed),
    ]
    for key, values in (("device", [given.device]), ("set", given.set)):
        command += [word for value in values if value for word in (f"--{key}", value)]
    quiet = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(command, check=False, env=quiet)
    print(f"documents: {name} ended with {done.returncode}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("data/documents"), help="The papers.")
    parser.add_argument("--out", type=Path, required=True, help="A folder for runs and results.")
    parser.add_argument("--cell", action="append", choices=CELLS, help="All unless given.")
    parser.add_argument("--tokenizer", type=Path, help="A vocabulary that was learned before.")
    parser.add_argument("--seed", type=int, default=1, help="Of every training.")
    parser.add_argument("--set", action="append", default=[], help="Change a key for all.")
    parser.add_argument("--at-once", type=int, default=1, help="Trainings side by side.")
    parser.add_argument("--seconds", type=float, default=1e9, help="A training ends after so many.")
    parser.add_argument("--device", help="cpu or cuda; cuda where there is one.")
    parser.add_argument("--do", choices=CELLS, help="Do it here and now, and print what is found.")
    given = parser.parse_args()
    if given.do is not None:
        learned(CELLS[given.do], given)
        return
    given.cell = given.cell or list(CELLS)
    prepare(given)
    (given.out / "results").mkdir(exist_ok=True)
    # the longest papers take longest, and so they begin first
    wanted = sorted((CELLS[name] for name in given.cell), key=lambda cell: -cell.length)
    pending = [cell.name for cell in wanted if not is_done(cell, given)]
    with ThreadPoolExecutor(given.at_once) as pool:
        for _ in pool.map(lambda name: in_a_process(given, name), pending):
            pass


if __name__ == "__main__":
    main()
