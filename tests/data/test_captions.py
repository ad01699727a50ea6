"""Readers of captioned pictures: three kinds of files, folders and zips, and what is refused."""

import json
import lzma
import zipfile
from dataclasses import replace

import pytest

from regard.data.captions import CaptionLines, Flickr8kTokens, KarpathyJson
from regard.data.examples import Example
from regard.errors import DataError, UnknownChoice

NAMES = ("a.jpg", "b.jpg", "c.jpg")


def _pictures(folder):
    """Readers only look whether a picture is there."""
    photos = folder / "photos"
    photos.mkdir()
    for name in NAMES:
        (photos / name).touch()
    return photos


def _zip(folder):
    with zipfile.ZipFile(folder / "photos.zip", "w") as packed:
        for name in NAMES:
            packed.writestr(name, b"")
    return folder / "photos.zip"


def _lines(path, *rows):
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


JSON_ROWS = [
    {"image": "a.jpg", "captions": ["A dog .", "One dog"], "split": "train", "width": 5},
    {"image": "b.jpg", "caption": "A cat .", "split": "test"},
    {"image": "c.jpg", "caption": ["A cow .", "Ü"], "split": "restval"},
]
TOKENS = [
    "a.jpg#0\tA dog .",
    "a.jpg#1\tOne dog",
    "b.jpg#0\tA cat .",
    "c.jpg#0\tA cow .",
    "c.jpg#1\tÜ",
]
KARPATHY = {
    "dataset": "flickr8k",
    "images": [
        {
            "filename": row["image"],
            "split": row["split"],
            "sentences": [
                {"raw": raw, "tokens": raw.lower().split()}
                for raw in (captions if isinstance(captions, list) else [captions])
            ],
        }
        for row in JSON_ROWS
        for captions in [row.get("captions", row.get("caption"))]
    ],
}
CAPTIONS = {"a.jpg": ("A dog .", "One dog"), "b.jpg": ("A cat .",), "c.jpg": ("A cow .", "Ü")}


def _json_lines(folder, pictures, split=None):
    path = _lines(folder / "captions.jsonl", *map(json.dumps, JSON_ROWS))
    return CaptionLines(path, pictures, split)


def _karpathy(folder, pictures, split=None):
    path = folder / "dataset.json"
    path.write_text(json.dumps(KARPATHY))
    return KarpathyJson(path, pictures, split)


def _flickr8k(folder, pictures, split=None):
    path = _lines(folder / "Flickr8k.token.txt", *TOKENS)
    names = [row["image"] for row in JSON_ROWS if row["split"] in (split or "").split("+")]
    return Flickr8kTokens(path, pictures, _lines(folder / "names.txt", *names) if split else None)


READERS = {"caption_lines": _json_lines, "karpathy": _karpathy, "flickr8k": _flickr8k}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("hold", [_pictures, _zip])
def test_every_picture_comes_with_its_captions(tmp_path, name, hold):
    pictures = hold(tmp_path)
    found = list(READERS[name](tmp_path, pictures).examples())
    assert found == [Example(f"{pictures}/{image}", CAPTIONS[image]) for image in NAMES]


@pytest.mark.parametrize("name", READERS)
def test_a_split_is_taken_and_several_joined_by_a_plus(tmp_path, name):
    pictures = _pictures(tmp_path)
    for split, wanted in {"test": ["b.jpg"], "train+restval": ["a.jpg", "c.jpg"]}.items():
        found = READERS[name](tmp_path, pictures, split).examples()
        assert [example.source for example in found] == [f"{pictures}/{one}" for one in wanted]


@pytest.mark.parametrize("name", READERS)
def test_a_missing_picture_is_named_with_its_place_and_the_others_are_read(tmp_path, name):
    pictures = _pictures(tmp_path)
    (pictures / "b.jpg").unlink()
    reader = READERS[name](tmp_path, pictures)
    number = {"caption_lines": "line 2", "karpathy": "image 2", "flickr8k": "line 3"}[name]
    said = rf"captions: '{reader.path}', {number}: files: there is no file '.*photos/b\.jpg'"
    with pytest.raises(DataError, match=said):
        list(reader.examples())
    found = [row.found for row in reader.rows()]
    assert [isinstance(one, Example) for one in found] == [True, False, True]


