"""The loop: accumulation is one update, batches are a pure function, tokens are counted."""

import numpy as np
import pytest
import torch

from regard.data import Example
from regard.data.batches import collate
from regard.data.corpus import write_corpus
from regard.data.subword_kinds import BOS, EOS, KINDS, PAD
from regard.data.subwords import Subwords
from regard.hardware.hardware import CPU
from regard.models import TransformerSpec, build_transformer
from regard.models.trainable import shifted
from regard.recipes.training_recipe import TrainingRecipe
from regard.training.accumulation import Accumulator
from regard.training.corpus_losses import summed_loss
from regard.training.loop import epoch_updates
from regard.training.losses import Objective
from tests.assertions import assert_close

SPEC = TransformerSpec(
    d_model=16, n_heads=2, d_hidden=16, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0
)


@pytest.fixture
def corpus(tmp_path):
    draws = np.random.default_rng(3)
    texts = [" ".join(draws.choice(list("abcdef"), size=draws.integers(2, 14))) for _ in range(97)]
    words = Subwords.train(texts, kind=KINDS["words"], size=20)
    return write_corpus(tmp_path / "corpus", [Example(t, (t,)) for t in texts], words, words)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_four_micro_batches_give_the_gradient_of_one_batch(corpus, dtype, limit):
    model = build_transformer(SPEC, n_source_tokens=10, n_target_tokens=10).to(dtype)
    rows = np.arange(len(corpus))
    found = []
    for batches in ([rows], np.array_split(rows, 4)):
        model.zero_grad()
        collated = [collate(corpus, each) for each in batches]
        Accumulator(model, Objective(0.1), CPU).gather(collated, int(corpus.target_lengths.sum()))
        found.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert float((found[0] - found[1]).norm() / found[0].norm()) < limit


def test_every_row_is_learned_from_once_an_epoch_and_updates_hold_their_tokens(corpus):
    training = TrainingRecipe(steps=5, target_tokens_per_update=300, target_tokens_per_batch=90)
    updates = epoch_updates(corpus, training, 0)
    rows = np.concatenate([batch for update in updates for batch in update])
    assert sorted(rows.tolist()) == list(range(len(corpus)))
    for update in updates[:-1]:
        tokens = sum(int(corpus.target_lengths[batch].sum()) for batch in update)
        assert 300 - 45 <= tokens <= 300 + 45
    again = epoch_updates(corpus, training, 0)
    assert all(np.array_equal(a, b) for u, v in zip(updates, again, strict=True)
               for a, b in zip(u, v, strict=True))  # fmt: skip
    other = np.concatenate(
        [batch for update in epoch_updates(corpus, training, 1) for batch in update]
    )
    assert not np.array_equal(rows, other)


def test_the_decoder_reads_the_start_token_and_no_padding():
    target = torch.tensor([[5, 6, EOS], [7, EOS, PAD]])
    assert shifted(target).tolist() == [[BOS, 5, 6], [BOS, 7, PAD]]


def test_the_mean_loss_does_not_depend_on_the_batches(corpus):
    model = build_transformer(SPEC, n_source_tokens=10, n_target_tokens=10).double()
    small, large = (summed_loss(model, corpus, target_tokens=n) for n in (40, 4000))
    assert small[0] / small[1] == pytest.approx(large[0] / large[1], abs=1e-10)


def test_training_mode_does_not_leak_into_the_loss(corpus):
    spec = TransformerSpec(d_model=16, n_heads=2, d_hidden=16, n_encoder_layers=1,
                           n_decoder_layers=1, dropout=0.5)  # fmt: skip
    model = build_transformer(spec, n_source_tokens=10, n_target_tokens=10).double()
    first, second = (summed_loss(model, corpus, target_tokens=400)[0] for _ in range(2))
    assert first == second
    assert_close("loss", torch.tensor(first), torch.tensor(second))
