"""Unreached weights: those that no gradient of the recipe's loss moves, found before an update.

A copy of the model reads a few examples, as an update reads them; the model stays as it was. A
weight is unreached if the loss does not depend on it, or if its gradient and those of the part it
belongs to are exactly zero. One zero proves little (a hidden layer behind weights that begin at
zero, a batch in which no word is hidden), so that other examples are read by other weights too.
"""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from regard.attention import Chain
from regard.attention.links import ChainLink
from regard.data.batches import collate
from regard.errors import RecipeError
from regard.hardware.hardware import Hardware, random_states, restore
from regard.models import Model
from regard.training.accumulation import Accumulator
from regard.training.loop import Material
from regard.training.loss_scale import first_factor
from regard.training.losses import Objective
from regard.training.preparation import Prepared

EXAMPLES_PER_ATTEMPT, MAX_ATTEMPTS = 4, 8
"""How many are read at once, and the most attempts while a weight is unreached; usually one."""
WEIGHT_NOISE_STD = 0.02
"""The standard deviation of what is added to every weight before another attempt."""
MAX_NAMED_WEIGHTS = 4
"""How many weights an error names."""


def check_reaches_all_weights(model: Model, prepared: Prepared, hardware: Hardware) -> None:
    """Refuse a recipe whose loss leaves weights of the model as they begin."""

    def check() -> None:
        names = unreached_weights(model, prepared, hardware)
        if not names:
            return
        count = sum(weight.requires_grad for weight in model.parameters())
        more = len(names) - MAX_NAMED_WEIGHTS
        shown = ", ".join(names[:MAX_NAMED_WEIGHTS]) + (f" and {more} more" if more > 0 else "")
        raise RecipeError(
            f"model: the loss gives no gradient to {len(names)} of {count} weights, which would "
            f"stay as they begin: {shown}. {_reason(model, names)}"
        )

    prepared.workers.first_does(check)


def unreached_weights(model: Model, prepared: Prepared, hardware: Hardware) -> list[str]:
    """The names of the weights that the loss does not reach; frozen ones are left out."""
    training, material = prepared.recipe.training, prepared.train
    before = random_states(hardware.device)
    # a CUDA graph would keep the copy's memory alive
    hardware = replace(hardware, replays=False)
    copied = deepcopy(model)
    accumulator = Accumulator(copied, Objective.of(training), hardware)
    left = [name for name, _ in model.named_parameters()]
    try:
        for number, rows in enumerate(_examples(material, training.target_tokens_per_batch)):
            if number:
                _disturb(copied)
            batch = collate(material.corpus, rows, pad_to_multiple=hardware.multiple)
            n_tokens = int(batch.target_lengths.sum())
            accumulator.gather([batch], n_tokens, loss_scale=first_factor(hardware))
            found = _without_gradient(copied)
            left = [name for name in left if name in found]
            if not left:
                break
    finally:
        restore(before, hardware.device)
    return left


def _examples(material: Material, target_tokens: int) -> list[np.ndarray]:
    """Rows for each attempt, of median length at first and the longest at last."""
    lengths = material.corpus.source_lengths + material.corpus.target_lengths
    ordered = material.used[np.argsort(lengths[material.used], kind="stable")]
    places = np.linspace(len(ordered) // 2, len(ordered) - 1, MAX_ATTEMPTS * EXAMPLES_PER_ATTEMPT)
    longest = int(material.corpus.target_lengths[ordered].max())
    at_once = max(1, min(EXAMPLES_PER_ATTEMPT, target_tokens // longest))
    return [part[-at_once:] for part in np.split(ordered[places.astype(int)], MAX_ATTEMPTS)]


@torch.no_grad()
def _disturb(model: nn.Module) -> None:
    """Move every weight a little, so that none is zero any more."""
    for weight in model.parameters():
        if weight.requires_grad:
            weight.add_(torch.randn_like(weight), alpha=WEIGHT_NOISE_STD)


def _without_gradient(model: nn.Module) -> set[str]:
    """Weights without a gradient; a zero counts where no other weight of the same part has one.

    The gradient of a bias that the softmax takes away again is nothing but rounding errors, which
    may be zero, and is no fault of the recipe.
    """
    names: set[str] = set()
    for path, part in model.named_modules():
        own = {
            f"{path}.{name}" if path else name: weight.grad
            for name, weight in part.named_parameters(recurse=False)
            if weight.requires_grad
        }
        is_idle = not any(grad is not None and grad.any() for grad in own.values())
        names |= {name for name, grad in own.items() if is_idle or grad is None}
    return names


def _reason(model: nn.Module, names: list[str]) -> str:
    """The reasons (`stops_gradient`) of the links of attentions with an unreached weight."""
    reasons: dict[str, None] = {}
    for path, chain in model.named_modules():
        holder = path[: path.rfind(".") + 1]
        if isinstance(chain, Chain) and any(name.startswith(holder) for name in names):
            links = (link for link in chain.modules() if isinstance(link, ChainLink))
            reasons |= {reason: None for link in links if (reason := link.stops_gradient())}
    return " ".join(reasons) or (
        "Nothing that the loss reads depends on them. Make another choice in [model] for the part "
        "that they belong to."
    )
