"""Recurrent layers: both forms are torch's, padding changes nothing, bridges are equations."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers.recurrent import (
    BRIDGES,
    READOUTS,
    RECURRENCES,
    RecurrentCells,
    RecurrentEncoder,
    RecurrentLayer,
)
from tests.assertions import assert_close, assert_same_gradients, doubles, gradients

TORCH = {"lstm": nn.LSTM, "gru": nn.GRU}
WAYS = {
    "forwards": ("forwards",),
    "backwards": ("backwards",),
    "both": ("forwards", "backwards"),
}


def like(layer, kind):
    """torch's own layer, whose biases beside the state are zero."""
    theirs = TORCH[kind](layer.d_input, layer.of_state.shape[1], batch_first=True).double()
    given = {
        "weight_ih_l0": layer.of_input[:, :-1],
        "weight_hh_l0": layer.of_state,
        "bias_ih_l0": layer.of_input[:, -1],
        "bias_hh_l0": torch.zeros_like(layer.of_input[:, -1]),
    }

    def call(x, state):
        hx = tuple(each[None] for each in state)
        arguments = (x, hx if len(hx) > 1 else hx[0])
        y, after = torch.func.functional_call(theirs, given, arguments)
        return y, tuple(each[0] for each in (after if isinstance(after, tuple) else (after,)))

    return call


def together(*tensors):
    return torch.cat([tensor.flatten() for tensor in tensors])


def some_states(kind, b, d):
    return tuple(doubles(b, d, requires_grad=True) for _ in range(RECURRENCES[kind].n_states))


def cells(kind, d_more=0):
    return RecurrentCells(
        RECURRENCES[kind], d_known=3, d_more=d_more, d_hidden=5, n_layers=2
    ).double()


@pytest.mark.parametrize("kind", RECURRENCES)
def test_all_steps_at_once_are_torch_s_layer(kind):
    layer = RecurrentLayer(RECURRENCES[kind], d_input=3, d_hidden=5).double()
    x, state = doubles(2, 7, 3, requires_grad=True), some_states(kind, 2, 5)
    (got, after), (want, last) = layer(x, state), like(layer, kind)(x, state)
    inputs = {"x": x, **dict(layer.named_parameters())} | {f"s{i}": s for i, s in enumerate(state)}
    ours, theirs = together(got, *after), together(want, *last)
    assert_close("states", ours, theirs)
    assert_same_gradients(ours, theirs, inputs)


@pytest.mark.parametrize("begins", ["with a state", "from nothing"])
@pytest.mark.parametrize("kind", RECURRENCES)
def test_the_fused_kernel_of_a_gpu_is_one_step_after_another(kind, begins):
    layer = RecurrentLayer(RECURRENCES[kind], d_input=3, d_hidden=5).double()
    x = doubles(2, 7, 4, requires_grad=True)
    state = some_states(kind, 2, 5) if begins == "with a state" else None
    (one, last), (other, end) = layer._fused(x, state), layer._in_turn(x, state)
    inputs = {"x": x, **dict(layer.named_parameters())}
    assert_close("states", together(one, *last), together(other, *end))
    assert_same_gradients(together(one, *last), together(other, *end), inputs)


@pytest.mark.parametrize("kind", RECURRENCES)
def test_step_by_step_with_a_fed_part_is_torch_s_stack(kind):
    stack = cells(kind, d_more=2)
    known, fed = doubles(2, 7, 3, requires_grad=True), doubles(2, 7, 2, requires_grad=True)
    start = tuple(some_states(kind, 2, 5) for _ in range(2))
    want = torch.cat([known, fed], -1)
    for layer, state in zip(stack.layers, start, strict=True):
        want, _ = like(layer, kind)(want, state)
    steps, state, said = stack.steps(known), start, []
    for t, now in enumerate(steps):
        state, read = stack.step(fed[:, t], state, now)
        steps.saw(read)
        said.append(state[-1][0])
    got = torch.stack(said, 1)
    inputs = {"known": known, "fed": fed, **dict(stack.named_parameters())}
    assert_close("states", got, want)
    assert_same_gradients(got, want, inputs)
    at_once, last = stack(torch.cat([known, fed], -1), start)
    assert_close("at once", at_once, want)
    for one, other in zip(last, state, strict=True):
        for x, y in zip(one, other, strict=True):
            assert_close("last states", x, y)


def encoder(kind, reads, n_layers=2):
    return RecurrentEncoder(
        RECURRENCES[kind], d_input=3, d_hidden=5, n_layers=n_layers, reads=reads
    ).double()


def packed(ours, kind, x, lengths):
    """torch's bidirectional stack on packed rows, with our weights."""
    theirs = TORCH[kind](3, 5, 2, batch_first=True, bidirectional=True).double()
    given = {}
    for i, layer in enumerate(ours.layers):
        for way, suffix in (("forwards", ""), ("backwards", "_reverse")):
            part = layer[way]
            given[f"weight_ih_l{i}{suffix}"] = part.of_input[:, :-1]
            given[f"weight_hh_l{i}{suffix}"] = part.of_state
            given[f"bias_ih_l{i}{suffix}"] = part.of_input[:, -1]
            given[f"bias_hh_l{i}{suffix}"] = torch.zeros_like(part.of_input[:, -1])
    rows = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    y, last = torch.func.functional_call(theirs, given, (rows,))
    return pad_packed_sequence(y, batch_first=True)[0], last if kind == "lstm" else (last,)


