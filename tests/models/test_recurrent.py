"""Recurrent models against their papers, written out: outputs, weights, and gradients by name."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from regard.choices import Choice
from regard.models.recurrent.network import build_recurrent
from regard.models.recurrent.spec import PAPERS, RecurrentSpec
from regard.models.stepper import BOS, EOS, PAD
from tests.assertions import assert_close, assert_same_gradients, gradients
from tests.oracles import recurrent as oracle

ROOT = Path(__file__).parents[2]
V = 13
LUONG = RecurrentSpec(d_embedding=5, d_hidden=6, n_layers=2, max_len=9)
BAHDANAU = RecurrentSpec(**{**PAPERS["bahdanau"], "d_embedding": 5, "d_hidden": 6})
CS224N = RecurrentSpec(**{**PAPERS["cs224n"], "d_embedding": 5, "d_hidden": 6})
NARROW = {"half_width": 2}
SELECTS = {
    "soft": Choice("soft"),
    "local_monotonic": Choice("local_monotonic", NARROW),
    "local_predictive": Choice("local_predictive", NARROW),
}


def luong(score, select, *, feeds):
    spec = replace(LUONG, score=Choice(score), select=SELECTS[select], feeds_input=feeds)
    settings = NARROW if select != "soft" else {}
    return spec, oracle.Luong(score=score, select=select, feeds=feeds, **settings)


PAIRS = {
    **{
        f"luong {score}, {select}, {'fed' if feeds else 'at once'}": luong(
            score, select, feeds=feeds
        )
        for score in ("dot", "general", "concat", "location")
        for select in SELECTS
        # what is at once equals what goes step by step, which has a test of its own
        for feeds in (True, False)[: 1 + (select == "local_predictive")]
    },
    "luong with a gru": (
        replace(LUONG, cell="gru", reverses_source=False),
        oracle.Luong(score="general", select="soft", feeds=True),
    ),
    "luong that looks at the end": (
        replace(LUONG, attends_to_end=True),
        oracle.Luong(score="general", select="soft", feeds=True),
    ),
    "bahdanau": (BAHDANAU, oracle.Bahdanau(score="additive", select="soft")),
    "bahdanau, local": (
        replace(BAHDANAU, select=SELECTS["local_predictive"]),
        oracle.Bahdanau(score="additive", select="local_predictive", **NARROW),
    ),
    "bahdanau, lstm": (
        replace(BAHDANAU, cell="lstm", n_layers=2, readout="attentional"),
        oracle.Bahdanau(score="additive", select="soft", readout="attentional"),
    ),
    "cs224n": (CS224N, oracle.Luong(score="general", select="soft", feeds=True)),
    "cs224n, additive": (
        replace(CS224N, score=Choice("additive", {"d_hidden": 4}), feeds_input=False),
        oracle.Luong(score="additive", select="soft", feeds=False),
    ),
    "coverage": (
        replace(CS224N, score=Choice("additive", {"d_hidden": 4}), has_coverage=True),
        oracle.Covering(),
    ),
    "no attention": (
        replace(LUONG, attends="none", feeds_input=False, readout="state"),
        oracle.Luong(score=None, select=None, feeds=False, readout="state"),
    ),
    "no attention, maxout": (
        replace(LUONG, attends="none", feeds_input=False, readout="maxout"),
        oracle.Luong(score=None, select=None, feeds=False, readout="maxout"),
    ),
}


def build(spec, scale=0.5):
    """A model whose numbers are large enough for a mistake to show."""
    model = build_recurrent(spec, n_source_tokens=V, n_target_tokens=V).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=scale)
    return model


def batch(lengths=(4, 6, 1), width=8, n_target=5):
    """Sources that end with the end token, then padding; targets that begin with the begin token"""
    source = torch.randint(4, V, (len(lengths), width))
    for row, length in zip(source, lengths, strict=True):
        row[length], row[length + 1 :] = EOS, PAD
    target = torch.randint(4, V, (len(lengths), n_target))
    target[:, 0] = BOS
    return source, target


def by_the_paper(model, spec, paper, source, target):
    """What each sentence says alone, and its weights."""
    p, said, rows = dict(model.named_parameters()), [], []
    # a layer's name, whichever decoder holds it
    prefix = "decoder.cell." if any(".cell." in name for name in p) else "decoder."
    p.setdefault(oracle.SOURCE, p[oracle.TARGET])
    for tokens, written in zip(source.tolist(), target.tolist(), strict=True):
        tokens = [token for token in tokens if token != PAD]
        keys, last = oracle.encode(p, spec.cell, spec.n_layers, spec.reads, tokens)
        keys = keys if spec.attends_to_end else keys[: tokens.index(EOS)]
        states = oracle.BRIDGES[spec.bridge](p, last)
        one, weights = paper(p, prefix, spec.cell, keys, states, written)
        said.append(one)
        rows.append(weights)
    return torch.stack(said), rows


@pytest.mark.parametrize(("spec", "paper"), PAIRS.values(), ids=PAIRS)
def test_a_model_is_its_paper_with_every_gradient(spec, paper):
    model, (source, target) = build(spec), batch()
    got, (want, _) = model.hidden(source, target), by_the_paper(model, spec, paper, source, target)
    assert_close("hidden", got, want)
    assert_same_gradients(got, want, dict(model.named_parameters()))


@pytest.mark.parametrize("name", ["coverage", *[*PAIRS][:-2:4]])
def test_a_map_holds_the_paper_s_weights(name):
    spec, paper = PAIRS[name]
    model, (source, target) = build(spec), batch()
    _, rows = by_the_paper(model, spec, paper, source, target)
    (found,) = model.maps(source, target)["cross"]
    weights = found.dense()
    assert weights.shape == (3, 1, 5, 8)
    for i, sentence in enumerate(rows):
        want = torch.stack(sentence)
        assert_close("weights", weights[i, 0, :, : want.shape[1]], want.detach())
        assert not weights[i, 0, :, want.shape[1] :].any()
    assert_close("tile", found.tile(slice(2, 4), slice(1, 3)), weights[..., 2:4, 1:3])
    assert_close("row", found.row(4), weights[..., 4, :])


@pytest.mark.parametrize("score", ["general", "concat"])
def test_a_map_with_coverage_covers_all_rows(score):
    model, (source, target) = (
        build(replace(CS224N, score=Choice(score), has_coverage=True)),
        batch(),
    )
    (found,) = model.maps(source, target)["cross"]
    weights = found.dense()
    assert_close("tile", found.tile(slice(3, 5), slice(0, 2)), weights[..., 3:5, 0:2])
    assert_close("mass", weights.sum(-1), torch.ones(3, 1, 5))


def test_without_attention_there_is_no_map():
    model = build(PAIRS["no attention"][0])
    assert model.maps(*batch()) == {}


@pytest.mark.parametrize("score", ["additive", "general", "concat"])
def test_coverage_whose_weight_is_zero_is_no_coverage(score):
    plain = replace(CS224N, score=Choice(score))
    model, covering = build(plain), build(replace(plain, has_coverage=True))
    given = model.state_dict()
    for name, tensor in covering.state_dict().items():
        if tensor.shape == given[name].shape:
            tensor.copy_(given[name])
        else:
            tensor.zero_()
            part = tuple(slice(n) for n in given[name].shape)
            tensor[part] = given[name]
    source, target = batch()
    assert_close("hidden", covering.hidden(source, target), model.hidden(source, target))


def same_but(model, spec):
    """A model of another spec with the same numbers, as far as both have them."""
    other = build(spec)
    other.load_state_dict(model.state_dict(), strict=False)
    return other


@pytest.mark.parametrize("feeds", [True, False])
@pytest.mark.parametrize("base", [LUONG, BAHDANAU], ids=["current", "previous"])
def test_a_window_that_holds_the_sentence_is_global(base, feeds):
    model, (source, target) = build(replace(base, feeds_input=feeds)), batch()
    want = model.hidden(source, target)
    for name, settings in (
        ("local_monotonic", {"half_width": 9}),
        ("local_predictive", {"half_width": 9, "sigma": 1e9}),
    ):
        local = replace(base, feeds_input=feeds, select=Choice(name, settings))
        assert_close(name, same_but(model, local).hidden(source, target), want)


def test_general_with_the_identity_is_dot():
    model, (source, target) = build(LUONG), batch()
    with torch.no_grad():
        model.decoder.cell.look.chain.score.W[0] = torch.eye(6)
    other = same_but(model, replace(LUONG, score=Choice("dot")))
    assert_close("hidden", other.hidden(source, target), model.hidden(source, target))


@pytest.mark.parametrize("feeds", [True, False])
def test_rows_of_local_predictive_sum_to_at_most_one(feeds):
    spec = replace(LUONG, select=SELECTS["local_predictive"], feeds_input=feeds)
    mass = build(spec).maps(*batch())["cross"][0].dense().sum(-1)
    assert (mass > 0).all()
    assert (mass <= 1).all()
    assert (mass < 0.999).any()


@pytest.mark.parametrize("feeds", [True, False])
def test_only_the_gaussian_teaches_where_to_look(feeds):
    def taught(sigma):
        settings = {"half_width": 2, "sigma": sigma}
        spec = replace(LUONG, select=Choice("local_predictive", settings), feeds_input=feeds)
        model = build(spec)
        select = {k: p for k, p in model.named_parameters() if ".select." in k}
        assert len(select) == 2
        return max(float(g.abs().max()) for g in gradients(model.hidden(*batch()), select).values())

    assert taught(1e12) < 1e-15
    assert taught(1.0) > 1e-4


def test_location_ignores_what_the_source_says():
    spec = replace(LUONG, score=Choice("location"), feeds_input=False, bridge="projected")
    model, (source, target) = build(spec), batch()
    with torch.no_grad():
        for matrix in model.bridge.W:
            matrix.weight.zero_()
    other = source.clone()
    other[0, :4] = source[0, :4].flip(0)
    here, there = (model.maps(s, target)["cross"][0].dense() for s in (source, other))
    assert_close("weights", here, there)
    assert not torch.equal(model.hidden(source, target), model.hidden(other, target))


def test_the_source_s_end_is_not_looked_at_unless_asked_for():
    source, target = batch()
    ends = source == EOS
    blind, seeing = build(LUONG), build(replace(LUONG, attends_to_end=True))
    assert not blind.maps(source, target)["cross"][0].dense().mT[:, 0][ends].any()
    assert seeing.maps(source, target)["cross"][0].dense().mT[:, 0][ends].all()


@pytest.mark.parametrize("score", ["dot", "general", "concat", "additive", "location"])
@pytest.mark.parametrize("select", SELECTS)
def test_all_steps_at_once_equal_one_after_another(score, select):
    spec = replace(LUONG, score=Choice(score), select=SELECTS[select], feeds_input=False)
    model, (source, target) = build(spec), batch()
    whole, state, parts = model(source, target), model.start(source), []
    for t in range(5):
        logits, state = model.step(state, target[:, t : t + 1])
        parts.append(logits)
    got = torch.cat(parts, 1)
    assert_close("logits", got, whole)
    assert_same_gradients(got, whole, dict(model.named_parameters()))


# the type checks of the tests would break the graph, so the cases run in a process without them
COMPILED = """
from tests.models.test_recurrent import PAIRS, batch, build
from dataclasses import replace
from regard.choices import Choice
import torch
from torch._dynamo.backends.common import aot_autograd

