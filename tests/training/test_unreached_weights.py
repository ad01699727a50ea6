"""Weights that a recipe's loss does not move: found before the first update, and named."""

import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from regard.attention import SCORES, SELECTIONS
from regard.cli import main
from regard.errors import RecipeError
from regard.hardware.hardware import Hardware, random_states
from regard.models import build_model
from regard.recipes import read_recipe
from regard.recipes.recipe import parse_recipe
from regard.training import run
from regard.training.events import Step
from regard.training.losses import Objective
from regard.training.preparation import prepare
from regard.training.unreached_weights import check_reaches_all_weights, unreached_weights
from regard.training.workers import SINGLE_PROCESS
from tests.captioning import RECIPE as CAPTIONS
from tests.small_recipe import RECIPE

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
CPU = Hardware()
STACK = {"d_model": 8, "n_heads": 2, "d_hidden": 8}
MODELS = {
    "transformer": {**STACK, "n_encoder_layers": 1, "n_decoder_layers": 1},
    "recurrent": {"kind": "recurrent", "d_embedding": 8, "d_hidden": 8, "n_layers": 1},
    "convolutional": {
        "kind": "convolutional", "d_model": 8, "n_encoder_layers": 1, "n_decoder_layers": 1,
    },
    "language_model": {"kind": "language_model", **STACK, "n_layers": 1},
}  # fmt: skip
"""The kinds whose links a recipe chooses."""
STOPPED = "model.select=top_k:count=1"
"""A choice through which no gradient passes."""
CHOICES = [
    *(("select", name, {}) for name in SELECTIONS),
    ("select", "top_k", {"count": 1}),
    *(("score", name, {}) for name in SCORES),
]


def _recipe(model, data=None, tokens=None, training=None):
    table = {
        "data": {"train": "reverse:count=40", "valid": "reverse:count=5", **(data or {})},
        "tokens": {"kind": "words", "size": 32, **(tokens or {})},
        "model": model,
        "training": {"steps": 2, **(training or {})},
    }
    return parse_recipe(table, "test", {})


@pytest.fixture(scope="module")
def reversed_letters(tmp_path_factory):
    return prepare(_recipe(MODELS["transformer"]), tmp_path_factory.mktemp("run"), SINGLE_PROCESS)


def _built(prepared, model=None):
    torch.manual_seed(1)
    return build_model(
        prepared.recipe.model if model is None else model,
        n_source_tokens=len(prepared.source),
        n_target_tokens=len(prepared.target),
    )


def _moved(prepared, model):
    """What training itself moves in a few updates, as a witness."""
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    optimiser = torch.optim.Adam(model.parameters(), eps=1e-30)
    model.train()
    for _ in range(3):
        optimiser.zero_grad()
        source, target = torch.randint(5, 12, (2, 4, 7))
        Objective()(model.loss_inputs, model.output, source, target).total.backward()
        optimiser.step()
    return {n for n, weight in model.named_parameters() if not torch.equal(weight, before[n])}


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("link", "name", "settings"), CHOICES)
def test_a_weight_is_called_unreached_just_if_updates_do_not_move_it(
    kind, link, name, settings, reversed_letters
):
    recipe = _recipe({**MODELS[kind], link: {"name": name, **settings}})
    model = _built(reversed_letters, recipe.model)
    found = unreached_weights(model, reversed_letters, CPU)
    assert set(found) == {n for n, _ in model.named_parameters()} - _moved(reversed_letters, model)
    stops = settings or (name == "location" and "n_heads" in MODELS[kind])
    assert bool(found) == bool(stops)


