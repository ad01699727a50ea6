"""The LSTM of Show, Attend and Tell against the paper, written out; and the limits it has."""

from dataclasses import replace

import pytest
import torch
from torch.nn.functional import pad

from regard.models.captioner.focus import Focused
from regard.models.captioner.spec import CaptionerSpec
from regard.models.stepper import PAD
from tests.assertions import assert_close, assert_same_gradients
from tests.models.captioner.small import DRAWN, SOFT, SPECS, Forced, annotations, build, read
from tests.oracles import captioner as oracle

FOCUSES = {"soft": oracle.soft, "hard": oracle.soft, "hard, argmax": oracle.likeliest}


def by_the_paper(model, source, target, focus):
    """What each caption says alone, with its weights and gates."""
    p = dict(model.decoder.named_parameters())
    found = [
        oracle.read(p, list(a), tokens, focus)
        for a, tokens in zip(source, target.tolist(), strict=True)
    ]
    return [torch.stack(each) for each in zip(*found, strict=True)]


@pytest.mark.parametrize("name", FOCUSES)
def test_the_decoder_is_the_paper_with_every_gradient(name):
    model, source, target = build(SPECS[name]), annotations().requires_grad_(), read()
    said, alphas, betas = by_the_paper(model, source, target, FOCUSES[name])
    got = model.hidden(source, target)
    assert_close("hidden", got, said)
    inputs = {**dict(model.decoder.named_parameters()), "annotations": source}
    assert_same_gradients(got, said, inputs)
    (found,) = model.maps(source, target)["cross"]
    # of hard focus the map shows what is likely, and not what was taken
    assert_close("weights", found.dense()[:, 0], alphas.detach())
    assert_close("gates", model.gates(source, target), betas)


@pytest.mark.parametrize("name", ["relu", "sigmoid"])
def test_the_score_has_the_recipe_s_activation(name):
    model, source, target = build(replace(SOFT, activation=name)), annotations(1), read(1)
    score = model.decoder.cell.score
    (step, *_) = model.decoder._steps(model.decoder.embedding(target), model.decoder.start(source))
    inner = getattr(torch, name)(step.query @ score.W[0] + source[0] @ score.U[0] + score.c[0])
    assert_close("weights", step.focused.likely, (inner @ score.v[0]).softmax(-1)[None])
    (found,) = model.maps(source, target)["cross"]
    assert_close("map", found.dense()[0, 0, 0], step.focused.likely[0].detach())


def test_a_caption_with_draws_is_the_paper_with_those_draws():
    model, source, target = build(DRAWN), annotations(1), read(1)
    path = [2, 0, 5, 5, 1]
    model.decoder.cell.focus.select = Forced(path)
    got = model.decoder.train().hidden(source, target)
    (want, _, _) = by_the_paper(model, source, target, oracle.drawn(path))
    assert_close("hidden", got, want)


def test_soft_weights_forced_to_one_cell_are_a_draw_of_that_cell():
    soft, hard = build(SOFT), build(DRAWN)
    hard.load_state_dict(soft.state_dict(), strict=False)
    source, target, path = annotations(1), read(1), [2, 0, 5, 5, 1]
    hard.decoder.cell.focus.select, ahead = Forced(path), iter(path)

    class OneCell(torch.nn.Module):
        def expectation_rows(self, n_rows, device):
            return None

        def forward(self, scores, expectation_rows):
            # a score that is far above all others leaves them nothing
            forced = scores.clone()
            forced[..., next(ahead)] += 1e6
            likely = forced.softmax(-1)
            return Focused(likely, likely.flatten(0, 1), None)

    soft.decoder.cell.focus = OneCell()
    got = hard.decoder.train().hidden(source, target)
    assert_close("hidden", got, soft.hidden(source, target))


def test_sharp_scores_make_soft_focus_the_likeliest_cell():
    soft, sharp = build(SPECS["hard, argmax"]), build(SOFT)
    sharp.load_state_dict(
        {k: v for k, v in soft.state_dict().items() if k != "decoder.cell.focus.baseline"}
    )
    with torch.no_grad():
        for model in (soft, sharp):
            model.decoder.cell.score.v *= 1e9
    source, target = annotations(), read()
    assert_close("logits", sharp(source, target), soft(source, target))


def test_without_a_score_every_cell_counts_alike_and_the_mean_is_seen():
    model, source, target = build(SOFT), annotations(), read()
    with torch.no_grad():
        model.decoder.cell.score.v.zero_()
    weights = model.maps(source, target)["cross"][0].dense()
    assert_close("weights", weights, torch.full((3, 1, 5, 6), 1 / 6, dtype=torch.float64))
    steps = model.decoder._steps(model.decoder.embedding(target), model.start(source))
    for step in steps:
        assert_close("seen", step.seen / step.gate, source.mean(1))