def looked_at(graph, inputs):
    values = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    numbers = [v for v in values if isinstance(v, torch.Tensor) and v.dim() == 0]
    assert not numbers, f"numbers among the inputs, which lie on the CPU: {numbers}"
    return graph

torch.set_num_threads(1)
(source, target), spec = batch(n_target=3), PAIRS["bahdanau, local"][0]
cases = {
    "as written": spec,
    "tempered": replace(spec, select=Choice("soft", {"temperature": 2.3})),
    "sigma": replace(spec, select=Choice("local_predictive", {"sigma": 0.7})),
}
for name, spec in cases.items():
    model = build(spec)
    want = model(source, target)
    (step,) = model.repeated()
    seen = aot_autograd(fw_compiler=looked_at, bw_compiler=looked_at)
    step.compile(backend=seen, fullgraph=True, dynamic=True)
    got = model(source, target)
    torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-12)
    weights = list(model.parameters())
    for ours, theirs in zip(*(torch.autograd.grad(x.sum(), weights) for x in (got, want))):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)
    print(name, "is the same")
"""


@pytest.mark.slow
def test_a_compiled_step_is_the_same_and_takes_no_number_from_the_cpu():
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILED],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    names = ("as written", "tempered", "sigma")
    assert ran.stdout.splitlines() == [f"{name} is the same" for name in names], ran.stderr


@pytest.mark.parametrize(
    ("kind", "is_worth_compiling"), [("bahdanau, local", True), ("no attention", False)]
)
def test_only_steps_that_wait_for_each_other_are_compiled(kind, is_worth_compiling):
    assert bool(list(build(PAIRS[kind][0]).repeated())) is is_worth_compiling
