"""What a recurrent model is built of: refusals, ties, first numbers, self-checks, learning."""

import math
from dataclasses import fields, replace

import pytest
import torch
from torch.nn.functional import cross_entropy

from regard.choices import Choice
from regard.errors import SettingError, UnknownChoice
from regard.layers.recurrent import RecurrentEncoder, RecurrentLayer
from regard.models import Stepper, Trainable
from regard.models.recurrent.initialisation import INITIALISATIONS
from regard.models.recurrent.network import build_recurrent
from regard.models.recurrent.spec import PAPERS, RecurrentSpec
from regard.models.stepper import EOS, PAD
from tests.assertions import assert_close

V = 29
SMALL = {"d_embedding": 16, "d_hidden": 16, "n_layers": 1}
SPECS = {name: RecurrentSpec(**{**paper, **SMALL}) for name, paper in PAPERS.items()}


def build(spec, n=V):
    return build_recurrent(spec, n_source_tokens=n, n_target_tokens=n)


def loss(model, source, target):
    hidden, gold = model.loss_inputs(source, target)
    return cross_entropy(model.output(hidden).flatten(0, 1), gold.flatten(), ignore_index=PAD)


def batch(rows=8, width=9, n=V):
    return torch.randint(4, n, (2, rows, width))


MISTAKES = {
    "model.kind must be 'recurrent' here, got 'transformer'": {"kind": "transformer"},
    "model.d_hidden must lie between 1 and 65,536, got 0": {"d_hidden": 0},
    "model.n_layers must lie between 1 and 1,000, got 1001": {"n_layers": 1001},
    "model.dropout must lie in [0, 1), got 1.0": {"dropout": 1.0},
    "model.readout_dropout must lie in [0, 1), got -0.1": {"readout_dropout": -0.1},
    "model.is_bidirectional = true needs reverses_source = false, since both ways are read "
    "already, and bridge = 'projected' or 'backward', since a copy of two directions is no one "
    "state; got reverses_source = true and bridge = 'copy'. Set all three": {
        "is_bidirectional": True
    },
    "got reverses_source = false and bridge = 'copy'. Set all three": {
        "is_bidirectional": True,
        "reverses_source": False,
    },
    "Set is_bidirectional or reverses_source": {"bridge": "backward", "reverses_source": False},
    "states are 2000 wide and the decoder's 1000. Take general, concat, additive": {
        "is_bidirectional": True,
        "reverses_source": False,
        "bridge": "projected",
        "score": Choice("dot"),
    },
    "'location' cannot read what a source word has received": {
        "has_coverage": True,
        "score": Choice("location"),
    },
    "model.feeds_input: with attends = 'none'": {"attends": "none"},
    "model.has_coverage: with attends = 'none'": {
        "attends": "none",
        "feeds_input": False,
        "has_coverage": True,
    },
    "with attends = 'none' no state looks. Leave score and select out, or take": {
        "attends": "none",
        "feeds_input": False,
        "select": Choice("local_predictive"),
    },
    "model.attends_to_end: with attends = 'none'": {
        "attends": "none",
        "feeds_input": False,
        "attends_to_end": True,
    },
    "would never read what attends = 'current' sees": {"readout": "state"},
    "Set d_embedding = 1000, or tied = 'none'": {"d_embedding": 500, "tied": "output"},
    "is odd. Take 8, or readout = 'attentional'": {"d_hidden": 7, "readout": "maxout"},
}
UNKNOWN = {
    "Did you mean 'lstm'": {"cell": "lstn"},
    "Did you mean 'copy'": {"bridge": "copi"},
    "Did you mean 'current'": {"attends": "curent"},
    "Did you mean 'additive'": {"score": Choice("aditive")},
    "Did you mean 'local_monotonic'": {"select": Choice("local_monotone")},
    "Did you mean 'maxout'": {"readout": "max_out"},
    "Did you mean 'output'": {"tied": "outputs"},
    "Did you mean 'orthogonal'": {"initialisation": "orthogonale"},
}


@pytest.mark.parametrize(("text", "settings"), MISTAKES.items(), ids=MISTAKES)
def test_a_combination_that_cannot_work_is_refused_with_its_remedy(text, settings):
    with pytest.raises(SettingError) as said:
        RecurrentSpec(**settings)
    assert text in str(said.value)


@pytest.mark.parametrize(("text", "settings"), UNKNOWN.items(), ids=UNKNOWN)
def test_an_unknown_name_is_refused_with_the_nearest(text, settings):
    with pytest.raises(UnknownChoice) as said:
        RecurrentSpec(**settings)
    assert text in str(said.value)


def test_every_size_is_bounded():
    sizes = {one.name for one in fields(RecurrentSpec) if one.type is int}
    assert {"d_embedding", "d_hidden", "n_layers", "max_len"} == sizes <= set(RecurrentSpec.largest)


def test_two_vocabularies_cannot_share_one_table():
    with pytest.raises(SettingError, match="got 10 source and 12 target tokens"):
        build_recurrent(replace(SPECS["luong"], tied="all"), n_source_tokens=10, n_target_tokens=12)