def test_a_recipe_that_cannot_learn_is_refused_and_leaves_nothing_behind(tmp_path, capsys):
    recipe, out = tmp_path / "recipe.toml", tmp_path / "runs" / "mine"
    recipe.write_text(RECIPE)
    words = ["train", str(recipe), "--out", str(out), "--set", "training.steps=1"]
    assert main([*words, "--set", STOPPED]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.endswith(
        "regard: model: the loss gives no gradient to 12 of 61 weights, which would stay as they "
        "begin: encoder.0.attention.W_Q.weight, encoder.0.attention.W_K.weight, "
        "encoder.1.attention.W_Q.weight, encoder.1.attention.W_K.weight and 8 more. "
        'select = "top_k" with count = 1 gives one key the whole weight, whatever its score, and '
        "so the scores have no gradient. Take count = 2 or more."
    )
    assert not out.parent.exists()
    assert main(words) == 0


def test_a_plan_refuses_what_the_training_would(tmp_path, capsys):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    assert main(["plan", str(tmp_path / "recipe.toml"), "--set", STOPPED]) == 2
    assert "the loss gives no gradient to 12 of 61 weights" in capsys.readouterr().err


REASONS = {
    'select = "top_k" with count = 1 gives one key the whole weight': (
        "transformer", {"select": {"name": "top_k", "count": 1}},
    ),
    'score = "location" reads no keys, and so heads learn no W_K': (
        "language_model", {"score": "location"},
    ),
    "decoder.cell.look.chain.score.W. select = \"top_k\" with count = 1": (
        "recurrent", {"select": {"name": "top_k", "count": 1}},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("said", "case"), REASONS.items())
def test_the_link_says_why(said, case, reversed_letters):
    model = _built(reversed_letters, _recipe({**MODELS[case[0]], **case[1]}).model)
    with pytest.raises(RecipeError) as caught:
        check_reaches_all_weights(model, reversed_letters, CPU)
    assert said in str(caught.value)


def test_a_weight_that_nothing_reads_is_named_with_a_remedy(reversed_letters):
    model = _built(reversed_letters)
    model.encoder[0].spare = torch.nn.Linear(3, 2)
    with pytest.raises(RecipeError) as caught:
        check_reaches_all_weights(model, reversed_letters, CPU)
    assert str(caught.value) == (
        "model: the loss gives no gradient to 2 of 33 weights, which would stay as they begin: "
        "encoder.0.spare.weight, encoder.0.spare.bias. Nothing that the loss reads depends on "
        "them. Make another choice in [model] for the part that they belong to."
    )
    for weight in model.encoder[0].spare.parameters():
        weight.requires_grad = False
    check_reaches_all_weights(model, reversed_letters, CPU)


def test_a_link_that_holds_back_no_named_weight_is_not_blamed(tmp_path):
    (tmp_path / "recipe.toml").write_text(CAPTIONS)
    prepared = prepare(read_recipe(tmp_path / "recipe.toml"), tmp_path, SINGLE_PROCESS)
    model = _built(prepared)
    model.spare = torch.nn.Linear(3, 2)
    with pytest.raises(RecipeError) as caught:
        check_reaches_all_weights(model, prepared, CPU)
    said = str(caught.value)
    assert "spare.weight, spare.bias. Nothing that the loss reads depends on them." in said
    assert "select" not in said, "hard attention learns by REINFORCE"


def test_weights_behind_zeros_and_experts_without_a_token_are_reached(reversed_letters):
    model = _built(reversed_letters)
    with torch.no_grad():
        model.output.weight.zero_()
        model.encoder[0].attention.W_O.weight.zero_()
    assert unreached_weights(model, reversed_letters, CPU) == []
    experts = {"experts": {"count": 64, "used": 1}}
    mixture = _built(reversed_letters, _recipe({**MODELS["language_model"], **experts}).model)
    assert unreached_weights(mixture, reversed_letters, CPU) == []


def test_no_number_of_the_model_and_no_random_number_is_touched(tmp_path):
    (tmp_path / "recipe.toml").write_text(CAPTIONS)
    prepared = prepare(read_recipe(tmp_path / "recipe.toml"), tmp_path, SINGLE_PROCESS)
    model = _built(prepared).eval()
    before = {name: number.clone() for name, number in model.state_dict().items()}
    random = random_states(CPU.device)
    assert any(name.endswith("baseline") for name in before), "which a pass in training moves"
    assert unreached_weights(model, prepared, CPU) == [], "hard attention learns by REINFORCE"
    for name, number in model.state_dict().items():
        assert torch.equal(number, before[name]), name
    assert not model.training
    assert all(weight.grad is None for weight in model.parameters())
    for name, state in random_states(CPU.device).items():
        assert torch.equal(state, random[name])


def test_a_run_is_checked_once_and_its_weights_are_those_of_a_run_without_the_check(
    recipe, tmp_path, monkeypatch
):
    plain, stopped = tmp_path / "plain", tmp_path / "stopped"
    for event in run(read_recipe(recipe), stopped):
        if isinstance(event, Step) and event.progress.step == 6:
            break
    asked = []
    module = import_module("regard.training.trainer")
    monkeypatch.setattr(module, "check_reaches_all_weights", lambda *_: asked.append("check"))
    list(run(read_recipe(recipe), stopped, resume=True))
    assert asked == []
    list(run(read_recipe(recipe), plain))
    assert asked == ["check"]
    checked, unchecked = (load_file(each / "model.safetensors") for each in (stopped, plain))
    for name, weight in unchecked.items():
        assert torch.equal(checked[name], weight), name


SMALL = {
    "d_model": 16, "n_heads": 2, "d_hidden": 16, "d_embedding": 16, "d_attention": 16,
    "picture_size": 16,
}  # fmt: skip
"""What is made small of every model that has it."""
SMALL_ENCODER = {"name": "residual", "width": 8, "n_stages": 1}
"""A captioner's."""
DEEP = ("n_encoder_layers", "n_decoder_layers", "n_layers")
TREES = "1\tthe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tcat\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


def _small_data(name, folder, settings):
    """A few examples of the kind that a reader gives."""
    if name == "conllu":
        (folder / "a.conllu").write_text(TREES * 8)
        return {"name": name, "path": str(folder / "a.conllu"), **settings}
    if name == "running_text":
        (folder / "a.txt").write_text("the cat sat on the mat and saw the dog run\n" * 20)
        return {"name": name, "path": str(folder / "a.txt"), "words": 12}
    if name in ("scenes", "caption_lines"):
        return {"name": "scenes", "count": 16}
    return {"name": "reverse", "count": 30}


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_every_recipe_of_the_folder_reaches_all_its_weights(path, tmp_path):
    table, full = tomllib.loads(path.read_text()), read_recipe(path)
    given = full.data.train
    kept = {key: given.settings[key] for key in ("has_trees", "tags") if key in given.settings}
    data = _small_data(given.name, tmp_path, kept)
    table["data"] = {"train": data, "valid": data}
    # a name of sizes stands for all of them
    has = vars(full.model) if "size" in table["model"] else table["model"]
    table["model"] |= {key: value for key, value in SMALL.items() if key in has}
    if full.model.kind == "captioner":
        table["model"]["encoder"] = SMALL_ENCODER
    table["model"] |= {key: min(2, getattr(full.model, key)) for key in DEEP if key in has}
    table["tokens"] = {**table.get("tokens", {}), "size": 300, "dropout": 0.0}
    table["training"].pop("start_from", None)
    prepared = prepare(parse_recipe(table, path.name, {}), tmp_path, SINGLE_PROCESS)
    assert unreached_weights(_built(prepared), prepared, CPU) == []