def test_a_picture_missing_from_a_zip_is_named(tmp_path):
    path = _lines(tmp_path / "a.jsonl", '{"image": "d.jpg", "caption": "A bee"}')
    said = r"line 1: picture: '.*photos\.zip' holds no 'd\.jpg'\. It holds 3 files"
    with pytest.raises(DataError, match=said):
        list(CaptionLines(path, _zip(tmp_path)).examples())


def test_lines_of_one_picture_are_one_example_if_they_stand_together(tmp_path):
    pictures = _pictures(tmp_path)
    rows = [
        {"image": name, "caption": str(i)} for i, name in enumerate(["a.jpg", "a.jpg", "b.jpg"])
    ]
    path = _lines(tmp_path / "a.jsonl", *map(json.dumps, rows))
    assert list(CaptionLines(path, pictures).examples()) == [
        Example(f"{pictures}/a.jpg", ("0", "1")),
        Example(f"{pictures}/b.jpg", ("2",)),
    ]
    path = _lines(tmp_path / "b.jsonl", *map(json.dumps, [*rows, rows[0]]))
    said = r"b\.jsonl', line 4: 'a\.jpg' stood in line 1 already\. Put the lines of a picture tog"
    with pytest.raises(DataError, match=said):
        list(CaptionLines(path, pictures).examples())


def test_packed_files_are_read_too(tmp_path):
    pictures = _pictures(tmp_path)
    content = "".join(json.dumps(row) + "\n" for row in JSON_ROWS).encode()
    (tmp_path / "captions.jsonl.xz").write_bytes(lzma.compress(content))
    (tmp_path / "dataset.json.xz").write_bytes(lzma.compress(json.dumps(KARPATHY).encode()))
    for reader in (
        CaptionLines(tmp_path / "captions.jsonl.xz", pictures),
        KarpathyJson(tmp_path / "dataset.json.xz", pictures),
    ):
        assert len(list(reader.examples())) == 3


def test_captions_are_brought_to_a_form_and_addresses_are_not(tmp_path):
    pictures = _pictures(tmp_path)
    for make in READERS.values():
        (first, *_) = replace(make(tmp_path, pictures), normalise="hansards").examples()
        assert first == Example(f"{pictures}/a.jpg", ("a dog .", "one dog"))
        with pytest.raises(UnknownChoice, match=r"There is no 'hansard' here\. Did you mean"):
            replace(make(tmp_path, pictures), normalise="hansard")


def test_the_filepath_of_karpathys_json_is_a_folder(tmp_path):
    photos = tmp_path / "photos" / "val2014"
    photos.mkdir(parents=True)
    (photos / "a.jpg").touch()
    image = {"filename": "a.jpg", "filepath": "val2014", "sentences": [{"raw": "A dog"}]}
    (tmp_path / "dataset.json").write_text(json.dumps({"images": [image]}))
    (example,) = KarpathyJson(tmp_path / "dataset.json", tmp_path / "photos").examples()
    assert example.source == f"{photos}/a.jpg"


@pytest.mark.parametrize("name", ["caption_lines", "karpathy"])
def test_a_split_that_is_not_there_is_refused_with_those_that_are(tmp_path, name):
    reader = READERS[name](tmp_path, _pictures(tmp_path), "train+val")
    said = f"'{reader.path}': there is no picture of split 'val', only of train, test, restval"
    with pytest.raises(DataError, match=said):
        list(reader.examples())


def test_a_picture_in_no_split_is_refused_where_one_is_asked_for(tmp_path):
    path = _lines(tmp_path / "a.jsonl", '{"image": "a.jpg", "caption": "A bee"}')
    said = r"line 1: 'a\.jpg' is in no split, but split = 'test' was asked for"
    with pytest.raises(DataError, match=said):
        list(CaptionLines(path, _pictures(tmp_path), "test").examples())


