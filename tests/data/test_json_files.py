"""Regular files: what is no file is never opened, and what is wrong is told in a few words."""

import os
import socket
from pathlib import Path

import pytest

from regard.data.files import Unreadable, parse_json, read_bytes, read_json, read_text

KINDS = {
    "is a folder; a file was expected": lambda path: path.mkdir(),
    "is a FIFO; a file was expected": os.mkfifo,
    "is a device; a file was expected": lambda path: path.symlink_to("/dev/zero"),
    "is missing": lambda path: None,
    "cannot be read (too many levels of symbolic links)": lambda path: path.symlink_to(path),
}
BAD = {
    "{": "is not JSON (Expecting property name",
    "": "is not JSON (Expecting value: line 1 column 1 (char 0))",
    "[" * 100_000: "is not JSON (it is nested too deeply)",
    "9" * 5000: "is not JSON (a number has thousands of digits)",
}


@pytest.mark.parametrize(("said", "make"), KINDS.items(), ids=KINDS)
def test_what_is_no_file_is_not_opened(tmp_path, said, make):
    make(tmp_path / "it")
    with pytest.raises(Unreadable) as error:
        read_bytes(tmp_path / "it")
    assert str(error.value) == said


def test_a_socket_is_not_opened(tmp_path, monkeypatch):
    # the name of a socket may not be long
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as held:
        held.bind("it")
        with pytest.raises(Unreadable, match="is a socket; a file was expected"):
            read_bytes(Path("it"))


def test_a_file_that_may_not_be_read_says_so(tmp_path, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied")

    (tmp_path / "it").touch()
    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(Unreadable, match=r"^cannot be read \(permission denied\)$"):
        read_bytes(tmp_path / "it")


@pytest.mark.parametrize(("text", "said"), BAD.items(), ids=BAD.values())
def test_what_is_no_json_is_told_without_advice_for_programmers(tmp_path, text, said):
    (tmp_path / "it").write_text(text)
    with pytest.raises(Unreadable) as error:
        read_json(tmp_path / "it")
    assert str(error.value).startswith(said)


def test_a_byte_that_is_no_text_is_named_with_its_place(tmp_path):
    (tmp_path / "it").write_bytes(b"ab\xff")
    with pytest.raises(Unreadable, match=r"^is not UTF-8 \(byte 0xff at offset 2\)$"):
        read_text(tmp_path / "it")
    assert parse_json('{"a": 1}') == {"a": 1}
