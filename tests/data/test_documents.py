"""Documents: parts of any make become one text, and a broken line is named."""

import json

import pytest

from regard.data import READERS, Example
from regard.data.documents import Documents
from regard.errors import DataError, SettingError

PAPER = {
    "title": "On  Looking",
    "abstract": "We look.\nTwice.",
    "sections": [["", "First words."], ["1 Method", "We  looked"]],
}
TLDR = {"title": "T", "source": ["One.", "Two."], "target": ["short", "shorter"]}


def reader(tmp_path, *rows, **settings):
    text = "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)
    (tmp_path / "some.jsonl").write_text(text)
    return Documents(tmp_path / "some.jsonl", **settings)


def test_a_paper_is_read_whole_and_answered_by_its_abstract(tmp_path):
    (found,) = reader(tmp_path, PAPER).examples()
    assert found == Example("On Looking First words. 1 Method We looked", ("We look. Twice.",))


def test_sentences_are_joined_and_summaries_are_references(tmp_path):
    (found,) = reader(tmp_path, TLDR, source=("title", "source"), target="target").examples()
    assert found == Example("T One. Two.", ("short", "shorter"))


def test_what_is_read_needs_no_answer(tmp_path):
    unanswered = {key: value for key, value in PAPER.items() if key != "abstract"}
    assert list(reader(tmp_path, unanswered, PAPER, max_words=3).sources()) == 2 * [
        "On Looking First"
    ]
    path = tmp_path / "blank.jsonl"
    path.write_text(f"{json.dumps(PAPER)}\n\n")
    assert list(Documents(path, max_words=1).sources()) == ["On", ""]
    with pytest.raises(DataError, match=r"line 2 is empty; expected one object\."):
        list(Documents(path).examples())
    with pytest.raises(DataError, match="line 1 has no 'title'; it has source"):
        list(reader(tmp_path, {"source": "a"}).sources())


def test_a_document_is_cut_only_where_that_is_asked_for(tmp_path):
    (found,) = reader(tmp_path, PAPER, max_words=3).examples()
    assert found.source == "On Looking First"
    with pytest.raises(SettingError, match="max_words must be at least 1, got 0"):
        reader(tmp_path, PAPER, max_words=0)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2 must be one object, got list"),
        ({"title": "a", "abstract": "b"}, "has no 'sections'; it has title, abstract"),
        ({**PAPER, "sections": [3]}, "'sections' must be a text, a list of texts"),
        ({**PAPER, "abstract": 5}, "'abstract' must be a text or a list of texts"),
        ({**PAPER, "abstract": ["a", ""]}, "that are not empty"),
        ({**PAPER, "abstract": None}, "got null"),
        (
            {**PAPER, "title": "a \ud800"},
            r"line 2 holds half a character .*: 'a .ud800' is no text",
        ),
        ({**PAPER, "abstract": ["a", "\udc00 b"]}, "line 2 holds half a character"),
        ({"title": "a", "sections": "b"}, "has no 'abstract'; it has title, sections"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, row, said):
    given = reader(tmp_path, PAPER, row)
    with pytest.raises(DataError, match=said):
        list(given.examples())
    rows = list(given.rows())
    assert isinstance(rows[0].found, Example)
    assert [broken.number for broken in rows[1].found] == [2]


@pytest.mark.parametrize(
    ("depth", "said"), [(600, "line 2 is nested too deeply"), (9000, "line 2 is not JSON")]
)
@pytest.mark.parametrize("key", ["sections", "abstract"])
def test_a_part_that_lies_too_deep_is_named(tmp_path, depth, said, key):
    deep = "[" * depth + '"b"' + "]" * depth
    line = json.dumps({**PAPER, key: "HERE"}).replace('"HERE"', deep)
    (_, row) = reader(tmp_path, PAPER, line).rows()
    (broken,) = row.found
    assert (said if key == "sections" else "line 2") in broken.message


def test_no_key_to_read_is_refused(tmp_path):
    with pytest.raises(SettingError, match="source names no key"):
        reader(tmp_path, PAPER, source=())


def test_it_stands_in_the_table_of_readers():
    assert READERS["documents"] is Documents