def test_a_name_on_the_list_without_a_caption_is_refused(tmp_path):
    names = _lines(tmp_path / "names.txt", "b.jpg", "", "x.jpg", "y.jpg")
    path = _lines(tmp_path / "tokens.txt", *TOKENS)
    read = Flickr8kTokens(path, _pictures(tmp_path), names).examples()
    assert next(read).targets == ("A cat .",)
    said = r"'x\.jpg' in line 3 of '.*names\.txt' has no caption \(2 such names\)"
    with pytest.raises(DataError, match=said):
        next(read)


BAD_LINES = {
    "{": r"line 1 is not JSON \(.*\); expected one object",
    "[1]": r"line 1: expected an object with 'captions', got \[1\]",
    '{"image": "a.jpg"}': "line 1 has no 'captions'; it has image",
    '{"captions": ["a"]}': "line 1 has no 'image'; it has captions",
    '{"image": 3, "captions": ["a"]}': "line 1: 'image' must be a text, got 3",
    '{"image": "a.jpg", "captions": []}': "line 1 has no caption; a picture needs at least one",
    '{"image": "a.jpg", "captions": ["a", 4]}': "line 1: 'caption' must be a text, got 4",
}


@pytest.mark.parametrize(("row", "said"), BAD_LINES.items(), ids=range(len(BAD_LINES)))
def test_a_line_of_another_shape_is_refused_with_its_number(tmp_path, row, said):
    path = _lines(tmp_path / "a.jsonl", row)
    with pytest.raises(DataError, match=rf"caption_lines: '.*a\.jsonl', {said}"):
        list(CaptionLines(path, _pictures(tmp_path)).examples())


BAD_FILES = {
    "{": r"karpathy: '.*' is not JSON",
    "[]": "has no list of images; expected one object",
    '{"images": {}}': "has no list of images",
    '{"images": [3]}': "image 1: expected an object with 'filename', got 3",
    '{"images": [{"filename": "a.jpg"}]}': "image 1 has no 'sentences'; it has filename",
    '{"images": [{"filename": "a.jpg", "sentences": []}]}': "image 1 has no caption",
    '{"images": [{"filename": "a.jpg", "sentences": ["a"]}]}': "an object with 'raw', got \"a\"",
    '{"images": [{"filename": "a", "filepath": 1, "sentences": []}]}': "'filepath' must be a text",
}


@pytest.mark.parametrize(("text", "said"), BAD_FILES.items(), ids=range(len(BAD_FILES)))
def test_a_file_of_another_shape_is_refused_with_the_image(tmp_path, text, said):
    path = tmp_path / "dataset.json"
    path.write_text(text)
    with pytest.raises(DataError, match=said):
        list(KarpathyJson(path, _pictures(tmp_path)).examples())


@pytest.mark.parametrize("line", ["a.jpg A dog", "a.jpg\tA dog", "#0\tA dog", "a.jpg#x\tA dog", ""])
def test_a_token_line_of_another_shape_is_refused_with_its_number(tmp_path, line):
    path = _lines(tmp_path / "tokens.txt", TOKENS[0], line)
    said = r"flickr8k: '.*tokens\.txt', line 2 begins with .*; expected name\.jpg#0 TAB caption"
    with pytest.raises(DataError, match=said):
        list(Flickr8kTokens(path, _pictures(tmp_path)).examples())


def test_bytes_that_are_not_utf8_are_refused_with_their_line(tmp_path):
    path = tmp_path / "tokens.txt"
    path.write_bytes(b"a.jpg#0\tA dog\nb.jpg#0\t\xff\n")
    rows = list(Flickr8kTokens(path, _pictures(tmp_path)).rows())
    assert isinstance(rows[0].found, Example)
    assert "line 2: byte 0xff" in rows[1].found[0].message
