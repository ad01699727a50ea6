"""The verbs on runs that look at pictures."""

import json
import math
from io import BytesIO, TextIOWrapper

import pytest

import regard
from regard.cli import main
from tests.captioning import draw, trained_captioner


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained_captioner(tmp_path_factory.mktemp("captioner"))


@pytest.fixture
def pictures(tmp_path):
    """Two good pictures, and all kinds of bad ones."""
    draw(tmp_path / "a.png", 1)
    draw(tmp_path / "b.jpg", 2, size=64)
    whole = (tmp_path / "b.jpg").read_bytes()
    (tmp_path / "cut.jpg").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "note.txt").write_text("a dog\n")
    draw(tmp_path / "dot.png", 1, size=1)
    return tmp_path


def _predicts(capsys, *words, code):
    assert main(["predict", *map(str, words)]) == code
    return capsys.readouterr()


def test_pictures_are_captioned_in_order_a_line_each(run, pictures, capsys):
    said = _predicts(capsys, run, pictures / "b.jpg", pictures / "a.png", "scene:3-1", code=0).out
    files = [str(pictures / name) for name in ("b.jpg", "a.png")]
    wanted = [one.text for one in regard.load(run).predict([*files, "scene:3-1"])]
    assert said.split("\n") == [*wanted, ""]


def test_a_bad_picture_is_named_and_the_others_are_captioned_as_without_it(run, pictures, capsys):
    alone = _predicts(capsys, run, pictures / "a.png", pictures / "b.jpg", code=0).out.split("\n")
    names = ["a.png", "cut.jpg", "note.txt", "dot.png", "gone.jpg", "b.jpg"]
    said = _predicts(capsys, run, *(pictures / name for name in names), code=1)
    assert said.out.split("\n") == [alone[0], "", "", "", "", alone[1], ""]
    error = said.err.replace("\n", "")
    for name in names[1:5]:
        assert name in error
    assert "4 of 6 pictures could not be read" in said.err
    # a note is a line, however long
    assert [line.split(": ")[0] for line in said.err.splitlines()[:4]] == [
        f"input {number}" for number in (2, 3, 4, 5)
    ]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["gone.jpg"], "files: there is no file 'gone.jpg'. '.' holds"),
        (["note.txt"], "picture: 'note.txt' is no picture that can be read"),
        (["--text", "hello"], "files: there is no file 'hello'"),
        (["--text", ""], "picture: expected the address of a picture, got an empty one. Give a f"),
        (["cut.jpg", "gone.jpg", "--json"], "files: there is no file 'gone.jpg'"),
        (["cut.jpg", "dot.png", *"abcd"], "\n… and 3 more\n"),
    ],
)
def test_where_nothing_that_was_typed_can_be_read_nothing_is_answered(
    run, pictures, capsys, monkeypatch, words, why
):
    monkeypatch.chdir(pictures)
    said = _predicts(capsys, run, *words, code=2)
    assert said.out == ""
    assert why in said.err
    assert "regard: predict: this run captions pictures, and nothing given is one that" in said.err
    assert "line 1" not in said.err


def test_standard_input_keeps_a_line_for_each_picture_that_cannot_be_read(run, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"gone.jpg\n\n")))
    said = _predicts(capsys, run, code=1)
    assert said.out == "\n\n"
    assert "line 1: files: there is no file 'gone.jpg'" in said.err
    assert "line 2: picture: expected the address of a picture, got an empty one." in said.err
    assert "2 of 2 pictures could not be read" in said.err


def test_json_says_what_was_written_and_what_was_wrong(run, pictures, capsys):
    files = [pictures / "a.png", pictures / "cut.jpg"]
    said = _predicts(capsys, run, *files, "--json", "--n-best", 2, code=1).out
    good, bad = map(json.loads, said.splitlines())
    assert good["source"] == str(pictures / "a.png")
    assert math.isfinite(good["score"])
    assert len(good["n_best"]) == 2
    assert len(good["tokens"]) == len(good["text"].split())
    assert (bad["text"], bad["score"]) == ("", None)
    assert "is damaged" in bad["note"]


