"""Readers: the examples they give, and how they refuse what they cannot read."""

import gzip
import json
import sys
import types
from pathlib import Path

import pytest

from regard.data import (
    PICTURE_READERS,
    READERS,
    Example,
    HuggingFace,
    JsonLines,
    ParallelFiles,
    Shards,
    TabSeparated,
    reader_for,
)
from regard.errors import DataError, MissingExtra

ROOT = Path(__file__).parents[2]


def _file(path, *rows):
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


def _all(reader):
    return list(reader.examples())


def test_an_example_needs_a_target():
    with pytest.raises(DataError, match="example: 'a' has no target; give at least one"):
        Example("a", ())


def test_parallel_files_pair_lines_and_take_several_references(tmp_path):
    source = _file(tmp_path / "a.en", "one", "", "two\t2")
    first, second = _file(tmp_path / "a.de", "eins", "x", "zwei"), tmp_path / "b.de"
    _file(second, "ein", "", " zwo ")
    assert _all(ParallelFiles(source, (first, second))) == [
        Example("one", ("eins", "ein")),
        Example("", ("x", "")),
        Example("two\t2", ("zwei", " zwo ")),
    ]


@pytest.mark.parametrize(("n_source", "n_target", "alone"), [(5, 3, "a.en"), (3, 5, "a.de")])
def test_unequal_files_are_refused_with_both_counts(tmp_path, n_source, n_target, alone):
    source = _file(tmp_path / "a.en", *"abcde"[:n_source])
    target = _file(tmp_path / "a.de", *"abcde"[:n_target])
    said = (
        rf"a\.en' has {n_source}, '.*a\.de' has {n_target}\. Line 4 of '.*{alone}' is the first "
        "without a partner"
    )
    read = ParallelFiles(source, (target,)).examples()
    assert [next(read).source for _ in range(3)] == ["a", "b", "c"]
    with pytest.raises(DataError, match=said):
        next(read)


def test_parallel_files_need_a_target(tmp_path):
    with pytest.raises(DataError, match="stands alone; give a target file too"):
        ParallelFiles(tmp_path / "a", ())


def test_tabs_part_the_source_from_its_references(tmp_path):
    path = _file(tmp_path / "a.tsv", "one\teins\tein", "two\t")
    assert _all(TabSeparated(path)) == [Example("one", ("eins", "ein")), Example("two", ("",))]


def test_a_line_without_a_tab_is_refused_with_its_number(tmp_path):
    path = _file(tmp_path / "a.tsv", "one\teins", "two")
    with pytest.raises(DataError, match=r"tsv: '.*a\.tsv', line 2 has no tab; expected source TAB"):
        _all(TabSeparated(path))


def test_json_lines_take_texts_lists_and_dotted_keys(tmp_path):
    rows = [{"t": {"en": "one", "de": "eins"}}, {"t": {"en": "two", "de": ["zwei", "zwo"]}}]
    path = _file(tmp_path / "a.jsonl", *map(json.dumps, rows))
    assert list(JsonLines(path, "t.en", "nothing").sources()) == [
        one.source for one in _all(JsonLines(path, "t.en", "t.de"))
    ]
    assert _all(JsonLines(path, "t.en", "t.de")) == [
        Example("one", ("eins",)),
        Example("two", ("zwei", "zwo")),
    ]


BAD_JSON = {
    "{": r"line 1 is not JSON \(.*\); expected one object",
    "": "line 1 is empty; expected one object",
    '{"source": "a", "target": "b", "n": ' + 5000 * "9" + "}": "line 1 is not JSON",
    r'{"source": "a \ud83d b", "target": "b"}': "line 1 holds half a character",
    r'{"source": "a", "target": ["b", "\udc00"]}': "line 1 holds half a character",
    "[" * 100_000: "line 1 is not JSON",
    "[1]": "line 1 has no 'source'; it has list",
    "{}": "line 1 has no 'source'; it has no keys",
    '{"src": "a", "target": "b"}': "line 1 has no 'source'; it has src, target",
    '{"source": 3, "target": "b"}': "line 1: 'source' must be a text, got 3",
    '{"source": ["a"], "target": "b"}': (
        r"line 1: 'source' must be a text, got \[.a.\]. Lists of texts are read by the reader "
        "'documents'."
    ),
    '{"source": "a", "target": ["b", 4]}': r"'target' must be a text or a list of texts, got \[\"b",
    '{"source": "a", "target": []}': r"'target' must be a text or a list of texts, got \[\]",
}


@pytest.mark.parametrize(("row", "said"), BAD_JSON.items(), ids=range(len(BAD_JSON)))
def test_a_line_of_another_shape_is_refused_with_number_and_key(tmp_path, row, said):
    with pytest.raises(DataError, match=said):
        _all(JsonLines(_file(tmp_path / "a.jsonl", row)))


