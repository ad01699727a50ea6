"""Rules of decoding: in a recipe for every search of its run, and as options of predict."""

import pytest

import regard
from regard.cli import main
from regard.decoding import NoRepeatedNgrams, RepetitionPenalty
from regard.errors import RecipeError, SettingError
from regard.recipes import read_recipe
from regard.recipes.decoding_recipe import DecodingRecipe
from regard.runs.evaluation import search_for
from regard.runs.evaluation_report import EvaluationSettings, _how_searched
from tests.factories import make_run
from tests.small_recipe import RECIPE

RULES = (RepetitionPenalty(1.5), NoRepeatedNgrams(1))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run whose recipe has rules."""
    run = make_run(tmp_path_factory.mktemp("rules") / "run")
    with (run / "recipe.toml").open("a") as recipe:
        recipe.write("\n[decoding]\nrepetition_penalty = 1.5\nno_repeated_ngrams = 1\n")
    return run


def test_the_rules_of_a_recipe_are_those_of_every_search(run):
    trained = regard.load(run)
    assert tuple(trained.default_search().rules) == RULES
    for beam in (1, 4):
        assert tuple(search_for(trained, beam=beam, length_penalty=0.6).rules) == RULES
    (said,) = trained.predict(["a b c d e"])
    assert len(set(said.tokens)) == len(said.tokens), "no token comes twice"
    settings = EvaluationSettings(beam=1)
    assert _how_searched(settings, trained.loaded.recipe.decoding) == (
        "greedy, repetition penalty 1.5, no repeated 1-grams"
    )


def test_an_option_wins_over_the_recipe(run, capsys):
    words = ["predict", str(run), "--text", "a b c d e", "--beam", "1", "--max-tokens", "12"]
    assert main(words) == 0
    ruled = capsys.readouterr().out.strip()
    assert len(set(ruled)) == len(ruled)
    assert main([*words, "--repetition-penalty", "1", "--no-repeated-ngrams", "0"]) == 0
    free = capsys.readouterr().out.strip()
    assert len(set(free)) < len(free)


REFUSED = {
    "--repetition-penalty=0.5": "predict: --repetition-penalty must be a finite number of at least",
    "--no-repeated-ngrams=-1": "predict: --no-repeated-ngrams must be at least 0, got -1.",
}


@pytest.mark.parametrize(("option", "said"), REFUSED.items())
def test_a_rule_without_meaning_is_refused(option, said, run, capsys):
    assert main(["predict", str(run), "--text", "a", option]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"repetition_penalty": 0.5}, "decoding.repetition_penalty must be a finite number of at"),
        ({"no_repeated_ngrams": -1}, "decoding.no_repeated_ngrams must be at least 0, got -1"),
    ],
)
def test_a_recipe_s_rule_without_meaning_is_refused(settings, said):
    with pytest.raises(SettingError, match=said):
        DecodingRecipe(**settings)


def test_a_model_that_searches_nothing_has_no_rules(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(
        RECIPE.replace('size = "tiny"', 'kind = "encoder"')
        + "\n[decoding]\nno_repeated_ngrams = 3\n"
    )
    with pytest.raises(RecipeError, match="a model of kind 'encoder' searches for no answers"):
        read_recipe(path)