def test_a_folder_is_all_its_pictures_by_their_names(run, tmp_path, capsys):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, name in enumerate(["2.png", "1.png"]):
        draw(folder / name, number)
    (folder / "readme.txt").write_text("no picture")
    said = _predicts(capsys, run, folder, "--json", code=0).out
    found = [json.loads(line)["source"] for line in said.splitlines()]
    assert found == [str(folder / "1.png"), str(folder / "2.png")]
    (folder / "1.png").unlink()
    (folder / "2.png").unlink()
    assert "holds no picture" in _predicts(capsys, run, folder, code=2).err


def test_a_caption_can_be_given_its_beginning(run, pictures, capsys):
    said = _predicts(capsys, run, pictures / "a.png", "--prefix", "a large", code=0).out
    assert said.startswith("a large")


REFUSED = {
    ("--alignments",): "--alignments links the words of two texts",
    ("--on-long", "split"): "--on-long split cuts texts in pieces",
    ("--replace-unknown",): "unknown words: this run looks at pictures",
}


@pytest.mark.parametrize(("words", "text"), REFUSED.items(), ids=map(" ".join, REFUSED))
def test_what_makes_no_sense_for_pictures_is_refused(words, text, run, pictures, capsys):
    said = _predicts(capsys, run, pictures / "a.png", *words, code=2).err
    assert text in said
    assert "Traceback" not in said


def test_captions_are_scored_as_captions_and_scenes_by_where_it_looked(run, capsys):
    assert main(["evaluate", str(run), "--split", "test", "--beam", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    names = [score["name"] for score in report["scores"]]
    orders = [f"BLEU-{n}" for n in range(1, 5)]
    assert names == [
        *orders, "CIDEr-D", "chrF2", "exact match", "length ratio", "loss", "perplexity",
        "pointing", "mass in box",
    ]  # fmt: skip
    assert "chance:" in report["scores"][-1]["signature"]
    assert report["sentences"] == 4


def test_where_a_run_looked_is_not_scored_without_boxes_and_pictures_have_no_length(
    run, pictures, capsys
):
    (pictures / "list.tsv").write_text(f"{pictures / 'a.png'}\ta red circle\n")
    words = ["evaluate", str(run), "--source", str(pictures / "list.tsv"), "--beam", "1"]
    assert main(words) == 0
    assert "pointing" not in capsys.readouterr().out
    assert main([*words, "--metrics", "captions,pointing"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert (
        "pointing needs scenes, the only pictures in which the boxes of words are known, but no "
        "picture given is one. Leave pointing out of --metrics, or take scenes."
    ) in " ".join(said.err.split())
    assert main([*words, "--metrics", "lengths"]) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "lengths has no meaning for a run that captions pictures: a picture has no le" in error
    assert "Take --metrics of captions, loss, pointing, bleu," in error


def test_the_loss_of_a_split_is_that_of_its_validation(run, capsys):
    words = ["evaluate", str(run), "--split", "valid", "--metrics", "loss", "--json"]
    assert main(words) == 0
    loss = json.loads(capsys.readouterr().out)["scores"][0]["value"]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert loss == pytest.approx(rows[-1]["valid_loss"], abs=1e-5)


def test_words_are_not_linked_to_pictures(run, tmp_path, capsys):
    (tmp_path / "gold").write_text("0-0\n" * 4)
    words = ["evaluate", str(run), "--split", "test", "--alignment", str(tmp_path / "gold")]
    assert main(words) == 2
    assert "alignment: this run looks at pictures" in capsys.readouterr().err


def test_what_a_captioner_takes_can_be_planned(run, tmp_path, capsys):
    assert main(["plan", str(run / "recipe.toml"), "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["examples"]["training"] == 24
    assert found["memory"]["peak"] > 0
    # a picture of 16 pixels' side has 768 bytes
    assert found["disk"]["corpus"] > 768 * (24 + 6)
