"""Numbers of thousands of digits and hundreds of brackets are mistakes of a recipe, with a line."""

import pytest

from regard.cli import main
from tests.small_recipe import RECIPE

DIGITS, BRACKETS = "9" * 5000, "[" * 5000 + "]" * 5000
TABLES = "{a=" * 3000 + "1" + "}" * 3000
WRONG = {
    f"steps = {DIGITS}": "a number has too many digits.",
    f"steps = -1_{DIGITS}": "a number has too many digits.",
    f"steps = {BRACKETS}": "tables or lists are nested too deeply.",
    f"steps = {TABLES}": "tables or lists are nested too deeply.",
    f"steps = {'[' * 40}{']' * 40}": "is nested too deeply: at most 32 tables or lists.",
    f"steps = 0x{'f' * 4000}": "must be below 2^1000; it has 16,000 bits.",
    f"learning_rate = {'9' * 400}": "must be below 2^1000; it has 1,329 bits.",
    f"learning_rate = {'9' * 400}.0": "training.learning_rate must be a finite number, got inf.",
    'start_from = "a\0b"': "Illegal character '\\x00'",
    f"steps = {{ {'.'.join('a' * 300)} = 1 }}": "is nested too deeply: at most 32 tables or lists.",
    f"'{'x' * 100_000}' = 1": "There is no 'xxxx",
}
LINE = RECIPE.splitlines().index("[training]") + 2


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def _refused(words, capsys):
    assert main(words) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(("line", "said"), WRONG.items(), ids=range(len(WRONG)))
@pytest.mark.parametrize("verb", ["train", "plan"])
def test_what_no_recipe_can_hold_is_told_with_file_and_line(verb, line, said, recipe, capsys):
    text = RECIPE.replace("steps = 24\n", "") if line.startswith("steps") else RECIPE
    recipe.write_text(text.replace("[training]", f"[training]\n{line}"))
    told = _refused([verb, str(recipe), "--out", str(recipe.parent / "run")], capsys)
    assert said in told
    assert f"recipe.toml:{LINE}" in told or f"at line {LINE}" in told
    assert not (recipe.parent / "run").exists()


@pytest.mark.parametrize("value", [DIGITS, BRACKETS, TABLES], ids=["digits", "brackets", "tables"])
def test_what_no_value_can_be_is_told_with_its_option(value, recipe, capsys):
    words = ["train", str(recipe), "--out", str(recipe.parent / "run")]
    told = _refused([*words, "--set", f"training.steps={value}"], capsys)
    assert told.startswith(f"regard: --set training.steps: '{value[:20]}…' ({len(value):,} char")
    assert "has too many digits or brackets. Give a shorter value." in told
    assert len(told) < 200


def test_a_huge_number_behind_an_option_is_told_by_its_size(recipe, capsys):
    words = ["train", str(recipe), "--out", str(recipe.parent / "run")]
    told = _refused([*words, "--set", f"training.steps=0x{'f' * 300}"], capsys)
    assert "training.steps: must be below 2^1000; it has 1,200 bits." in told


def test_a_name_that_is_not_utf_8_is_told_before_anything_is_made(recipe, capsys):
    words = ["train", str(recipe), "--out"]
    told = _refused([*words, str(recipe.parent / "caf\udce9")], capsys)
    assert "caf\\udce9' is not UTF-8, so that no card can hold it. Choose another name." in told
    out, change = str(recipe.parent / "run"), "training.start_from=caf\udce9"
    told = _refused([*words, out, "--set", change], capsys)
    assert "this is not UTF-8, in which recipes are written." in told
    assert [each.name for each in recipe.parent.iterdir()] == ["recipe.toml"]


def test_settings_of_a_mechanism_are_refused_alike(capsys):
    told = _refused(["explain", f"additive:d_hidden={DIGITS}"], capsys)
    assert told.startswith(f"regard: '{DIGITS[:20]}…' (5,000 characters) has too many digits")
