"""Soft and hard focus: the bound and its estimator over all draws there are, penalty, baseline."""

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch.nn.functional import pad

from regard.errors import SettingError
from regard.models.captioner.focus import uneven
from regard.models.stepper import PAD
from regard.training.checkpoints import distinct_tensors, load_weights, write_tensors
from regard.training.losses import Objective
from tests.assertions import assert_close
from tests.models.captioner.small import (
    DRAWN,
    HARD,
    SOFT,
    Forced,
    L,
    annotations,
    build,
    captions,
)
from tests.oracles import captioner as oracle

PLAIN = Objective()
CELLS, WORDS = 3, 2
PATHS = list(product(range(CELLS), repeat=WORDS))
BOUND = replace(DRAWN, reinforce=1.0, entropy=0.0, credit="caption")
"""The gradient of the bound itself."""


def learned(model):
    return {name: p for name, p in model.named_parameters() if not name.startswith("encoder.")}


def gradient(model, total):
    """Of a number, by name."""
    wanted = learned(model)
    found = torch.autograd.grad(total, list(wanted.values()), allow_unused=True)
    return {
        name: torch.zeros_like(p) if grad is None else grad
        for (name, p), grad in zip(wanted.items(), found, strict=True)
    }


def loss(model, source, target, objective=PLAIN):
    return objective(model.loss_inputs, model.output, source, target, scale=1.0)


def of_a_path(model, source, target, path):
    """log p(path | a) and log p(caption | path, a), by the oracle."""
    said, alphas, _ = oracle.read(
        dict(model.decoder.named_parameters()), list(source[0]), [1, target[0, 0]],
        oracle.drawn(path),
    )  # fmt: skip
    words = (said @ model.output.weight.mT).log_softmax(-1)
    log_path = sum(alphas[t, cell].log() for t, cell in enumerate(path))
    return log_path, words[range(WORDS), target[0]].sum()


def enumerated(model, source, target):
    """The bound, and the true log-probability of the caption."""
    paths, captions = zip(*(of_a_path(model, source, target, path) for path in PATHS), strict=True)
    log_path, log_caption = torch.stack(paths), torch.stack(captions)
    assert_close("all paths", log_path.exp().sum().detach(), torch.tensor(1.0))
    return (log_path.exp() * log_caption).sum(), (log_path + log_caption).logsumexp(0), log_path


@pytest.mark.parametrize("baseline", [0.0, -3.7])
def test_the_estimator_is_the_gradient_of_the_bound_over_all_draws(baseline):
    model, source, target = build(BOUND).train(), annotations(1, CELLS), captions((WORDS,))
    bound, _, log_path = enumerated(model, source, target)
    exact, mean = gradient(model, bound), dict.fromkeys(learned(model), 0.0)
    for path, likely in zip(PATHS, log_path.detach().exp(), strict=True):
        model.decoder.cell.focus.select = Forced(path)
        model.decoder.cell.focus.baseline.fill_(baseline)
        for name, grad in gradient(model, loss(model, source, target).total).items():
            mean[name] = mean[name] - likely * grad
    assert max(float(grad.abs().max()) for grad in exact.values()) > 1e-2
    for name, grad in exact.items():
        assert_close(name, mean[name], grad)


def test_the_estimator_is_blind_without_its_credit():
    """The same without REINFORCE is another gradient: the test above could fail."""
    model, source = build(replace(BOUND, reinforce=0.0)).train(), annotations(1, CELLS)
    target = captions((WORDS,))
    exact = gradient(model, enumerated(model, source, target)[0])["decoder.cell.score.v"]
    model.decoder.cell.focus.select = Forced(PATHS[5])
    found = gradient(model, loss(model, source, target).total)
    assert exact.abs().max() > 1e-5
    # what is seen is no way from the words back to where it was looked
    assert not found["decoder.cell.score.v"].any()
    assert found["decoder.L_z.weight"].any()


def test_the_bound_lies_below_the_log_probability():
    for _ in range(5):
        model, source, target = build(BOUND), annotations(1, CELLS), captions((WORDS,))
        bound, log_p, _ = enumerated(model, source, target)
        assert bound < log_p - 1e-9


def test_draws_are_as_likely_as_the_weights_say():
    model, source = build(DRAWN).train(), annotations(1, CELLS)
    n_draws, target = 4000, captions((WORDS,))
    counts = dict.fromkeys(PATHS, 0)
    with torch.no_grad():
        _, _, log_path = enumerated(model, source, target)
        many = model.loss_inputs(source.expand(n_draws, -1, -1), target.expand(n_draws, -1))
        watched = many.extra.args[0]
    drawn = watched.chance.log_prob.sum(1)
    for path, wanted in zip(PATHS, log_path, strict=True):
        counts[path] = int((drawn - wanted).abs().lt(1e-9).sum())
    assert sum(counts.values()) == n_draws
    for path, wanted in zip(PATHS, log_path.exp(), strict=True):
        # four standard deviations of a share
        assert counts[path] / n_draws == pytest.approx(float(wanted), abs=4 * 0.5 / n_draws**0.5)