@pytest.mark.parametrize("kind", RECURRENCES)
def test_a_bidirectional_encoder_is_torch_s_on_packed_rows(kind):
    ours, x = encoder(kind, WAYS["both"]), doubles(3, 7, 3, requires_grad=True)
    lengths = torch.tensor([4, 7, 1])
    valid = torch.arange(7) < lengths[:, None]
    got, (want, last) = ours(x, valid), packed(ours, kind, x, lengths)
    assert_close("states", got.states, want)
    assert_same_gradients(got.states, want, {"x": x, **dict(ours.named_parameters())})
    for i, ends in enumerate(got.last):
        for j, way in enumerate(("forwards", "backwards")):
            for vector, theirs in zip(ends[way], last, strict=True):
                assert_close(f"last {way}", vector, theirs[2 * i + j])


@pytest.mark.parametrize("reads", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("kind", RECURRENCES)
def test_padding_changes_no_state_and_no_gradient(kind, reads):
    ours, x = encoder(kind, reads), doubles(2, 9, 3, requires_grad=True)
    valid = torch.arange(9) < torch.tensor([[5], [3]])
    long, short = ours(x, valid), ours(x[:, :5], valid[:, :5])
    assert not long.states[~valid].any()
    one, other = (
        together(read.states[:, :5], *(v for ends in read.last for way in reads for v in ends[way]))
        for read in (long, short)
    )
    assert_close("states", one, other)
    assert_same_gradients(one, other, {"x": x, **dict(ours.named_parameters())})
    assert not gradients(ours(x, valid).states, {"x": x})["x"][~valid].any()


def test_reading_backwards_leaves_states_in_the_order_of_the_sentence():
    ours, x = encoder("gru", WAYS["backwards"], n_layers=1), doubles(1, 6, 3)
    states, other = ours(x, torch.ones(1, 6, dtype=torch.bool)).states, x.clone()
    other[:, 3] += 1
    moved = ours(other, torch.ones(1, 6, dtype=torch.bool)).states
    assert (moved[0] != states[0]).any(-1).tolist() == [True] * 4 + [False] * 2


def test_a_row_of_nothing_but_padding_has_states_of_zeros():
    ours, x = encoder("lstm", WAYS["both"]), doubles(1, 4, 3)
    read = ours(x, torch.zeros(1, 4, dtype=torch.bool))
    assert not read.states.any()
    assert not any(vector.any() for ends in read.last for pair in ends.values() for vector in pair)


def test_dropout_stands_between_layers_and_leaves_padding_alone():
    torch.manual_seed(0)
    ours = RecurrentEncoder(
        RECURRENCES["lstm"], d_input=3, d_hidden=5, n_layers=2, dropout=0.5
    ).double()
    x, valid = doubles(2, 6, 3), torch.arange(6) < torch.tensor([[6], [2]])
    assert not ours(x, valid).states[~valid].any()
    assert not torch.equal(ours(x, valid).states, ours(x, valid).states)
    assert torch.equal(ours.eval()(x, valid).states, ours(x, valid).states)


@pytest.mark.parametrize("kind", RECURRENCES)
def test_bridges_are_their_equations(kind):
    n = RECURRENCES[kind].n_states
    last = [{w: tuple(doubles(2, 5) for _ in range(n)) for w in WAYS["both"]} for _ in range(2)]
    shape = {"d_hidden": 5, "n_layers": 2}
    projected = BRIDGES["projected"](RECURRENCES[kind], reads=WAYS["both"], **shape).double()
    backward = BRIDGES["backward"](RECURRENCES[kind], reads=WAYS["both"], **shape).double()
    one_way = [{"forwards": ends["forwards"]} for ends in last]
    copy = BRIDGES["copy"](RECURRENCES[kind], reads=("forwards",), **shape)
    for i in range(2):
        for j in range(n):
            fwd, bwd = last[i]["forwards"][j], last[i]["backwards"][j]
            W = projected.W[i * n + j].weight
            assert_close("projected", projected(last)[i][j], torch.cat([fwd, bwd], 1) @ W.T)
            W = backward.W[i * n + j].weight
            assert_close("backward", backward(last)[i][j], (bwd @ W.T).tanh())
            assert torch.equal(copy(one_way)[i][j], fwd)


def test_readouts_are_their_equations():
    c, h, e = doubles(2, 3, 7), doubles(2, 3, 4), doubles(2, 3, 5)
    made = {
        name: kind(d_context=7, d_hidden=4, d_embedding=5).double()
        for name, kind in READOUTS.items()
    }
    r = made["attentional"]
    assert_close("attentional", r(c, h, e), (torch.cat([c, h], -1) @ r.W.weight.T).tanh())
    r = made["maxout"]
    total = h @ r.U.weight.T + e @ r.V.weight.T + c @ r.C.weight.T
    assert_close("maxout", r(c, h, e), torch.maximum(total[..., ::2], total[..., 1::2]))
    assert torch.equal(made["state"](c, h, e), h)
    assert {name: part.width for name, part in made.items()} == {
        "attentional": 4,
        "maxout": 2,
        "state": 4,
    }
