"""A path where a table of data could stand: its reader is that of its ending, or of its lines."""

import gzip
import json

import pytest

from regard.errors import RecipeError
from regard.recipes.recipe import parse_recipe


def _data(**splits):
    table = {"data": {"valid": "valid.tsv", **splits}, "training": {"steps": 3}}
    return parse_recipe(table, "recipe", {}).data


def _read(choice):
    return {"name": choice.name, **choice.settings}


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("texts.tsv", None, {"name": "tsv"}),
        ("texts.conllu", None, {"name": "conllu"}),
        ("texts.jsonl", '{"source": "a", "target": "b"}\n', {"name": "jsonl"}),
        (
            "texts.jsonl",
            '{"text": "a", "label": "b"}\n',
            {"name": "jsonl", "source": "text", "target": "label"},
        ),
        ("texts.csv", "a b\tX\n\nb\tY\n", {"name": "tsv"}),
        ("texts", '{"source": "a", "target": "b"}\n', {"name": "jsonl"}),
        ("book.txt", "it was a dark night\nand\tcold\n", {"name": "running_text"}),
    ],
)
def test_a_path_is_read_by_its_ending_and_its_content(tmp_path, name, content, read):
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
    assert _read(_data(train=str(path)).train) == {**read, "path": str(path)}


def test_a_packed_file_is_read_as_what_it_holds(tmp_path):
    path = tmp_path / "texts.gz"
    path.write_bytes(gzip.compress(json.dumps({"text": "a", "labels": "b"}).encode()))
    assert _read(_data(train=str(path)).train)["target"] == "labels"


def test_a_folder_is_read_as_shards(tmp_path):
    assert _read(_data(train=str(tmp_path)).train) == {"name": "shards", "folder": str(tmp_path)}


def test_a_split_takes_the_settings_of_the_training_data():
    train = {"name": "tsv", "path": "train.tsv", "normalise": "captions"}
    assert _read(_data(train=train).valid) == {**train, "path": "valid.tsv"}
    tags = {"name": "conllu", "path": "a.conllu", "tags": "xpos"}
    found = _data(train=tags, valid="b.conllu", test="c.conllu")
    assert _read(found.test) == {**tags, "path": "c.conllu"}


def test_names_of_generators_stay_names_and_a_mistyped_one_is_told():
    found = _data(train="copy:count=9", valid="copy:count=5")
    assert (found.train.name, found.valid.settings) == ("copy", {"count": 5})
    with pytest.raises(RecipeError, match=r"There is no 'copi' here\. Did you mean 'copy'"):
        _data(train="copi", valid="copy")