def test_the_loss_of_draws_is_its_equation():
    model, source, target = (
        build(replace(DRAWN, reinforce=0.3, entropy=0.7, credit="word", penalty=0.4)),
        annotations(1),
        captions((5,)),
    )
    path = [2, 0, 5, 5, 1]
    model.decoder.cell.focus.select = Forced(path)
    model.decoder.cell.focus.baseline.fill_(-1.5)
    said, alphas, _ = oracle.read(
        dict(model.decoder.named_parameters()), list(source[0]), [1, *target[0, :-1]],
        oracle.drawn(path),
    )  # fmt: skip
    words = (said @ model.output.weight.mT).log_softmax(-1)[range(5), target[0]].sum()
    log_path = alphas[range(5), path].log().sum()
    entropy = -(alphas * alphas.log()).sum()
    spread = (1 - alphas.sum(0)).square().sum()
    gained = words + 0.3 * (words.detach() / 5 + 1.5) * log_path + 0.7 * entropy - 0.4 * spread
    got = loss(model.train(), source, target)
    assert_close("loss", got.total, -gained)
    assert_close("nll", got.nll, -words.detach())
    for name, grad in gradient(model, -gained).items():
        # what is drawn has no gradient in the oracle either
        model.decoder.cell.focus.select = Forced(path)
        model.decoder.cell.focus.baseline.fill_(-1.5)
        found = gradient(model, loss(model, source, target).total)
        assert_close(name, found[name], grad)


def test_a_caption_is_read_with_draws_or_with_expectations_all_of_it():
    model, source = build(replace(HARD, expected_share=0.3)).train(), annotations(200)
    word = model.decoder.embedding(torch.randint(4, 11, (200, 4)))
    steps = model.decoder._steps(word, model.start(source))
    sharp = torch.stack([step.focused.weights.amax(-1).flatten() == 1 for step in steps], 1)
    assert (sharp.all(1) | ~sharp.any(1)).all()
    assert 0.15 < float((~sharp.any(1)).double().mean()) < 0.45
    drawn = torch.stack([step.focused.chance.log_prob for step in steps], 1)
    assert torch.equal(drawn.ne(0).any(1), sharp.any(1))


def test_expectations_alone_learn_nothing_about_where_to_look_but_to_stay_open():
    still = build(replace(HARD, expected_share=1.0, entropy=0.0)).train()
    source, target = annotations(), captions()
    found = gradient(still, loss(still, source, target).total)
    assert not any(grad.any() for name, grad in found.items() if ".score." in name)
    assert found["decoder.cell.cells.layers.0.kernel.weight_hh_l0"].any()
    soft = build(SOFT)
    soft.load_state_dict({k: v for k, v in still.state_dict().items() if "focus" not in k})
    assert_close("nll", loss(still, source, target).nll, loss(soft, source, target).nll)
    wide_open = build(replace(HARD, expected_share=1.0, entropy=1.0, reinforce=0.0)).train()
    opened = gradient(wide_open, loss(wide_open, source, target).total)
    assert opened["decoder.cell.score.v"].any()


def test_expectations_that_teach_where_to_look_are_soft_focus():
    spec = replace(HARD, expected_share=1.0, entropy=0.0, learns_from_expected=True)
    hard, soft = build(spec).train(), build(SOFT).train()
    soft.load_state_dict({k: v for k, v in hard.state_dict().items() if "focus" not in k})
    source, target = annotations(), captions()
    got, want = (gradient(m, loss(m, source, target).total) for m in (hard, soft))
    assert want["decoder.cell.score.v"].any()
    for name, grad in want.items():
        assert_close(name, got[name], grad)


def test_draws_have_no_gradient_even_if_expectations_teach():
    spec = replace(BOUND, reinforce=0.0, learns_from_expected=True)
    model = build(spec).train()
    found = gradient(model, loss(model, annotations(), captions()).total)
    assert not found["decoder.cell.score.v"].any()


def test_the_loss_of_several_readings_is_their_mean():
    spec = replace(HARD, expected_share=1.0, entropy=0.3)
    one, three = build(spec).train(), build(replace(spec, n_samples=3)).train()
    three.load_state_dict(one.state_dict())
    source, target = annotations(), captions()
    single, several = (loss(model, source, target, Objective(0.1)) for model in (one, three))
    assert_close("loss", several.total, single.total)
    assert_close("nll", several.nll, single.nll)
    first, second = (gradient(m, each.total) for m, each in ((one, single), (three, several)))
    for name, grad in first.items():
        assert_close(name, second[name], grad)


