"""Looks that the words depend on: after the word, without the state, or with the state by lot."""

from dataclasses import replace

import pytest
import torch

from regard.models.captioner.lstm import StateDropout
from regard.models.trainable import shifted
from tests.assertions import assert_close, assert_same_gradients
from tests.models.captioner.small import SOFT, annotations, build, captions, read
from tests.oracles import captioner as oracle
from tests.oracles.recurrent import lstm, weights_of

AFTER = replace(SOFT, look="after")
SEEN = replace(SOFT, readout="seen")


def looked_after(p, a, tokens):
    """What the output layer reads, if the state that has read a word looks for the next."""
    mean = sum(a) / len(a)
    h, c = oracle.perceptron(p, "f_h", mean), oracle.perceptron(p, "f_c", mean)
    W, U = weights_of(p, "cell.cells.layers.0")
    said, alphas = [], []
    for token in tokens:
        word = p["embedding.weight"][token]
        h, c = lstm(word, (h, c), W, U)
        alphas.append(torch.softmax(oracle.scores(p, a, h), 0))
        beta = torch.sigmoid(p["cell.gate.weight"][0] @ h + p["cell.gate.bias"][0])
        z = beta * sum(w * each for w, each in zip(alphas[-1], a, strict=True))
        deep = word + p["L_h.weight"] @ h + p["L_z.weight"] @ z + p["L_z.bias"]
        said.append(torch.tanh(deep))
    return torch.stack(said), torch.stack(alphas)


def test_a_look_after_the_word_is_its_equation_with_every_gradient():
    model, source, target = build(AFTER), annotations().requires_grad_(), read()
    p = dict(model.decoder.named_parameters())
    pairs = zip(source, target.tolist(), strict=True)
    found = [looked_after(p, list(a), tokens) for a, tokens in pairs]
    said, alphas = (torch.stack(each) for each in zip(*found, strict=True))
    got = model.hidden(source, target)
    assert_close("hidden", got, said)
    assert_same_gradients(got, said, {**p, "annotations": source})
    weights = model.maps(source, target)["cross"][0].dense()[:, 0]
    assert_close("weights", weights, alphas.detach())


def test_what_is_seen_after_the_word_is_not_remembered():
    after, before = build(AFTER), build(SOFT)
    for model, is_remembered in ((after, False), (before, True)):
        source, target = annotations(), read()
        # with the same mean, another picture begins alike
        other = source + (d := annotations()) - d.mean(1, keepdim=True)
        here, there = (
            model.decoder._steps(model.decoder.embedding(target), model.start(s))
            for s in (source, other)
        )
        same = torch.allclose(here[-1].state, there[-1].state, atol=1e-12)
        assert same is not is_remembered
        assert not torch.allclose(here[-1].seen, there[-1].seen, atol=1e-3)


def test_what_is_seen_alone_says_nothing_of_the_state():
    model, source, target = build(SEEN), annotations(1), read(1)
    assert not any(name.startswith("L_h") for name, _ in model.decoder.named_parameters())
    word = model.decoder.embedding(target)
    steps = model.decoder._steps(word, model.start(source))
    seen = torch.stack([step.seen for step in steps], 1)
    assert_close("hidden", model.hidden(source, target), torch.tanh(word + model.decoder.L_z(seen)))


def test_without_the_state_one_cell_for_all_looks_says_the_same_after_the_same_word():
    model, target = build(SEEN), read(1, 4)
    target[0, 3] = target[0, 1]
    with torch.no_grad():
        model.decoder.cell.gate.weight.zero_()
    alike = annotations(1, 1).expand(-1, 6, -1)
    said = model(alike, target)[0]
    assert_close("logits", said[3], said[1])
    deep = build(SOFT)
    assert not torch.allclose(deep(alike, target)[0, 3], deep(alike, target)[0, 1], atol=1e-3)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_state_that_is_dropped_is_dropped_whole_and_the_others_stay(share):
    state = torch.randn(40, 50, 7, dtype=torch.float64)
    kept = StateDropout(share).train()(state)
    gone = kept.eq(0).all(-1)
    assert torch.equal(kept[~gone], state[~gone])
    assert float(gone.double().mean()) == pytest.approx(share, abs=0.05)
    assert StateDropout(share).eval()(state) is state
    assert StateDropout(0.0).train()(state) is state


def test_with_all_states_dropped_the_words_of_a_lesson_are_said_of_what_is_seen():
    dropped, silent = build(replace(SOFT, state_dropout=1.0)), build(SEEN)
    held = dropped.state_dict()
    silent.load_state_dict({k: v for k, v in held.items() if "L_h" not in k})
    source, target = annotations(), captions()
    learns = dropped.train().loss_inputs(source, target).hidden
    assert_close("loss_inputs", learns, silent.hidden(source, shifted(target)))
    # in use the state speaks
    plain = build(SOFT)
    plain.load_state_dict(held)
    used = dropped.eval().hidden(source, shifted(target))
    assert_close("used", used, plain.hidden(source, shifted(target)))
    assert not torch.allclose(used, learns, atol=1e-3)
