"""Optimisers of recipes: the papers' equations, their checkpoints, and what is refused."""

import pytest
import torch
from torch import nn

from regard.choices import Choice
from regard.data import Example
from regard.data.corpus import write_corpus
from regard.data.subword_kinds import KINDS
from regard.data.subwords import Subwords
from regard.errors import RecipeError, RegardError
from regard.models import build_model
from regard.recipes import read_recipe
from regard.recipes.optimisers import OPTIMISERS, remembered_by
from regard.recipes.recipe import parse_recipe
from regard.recipes.training_recipe import TrainingRecipe
from regard.training.checkpoints import Progress, load_checkpoint, save_checkpoint
from regard.training.loop import Material, learn, make_optimiser
from tests.small_recipe import RECIPE

GRADIENTS = [0.5, -2.0, 1.25]
SETTINGS = {
    "sgd": {},
    "sgd with momentum": {"momentum": 0.8},
    "adadelta": {"rho": 0.9, "eps": 1e-4},
    "rmsprop": {"decay": 0.9, "eps": 1e-3},
    "rmsprop, centred": {"decay": 0.9, "eps": 1e-3, "is_centred": True, "momentum": 0.5},
    "adam": {},
}


def recipe(name, settings, **keys):
    return TrainingRecipe(steps=9, optimiser=Choice(name, settings), **keys)


def by_hand(name, gradients, rate, *, momentum=0.0, rho=0.0, decay=0.0, eps=0.0, is_centred=False):
    """Where one weight that begins at 1 ends, in plain numbers."""
    weight, square, moved, mean, speed = 1.0, 0.0, 0.0, 0.0, 0.0
    for g in gradients:
        step = g
        if name == "adadelta":
            square = rho * square + (1 - rho) * g * g
            step = g * (moved + eps) ** 0.5 / (square + eps) ** 0.5
            moved = rho * moved + (1 - rho) * step * step
        if name == "rmsprop":
            square = decay * square + (1 - decay) * g * g
            mean = decay * mean + (1 - decay) * g if is_centred else 0.0
            step = g / ((square - mean * mean) ** 0.5 + eps)
        speed = momentum * speed + step
        weight -= rate * speed
    return weight


def updated(optimiser, weight, gradients, rate):
    for g in gradients:
        weight.grad = torch.full_like(weight, g)
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()


@pytest.mark.parametrize("case", [case for case in SETTINGS if case != "adam"])
def test_an_update_is_the_equation(case):
    name = case.partition(" ")[0].rstrip(",")
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.ones_(model.weight)
    optimiser = make_optimiser(model, recipe(name, SETTINGS[case]))
    updated(optimiser, model.weight, GRADIENTS, 0.3)
    want = by_hand(name, GRADIENTS, 0.3, **SETTINGS[case])
    assert float(model.weight.detach()) == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("case", SETTINGS)
def test_a_checkpoint_goes_on_to_the_bit(case, tmp_path):
    training = recipe(case.partition(" ")[0].rstrip(","), SETTINGS[case])
    models = [nn.Linear(3, 2, bias=False) for _ in range(2)]
    here, there = (make_optimiser(model, training) for model in models)
    updated(here, models[0].weight, GRADIENTS, 0.1)
    path = save_checkpoint(tmp_path, models[0], here, Progress(step=3))
    load_checkpoint(path, models[1], there)
    for model, optimiser in zip(models, (here, there), strict=True):
        updated(optimiser, model.weight, GRADIENTS, 0.1)
    assert torch.equal(models[0].weight, models[1].weight)
    numbers = len([key for key in remembered_by(here) if key != "step"])
    assert numbers == training.optimiser_recipe().n_numbers


REFUSED = {
    "name": ({"optimiser": Choice("sdg")}, r"training\.optimiser: There is no 'sdg' here.*'sgd'"),
    "setting": (
        {"optimiser": Choice("sgd", {"rho": 0.9})},
        r"training\.optimiser: 'sgd' has no setting 'rho'; it takes momentum",
    ),
    "value": (
        {"optimiser": Choice("adadelta", {"rho": 1.5})},
        r"training\.optimiser: adadelta: rho must",
    ),
    "Adam's": (
        {"optimiser": Choice("rmsprop"), "beta1": 0.5},
        r"training\.beta1 = 0\.5 would do nothing: optimiser = 'rmsprop' does not read it",
    ),
    "halving": (
        {"halve_after": 0.7},
        r"training\.halve_after = 0\.7 would do nothing: schedule = 'inverse_square_root' does not",
    ),
    "share": (
        {"schedule": "halving", "halve_every": 5.0},
        r"training\.halve_every must be a share of the training, above 0 and at most 1, got 5",
    ),
}


@pytest.mark.parametrize(("keys", "said"), REFUSED.values(), ids=REFUSED)
def test_what_makes_no_sense_is_refused(keys, said):
    with pytest.raises(RegardError, match=said):
        TrainingRecipe(steps=9, **keys)


BRANCHED = {
    "d_model": 16, "n_heads": 2, "d_hidden": 8, "n_encoder_layers": 4, "n_decoder_layers": 1,
    "layer": "weighted_branches",
}  # fmt: skip


def test_kappa_and_alpha_have_the_paper_s_schedule_of_their_own(tmp_path):
    table = {
        "data": {"train": "reverse:count=20", "valid": "reverse:count=5"},
        "model": BRANCHED,
        "training": {"steps": 3, "learning_rate": 0.01, "schedule": "constant",
                     "branch_learning_rate": 1.0, "branch_warmup_steps": 2, "warmup_steps": 0},
    }  # fmt: skip
    read = parse_recipe(table, "test", {})
    texts = ["a b c", "b c a"]
    words = Subwords.train(texts, kind=KINDS["words"], size=20)
    corpus = write_corpus(tmp_path / "corpus", [Example(t, (t,)) for t in texts], words, words)
    n = len(words)
    model = build_model(read.model, n_source_tokens=n, n_target_tokens=n)
    optimiser, rates = make_optimiser(model, read.training), []
    for _ in learn(model, optimiser, lambda _: Material(corpus), read, Progress()):
        rates.append([group["lr"] for group in optimiser.param_groups])
    kappa = model.encoder[0].branches.kappa
    assert any(p is kappa for p in optimiser.param_groups[2]["params"])
    # (d / N)^-0.5 min(t^-0.5, t · warmup^-1.5), with d = 16 and N = 4
    own = [0.5 * min(t**-0.5, t * 2**-1.5) for t in (1, 2, 3)]
    assert [rate[2] for rate in rates] == pytest.approx(own)
    assert {rate for group in rates for rate in group[:2]} == {0.01}


@pytest.mark.parametrize("changes", [{"layer": "plain"}, {"has_frozen_branches": True}])
def test_a_schedule_of_branches_that_do_not_learn_is_refused(changes, tmp_path):
    model = {**BRANCHED, **changes}
    lines = "\n".join(f"{key} = {value!r}".replace("True", "true") for key, value in model.items())
    text = RECIPE.replace('size = "tiny"\nd_model = 16\nd_hidden = 16\n', f"{lines}\n")
    path = tmp_path / "recipe.toml"
    path.write_text(text.replace("warmup_steps = 5", "branch_learning_rate = 1.0"))
    with pytest.raises(RecipeError, match="is that of kappa and alpha, which this model"):
        read_recipe(path)


def test_bahdanau_s_numbers_are_adadelta_s_defaults():
    found = OPTIMISERS["adadelta"]()
    assert (found.rho, found.eps) == (0.95, 1e-6)
