import re
from itertools import product

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from regard.attention import attend
from regard.attention.selections.hard import NO_KEY, HardSelection
from regard.attention.selections.soft import SoftSelection
from regard.errors import UnknownChoice
from regard.places import Places
from tests.assertions import assert_close, doubles
from tests.oracles import selections

SEEN = torch.tensor([[True]])


def run(select, scores, mask=SEEN):
    """The weights and the row numbers of a whole matrix."""
    query, places = scores[..., :1], Places.between(*scores.shape[-2:])
    rows = select.summarise(scores, mask, query, places)
    return select.weigh(scores, mask, rows, places), rows


def some_hidden():
    """A random mask with one row that sees nothing."""
    mask = torch.rand(2, 1, 7, 11) > 0.4
    mask[1, 0, 3] = False
    return mask


def test_at_test_it_is_the_likeliest_key():
    scores, mask = doubles(2, 3, 7, 11), some_hidden()
    wanted = selections.every_row(
        scores.numpy(),
        mask.numpy(),
        lambda e, seen: selections.hard(e, seen, selections.argmax(e, seen)),
    )
    assert_close("weights", run(HardSelection().eval(), scores, mask)[0], wanted)


def test_at_test_it_is_the_expectation_if_asked_for():
    scores, mask = doubles(2, 3, 7, 11), some_hidden()
    wanted = selections.every_row(scores.numpy(), mask.numpy(), selections.soft)
    weights, rows = run(HardSelection(at_test="expected").eval(), scores, mask)
    assert_close("weights", weights, wanted)
    assert (rows.chosen == NO_KEY).all()
    assert (rows.log_prob == 0).all()


def test_a_draw_is_one_visible_key():
    scores, mask = doubles(2, 3, 7, 11), some_hidden()
    weights, rows = run(HardSelection().train(), scores, mask)
    seen = mask.expand(2, 3, 7, 11).numpy()
    for at in np.ndindex(2, 3, 7):
        chosen = rows.chosen[at].item()
        assert (chosen == NO_KEY) == (not seen[at].any())
        wanted = selections.hard(scores[at], seen[at], None if chosen == NO_KEY else chosen)
        assert_close(f"row {at}", weights[at], wanted)


def test_log_probability_and_entropy_are_those_of_the_softmax():
    scores, mask = doubles(2, 3, 7, 11), some_hidden()
    _, rows = run(HardSelection().train(), scores, mask)
    likely = selections.every_row(scores.numpy(), mask.numpy(), selections.soft)
    log_prob, entropy = np.zeros((2, 3, 7, 1)), np.zeros((2, 3, 7, 1))
    for at in np.ndindex(2, 3, 7):
        chosen = rows.chosen[at].item()
        log_prob[at] = 0.0 if chosen == NO_KEY else np.log(likely[at][chosen])
        entropy[at] = selections.entropy(likely[at])
    assert_close("log probability", rows.log_prob, log_prob)
    assert_close("entropy", rows.entropy, entropy)


def test_draws_average_to_the_soft_weights():
    n_draws, scores = 40_000, doubles(1, 5)
    weights, _ = run(HardSelection().train(), scores.expand(n_draws, 5))
    # four standard deviations of a mean of draws with variance at most 1/4
    assert_close("mean", weights.mean(0), scores.softmax(-1)[0], atol=4 * 0.5 / n_draws**0.5)


def test_evaluation_repeats_itself_and_training_does_not():
    select, scores = HardSelection(), doubles(2, 3, 7, 11)
    one, again = (run(select.eval(), scores)[0] for _ in range(2))
    assert torch.equal(one, again)
    one, again = (run(select.train(), scores)[0] for _ in range(2))
    assert not torch.equal(one, again)


def test_soft_weights_forced_to_one_key_are_a_draw_of_that_key():
    query, key, value = doubles(2, 3, 7, 5), doubles(2, 3, 11, 5), doubles(2, 3, 11, 13)
    drawn = attend(query, key, value, select=HardSelection().train())
    scores = torch.zeros(2, 3, 7, 11).double().scatter(-1, drawn.rows.chosen, 1e6)
    forced, _ = run_soft(scores)
    assert_close("context", drawn.context, forced @ value)


def run_soft(scores):
    """The softmax of these scores."""
    return run(SoftSelection(), scores)


@pytest.mark.parametrize("at_test", ["argmax", "expected"])
def test_hard_selection_passes_gradcheck(at_test):
    select, mask = HardSelection(at_test=at_test).eval(), torch.rand(3, 5) > 0.3
    scores = doubles(2, 3, 5, requires_grad=True)

    def learned(scores):
        weights, rows = run(select, scores, mask)
        return weights, rows.log_prob, rows.entropy

    assert gradcheck(learned, (scores,))


def test_the_values_of_drawn_keys_alone_get_a_gradient():
    query, key = doubles(1, 1, 3, 5, requires_grad=True), doubles(1, 1, 11, 5, requires_grad=True)
    value = doubles(1, 1, 11, 2, requires_grad=True)
    drawn = attend(query, key, value, select=HardSelection().train())
    d_query, d_key, d_value = torch.autograd.grad(drawn.context.sum(), (query, key, value))
    counts = torch.bincount(drawn.rows.chosen.flatten(), minlength=11)
    assert_close("gradient of value", d_value, counts[:, None].expand(1, 1, 11, 2))
    assert (d_query == 0).all()
    assert (d_key == 0).all()


@pytest.mark.parametrize("baseline", [0.0, 3.7])
def test_the_reinforce_estimator_is_right_on_average(baseline):
    """All 3² ways of drawing one of three keys twice, each weighed by how likely it is."""
    scores, reward = (0.3 * doubles(2, 3)).requires_grad_(), doubles(3, 3)
    likely = scores.softmax(-1)
    exact = torch.autograd.grad((likely[0] @ reward @ likely[1]), scores)[0]
    likely, estimates = likely.detach(), {}
    for _ in range(300):
        _, rows = run(HardSelection().train(), scores)
        path = tuple(rows.chosen.flatten().tolist())
        advantage = reward[path] - baseline
        (estimates[path],) = torch.autograd.grad(advantage * rows.log_prob.sum(), scores)
    assert set(estimates) == set(product(range(3), range(3)))
    mean = sum(likely[0, a] * likely[1, b] * estimates[a, b] for a, b in estimates)
    assert_close("mean of the estimates", mean, exact)


def test_an_unknown_way_to_test_is_named_with_the_nearest():
    text = "There is no 'argmin' here. Did you mean 'argmax'? Known: argmax, expected."
    with pytest.raises(UnknownChoice, match=re.escape(text)):
        HardSelection(at_test="argmin")
