"""Vocabularies whose texts stand between pieces of their own, such as that of a language."""

import json

import pytest

from regard.data.subword_kinds import framed
from regard.data.subwords import Subwords
from regard.errors import DataError


@pytest.fixture
def path(tmp_path):
    """A vocabulary of byte pairs with ` to` before every text and `be` after it."""
    plain = Subwords.train(["to be or not to be"], size=300)
    framed(plain._tokenizer, ["Ġto"], ["be"])
    plain.save(tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


def change(path, template):
    content = json.loads(path.read_text())
    content["post_processor"] = template
    path.write_text(json.dumps(content))


def test_a_text_stands_between_the_pieces_and_is_decoded_without_them(path):
    subwords = Subwords.load(path)
    ids = subwords.encode("or not")
    assert [subwords.readable(i) for i in ids] == [" to", "or", " not", "be"]
    assert subwords.encode_all(["or not", "or"]) == [ids, [ids[0], ids[1], ids[-1]]]
    assert subwords.decode(ids) == "or not"
    assert subwords.before == (ids[0],)
    assert subwords.framing == {ids[0], ids[-1]}
    assert subwords.encode_inside("not") == [ids[2]]
    assert len(subwords.offsets("or not")) == len(ids)


def test_the_rest_of_an_ordinary_vocabulary_is_as_before():
    subwords = Subwords.train(["to be or not to be"], size=300)
    assert (subwords.before, subwords.framing) == ((), frozenset())


@pytest.mark.parametrize(
    "template",
    [
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "nowhere"}}]},
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<eos>"}}]},
        {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}]},
        {"type": "ByteLevel"},
        "template",
    ],
)
def test_a_frame_of_other_pieces_is_refused(path, template):
    change(path, template)
    with pytest.raises(DataError, match=r"its frame .* is not of its pieces"):
        Subwords.load(path)


def test_a_frame_around_nothing_is_refused(path):
    change(path, {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "be"}}]})
    with pytest.raises(DataError, match="its frame holds no text"):
        Subwords.load(path)