def test_shards_are_read_in_the_order_of_their_names(tmp_path):
    _file(tmp_path / "c.jsonl", json.dumps({"source": "4", "target": "d"}))
    _file(tmp_path / "a.tsv", "1\ta")
    _file(tmp_path / "b.de", "b", "c")
    _file(tmp_path / "b.fr", "other")
    with gzip.open(tmp_path / "b.en.gz", "wt") as file:
        file.write("2\n3\n")
    (tmp_path / ".hidden").touch()
    assert _all(Shards(tmp_path, ("en", "de"))) == [
        Example(source, (target,)) for source, target in zip("1234", "abcd", strict=True)
    ]


def test_shards_refuse_what_they_would_otherwise_leave_out(tmp_path):
    with pytest.raises(DataError, match=r"holds no shard\. Expected \*\.tsv, \*\.jsonl"):
        _all(Shards(tmp_path))
    _file(tmp_path / "a.tsv", "1\ta")
    _file(tmp_path / "b.en", "2")
    with pytest.raises(DataError, match=r"b\.en' is no shard\. .*with suffixes \(such as en, de\)"):
        _all(Shards(tmp_path))
    with pytest.raises(DataError, match=r"b\.en' has no partner 'b\.de' beside it"):
        _all(Shards(tmp_path, ("en", "de")))
    with pytest.raises(DataError, match=r"b\.en' has no partner 'b\.fr' beside it"):
        _all(Shards(tmp_path, ("fr", "en")))
    (tmp_path / "b.en").unlink()
    (tmp_path / "a.tsv.gz").touch()
    with pytest.raises(DataError, match=r"a\.tsv' and 'a\.tsv\.gz' are one shard twice"):
        _all(Shards(tmp_path))
    with pytest.raises(DataError, match="is not a folder"):
        _all(Shards(tmp_path / "nowhere"))


def test_a_hub_data_set_is_read_by_its_columns(monkeypatch):
    asked = []

    def load_dataset(name, configuration, *, split):
        asked.append((name, configuration, split))
        return [{"translation": {"en": "one", "de": "eins"}}]

    fake = types.ModuleType("datasets")
    fake.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", fake)
    reader = HuggingFace("wmt16", "test", "translation.en", "translation.de", "de-en")
    assert _all(reader) == [Example("one", ("eins",))]
    assert asked == [("wmt16", "de-en", "test")]
    with pytest.raises(DataError, match=r"'wmt16', test, row 1 has no 'english'; it has transl"):
        _all(HuggingFace("wmt16", "test", "english", "german"))


def test_a_hub_data_set_without_the_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[huggingface\]'"):
        _all(HuggingFace("wmt16", "test", "en", "de"))


def test_paths_typed_find_their_reader(tmp_path):
    tsv, jsonl = _file(tmp_path / "a.tsv"), _file(tmp_path / "a.jsonl")
    assert reader_for([tsv]) == TabSeparated(tsv)
    assert reader_for([jsonl], keys=("en", "de")) == JsonLines(jsonl, "en", "de")
    assert reader_for([tsv, jsonl, tsv]) == ParallelFiles(tsv, (jsonl, tsv))
    assert reader_for([tmp_path], suffixes=("en", "de")) == Shards(tmp_path, ("en", "de"))
    with pytest.raises(DataError, match=r"is neither \.tsv nor \.jsonl .* Give the source file"):
        reader_for([_file(tmp_path / "a.en")])
    with pytest.raises(DataError, match="no file was given"):
        reader_for([])


def test_the_table_names_every_reader():
    texts = ["parallel", "tsv", "jsonl", "shards", "conllu", "documents", "running_text"]
    others = ["huggingface", "elsewhere"]
    pictures = ["caption_lines", "karpathy", "flickr8k"]
    assert list(READERS) == [*texts, *others, *pictures]
    assert list(PICTURE_READERS) == pictures


def test_the_page_has_a_row_for_every_reader_with_its_class():
    rows = [line.split(" | ") for line in (ROOT / "docs" / "data.md").read_text().splitlines()]
    shown = {row[1]: row[2].strip("` |").partition("(")[0] for row in rows if len(row) == 3}
    # what an imported run has in the place of data is nothing that anybody writes
    written = READERS.keys() - PICTURE_READERS.keys() - {"elsewhere"}
    assert {name: READERS[name].__name__ for name in written} == {
        name.strip("`"): made for name, made in shown.items() if name.strip("`") in READERS
    }
    pictures = (ROOT / "docs" / "captions.md").read_text()
    assert [name for name in PICTURE_READERS if f"| `{name}` |" not in pictures] == []
