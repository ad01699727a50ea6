"""Running text: every word once, ends of lines counted, contexts and overlaps as asked for."""

import lzma

import pytest

from regard.data import READERS, Example
from regard.data.running_text import MAX_SPENT_WORDS, RunningText
from regard.errors import DataError, SettingError

TEXT = "a b c\n\nd e\nf\n"
WORDS = ["a", "b", "c", "¶", "¶", "d", "e", "¶", "f", "¶"]


def reader(tmp_path, text=TEXT, **settings):
    (tmp_path / "text").write_text(text)
    return RunningText(tmp_path / "text", **settings)


def test_each_end_of_a_line_is_a_word_and_every_word_stands_in_one_row(tmp_path):
    rows = list(reader(tmp_path, words=4).examples())
    assert rows == [Example("", (t,)) for t in ("a b c ¶", "¶ d e ¶", "f ¶")]
    assert [word for row in rows for word in row.targets[0].split()] == WORDS


def test_the_context_is_what_stands_before_the_row(tmp_path):
    rows = list(reader(tmp_path, words=3, context=4).examples())
    assert [row.source for row in rows] == ["", "a b c", "c ¶ ¶ d", "¶ d e ¶"[2:] + " f"]


def test_rows_that_overlap_begin_where_they_are_told(tmp_path):
    rows = list(reader(tmp_path, words=4, every=2).examples())
    want = [" ".join(WORDS[i : i + 4]) for i in range(0, 8, 2)]
    assert [row.targets[0] for row in rows] == want


@pytest.mark.parametrize("n_words", range(1, 14))
@pytest.mark.parametrize(("words", "every"), [(4, 1), (4, 2), (5, 3), (3, 3)])
def test_the_last_row_holds_a_word_that_is_in_no_other(tmp_path, n_words, words, every):
    text = " ".join(f"w{i}" for i in range(n_words - 1)) + "\n"
    *before, last = reader(tmp_path, text, words=words, every=every).examples()
    seen = {word for row in before for word in row.targets[0].split()}
    assert set(last.targets[0].split()) - seen
    assert len(seen | set(last.targets[0].split())) == n_words


@pytest.mark.parametrize(("words", "every", "context"), [(7, None, 0), (64, 16, 100), (5, 4, 3)])
def test_what_is_forgotten_was_no_longer_needed(tmp_path, words, every, context):
    every_word = [f"w{i}" for i in range(MAX_SPENT_WORDS + 3000)]
    text = " ".join(every_word) + "\n"
    rows = list(reader(tmp_path, text, words=words, every=every, context=context).examples())
    every_word.append("¶")
    ends = range(words, len(every_word) + (every or words), every or words)
    starts = [end - words for end in ends]
    assert len(rows) == len(starts)
    for start, row in zip(starts, rows, strict=True):
        assert row.targets[0].split() == every_word[start : start + words]
        assert row.source.split() == every_word[max(0, start - context) : start]


def test_packed_texts_are_read_and_a_missing_one_is_said(tmp_path):
    (tmp_path / "text.xz").write_bytes(lzma.compress(b"a b\n"))
    assert list(RunningText(tmp_path / "text.xz").examples()) == [Example("", ("a b ¶",))]
    with pytest.raises(DataError, match="there is no file"):
        list(RunningText(tmp_path / "nowhere").examples())


def test_another_word_may_stand_for_the_end_of_a_line(tmp_path):
    rows = list(reader(tmp_path, words=20, line_end="<eol>").examples())
    assert rows[0].targets[0].split().count("<eol>") == 4
    with pytest.raises(SettingError, match="line_end must be one word, got 'a b'"):
        reader(tmp_path, line_end="a b")


@pytest.mark.parametrize("wrong", [{"words": 0}, {"every": 0}, {"context": -1}])
def test_impossible_settings_are_refused(tmp_path, wrong):
    with pytest.raises(SettingError, match="at least"):
        reader(tmp_path, **wrong)


def test_no_word_is_left_out_between_rows(tmp_path):
    with pytest.raises(SettingError, match=r"would leave words out\. Take every = 5 or less"):
        reader(tmp_path, words=5, every=9)


def test_it_stands_in_the_table_of_readers():
    assert READERS["running_text"] is RunningText


@pytest.mark.parametrize(
    "text", [TEXT, "def f():\n\treturn  1\n\n\n", "  a\n b \n", "x", "é  ü\u2003z\n"]
)
@pytest.mark.parametrize("words", [1, 2, 50])
def test_kept_spaces_make_the_rows_together_the_text(tmp_path, text, words):
    rows = list(reader(tmp_path, text, words=words, keeps_spaces=True).examples())
    # a file's last line has an end, written or not
    assert "".join(row.targets[0] for row in rows) == text.rstrip("\n") + "\n" * max(
        1, len(text) - len(text.rstrip("\n"))
    )


def test_kept_spaces_stand_in_the_context_too(tmp_path):
    rows = list(reader(tmp_path, "a  b\n\tc d\n", words=2, context=2, keeps_spaces=True).examples())
    assert [(row.source, row.targets[0]) for row in rows] == [
        ("", "a  b"), ("a  b", "\n\tc d"), ("\n\tc d", "\n"),
    ]  # fmt: skip