def test_a_closed_gate_lets_nothing_in():
    model, source, target = build(SOFT), annotations(), read()
    with torch.no_grad():
        model.decoder.cell.gate.bias.fill_(-1e9)
    # another picture with the same mean begins alike, and nothing else of it is seen
    other = source + (d := annotations()) - d.mean(1, keepdim=True)
    assert_close("logits", model(other, target), model(source, target))
    assert not model.gates(source, target).any()


@pytest.mark.parametrize("name", FOCUSES)
def test_the_order_of_annotations_changes_no_caption(name):
    model, source, target = build(SPECS[name]), annotations(), read()
    order = torch.randperm(6)
    assert_close("logits", model(source[:, order], target), model(source, target))
    here, there = (model.maps(s, target)["cross"][0].dense() for s in (source, source[:, order]))
    assert_close("weights", there, here[..., order])


def test_softmax_of_expected_logits_is_the_geometric_mean_of_softmaxes():
    """With logits linear in what is seen, as the paper prints them: without the tanh."""
    model, source, target = build(SOFT), annotations(1), read(1)
    word = model.decoder.embedding(target)[0]
    steps = model.decoder._steps(word[None], model.start(source))
    alphas = model.maps(source, target)["cross"][0].dense()[0, 0]
    for each, step, alpha in zip(word, steps, alphas, strict=True):

        def logits(seen, each=each, step=step):
            deep = each + model.decoder.L_h(step.state) + model.decoder.L_z(seen)
            return model.output(deep)

        expected = logits(step.seen).softmax(-1)[0]
        single = logits(step.gate * source[0]).softmax(-1)
        geometric = (alpha[:, None] * single.log()).sum(0).exp()
        assert_close("mean", expected, geometric / geometric.sum())
        assert not torch.allclose(expected, alpha @ single, atol=1e-4), "it is no plain mean"


@pytest.mark.parametrize("name", SPECS)
def test_stepping_equals_the_whole_pass(name):
    model, source, target = build(SPECS[name]), annotations(), read(n_tokens=6)
    whole, state, parts = model(source, target), model.start(source), []
    for cut in (target[:, :1], target[:, 1:4], target[:, 4:]):
        logits, state = model.step(state, cut)
        parts.append(logits)
    assert_close("logits", torch.cat(parts, 1), whole)


@pytest.mark.parametrize("name", SPECS)
def test_rows_of_one_picture_share_it(name):
    model, source, target = build(SPECS[name]), annotations(2), read(6, 4)
    state = model.start(source)
    _, state = model.step(state, target[::3, :1])
    state = model.branch(state, torch.zeros(2, 3, dtype=torch.int64))
    got, state = model.step(state, target[:, 1:])
    first = target[::3, :1].repeat_interleave(3, 0)
    want = model(source.repeat_interleave(3, 0), torch.cat([first, target[:, 1:]], 1))[:, 1:]
    assert_close("logits", got, want)
    # the second picture goes on alone, with its rows in another order
    state = model.select(state, torch.tensor([3, 4, 5]))
    state = model.branch(state, torch.tensor([[2, 0]]))
    got, _ = model.step(state, target[:2, :1])
    whole = torch.cat([first, target[:, 1:]], 1)[[5, 3]]
    want = model(source[[1, 1]], torch.cat([whole, target[:2, :1]], 1))[:, -1:]
    assert_close("logits", got, want)


@pytest.mark.parametrize("name", SPECS)
def test_a_caption_is_what_it_is_alone_and_padding_leaks_nothing(name):
    model, source, target = build(SPECS[name]), annotations(), read()
    target[1, 3:] = PAD
    together = model(source, pad(target, (0, 2), value=PAD))
    for row, length in enumerate((5, 3, 5)):
        alone = model(source[row : row + 1], target[row : row + 1, :length])
        assert_close("logits", together[row, :length], alone[0])


def test_dropout_stands_where_the_authors_have_it():
    dropped = CaptionerSpec(
        encoder=SOFT.encoder, picture_size=8, d_embedding=64, d_hidden=64, dropout=0.5
    )
    model, source, target = build(dropped).train(), annotations(), read()
    with torch.no_grad():
        said, whole = (m.hidden(source, target) for m in (model, build(dropped)))
    # half of what the output layer reads is gone, and the rest is louder
    assert 0.4 < float((said == 0).double().mean()) < 0.6
    assert 1 < float(said.abs().max()) <= 2
    assert float(whole.abs().max()) < 1
