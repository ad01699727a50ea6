"""Where a run may begin, and what is left of one that could not."""

import pytest

from regard.cli import main
from regard.errors import RegardError, RunError
from regard.training import read_recipe, run
from regard.training.loop import Step
from tests.training.small_recipe import RECIPE


def test_a_file_is_no_place_for_a_run(recipe, tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunError, match=r"is a file; a run is a folder\. Choose another --out"):
        next(run(read_recipe(recipe), tmp_path / "run"))
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.parametrize(
    "mistake",
    ["data.valid.path=gone.tsv", "data.max_tokens=2", "model.d_model=15"],
)
def test_who_mends_a_recipe_goes_on_with_the_same_out(mistake, tmp_path, capsys):
    pairs = "".join(f"a {letter}\t{letter} a\n" for letter in "bcdefgh")
    (tmp_path / "pairs.tsv").write_text(pairs)
    given = f'{{ name = "tsv", path = "{tmp_path}/pairs.tsv" }}'
    text = RECIPE.replace('{ name = "reverse", count = 300 }', given)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(text.replace('{ name = "reverse", count = 20 }', given))
    words = ["train", str(recipe), "--out", str(tmp_path / "run"), "--set", "training.steps=1"]
    assert main([*words, "--set", mistake]) == 2
    assert not (tmp_path / "run").exists()
    assert main(words) == 0


def test_a_mistake_in_what_was_begun_leaves_it_as_it_was(recipe, tmp_path):
    out = tmp_path / "run"
    for event in run(read_recipe(recipe, ["training.checkpoint_every=1"]), out):
        if isinstance(event, Step):
            break
    (out / "tokenizer.json").write_text("spoilt")
    before = sorted(path.name for path in out.iterdir())
    with pytest.raises(RegardError, match=r"tokenizer\.json"):
        list(run(read_recipe(recipe), out, resume=True))
    assert sorted(path.name for path in out.iterdir()) == before
