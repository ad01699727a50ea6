"""Out of memory: batches are cut, nothing is left out, nothing of a failed attempt remains."""

import numpy as np
import pytest
import torch

from regard.data import Example
from regard.data.batches import collate
from regard.data.corpus import write_corpus
from regard.data.subword_kinds import KINDS
from regard.data.subwords import Subwords
from regard.errors import LengthError
from regard.hardware.cuda_graphs import GraphedWork
from regard.hardware.hardware import CPU
from regard.models import LossInputs, TransformerSpec, build_transformer
from regard.training.accumulation import Accumulator
from regard.training.losses import Objective


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden):
        return hidden.clone()

    @staticmethod
    def backward(ctx, grad):
        raise torch.OutOfMemoryError("injected on the way back")


def _fails_at_once(hidden):
    raise torch.OutOfMemoryError("injected")


def _model(dropout):
    spec = TransformerSpec(d_model=16, n_heads=2, d_hidden=16, n_encoder_layers=1,
                           n_decoder_layers=1, dropout=dropout)  # fmt: skip
    torch.manual_seed(3)
    return build_transformer(spec, n_source_tokens=10, n_target_tokens=10).double()


def _small_memory(model, most_rows, fail=_fails_at_once):
    """A model for which more rows than this are too many; the sizes it was asked for."""
    asked, honest = [], model.loss_inputs

    def loss_inputs(source, target):
        asked.append(len(source))
        hidden, gold = honest(source, target)
        return LossInputs(fail(hidden) if len(source) > most_rows else hidden, gold)

    model.loss_inputs = loss_inputs
    return asked


def _gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.fixture
def batches(tmp_path):
    draws = np.random.default_rng(3)
    texts = [" ".join(draws.choice(list("abcdef"), size=draws.integers(2, 14))) for _ in range(24)]
    words = Subwords.train(texts, kind=KINDS["words"], size=20)
    corpus = write_corpus(tmp_path / "c", [Example(t, (t,)) for t in texts], words, words)
    return [collate(corpus, rows) for rows in np.array_split(np.arange(24), [4, 16])]


def _tokens(batches):
    return sum(int(batch.target_lengths.sum()) for batch in batches)


@pytest.mark.parametrize("fail", [_fails_at_once, FailsBackward.apply], ids=["forward", "backward"])
def test_batches_that_do_not_fit_are_cut_and_give_the_same_gradient(batches, fail):
    found = []
    for most_rows in (99, 3):
        model = _model(dropout=0.0)
        _small_memory(model, most_rows, fail)
        found.append((Accumulator(model, Objective(0.1), CPU).gather(batches, _tokens(batches)),
                      _gradient(model)))  # fmt: skip
    (whole, expected), (cut, gradient) = found
    assert (whole.splits, cut.splits) == (0, 1 + 3 + 3)
    assert float(cut.nll) == pytest.approx(float(whole.nll), rel=1e-12)
    assert float((gradient - expected).norm() / expected.norm()) < 1e-12


@pytest.mark.parametrize("fail", [_fails_at_once, FailsBackward.apply], ids=["forward", "backward"])
def test_random_numbers_are_put_back_so_that_a_failure_leaves_no_trace(batches, fail):
    failing, warned = _model(dropout=0.5), _model(dropout=0.5)
    _small_memory(failing, 3, fail)
    _small_memory(warned, 99)
    torch.manual_seed(5)
    Accumulator(failing, Objective(0.1), CPU).gather(batches, _tokens(batches))
    after = torch.get_rng_state()
    # the same pieces, cut by hand
    torch.manual_seed(5)
    pieces = [_rows(b, i, i + n) for b, n in zip(batches, (2, 3, 2), strict=True)
              for i in range(0, len(b.rows), n)]  # fmt: skip
    Accumulator(warned, Objective(0.1), CPU).gather(pieces, _tokens(batches))
    assert torch.equal(_gradient(failing), _gradient(warned))
    assert torch.equal(after, torch.get_rng_state())


def _rows(batch, first, last):
    return type(batch)(batch.source[first:last], batch.target[first:last],
                       batch.source_lengths[first:last], batch.target_lengths[first:last],
                       batch.rows[first:last])  # fmt: skip


def test_what_did_not_fit_once_is_not_tried_again(batches):
    model = _model(dropout=0.0)
    asked = _small_memory(model, 3)
    accumulator = Accumulator(model, Objective(), CPU)
    first = accumulator.gather(batches, _tokens(batches))
    assert max(asked) == 12
    asked.clear()
    again = accumulator.gather(batches, _tokens(batches))
    assert max(asked) <= 3
    assert sum(asked) == 24, "every row is learned from, once"
    assert again.splits == first.splits
    assert float(again.nll) == pytest.approx(float(first.nll))


class SmallBackend:
    """A backend without memory for anything beside a number of graphs."""

    def __init__(self, room):
        self.room, self.made = room, 0

    def run(self, work, inputs):
        return work(*inputs)

    def capture_graph(self, work, inputs):
        if self.made == self.room:
            raise torch.OutOfMemoryError("injected while capturing")
        self.made += 1
        return work

    def free(self):
        self.made = 0


@pytest.mark.parametrize("room", [0, 1, 2])
def test_without_memory_for_graphs_an_update_ends_whole_and_without_them(batches, room):
    plain, short = _model(dropout=0.5), _model(dropout=0.5)
    repeated = [batch for batch in batches for _ in range(3)]
    torch.manual_seed(5)
    expected = Accumulator(plain, Objective(0.1), CPU).gather(repeated, _tokens(repeated))
    accumulator = Accumulator(short, Objective(0.1), CPU)
    accumulator.work = GraphedWork(accumulator._work, SmallBackend(room))
    torch.manual_seed(5)
    gathered = accumulator.gather(repeated, _tokens(repeated))
    assert gathered.splits == 0
    assert torch.equal(gathered.nll, expected.nll)
    assert torch.equal(_gradient(short), _gradient(plain))


def test_what_does_not_fit_beside_no_graph_either_is_cut(batches):
    model = _model(dropout=0.0)
    _small_memory(model, 3)
    accumulator = Accumulator(model, Objective(0.1), CPU)
    accumulator.work = GraphedWork(accumulator._work, SmallBackend(2))
    repeated = [batch for batch in batches for _ in range(3)]
    gathered = accumulator.gather(repeated, _tokens(repeated))
    assert gathered.splits == 3 * (1 + 3 + 3)


def test_one_example_that_does_not_fit_is_an_error_that_says_what_to_do(batches):
    model = _model(dropout=0.0)
    _small_memory(model, 0)
    with pytest.raises(
        LengthError,
        match=r"an example of \d+ source and \d+ target tokens does not fit into the memory of "
        r"cpu, though it was alone there\. Lower data\.max_tokens, or take a smaller model",
    ):
        Accumulator(model, Objective(), CPU).gather(batches, _tokens(batches))


def test_a_worker_without_a_batch_adds_nothing():
    model = _model(dropout=0.0)
    gathered = Accumulator(model, Objective(), CPU).gather([], 7)
    assert (gathered.nll, gathered.splits) == (0.0, 0)
    assert all(p.grad is None for p in model.parameters())