@pytest.mark.parametrize(("tied", "n_tables"), [("none", 3), ("output", 2), ("all", 1)])
def test_ties_leave_as_many_tables_as_they_say(tied, n_tables):
    model = build(replace(SPECS["luong"], tied=tied))
    tables = {id(m.weight) for m in (model.source, model.target, model.output)}
    assert len(tables) == n_tables


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_scaled_weights_keep_the_state_and_begin_at_log_v(cell):
    spec = replace(SPECS["luong"], cell=cell, initialisation="scaled", d_embedding=64, d_hidden=64)
    model = build(spec, n=1000)
    for part in model.modules():
        if isinstance(part, RecurrentLayer):
            bias = part.of_input[:, -1].unflatten(0, (part.recurrence.n_gates, -1)).mean(1)
            assert bias.tolist() == [0.0, 1.0, 0.0, 0.0][: part.recurrence.n_gates]
    length = model.source.weight.detach().norm(dim=1).mean()
    assert float(length) == pytest.approx(1.0, rel=0.1)
    with torch.no_grad():
        began = float(loss(model.eval(), *batch(rows=16, n=1000)))
    assert began == pytest.approx(math.log(1000), rel=0.02)


@pytest.mark.parametrize("score", ["general", "concat", "additive", "location"])
def test_scaled_matrices_of_a_score_are_as_large_as_their_own_widths_ask(score):
    choices = {"score": Choice(score), "select": Choice("local_predictive")}
    model = build(replace(SPECS["luong"], initialisation="scaled", d_hidden=64, **choices))
    looks = {name: p for name, p in model.named_parameters() if ".chain." in name and p.dim() == 3}
    assert len(looks) > 1
    for matrix in looks.values():
        bound = math.sqrt(6 / sum(matrix.shape[-2:]))
        assert 0.9 * bound < float(matrix.detach().abs().max()) <= bound


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_paper_s_model_learns_writes_and_begins_at_log_v(spec):
    model = build(replace(spec, d_embedding=64, d_hidden=64), n=1000)
    assert isinstance(model, Trainable)
    assert isinstance(model, Stepper)
    assert model.output.bias is None
    assert all(part.training for part in model.modules())
    with torch.no_grad():
        began = float(loss(model.eval(), *batch(rows=16, n=1000)))
    assert began == pytest.approx(math.log(1000), rel=0.02)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_parameter_learns(spec):
    model = build(replace(spec, initialisation="uniform"))
    loss(model, *batch()).backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]
    assert still == []


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_every_paper_s_model_learns_a_small_batch(spec):
    model, (source, target) = build(replace(spec, dropout=0.0, readout_dropout=0.0)), batch(4, 5)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.05)
    before = float(loss(model, source, target).detach())
    for _ in range(40):
        optimiser.zero_grad()
        loss(model, source, target).backward()
        optimiser.step()
    assert float(loss(model.eval(), source, target).detach()) < 0.3 * before


def test_bahdanau_s_attention_begins_exactly_uniform():
    model = build(SPECS["bahdanau"]).double()
    source, target = batch(rows=2, width=6)
    source[1, 4:] = PAD
    weights = model.maps(source, target)["cross"][0].dense()
    assert_close("weights", weights[0] * 6, torch.ones(1, 6, 6))
    assert_close("weights", weights[1, ..., :4] * 4, torch.ones(1, 6, 4))


def test_luong_s_numbers_lie_within_a_tenth_and_bahdanau_s_states_turn_without_growing():
    model = build(SPECS["luong"])
    assert all(p.abs().max() <= 0.1 for p in model.parameters())
    model = build(SPECS["bahdanau"])
    for layer in (m for m in model.modules() if isinstance(m, RecurrentLayer)):
        for gate in layer.of_state.chunk(3):
            assert_close("gate", gate @ gate.T, torch.eye(16), atol=1e-5)
        assert not layer.of_input[:, -1].any()


def test_shapes_are_known_without_a_number_made():
    with torch.device("meta"):
        model = build(SPECS["bahdanau"])
    wanted = {name: p.shape for name, p in build(SPECS["bahdanau"]).named_parameters()}
    assert {name: p.shape for name, p in model.named_parameters()} == wanted
    assert set(INITIALISATIONS) == {"uniform", "orthogonal", "scaled"}


def test_the_number_of_parameters_is_that_of_the_paper_s_matrices():
    with torch.device("meta"):
        model = build(RecurrentSpec(), n=50000)
    n, plain, fed = 1000, 4 * (2 * 1000 + 1) * 1000, 4 * (3 * 1000 + 1) * 1000
    parts = 3 * 50000 * n + 7 * plain + fed + n * n + 2 * n * n
    assert sum(p.numel() for p in model.parameters()) == parts


@pytest.mark.parametrize("name", SPECS)
def test_dropout_is_for_training_only(name):
    spec = replace(SPECS[name], dropout=0.3, readout_dropout=0.3)
    model, (source, target) = build(spec).double(), batch(rows=2)
    assert not torch.equal(model.hidden(source, target), model.hidden(source, target))
    model.eval()
    assert torch.equal(model.hidden(source, target), model.hidden(source, target))


def test_the_self_check_notices_padding_that_is_read(monkeypatch):
    def all_there(self, x, valid):
        return real(self, x, torch.ones_like(valid))

    real = RecurrentEncoder.forward
    monkeypatch.setattr(RecurrentEncoder, "forward", all_there)
    with pytest.raises((AssertionError, SettingError), match="padding changes states"):
        build(SPECS["cs224n"])


def test_an_empty_source_teaches_without_a_hole():
    model, (source, target) = build(SPECS["luong"]), batch(rows=3)
    source[1], source[2] = PAD, PAD
    source[2, 0] = EOS
    loss(model, source, target).backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
