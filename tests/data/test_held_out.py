import pytest

import regard
from regard.data import TabSeparated
from regard.data.examples import Example
from regard.data.held_out import examples_of_split, is_held_out
from regard.errors import DataError, RecipeError, SettingError
from regard.recipes.recipe import examples, parse_recipe

PAIRS = [(f"text {n}", f"answer {n}") for n in range(2000)]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS))
    return path


def test_training_and_validation_share_the_examples_without_a_common_one(path):
    reader = TabSeparated(path, held_out=0.1)
    train, valid = (list(examples_of_split(reader, split)) for split in ("train", "valid"))
    assert sorted(one.source for one in train + valid) == sorted(source for source, _ in PAIRS)
    assert 0.08 * len(PAIRS) < len(valid) < 0.12 * len(PAIRS)


def test_the_side_of_an_example_depends_on_its_source_alone(path):
    valid = {one.source for one in examples_of_split(TabSeparated(path, held_out=0.1), "valid")}
    path.write_text("".join(f"{source}\tother\nnew {source}\tx\n" for source, _ in PAIRS[::-1]))
    found = {one.source for one in examples_of_split(TabSeparated(path, held_out=0.1), "valid")}
    assert {source for source in found if not source.startswith("new")} == valid


def test_a_larger_share_holds_out_the_same_examples_and_more():
    held = [one for one in map(_example, range(500)) if is_held_out(one, 0.1)]
    assert held
    assert all(is_held_out(one, 0.2) for one in held)


def test_rows_of_running_text_count_by_their_text_and_pictures_by_their_name():
    rows = [Example("", (f"row {n}",)) for n in range(100)]
    assert 0 < sum(is_held_out(row, 0.3) for row in rows) < 100
    for n in range(100):
        here, there = (Example(f"{folder}/{n}.jpg", ("A dog .",)) for folder in ("a", "b/c"))
        assert is_held_out(here, 0.3) == is_held_out(there, 0.3)


def test_a_recipe_holds_out_validation_examples_from_training(path):
    recipe = parse_recipe(_table(path, "held_out:share=0.1"), "it", {})
    reader = TabSeparated(path, held_out=0.1)
    for split in ("train", "valid"):
        read = list(examples(getattr(recipe.data, split), split)())
        assert read == list(examples_of_split(reader, split))
    # the recipe in the run says the same
    assert parse_recipe(recipe.as_table(), "it", {}).data == recipe.data


@pytest.mark.parametrize(
    ("valid", "told"),
    [
        (
            "held_out:share=0.9",
            "held_out: the share must lie between 0 and 0.5, got 0.9; it is the part",
        ),
        ("held_out:part=0.1", "'held_out' has no setting 'part'; it takes share: float = 0.05"),
        ("held_out:share=much", "'held_out': share must be float, got 'much'"),
    ],
)
def test_a_wrong_share_is_told(path, valid, told):
    with pytest.raises(RecipeError) as raised:
        parse_recipe(_table(path, valid), "it", {})
    assert told in str(raised.value)


def test_a_share_that_holds_nothing_out_is_told(path, tmp_path):
    path.write_text("one\ttwo\n")
    with pytest.raises(DataError, match=r"the share of 0\.01 holds none out\. Raise the share"):
        regard.train(_table(path, "held_out:share=0.01"), tmp_path / "run")


def test_generated_data_have_a_validation_split_already():
    table = {"data": {"train": "copy:count=10", "valid": "held_out"}, "training": {"steps": 1}}
    with pytest.raises(RecipeError, match=r"'copy' reads none\. Give data.valid a reader"):
        parse_recipe(table, "it", {})


def test_readers_of_other_data_refuse_a_share_that_leaves_nothing(path):
    with pytest.raises(SettingError, match=r"the share must lie between 0 and 0\.5, got -1"):
        TabSeparated(path, held_out=-1.0)


def test_the_verbs_score_the_held_out_examples(path, tmp_path):
    path.write_text("".join(f"{chr(97 + n % 26) * (n // 26 + 1)}\tx\n" for n in range(260)))
    table = _table(path, "held_out:share=0.2")
    table["model"] = {"d_model": 8, "n_heads": 2, "d_hidden": 8} | dict.fromkeys(
        ("n_encoder_layers", "n_decoder_layers"), 1
    )
    run = regard.train(table, tmp_path / "run")
    n_held = sum(1 for _ in examples_of_split(TabSeparated(path, held_out=0.2), "valid"))
    assert run.evaluate(split="valid").sentences == n_held


def _example(number):
    return Example(f"text {number}", ("x",))


def _table(path, valid):
    return {
        "data": {"train": {"name": "tsv", "path": str(path)}, "valid": valid},
        "tokens": {"kind": "characters"},
        "training": {"steps": 2},
    }
