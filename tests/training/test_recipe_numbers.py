"""Numbers of a recipe that nothing can be learned with are refused before anything is made."""

import math

import pytest

from regard.cli import main
from regard.errors import RecipeError
from regard.recipes.recipe import read_recipe
from tests.small_recipe import RECIPE

WRONG = {
    "beta1=1.0": "training.beta1 must lie in [0, 1), got 1.0.",
    "beta1=nan": "training.beta1 must lie in [0, 1), got nan.",
    "beta2=-0.1": "training.beta2 must lie in [0, 1), got -0.1.",
    "eps=-1e-9": "training.eps must be at least 0, got -1e-09.",
    "eps=inf": "training.eps must be a finite number, got inf.",
    "learning_rate=nan": "training.learning_rate must be at least 0, got nan.",
    "learning_rate=inf": "training.learning_rate must be a finite number, got inf.",
    "weight_decay=nan": "training.weight_decay must be at least 0, got nan.",
    "weight_decay=inf": "training.weight_decay must be a finite number, got inf.",
    "r_drop=nan": "training.r_drop must be at least 0, got nan.",
    "clip_norm=nan": "training.clip_norm must be at least 0, got nan.",
    "seed=-1": "training.seed must lie between 0 and 2^63 - 1, got -1.",
    f"seed={2**63}": f"training.seed must lie between 0 and 2^63 - 1, got {2**63}.",
}
"""What is typed behind --set training., and what is said of it."""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


@pytest.mark.parametrize(("change", "said"), WRONG.items(), ids=WRONG)
def test_a_number_that_nothing_can_be_learned_with_is_a_mistake_of_its_key(recipe, change, said):
    with pytest.raises(RecipeError) as error:
        read_recipe(recipe, [f"training.{change}"])
    assert str(error.value) == f"--set training.{change}: {said}"


def test_the_smallest_and_largest_numbers_that_are_right_are_taken(recipe):
    changes = [f"seed={2**63 - 1}", "clip_norm=inf", "beta1=0", "beta2=0.0", "eps=0", "r_drop=0"]
    training = read_recipe(recipe, [f"training.{each}" for each in changes]).training
    assert (training.seed, training.clip_norm, training.beta1) == (2**63 - 1, math.inf, 0)
    assert read_recipe(recipe, ["training.seed=0"]).training.seed == 0


@pytest.mark.parametrize("change", ["beta2=1.5", "seed=-1", "learning_rate=inf"])
def test_no_half_made_run_is_left_of_a_wrong_number(recipe, tmp_path, capsys, change):
    out = tmp_path / "run"
    words = ["train", str(recipe), "--out", str(out), "--set", f"training.{change}"]
    assert main(words) == 2
    assert f"--set training.{change}: training." in capsys.readouterr().err
    assert not out.exists()
