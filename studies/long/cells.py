"""One cell of the study of long sequences: a system at one length, timed or taught."""

import fcntl
import gc
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.batches import Batch, collate, epoch_batches
from regard.data.corpus import Corpus
from regard.data.subword_kinds import BOS, PAD, SPECIALS
from regard.hardware.hardware import Hardware
from regard.models import build_model
from regard.recipes.recipe import Recipe
from regard.training.accumulation import Accumulator
from regard.training.checkpoints import Progress
from regard.training.events import Step
from regard.training.loop import Material, learn, make_optimiser
from regard.training.losses import Objective, token_loss
from studies.long.data import Text, listops_recipe, opened, rows_of, text, text_recipe
from studies.long.systems import MODELS, READ_BEFORE, SYSTEMS, spec_of

STEP_TOKENS, N_TOKENS = 65536, 8000
"""Tokens of a timed step, whatever the length of its rows, and size of its vocabulary."""
WARM_UP, FEWEST, MOST, ENOUGH = 2, 3, 12, 1.5
"""Steps before the clock, the fewest and the most on it, and seconds after which it stops."""
READ_AT_ONCE = 65536
"""Tokens that are read together when nothing is learned."""
PLACES = (128, 512, 2048, 8192, 16384)
"""Ends of the parts of a row whose losses are told apart."""
REACH = 1024
"""What four layers of window see at most; longer expressions are counted by themselves."""
VALIDATIONS = 4
LISTOPS = {"causal": "causal", "masked": "encoder"}
"""The recipe of ListOps for a kind of system."""
ATTENDS = {"causal": "attends", "masked": "encoder_attends"}
"""What says there how layers look."""


def hardware(device: str | None) -> Hardware:
    """As `regard train` has it, but uncompiled: patterns of some systems are not recorded."""
    return Hardware.chosen(device, None, compiles=False)


