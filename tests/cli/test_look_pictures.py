"""regard look on a run that captions pictures."""

import json

import pytest
from PIL import Image

import regard
from regard.cli import main
from regard.decoding import Beam, Limits
from tests.captioning import draw, trained_captioner
from tests.factories import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained_captioner(tmp_path_factory.mktemp("captioner"))


@pytest.fixture
def pictures(tmp_path):
    draw(tmp_path / "a.png", 1, size=40)
    draw(tmp_path / "b.png", 2, size=32)
    return [str(tmp_path / name) for name in ("a.png", "b.png")]


@pytest.fixture
def look(run):
    return lambda *words: main(["look", str(run), *words])


def test_a_line_for_every_word_says_where_it_looked(run, look, pictures, capsys):
    assert look(pictures[0], "--target", "a red circle") == 0
    first, title, *lines = capsys.readouterr().out.splitlines()
    record = regard.load(run).look_at_picture(pictures[0], "a red circle")
    assert first == f"{pictures[0]}: a red circle"
    assert title == record.title()
    assert [line.split()[0] for line in lines] == ["a", "red", "circle"]
    row, column = divmod(int(record.maps()[1].argmax()), record.grid.columns)
    assert (
        f"row {row + 1}, column {column + 1} of 4 by 4: {float(record.maps()[1].max()):.2f}"
        in (lines[1])
    )


def test_a_caption_is_no_longer_than_was_asked_for(run, look, pictures, capsys):
    said = {}
    for most in (1, 3):
        assert look(pictures[0], "--json", "--max-tokens", str(most)) == 0
        said[most] = json.loads(capsys.readouterr().out)["caption"]
        search = Beam(width=5, limits=Limits(max_tokens=most))
        assert said[most] == regard.load(run).predict(pictures[:1], search=search)[0].text
    assert said[1] != said[3]


def test_json_and_pages_hold_several_pictures_and_a_sheet_one(look, pictures, tmp_path, capsys):
    assert look(*pictures, "--json") == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["picture"]["name"] for one in said] == pictures
    page, sheet = tmp_path / "look.html", tmp_path / "look.png"
    assert look(*pictures, "--out", str(page)) == 0
    text = page.read_text()
    assert all(name in text for name in ("a.png", "b.png"))
    assert look(pictures[0], "--target", "a red circle", "--out", str(sheet)) == 0
    with Image.open(sheet) as drawn:
        assert drawn.size[0] > 200


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "expected one, got none. Write regard look RUN picture.jpg"),
        (("{}", "--kind", "encoder"), "got --kind encoder"),
        (("{}", "--pieces"), "Leave --pieces out"),
        (("{}", "--heads", "--out", "x.png"), "--heads draws words at words"),
        (("{}", "{}", "--target", "a"), "--target is for one picture, got 2"),
        (("{}", "{}", "--out", "x.png"), "a .png is for one picture, got 2"),
        (("nowhere.jpg",), "nowhere.jpg"),
        (("",), "picture: expected the address of a picture, got an empty one. Give a file"),
        # told before the second is looked for
        (("{}", "nowhere.jpg", "--layer", "2"), "there is no layer 2: cross attention has 1 layer"),
    ],
)
def test_what_cannot_be_looked_at_is_refused_with_a_remedy(look, pictures, words, said, capsys):
    assert look(*(word.format(pictures[0]) for word in words)) == 2
    error = capsys.readouterr().err
    assert said in " ".join(error.split())
    assert "Traceback" not in error


def test_several_texts_for_a_run_that_reads_texts_are_refused(tmp_path, capsys):

    run = make_run(tmp_path / "run", "a b")
    assert main(["look", str(run), "a", "b"]) == 2
    assert "expected one text, got 2. Put quotation marks around it" in capsys.readouterr().err
