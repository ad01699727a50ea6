"""Who learns: regard and Hugging Face's Marian, of the same size and on the same batches.

A contestant is an endless row of updates. Joey NMT is one too, but in an interpreter of its own
(joeynmt_worker.py), with its own loop and its own batches.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from regard.choices import Choice
from regard.cli.benching.sizes import BATCH_TOKENS, CLIP, DROPOUT, RATE, SEED, SMOOTHING, Size
from regard.data.batches import Batch, collate
from regard.data.corpus import Corpus
from regard.data.kinds import BOS, EOS, PAD
from regard.errors import MissingExtra
from regard.models import Transformer, TransformerSpec, build_transformer
from regard.models.learning import shifted
from regard.training.checkpoints import Progress
from regard.training.loop import epoch_updates, learn, make_optimiser
from regard.training.recipes import DataRecipe, Recipe, TrainingRecipe

FOREVER = 1 << 30


@dataclass(frozen=True)
class Update:
    """What one update learned from, and the loss per token before it."""

    tokens: int
    loss: float


def training_recipe(batch_tokens: int = BATCH_TOKENS) -> TrainingRecipe:
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


def spec_of(size: Size) -> TransformerSpec:
    """The paper's Transformer in this size."""
    return TransformerSpec(
        d_model=size.d_model,
        n_heads=size.n_heads,
        d_hidden=size.d_hidden,
        n_encoder_layers=size.n_layers,
        n_decoder_layers=size.n_layers,
        dropout=DROPOUT,
    )


def build_regard(size: Size) -> Transformer:
    """The model of regard."""
    torch.manual_seed(SEED)
    return build_transformer(
        spec_of(size), n_source_tokens=size.n_tokens, n_target_tokens=size.n_tokens
    )


def build_marian(size: Size) -> nn.Module:
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
        source: what it reads.
        target: what it should say.
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


def regard_updates(corpus: Corpus, size: Size) -> Iterator[Update]:
    """The loop of regard, as `regard train` runs it."""
    model, training = build_regard(size), training_recipe()
    nowhere = Choice("copy", {"count": 1})
    data = DataRecipe(train=nowhere, valid=nowhere)
    recipe = Recipe(data=data, training=training, model=spec_of(size))
    steps = learn(model, make_optimiser(model, training), corpus, recipe, Progress())
    return (Update(step.target_tokens, step.nll) for step in steps)


def marian_updates(corpus: Corpus, size: Size) -> Iterator[Update]:
    """An ordinary loop around Marian, on regard's batches in regard's order."""
    model = build_marian(size).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE, betas=(0.9, 0.98), fused=True)
    for batch in _batches(corpus):
        optimiser.zero_grad(set_to_none=True)
        mask = (batch.source != PAD).long()
        loss = marian_loss(model, batch.source, batch.target, mask)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        yield Update(int(batch.target_lengths.sum()), loss.item())


def _batches(corpus: Corpus) -> Iterator[Batch]:
    for epoch in range(FOREVER):
        for update in epoch_updates(corpus, training_recipe(), epoch):
            yield from (collate(corpus, rows) for rows in update)


CONTESTANTS: Mapping[str, Callable[[Corpus, Size], Iterator[Update]]] = {
    "regard": regard_updates,
    "marian": marian_updates,
}
