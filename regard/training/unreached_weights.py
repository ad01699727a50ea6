"""Unreached weights: those that no gradient of the recipe's loss moves, found before an update.

A copy of the model reads a few examples, as an update reads them, and is then thrown away: weights,
buffers and random numbers of the model itself stay as they were. A weight is unreached if the loss
does not depend on it, or if its gradient and those of the part it belongs to are exactly zero. One
zero proves little (a hidden layer behind weights that begin at zero, a batch in which no word is
hidden), so that other examples are read by other weights before a weight is called unreached.
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
from regard.hardware.hardware import Hardware
from regard.hardware.random_states import random_states, restore
from regard.models import Model
from regard.training.accumulation import Accumulator
from regard.training.loop import Material
from regard.training.objectives import objective
from regard.training.preparation import Prepared

EXAMPLES_PER_ATTEMPT = 4
"""How many are read at once."""
MAX_ATTEMPTS = 8
"""How often examples are read while a weight is not reached; one suffices as a rule."""
WEIGHT_NOISE_STD = 0.02
"""The standard deviation of what is added to every weight before another attempt."""
MAX_NAMED_WEIGHTS = 4
"""How many an error names."""


def check_reaches_all_weights(model: Model, prepared: Prepared, hardware: Hardware) -> None:
    """Refuse a recipe whose loss leaves weights of the model as they begin.

    Args:
        model: what would learn.
        prepared: what it would learn from, and what is minimised.
        hardware: where.
    """
    prepared.workers.first_does(lambda: _check(model, prepared, hardware))


def _check(model: Model, prepared: Prepared, hardware: Hardware) -> None:
    names = unreached_weights(model, prepared, hardware)
    if not names:
        return
    count = sum(weight.requires_grad for weight in model.parameters())
    more = len(names) - MAX_NAMED_WEIGHTS
    shown = ", ".join(names[:MAX_NAMED_WEIGHTS]) + (f" and {more} more" if more > 0 else "")
    raise RecipeError(
        f"model: the loss gives no gradient to {len(names)} of {count} weights, which would stay "
        f"as they begin: {shown}. {_reason(model, names)}"
    )


def unreached_weights(model: Model, prepared: Prepared, hardware: Hardware) -> list[str]:
    """The names of the weights that the loss does not reach; frozen ones are not asked for."""
    training, material = prepared.recipe.training, prepared.train
    before = random_states(hardware.device)
    # a recording would keep the copy's memory
    hardware = replace(hardware, replays=False)
    copied = deepcopy(model)
    accumulator = Accumulator(copied, objective(training), hardware)
    left: set[str] | None = None
    try:
        for rows in _examples(material, training.target_tokens_per_batch):
            if left is not None:
                _disturb(copied)
            batch = collate(material.corpus, rows, pad_to_multiple=hardware.multiple)
            accumulator.gather([batch], int(batch.target_lengths.sum()))
            found = _without_gradient(copied)
            left = found if left is None else left & found
            if not left:
                return []
    finally:
        restore(before, hardware.device)
    return [name for name, _ in model.named_parameters() if left is not None and name in left]


def _examples(material: Material, target_tokens: int) -> list[np.ndarray]:
    """Rows for each attempt, as long as most at first and the longest of all at last."""
    lengths = material.corpus.source_lengths + material.corpus.target_lengths
    rows = np.arange(len(lengths)) if material.rows is None else material.rows
    ordered = rows[np.argsort(lengths[rows], kind="stable")]
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
    """What has no gradient now; a zero counts where no other weight of the same part has one.

    A bias that the softmax takes away again has a gradient of nothing but rounding errors, which
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
    """What the links say for themselves, of those attentions that hold an unreached weight."""
    links = []
    for path, chain in model.named_modules():
        holder = path[: path.rfind(".") + 1]
        if isinstance(chain, Chain) and any(name.startswith(holder) for name in names):
            links += list(chain.modules())
    reasons = dict.fromkeys(
        reason
        for link in links
        if isinstance(link, ChainLink) and (reason := link.stops_gradient())
    )
    return " ".join(reasons) or (
        "Nothing that the loss reads depends on them. Make another choice in [model] for the part "
        "that they belong to."
    )
