from dataclasses import replace
from pathlib import Path

import pytest

from regard.choices import Choice
from regard.data.readers import TabSeparated
from regard.data.recognised import RecognisedData
from regard.recipes.new_recipe import SIZES, TASKS, SplitData, new_recipe, size_for
from regard.recipes.recipe import read_recipe
from regard.tasks import check_task

READERS = {
    "translation": Choice("tsv", {"path": "a.tsv"}),
    "label": Choice("jsonl", {"path": 'with "quotes".jsonl', "source": "text"}),
    "tags": Choice("conllu", {"path": "a.conllu"}),
    "language_modelling": Choice("running_text", {"path": "a.txt"}),
    "captioning": Choice("caption_lines", {"path": "a.jsonl", "pictures": "photos"}),
}


def data_for(task, examples=1000):
    reader = TabSeparated(Path("a.tsv"))
    return RecognisedData(READERS[task], reader, task, "a reason", examples, 12.0, 12.0, 30, 2)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("examples", [1, 300, 50_000, 10_000_000])
def test_every_new_recipe_is_valid(task, examples, tmp_path):
    path = tmp_path / "new.toml"
    path.write_text(
        new_recipe(data_for(task, examples), SplitData(), has_gpu=True, name="new.toml")
    )
    recipe = read_recipe(path, check=check_task)
    assert recipe.model.task == task
    assert recipe.data.train.settings["path"] == READERS[task].settings["path"]
    expected = {1: 0.5, 300: 0.1, 50_000: 0.02, 10_000_000: 0.001}
    assert recipe.data.valid.settings["held_out"] == expected[examples]


def test_files_of_the_user_s_own_are_validated_on(tmp_path):
    splits = SplitData(Choice("tsv", {"path": "v.tsv"}), Choice("tsv", {"path": "t.tsv"}))
    path = tmp_path / "new.toml"
    path.write_text(new_recipe(data_for("translation"), splits, has_gpu=False, name="new.toml"))
    recipe = read_recipe(path)
    assert (recipe.data.valid, recipe.data.test) == (splits.valid, splits.test)
    assert "held_out" not in recipe.data.train.settings


def test_more_data_make_a_larger_model_and_fewer_epochs():
    sizes = [size_for(data_for("translation", 10**n), has_gpu=True) for n in range(1, 9)]
    assert [SIZES.index(size) for size in sizes] == sorted(SIZES.index(size) for size in sizes)
    assert sizes[0] == SIZES[0]
    assert sizes[-1] == SIZES[-1]


def test_a_cpu_is_given_no_model_that_takes_days():
    data = data_for("translation", 10_000_000)
    assert size_for(data, has_gpu=False).d_model < size_for(data, has_gpu=True).d_model


def test_long_texts_get_room_up_to_a_limit(tmp_path):
    lengths = []
    for words in (5, 100, 5000):
        path = tmp_path / f"{words}.toml"
        data = replace(data_for("translation"), longest_words=words)
        path.write_text(new_recipe(data, SplitData(), has_gpu=False, name="x"))
        lengths.append(read_recipe(path).data.max_tokens)
    assert lengths == [32, 512, 512]