@contextmanager
def alone(given: Namespace) -> Iterator[None]:
    """While no other process of the study is inside."""
    with (given.out / "quiet.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def peak(where: Hardware) -> int | None:
    """The most bytes that were taken from a card, if there is one."""
    return torch.cuda.max_memory_allocated() if where.device.type == "cuda" else None


def fresh(where: Hardware) -> int | None:
    """Forget what was taken; what is held now."""
    gc.collect()
    if where.device.type != "cuda":
        return None
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated()


def device_name(where: Hardware) -> str:
    """What the card calls itself."""
    return torch.cuda.get_device_name() if where.device.type == "cuda" else where.device.type


def size(model: nn.Module) -> int:
    """Parameters, those that are shared counted once."""
    return sum(weight.numel() for weight in model.parameters())


def cost(name: str, length: int, given: Namespace) -> dict[str, Any]:
    """Seconds and bytes of one training step: forward, backward and update."""
    system, where = SYSTEMS[name], hardware(given.device)
    recipe = text_recipe(given.text, given.set)
    torch.manual_seed(1)
    model = where.place(MODELS[system.kind](system, length, N_TOKENS))
    rows, n = max(1, given.step_tokens // length), length - READ_BEFORE[system.kind]
    target = torch.randint(len(SPECIALS), N_TOKENS, (rows, n))
    lengths, none = torch.full((rows,), n), torch.zeros(rows, dtype=torch.int64)
    batch = Batch(target[:, :0], target, none, lengths, torch.arange(rows))
    work = Accumulator(model, Objective(0.0), where)
    optimiser = make_optimiser(model, recipe.training)
    for group in optimiser.param_groups:
        group["lr"] = recipe.training.learning_rate

    def step() -> float:
        start = time.perf_counter()
        found = work.gather([batch], rows * n)
        optimiser.step()
        loss = float(found.nll) / (rows * n)
        if found.splits:
            raise torch.OutOfMemoryError(f"{name}: {rows} rows of {length} do not fit.")
        if not 0 < loss < 1e4:
            raise SystemExit(f"long: {name} at {length} has a loss of {loss}.")
        return time.perf_counter() - start

    with alone(given):
        for _ in range(WARM_UP):
            step()
        held, times = fresh(where), [step() for _ in range(FEWEST)]
        while sum(times) < ENOUGH and len(times) < MOST:
            times.append(step())
        taken = peak(where)
    return {
        "study": "cost", "system": name, "length": length, "rows": rows,
        "parameters": size(model), "seconds": median(times), "turns": len(times),
        "peak_bytes": taken, "held_bytes": held,
        "device": device_name(where), "precision": str(where.precision).removeprefix("torch."),
    }  # fmt: skip


def taught(
    model: nn.Module, material: Material, recipe: Recipe, where: Hardware, given: Namespace
) -> Iterator[Step]:
    """Update after update, as `regard train` makes them; it ends where time does."""
    optimiser = make_optimiser(model, recipe.training)
    steps = learn(model, optimiser, lambda _: material, recipe, Progress(), hardware=where)
    for step in steps:
        if given.until and time.time() > given.until:
            raise SystemExit(f"long: no time is left after {step.progress.step} updates.")
        yield step


@torch.no_grad()
def surprise(
    model: nn.Module, ids: np.ndarray, length: int, where: Hardware
) -> tuple[Tensor, Tensor]:
    """Nats, and how many tokens were asked for, at each place of a row; every token counts once."""
    model.eval()
    nats, asked = torch.zeros(2, length, dtype=torch.float64)
    whole = len(ids) // length * length
    parts = [ids[:whole].reshape(-1, length), ids[None, whole:]]
    at_once = max(1, READ_AT_ONCE // length)
    for part in parts:
        for begin in range(0, len(part) if part.size else 0, at_once):
            target = torch.from_numpy(part[begin : begin + at_once].astype(np.int64))
            with where.products():
                hidden, gold = model.loss_inputs(where.put(target[:, :0]), where.put(target))
                nll = token_loss(hidden, model.output.weight, gold).each
            nats[: gold.shape[1]] += nll.double().sum(0).cpu()
            asked[: gold.shape[1]] += (gold != PAD).double().sum(0).cpu()
    return nats, asked


def by_place(nats: Tensor, asked: Tensor) -> list[list[float]]:
    """For each part of a row where it ends, its loss per token, and its tokens."""
    ends = [end for end in PLACES if end < len(nats)] + [len(nats)]
    parts = zip([0, *ends[:-1]], ends, strict=True)
    return [
        [b, float(nats[a:b].sum() / asked[a:b].sum()), float(asked[a:b].sum())] for a, b in parts
    ]


def text_cell(name: str, length: int, given: Namespace) -> dict[str, Any]:
    """Teach one system running text in rows of one length; its loss on the validation text."""
    system, where = SYSTEMS[name], hardware(given.device)
    recipe = replace(text_recipe(given.text, given.set), model=spec_of(system, length))
    found: Text = text(recipe, given.out / "text")
    torch.manual_seed(recipe.training.seed)
    model = where.place(MODELS[system.kind](system, length, found.n_tokens))
    n = length - READ_BEFORE[system.kind]
    fresh(where)
    losses, seconds, tokens = [], 0.0, 0
    every = max(1, recipe.training.steps // VALIDATIONS)
    rows = rows_of(found.train, n, every=max(1, n // 4))
    for step in taught(model, Material(rows), recipe, where, given):
        seconds, tokens = seconds + step.seconds, step.progress.target_tokens
        if step.progress.step % every == 0 or step.progress.step == recipe.training.steps:
            taken = peak(where)
            nats, asked = surprise(model, found.valid, n, where)
            losses.append([tokens, float(nats.sum() / asked.sum())])
    return {
        "study": "text", "system": name, "kind": system.kind, "length": length,
        "seed": recipe.training.seed, "updates": recipe.training.steps, "tokens": tokens,
        "parameters": size(model), "losses": losses, "loss": float(nats.sum() / asked.sum()),
        "nats": float(nats.sum()), "asked": float(asked.sum()), "words": found.n_words,
        "valid_tokens": len(found.valid), "train_tokens": len(found.train),
        "by_place": by_place(nats, asked), "seconds": seconds, "peak_bytes": taken,
    }  # fmt: skip


@torch.no_grad()
def answers(
    model: nn.Module, material: Material, where: Hardware
) -> tuple[Sequence[int], Sequence[bool]]:
    """For each expression its tokens, and whether the value that is said first is right."""
    model.eval()
    lengths, right = [], []
    for rows in epoch_batches(
        material.corpus, target_tokens=128, seed=0, epoch=0, rows=material.rows
    ):
        batch = collate(material.corpus, rows)
        source = where.put(batch.source)
        begin = torch.full_like(source[:, :1], BOS)
        with where.products():
            said = model(source, begin)[:, 0].float().argmax(-1).cpu()
        lengths += (batch.source_lengths - 1).tolist()
        right += (said == batch.target[:, 0]).tolist()
    return lengths, right


def shares(lengths: Sequence[int], right: Sequence[bool]) -> dict[str, Any]:
    """Accuracy on all expressions, on those a window reaches through, and on longer ones."""
    hits = np.asarray(right, dtype=float)
    is_long = np.asarray(lengths) > REACH
    parts = {"all": hits, "short": hits[~is_long], "long": hits[is_long]}
    return {
        part: {"expressions": len(one), "accuracy": float(one.mean()) if len(one) else None}
        for part, one in parts.items()
    }


def guesses(corpus: Corpus) -> dict[str, float]:
    """How often one is right who always says the commonest value, or that of the first operator."""
    values = corpus.target_ids[corpus.target_begins[:-1]]
    operators = corpus.source_ids[corpus.source_begins[:-1]]
    by_operator = [np.bincount(values[operators == one]).max() for one in np.unique(operators)]
    return {
        "commonest": float(np.bincount(values).max() / len(values)),
        "first operator": float(sum(by_operator) / len(values)),
    }


def eighths(losses: Sequence[Tensor | float]) -> list[float]:
    """The mean of each eighth of the training."""
    parts = np.array_split(np.array([float(loss) for loss in losses]), min(8, len(losses)))
    return [float(part.mean()) for part in parts]


def listops_cell(name: str, given: Namespace) -> dict[str, Any]:
    """Teach one system ListOps; how often it says the right value."""
    system, where = SYSTEMS[name], hardware(given.device)
    ways = ", ".join(f'"{one}"' for one in system.attends)
    changes = [f"model.{ATTENDS[system.kind]}=[{ways}]", *given.set]
    recipe = listops_recipe(LISTOPS[system.kind], given.listops, changes)
    found = opened(recipe, given.out / "listops")
    torch.manual_seed(recipe.training.seed)
    n_tokens = len(found.target)
    model = where.place(
        build_model(recipe.model, n_source_tokens=n_tokens, n_target_tokens=n_tokens)
    )
    fresh(where)
    scores, losses, seconds = [], [], 0.0
    every = max(1, recipe.training.steps // VALIDATIONS)
    for step in taught(model, found.train, recipe, where, given):
        seconds += step.seconds
        losses.append(step.loss)
        if step.progress.step % every == 0 or step.progress.step == recipe.training.steps:
            parts = shares(*answers(model, found.valid, where))
            scores.append([step.progress.step, parts["all"]["accuracy"]])
    return {
        "study": "listops", "system": name, "kind": system.kind, "length": None,
        "seed": recipe.training.seed, "updates": recipe.training.steps,
        "parameters": size(model), "accuracies": scores,
        "losses": eighths(losses),
        "accuracy": parts, "guesses": guesses(found.valid.corpus),
        "seconds": seconds, "peak_bytes": peak(where), "rows": len(found.train.corpus),
    }  # fmt: skip