def test_several_readings_draw_apart():
    model, source, target = build(replace(DRAWN, n_samples=4)).train(), annotations(), captions()
    read = model.loss_inputs(source, target)
    assert torch.equal(read.gold, target.repeat_interleave(4, 0))
    drawn = read.extra.args[0].chance.log_prob.unflatten(0, (3, 4))
    assert not torch.equal(drawn[:, 0], drawn[:, 1])
    # before the first word all readings of a picture are alike
    likely = read.extra.args[0].likely.unflatten(0, (3, 4))
    assert_close("likely", likely[:, :, 0], likely[:, :1, 0].expand(-1, 4, -1))


def test_the_baseline_is_a_moving_average_that_evaluation_leaves_alone():
    model, source, target = (
        build(replace(DRAWN, credit="caption")).train(),
        annotations(),
        captions(),
    )
    baseline, wanted = model.decoder.cell.focus.baseline, 0.0
    assert float(baseline) == 0.0
    for _ in range(3):
        nll = float(loss(model, source, target).nll)
        wanted = 0.9 * wanted - 0.1 * nll / 3
        assert float(baseline) == pytest.approx(wanted, rel=1e-12)
    assert model.eval().loss_inputs(source, target).extra is None
    loss(model, source, target)
    model.hidden(source, target)
    assert float(baseline) == pytest.approx(wanted, rel=1e-12)
    assert baseline is model.decoder.cell.focus.baseline, "a recorded update finds it where it was"


def test_the_credit_of_a_word_is_the_mean_over_the_caption_without_padding():
    model, source, target = build(replace(DRAWN, credit="word")).train(), annotations(), captions()
    read = model.loss_inputs(source, target)
    log_p = torch.randn(3, 5, dtype=torch.float64).masked_fill(target == PAD, 0.0)
    read.extra(log_p)
    wanted = 0.1 * (log_p.sum(1) / torch.tensor([5, 2, 4])).mean()
    assert_close("baseline", model.decoder.cell.focus.baseline, wanted)


def test_the_baseline_is_saved_with_the_weights(tmp_path):
    model, other = build(HARD), build(HARD)
    model.decoder.cell.focus.baseline.fill_(-2.5)
    write_tensors(tmp_path / "model.safetensors", distinct_tensors(model))
    load_weights(tmp_path / "model.safetensors", other)
    assert float(other.decoder.cell.focus.baseline) == -2.5


def test_the_penalty_is_its_equation_and_padding_has_no_part_in_it():
    plain, fined = build(SOFT), build(replace(SOFT, penalty=0.7))
    fined.load_state_dict(plain.state_dict())
    source, target = annotations(), captions()

    def by_hand():
        total = 0.0
        for a, row in zip(source, target, strict=True):
            tokens = [token for token in row.tolist() if token != PAD]
            _, alphas, _ = oracle.read(
                dict(plain.decoder.named_parameters()), list(a), [1, *tokens[:-1]], oracle.soft
            )
            total = total + (1 - alphas.sum(0)).square().sum()
        return 0.7 * total

    for more in (0, 3):
        wanted = by_hand()
        longer = pad(target, (0, more), value=PAD)
        without, with_it = (loss(m.train(), source, longer) for m in (plain, fined))
        assert_close("penalty", with_it.total - without.total, wanted)
        assert_close("nll", with_it.nll, without.nll)
        got = gradient(fined, with_it.total)
        want = gradient(plain, without.total + wanted)
        for name, grad in want.items():
            assert_close(name, got[name], grad)


def test_the_penalty_is_least_where_every_cell_is_looked_at_alike():
    words, cells = 4, L
    floor = cells * (1 - words / cells) ** 2
    alike = torch.full((1, words, cells), 1 / cells, dtype=torch.float64)
    valid = torch.ones(1, words, dtype=torch.bool)
    assert_close("floor", uneven(alike, valid), torch.tensor([floor]), atol=1e-7)
    for _ in range(20):
        likely = torch.randn(1, words, cells, dtype=torch.float64).softmax(-1)
        assert uneven(likely, valid) > floor
    model, source = build(replace(SOFT, penalty=1.0)).train(), annotations(2)
    with torch.no_grad():
        model.decoder.cell.score.v.zero_()
    got = loss(model, source, captions((words, words)))
    assert float(got.total.detach() - got.nll) == pytest.approx(2 * floor, rel=1e-6)


def test_without_a_penalty_soft_focus_has_a_plain_lesson():
    model, source, target = build(SOFT).train(), annotations(), captions()
    assert model.loss_inputs(source, target).extra is None
    assert build(replace(SOFT, penalty=1.0)).loss_inputs(source, target).extra is None


def test_two_passes_that_are_compared_cannot_ask_where_they_looked():
    source, target = annotations(), captions()
    said = "training.r_drop: two passes are compared by what they say, but this model's loss has"
    for spec in (HARD, replace(SOFT, penalty=1.0)):
        with pytest.raises(SettingError, match=said):
            loss(build(spec).train(), source, target, Objective(0.1, 1.0))
    plain, twice = (
        loss(build(SOFT), source, target, o) for o in (Objective(0.1), Objective(0.1, 1.0))
    )
    assert plain.total.isfinite() and twice.total.isfinite()
