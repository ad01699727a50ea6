import json

import pytest
from PIL import Image

from regard.data.recognised import recognise
from regard.errors import DataError

CONLLU = "".join(
    f"{n}\t{word}\t_\t{tag}\t_\t_\t0\troot\t_\t_\n" + ("\n" if n == 2 else "")
    for n, word, tag in [(1, "dogs", "NOUN"), (2, "bark", "VERB")] * 3
)


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in ("a.jpg", "b.jpg"):
        Image.new("RGB", (8, 8)).save(folder / name)
    return folder


def test_two_files_are_pairs_of_texts(tmp_path):
    source = write(tmp_path / "a.en", "one two three", "four")
    target = write(tmp_path / "a.de", "eins zwei drei", "vier")
    found = recognise([source, target])
    assert (found.task, found.choice.name, found.examples) == ("translation", "parallel", 2)
    assert found.choice.settings == {"source": str(source), "target": str(target)}
    assert (found.source_words, found.longest_words) == (2.0, 3)


def test_several_targets_are_several_references(tmp_path):
    paths = [write(tmp_path / name, "one", "two") for name in ("a", "b", "c")]
    assert recognise(paths).choice.settings["target"] == [str(path) for path in paths[1:]]


def test_few_short_targets_are_labels(tmp_path):
    rows = [f"text number {n}\t{'very good' if n % 2 else 'bad'}" for n in range(12)]
    found = recognise([write(tmp_path / "a.tsv", *rows)])
    assert (found.task, found.labels) == ("label", 2)
    assert found.reason == "texts with 2 different labels"


def test_targets_that_differ_are_no_labels(tmp_path):
    rows = [f"text number {n}\tanswer {n}" for n in range(12)]
    assert recognise([write(tmp_path / "a.tsv", *rows)]).task == "translation"


def test_labels_before_their_texts_are_told(tmp_path):
    rows = [f"{'good' if n % 2 else 'bad'}\ttext number {n}" for n in range(12)]
    with pytest.raises(DataError, match="looks like a label, and its target like a text"):
        recognise([write(tmp_path / "a.tsv", *rows)])


def test_a_word_of_few_kinds_for_each_word_is_a_tag(tmp_path):
    nouns = ["dogs", "cats", "birds", "cows"]
    rows = [f"{one} see {other}\tN V N" for one in nouns for other in nouns]
    # labels come in larger numbers than three words can be
    rows += [f"{one} run\tN V" for one in nouns] + ["see dogs run\tV N V", "see\tV", "cats\tN"]
    tagged = recognise([write(tmp_path / "a.tsv", *rows)], task="tags")
    assert tagged.task == "tags"
    found = recognise([write(tmp_path / "b.conllu", CONLLU)])
    assert (found.task, found.examples) == ("tags", 3)


@pytest.mark.parametrize(
    ("row", "keys"),
    [
        ({"source": "a", "target": "b"}, ("source", "target")),
        ({"id": "7", "text": "a b", "label": "c"}, ("text", "label")),
        ({"question": "a", "answer": "b"}, ("question", "answer")),
        ({"translation": {"en": "a", "de": "b"}}, ("translation.en", "translation.de")),
    ],
)
def test_keys_of_json_lines_are_found(row, keys, tmp_path):
    found = recognise([write(tmp_path / "a.jsonl", json.dumps(row))])
    assert (found.choice.settings["source"], found.choice.settings["target"]) == keys


def test_keys_that_cannot_be_guessed_are_asked_for(tmp_path):
    path = write(tmp_path / "a.jsonl", json.dumps({"one": "a", "two": "b", "three": "c"}))
    with pytest.raises(DataError, match=r"the keys one, two, three, .* --keys SOURCE,TARGET"):
        recognise([path])
    assert recognise([path], keys=("two", "one")).choice.settings["source"] == "two"


def test_a_single_text_goes_on(tmp_path):
    found = recognise([write(tmp_path / "book.txt", "it was a dark night", "and so on")])
    assert (found.task, found.choice.name) == ("language_modelling", "running_text")


@pytest.mark.parametrize("is_inside", [True, False])
def test_pictures_with_captions(is_inside, pictures, tmp_path):
    rows = [json.dumps({"image": name, "captions": ["a dog"]}) for name in ("a.jpg", "b.jpg")]
    path = write((pictures if is_inside else tmp_path) / "captions.jsonl", *rows)
    found = recognise([pictures] if is_inside else [pictures, path])
    assert (found.task, found.choice.name, found.examples) == ("captioning", "caption_lines", 2)
    assert found.source_words == 0


def test_captions_of_other_forms(pictures, tmp_path):
    flickr = write(tmp_path / "token.txt", "a.jpg#0\ta dog", "b.jpg#0\ta cat")
    assert recognise([pictures, flickr]).choice.name == "flickr8k"
    images = [{"filename": "a.jpg", "sentences": [{"raw": "a dog"}]}]
    whole = write(tmp_path / "dataset.json", json.dumps({"images": images}))
    assert recognise([whole, pictures]).choice.name == "karpathy"
    with pytest.raises(DataError, match=r"begins with 'a\.jpg,a dog'\. Captions are JSON lines"):
        recognise([pictures, write(tmp_path / "captions.csv", "a.jpg,a dog")])
    with pytest.raises(DataError, match=r"one file of captions is needed .* found none"):
        recognise([pictures])


def test_a_folder_of_pairs(tmp_path):
    for name in ("one", "two"):
        write(tmp_path / f"{name}.tsv", f"{name} text\tanother {name}")
    found = recognise([tmp_path])
    assert (found.choice.name, found.examples) == ("shards", 2)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.tsv", "", "holds no example"),
        ("a.txt", "", "holds no example"),
        ("a.jsonl", "", "is empty"),
        ("a.csv", "a,b\n", "is .csv, which no reader takes"),
        ("a.tsv", "no tab\n", "has no tab"),
        ("a.jsonl", "{broken\n", "line 1"),
    ],
)
def test_files_that_hold_nothing_of_use_are_told(name, text, told, tmp_path):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(DataError, match=told):
        recognise([path])
