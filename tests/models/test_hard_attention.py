"""Hard attention in every kind of model: the mean over all draws is the exact gradient."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import nn
from torch.nn.functional import pad

import regard
from regard.attention import Chain
from regard.attention.links import Selection
from regard.attention.selections.hard import HardRows, HardSelection
from regard.choices import Choice
from regard.errors import SettingError
from regard.models import (
    AttentionSpec,
    ConvolutionalSpec,
    LanguageSpec,
    RecurrentSpec,
    TransformerSpec,
    build_model,
)
from regard.models.hard_spec import HardSpec
from regard.models.stepper import PAD
from regard.training.losses import Objective
from tests.assertions import assert_close
from tests.factories import TRANSFORMER as TRANSFORMER_KEYS
from tests.factories import make_run

V, HARD = 9, Choice("hard")
BOUND = HardSpec(reinforce=1.0, entropy=0.0, expected_share=0.0)
"""The gradient of the bound itself."""
STACK = {"d_model": 4, "n_heads": 1, "d_hidden": 6, "dropout": 0.0, "positions": Choice("learned")}
TRANSFORMER = TransformerSpec(**STACK, n_encoder_layers=1, n_decoder_layers=1)
RECURRENT = RecurrentSpec(
    d_embedding=4, d_hidden=4, n_layers=1, dropout=0.0, select=HARD, attends_to_end=True,
    hard=BOUND,
)  # fmt: skip
SPECS = {
    "transformer": replace(
        TRANSFORMER,
        decoder=AttentionSpec(select=HARD),
        cross=AttentionSpec(select=HARD, n_heads=2),
        hard=BOUND,
    ),
    "transformer's encoder": replace(TRANSFORMER, encoder=AttentionSpec(select=HARD), hard=BOUND),
    "recurrent, fed": RECURRENT,
    "recurrent, at once": replace(RECURRENT, feeds_input=False),
    "convolutional": ConvolutionalSpec(
        d_model=4, n_encoder_layers=1, n_decoder_layers=2, dropout=0.0, select=HARD, hard=BOUND
    ),
    "language model": LanguageSpec(**STACK, n_layers=1, select=HARD, rows="running", hard=BOUND),
}
LENGTH = {"source": 2, "target": 2}


def build(spec):
    """A model in training whose numbers are large enough for a mistake to show."""
    torch.manual_seed(5)
    model = build_model(spec, n_source_tokens=V, n_target_tokens=V).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.7)
    return model.train()


def example(rows=1):
    return (torch.randint(4, V, (rows, LENGTH[side])) for side in ("source", "target"))


def loss(model, source, target, scale=1.0):
    return Objective()(model.loss_inputs, model.output, source, target, scale=scale).total


def gradient(model, total):
    named = dict(model.named_parameters())
    found = torch.autograd.grad(total, list(named.values()), allow_unused=True)
    pairs = zip(named.items(), found, strict=True)
    return {name: torch.zeros_like(p) if grad is None else grad for (name, p), grad in pairs}


class Forced(nn.Module, Selection):
    """A hard selection whose draws are known beforehand: one number a head and query, in turn."""

    def __init__(self, drawn=None):
        super().__init__()
        self.drawn, self.open_keys, self.log_probs = drawn and [*drawn], [], []

    def summarise(self, scores, mask, query, places):
        seen = mask.expand(scores.shape)
        flat = seen.flatten(0, -2)
        self.open_keys += [row.nonzero().flatten().tolist() for row in flat]
        keys = [self.drawn.pop(0) if self.drawn else int(row.nonzero()[0]) for row in flat]
        chosen = torch.tensor(keys).view(*scores.shape[:-1], 1)
        log_weights = scores.masked_fill(~seen, -torch.inf).log_softmax(-1)
        log_prob = log_weights.gather(-1, chosen)
        self.log_probs.append(log_prob.sum())
        return HardRows(scores.logsumexp(-1, keepdim=True), chosen, log_prob, 0 * log_prob)

    def weigh(self, scores, mask, rows, places):
        return (places.key == rows.chosen).to(scores.dtype).expand(scores.shape)


def drawing_chains(model):
    return [p for p in model.modules() if isinstance(p, Chain) and not p.select.as_softmax()]


def forced(model, drawn):
    """Give every chain that draws its part of the draws; the first, to learn how many there are."""
    links = []
    for chain, part in zip(drawing_chains(model), drawn, strict=True):
        chain.select = Forced(part)
        links.append(chain.select)
    return links


def outcomes(model, source, target):
    """Every combination of draws, one list for each chain."""
    links = forced(model, [None] * len(drawing_chains(model)))
    model.plain_loss_inputs(source, target)
    for all_drawn in product(*(keys for link in links for keys in link.open_keys)):
        rest = [*all_drawn]
        yield [[rest.pop(0) for _ in link.open_keys] for link in links]


@pytest.mark.parametrize("name", SPECS)
def test_the_mean_over_all_draws_is_the_gradient_of_the_bound(name):
    model, (source, target) = build(SPECS[name]), example()
    every = list(outcomes(model, source, target))
    bound, total = torch.zeros((), dtype=torch.float64), 0.0
    mean = {key: torch.zeros_like(p) for key, p in model.named_parameters()}
    for drawn in every:
        links = forced(model, drawn)
        hidden, gold = model.plain_loss_inputs(source, target)
        words = model.output(hidden).log_softmax(-1).gather(-1, gold[..., None])
        log_p = words[gold != PAD].sum()
        likely = torch.stack([each for link in links for each in link.log_probs]).sum().exp()
        bound, total = bound + likely * log_p, total + float(likely.detach())
        forced(model, drawn)
        model.hard.baseline.fill_(-2.3)
        for key, grad in gradient(model, loss(model, source, target)).items():
            mean[key] = mean[key] - likely.detach() * grad
    assert len(every) > 3
    assert total == pytest.approx(1.0)
    exact = gradient(model, bound)
    assert max(float(grad.abs().max()) for grad in exact.values()) > 1e-2
    for key, grad in exact.items():
        assert_close(key, mean[key], grad, atol=1e-6)


WHOLE = {name: replace(spec, hard=HardSpec(expected_share=1.0)) for name, spec in SPECS.items()}


@pytest.mark.parametrize("name", WHOLE)
def test_expectations_that_teach_are_soft_attention(name):
    hard = HardSpec(expected_share=1.0, learns_from_expected=True, entropy=0.0)
    model = build(replace(WHOLE[name], hard=hard))
    source, target = example(rows=3)
    got = gradient(model, loss(model, source, target))
    for chain in drawing_chains(model):
        chain.select = HardSelection(at_test="expected").eval()
    model.hard = None
    for key, grad in gradient(model, loss(model, source, target)).items():
        assert_close(key, got[key], grad)


@pytest.mark.parametrize("name", WHOLE)
def test_padding_draws_nothing_that_counts(name):
    hard = HardSpec(expected_share=1.0, reinforce=0.0, entropy=0.7)
    model = build(replace(WHOLE[name], hard=hard))
    source, target = example(rows=2)
    alone = loss(model, source, target)
    without = Objective()(model.plain_loss_inputs, model.output, source, target).total
    assert (alone - without).abs() > 0.1
    longer = (pad(source, (0, 2), value=PAD), pad(target, (0, 3), value=PAD))
    assert_close("loss", loss(model, *longer).detach(), alone.detach())


@pytest.mark.parametrize("name", ["transformer", "recurrent, fed", "language model"])
def test_the_loss_of_several_readings_is_their_mean(name):
    one = build(WHOLE[name])
    three = build(replace(WHOLE[name], hard=HardSpec(expected_share=1.0, n_samples=3)))
    source, target = example(rows=2)
    assert_close("loss", loss(three, source, target).detach(), loss(one, source, target).detach())


def test_an_example_is_read_with_draws_or_with_expectations_in_all_attentions():
    model = build(replace(SPECS["transformer"], hard=HardSpec(expected_share=0.5)))
    source, target = (each.expand(200, -1) for each in example())
    seen = {}
    for place, chain in model.named_modules():
        if isinstance(chain, Chain):
            chain.register_forward_hook(
                lambda _, __, attended, place=place: seen.update({place: attended.rows})
            )
    model.loss_inputs(source, target)
    drawn = {place: rows.log_prob.ne(0).flatten(1).any(1) for place, rows in seen.items()
             if isinstance(rows, HardRows)}  # fmt: skip
    one, other = drawn.values()
    assert torch.equal(one, other)
    assert 60 < int(one.sum()) < 140
    assert all(isinstance(chain.select, HardSelection) and chain.select.expects is None
               for chain in drawing_chains(model))  # fmt: skip


def test_evaluation_takes_the_likeliest_key_and_moves_no_baseline():
    model, (source, target) = build(SPECS["transformer"]).eval(), example()
    first = loss(model, source, target)
    assert torch.equal(first, loss(model, source, target))
    assert not model.hard.baseline
    assert {"hard.baseline"} == {name for name, _ in model.named_buffers()}


def test_blocks_of_queries_are_worked_again_with_the_same_expectations():
    query, key, value = (torch.randn(2, 1, 9, 4, dtype=torch.float64) for _ in range(3))
    expects = torch.ones(2, 1, 1, 1, dtype=torch.bool)
    found = []
    for path in ("dense", "streamed"):
        tensors = [each.clone().requires_grad_() for each in (query, key, value)]
        chain = Chain(select=HardSelection().expecting(expects, learns=True), path=path).train()
        attended = chain(*tensors)
        (attended.context.square().sum() + attended.rows.entropy.sum()).backward()
        found.append([each.grad for each in tensors])
    for here, there in zip(*found, strict=True):
        assert_close("gradient", here, there)


REFUSED = {
    "nothing draws": (
        lambda: TransformerSpec(hard=HardSpec()), "model.hard: no attention draws, so that",
    ),
    "nothing draws here": (
        lambda: RecurrentSpec(hard=HardSpec()), "model.hard: no attention draws, so that",
    ),
    "share": (lambda: HardSpec(expected_share=1.5), r"model.hard.expected_share must lie in \[0"),
    "weight": (lambda: HardSpec(entropy=-1.0), "model.hard.entropy must be at least 0, got -1"),
    "samples": (lambda: HardSpec(n_samples=0), "model.hard.n_samples must be at least 1, got 0"),
    "by length": (
        lambda: TransformerSpec(select=HARD, encoder_attends=(Choice("big_bird"),)),
        "model.select = 'hard' learns from whole batches",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "said"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused(make, said):
    with pytest.raises(SettingError, match=said):
        make()


DRAWING = {
    "cross-attention": f'{TRANSFORMER_KEYS}\ncross = {{ select = "hard" }}',
    "recurrent": 'kind = "recurrent"\nd_embedding = 8\nd_hidden = 8\nselect = "hard"',
}


@pytest.mark.parametrize("name", DRAWING)
def test_a_look_shows_the_one_key_of_each_word(name, tmp_path):
    run = regard.load(make_run(tmp_path / "run", model=DRAWING[name]))
    record = run.look("a b c", target="a b")
    weights = record.weights("cross", layer=0, head=0)
    assert set(weights.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert record.attention["cross"].mechanism.endswith("hard")
