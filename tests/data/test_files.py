"""Files as lines: what is stripped, what is refused, and what the refusal says."""

import gzip
import lzma

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import lines
from regard.data.files import Broken, tolerant_lines
from regard.errors import DataError

MARK = "\ufeff"
OPENERS = {"text": open, "text.gz": gzip.open, "text.xz": lzma.open}


def _write(path, data):
    with OPENERS[path.name](path, "wb") as file:
        file.write(data)
    return path


@pytest.mark.parametrize("name", OPENERS)
def test_only_the_line_end_is_stripped(tmp_path, name):
    path = _write(tmp_path / name, " a\t \r\nb\rc\n\n\u2028d\x0b\u0085 ".encode())
    assert list(lines(path)) == [" a\t ", "b\rc", "", "\u2028d\x0b\u0085 "]


@given(texts=st.lists(st.text().filter(lambda t: "\n" not in t and not t.endswith("\r"))))
def test_lines_come_back_as_they_were_written(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("lines") / "text"
    path.write_bytes("".join(f"{text}\n" for text in texts).encode())
    first = [text.removeprefix(MARK) for text in texts[:1]]
    assert list(lines(path)) == [*first, *texts[1:]]


@pytest.mark.parametrize("name", OPENERS)
def test_a_mark_of_the_byte_order_is_no_part_of_the_first_line(tmp_path, name):
    path = _write(tmp_path / name, f"{MARK}a\n{MARK}b\n".encode())
    assert list(lines(path)) == ["a", f"{MARK}b"]


@pytest.mark.parametrize("name", OPENERS)
def test_a_bad_byte_is_named_with_file_line_and_offset(tmp_path, name):
    path = _write(tmp_path / name, "näh\n".encode() + b"caf\xe9\nok\n")
    said = rf"'{path}', line 2: byte 0xe9 at offset 8 is not UTF-8\. Convert the file"
    read = lines(path)
    assert next(read) == "näh"
    with pytest.raises(DataError, match=said):
        next(read)


def test_what_is_utf_16_is_told_how_it_becomes_utf_8(tmp_path):
    path = _write(tmp_path / "text", "näh\n".encode("utf-16"))
    with pytest.raises(
        DataError, match=r"not UTF-8\. Convert the file, .* iconv -f utf-16 -t utf-8"
    ):
        list(lines(path))


def test_tolerant_reading_goes_on_behind_a_bad_line(tmp_path):
    path = _write(tmp_path / "text", b"a\n\xff\nb\n")
    first, broken, last = tolerant_lines(path)
    assert (first, last) == ("a", "b")
    assert isinstance(broken, Broken)
    assert (broken.check, broken.number) == ("encoding", 2)


@pytest.mark.parametrize("name", ["text.gz", "text.xz"])
def test_a_packed_file_that_was_cut_short_says_how_far_it_could_be_read(tmp_path, name):
    path = _write(tmp_path / name, b"line\n" * 10)
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(DataError, match=r"cannot be read after line \d+: .* Fetch or pack"):
        list(lines(path))


def test_a_file_that_is_not_what_its_name_says_is_refused(tmp_path):
    path = tmp_path / "text.gz"
    path.write_text("plain")
    with pytest.raises(DataError, match=r"cannot be read after line 0: Not a gzipped file"):
        list(lines(path))


def test_a_missing_file_is_an_error_at_once_that_names_its_likes(tmp_path):
    (tmp_path / "train.en").touch()
    with pytest.raises(DataError, match=r"no file '.*train\.eng'\. '.*' holds train\.en\."):
        lines(tmp_path / "train.eng")
    with pytest.raises(DataError, match=r"holds nothing with a name like it, but train\.en\."):
        lines(tmp_path / "zzz")
    (tmp_path / "bare").mkdir()
    with pytest.raises(DataError, match="bare' is empty"):
        lines(tmp_path / "bare" / "zzz")
    with pytest.raises(DataError, match=r"Its folder '.*nowhere' does not exist either"):
        lines(tmp_path / "nowhere" / "a")
    with pytest.raises(DataError, match="is a folder; a file was expected"):
        lines(tmp_path)


def test_a_file_of_an_old_mac_is_not_read_as_one_line(tmp_path):
    path = tmp_path / "old.txt"
    path.write_bytes(b"a b\rc d\re f\r")
    with pytest.raises(DataError) as said:
        list(lines(path))
    assert str(said.value) == (
        f"files: '{path}' ends its lines with carriage returns alone, as old Macs did, so that it "
        "would be read as one line. Convert it, for instance with tr '\\r' '\\n'."
    )
    path.write_bytes(b"a\rb\nc")
    assert list(lines(path)) == ["a\rb", "c"]
    path.write_bytes(b"a b\r")
    assert list(lines(path)) == ["a b\r"]
