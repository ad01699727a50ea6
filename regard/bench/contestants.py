"""Contestants of training: regard and Hugging Face's Marian, of equal size, on equal batches.

A contestant is a model with an endless iterator of updates. Joey NMT is one too, in an interpreter
of its own (joeynmt_worker.py) with its own loop, on its own batches or on regard's.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.bench.sizes import (
    CLIP,
    DROPOUT,
    RATE,
    SEED,
    SMOOTHING,
    Size,
    TransformerSize,
)
from regard.choices import Choice
from regard.data.batches import Batch, collate
from regard.data.corpus import Corpus
from regard.data.subword_kinds import BOS, EOS, PAD
from regard.errors import MissingExtra
from regard.hardware.hardware import Hardware
from regard.models import Model, build_model
from regard.models.trainable import shifted
from regard.recipes.recipe import DataRecipe, Recipe
from regard.recipes.training_recipe import TrainingRecipe
from regard.training.checkpoints import Progress
from regard.training.loop import Material, epoch_updates, learn, make_optimiser

FOREVER = 1 << 30


@dataclass(frozen=True)
class Update:
    """The target tokens of one update, and the loss per token before it."""

    tokens: int
    loss: Tensor | float
    """Maybe still on its way from a GPU."""


@dataclass(frozen=True)
class Contestant:
    """A model that is ready, and its updates."""

    parameters: int
    updates: Iterator[Update]


def training_recipe(batch_tokens: int) -> TrainingRecipe:
    """A batch is an update, at a constant rate."""
    return TrainingRecipe(
        steps=FOREVER,
        target_tokens_per_update=1,
        target_tokens_per_batch=batch_tokens,
        schedule="constant",
        learning_rate=RATE,
        warmup_steps=0,
        label_smoothing=SMOOTHING,
        clip_norm=CLIP,
        seed=SEED,
    )


def build_regard(size: Size) -> Model:
    """The model of regard."""
    torch.manual_seed(SEED)
    return build_model(size.spec(), n_source_tokens=size.n_tokens, n_target_tokens=size.n_tokens)


def build_marian(size: TransformerSize) -> nn.Module:
    """Hugging Face's model, with torch's fused attention."""
    try:
        transformers = importlib.import_module("transformers")
    except ImportError as error:
        raise MissingExtra(
            "bench train: the peer 'marian' needs transformers. Install it with pip install "
            "'regard[bench]', or name other --peers."
        ) from error
    torch.manual_seed(SEED)
    settings: dict[str, Any] = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (
            ("layers", size.n_layers),
            ("attention_heads", size.n_heads),
            ("ffn_dim", size.d_hidden),
        )
    }
    config = transformers.MarianConfig(
        vocab_size=size.n_tokens,
        decoder_vocab_size=size.n_tokens,
        d_model=size.d_model,
        dropout=DROPOUT,
        activation_function="relu",
        scale_embedding=True,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        max_position_embeddings=512,
        attn_implementation="sdpa",
        **settings,
    )
    return transformers.MarianMTModel(config)


def marian_loss(
    model: Callable[..., Any], source: Tensor, target: Tensor, mask: Tensor | None
) -> Tensor:
    """The mean smoothed cross-entropy of the tokens that are not padding.

    Args:
        model: Marian, compiled or not.
        source: the tokens that it reads.
        target: the tokens that it should predict.
        mask: 1 for tokens of the source, 0 for padding; None, which is faster, if there is none.
    """
    logits = model(
        input_ids=source,
        attention_mask=mask,
        decoder_input_ids=shifted(target),
        use_cache=False,
    ).logits
    return cross_entropy(
        logits.float().flatten(0, 1),
        target.flatten(),
        label_smoothing=SMOOTHING,
        ignore_index=PAD,
    )


def recipe_of(size: Size) -> Recipe:
    """The recipe with which `regard train` would train the same model."""
    nowhere = Choice("copy", {"count": 1})
    data = DataRecipe(train=nowhere, valid=nowhere)
    return Recipe(data=data, training=training_recipe(size.batch_tokens), model=size.spec())


def regard_updates(corpus: Corpus, size: Size, hardware: Hardware) -> Contestant:
    """The loop of regard, as `regard train` runs it."""
    recipe, model = recipe_of(size), hardware.place(build_regard(size))
    optimiser = make_optimiser(model, recipe.training)
    steps = learn(
        model, optimiser, lambda _: Material(corpus), recipe, Progress(), hardware=hardware
    )
    return Contestant(_count(model), (Update(step.target_tokens, step.loss) for step in steps))


def marian_updates(corpus: Corpus, size: Size, hardware: Hardware) -> Contestant:
    """An ordinary loop around Marian, on regard's batches in regard's order."""
    assert isinstance(size, TransformerSize)
    model = build_marian(size).train()
    return Contestant(_count(model), _marian_steps(model, batches(corpus, size)))


def _marian_steps(model: nn.Module, given: Iterator[Batch]) -> Iterator[Update]:
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), fused=True)
    for batch in given:
        optimiser.zero_grad(set_to_none=True)
        mask = (batch.source != PAD).long()
        loss = marian_loss(model, batch.source, batch.target, mask)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        yield Update(int(batch.target_lengths.sum()), loss.item())


def epoch_rows(corpus: Corpus, size: Size, epoch: int) -> list[np.ndarray]:
    """The rows of each of an epoch's batches, in regard's order."""
    updates = epoch_updates(corpus, training_recipe(size.batch_tokens), epoch)
    return [rows for update in updates for rows in update]


def batches(corpus: Corpus, size: Size) -> Iterator[Batch]:
    """Regard's batches in regard's order, without end."""
    for epoch in range(FOREVER):
        yield from (collate(corpus, rows) for rows in epoch_rows(corpus, size, epoch))


def _count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


CONTESTANTS: Mapping[str, Callable[[Corpus, Size, Hardware], Contestant]] = {
    "regard": regard_updates,
    "marian": marian_updates,
}
