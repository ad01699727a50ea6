import json
import random

import pytest
from PIL import Image

from regard.cli import main
from tests.data.test_recognised import CONLLU, write

WORDS = [
    "a",
    "dog",
    "runs",
    "over",
    "the",
    "green",
    "field",
    "and",
    "barks",
    "at",
    "two",
    "small",
    "birds",
]


def texts(count):
    draw = random.Random(7)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 8))) for _ in range(count)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def parallel(folder):
    write(folder / "a.en", *texts(40))
    write(folder / "a.de", *(text.upper() for text in texts(40)))
    return ["a.en", "a.de"]


def labels(folder):
    write(folder / "a.tsv", *(f"{text}\t{text.split()[0] == 'a'}" for text in texts(40)))
    return ["a.tsv"]


def json_lines(folder):
    rows = [json.dumps({"id": n, "head": t, "body": t[::-1]}) for n, t in enumerate(texts(40))]
    write(folder / "a.jsonl", *rows)
    return ["a.jsonl"]


def treebank(folder):
    write(folder / "a.conllu", CONLLU.replace("dogs", "cats"), *[CONLLU] * 10)
    return ["a.conllu", "--valid", "a.conllu"]


def running_text(folder):
    write(folder / "book.txt", *texts(400))
    return ["book.txt"]


def captions(folder):
    (folder / "photos").mkdir()
    rows = []
    for n, text in enumerate(texts(30)):
        Image.new("RGB", (16, 16), (8 * n, 0, 0)).save(folder / "photos" / f"{n}.jpg")
        rows.append(json.dumps({"image": f"{n}.jpg", "captions": [text]}))
    write(folder / "captions.jsonl", *rows)
    return ["photos", "captions.jsonl"]


@pytest.mark.parametrize("updates", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("make", "task"),
    [
        (parallel, "translation"),
        (labels, "label"),
        (json_lines, "translation"),
        (treebank, "tags"),
        (running_text, "language_modelling"),
        (captions, "captioning"),
    ],
)
def test_a_recipe_for_one_s_own_files_trains_as_it_is(make, task, updates, here, capsys):
    files = make(here)
    assert main(["new", *files, "--no-plan", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["recipe"], said["task"], said["plan"]) == ("recipe.toml", task, None)
    steps = f"training.steps={updates}"
    assert main(["train", "recipe.toml", "--out", "run", "--set", steps]) == 0
    assert (here / "run" / "model.safetensors").exists()


def test_the_plan_and_what_is_wrong_are_told(here, capsys):
    write(here / "a.en", *texts(60), "", "one")
    write(here / "a.de", *texts(60), "zwei", "eins")
    assert main(["new", "a.en", "a.de", "--out", "mine.toml"]) == 0
    out = capsys.readouterr().out
    assert "62 examples, pairs of texts: translation" in out
    assert "empty: lines with nothing on one side" in out
    assert "parameters" in out
    assert out.splitlines()[-1].startswith("mine.toml is written.")


def test_validation_and_test_files_are_taken(here, capsys):
    for name in ("a", "v", "t"):
        write(here / f"{name}.en", *texts(30))
        write(here / f"{name}.de", *texts(30))
    files = [f"{name}.{side}" for name in "avt" for side in ("en", "de")]
    words = ["new", *files[:2], "--valid", *files[2:4], "--test", *files[4:], "--no-plan"]
    assert main(words) == 0
    text = (here / "recipe.toml").read_text()
    assert 'valid = { name = "parallel", source = "v.en", target = "v.de" }' in text
    assert 'test = { name = "parallel", source = "t.en", target = "t.de" }' in text


def test_a_shipped_recipe_is_copied_and_never_over_a_file(here, capsys):
    assert main(["new", "--from", "copy", "--out", "mine.toml"]) == 0
    assert (here / "mine.toml").read_text().startswith("# Copy letters")
    assert main(["new", "--from", "copy", "--out", "mine.toml"]) == 2
    assert "'mine.toml' is there already. Give another --out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "new: expected files of yours, got none. Give SOURCE TARGET"),
        ("missing.tsv", "there is no file 'missing.tsv'"),
        ("a.tsv --task summarise", "--task: There is no 'summarise' here."),
        ("a.tsv --out no/folder.toml", "new: there is no folder 'no' for 'folder.toml'."),
        ("a.tsv --keys text", "new: --keys takes two names and a comma, got 'text'."),
        ("a.tsv --from copy", "--from copies a recipe as it is, so DATA would change nothing."),
        ("--from cpy", "Did you mean 'copy'?"),
        ("a.tsv --valid a.txt", "is read as 'running_text', but the training data as 'tsv'"),
        ("empty.tsv", "'empty.tsv' holds no example"),
        ("a.tsv", "'a.tsv' holds 2 examples, too few to hold some out for validation. Bring 10"),
        ("a.txt", "'a.txt' holds 1 example (rows of 256 words), too few to hold some out"),
        ("a.tsv a.txt", "but 'a.tsv' has 2, 'a.txt' has 1. Line 2 of 'a.tsv' is the first without"),
        ("broken.jsonl", "'broken.jsonl', line 2 is not JSON"),
        ("latin.tsv", "line 1: byte 0xe9 at offset 7 is not UTF-8. Convert the file"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(words, told, here, capsys):
    write(here / "a.tsv", "one two\tthree", "four\tfive")
    write(here / "a.txt", "one two three")
    (here / "empty.tsv").write_text("")
    (here / "latin.tsv").write_bytes(b"one\tcaf\xe9\n")
    write(here / "broken.jsonl", '{"text": "one", "label": "two"}', '{"text": "one", ')
    before = sorted(path.name for path in here.iterdir())
    assert main(["new", *words.split()]) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert sorted(path.name for path in here.iterdir()) == before


@pytest.mark.parametrize(
    ("make", "task", "told"),
    [
        (parallel, "label", "a label stands for many texts, but 40 texts have 40 different"),
        (running_text, "translation", "a running text has one side. What 'book.txt' holds suits"),
        (running_text, "label", "it needs a source and a target for each example"),
        (captions, "translation", "it reads texts, not pictures. What 'photos', 'captions.jsonl'"),
        (labels, "captioning", "it needs pictures with captions."),
        (labels, "tags", "each word needs one tag, but example 1 has other numbers of words"),
        (treebank, "label", "a label stands for many texts, but"),
    ],
)
def test_a_task_that_the_files_cannot_serve_is_refused(make, task, told, here, capsys):
    files = make(here)
    assert main(["new", *files, "--task", task, "--no-plan"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert said.startswith(f"regard: --task {task}: ")
    assert told in said
    assert said.endswith("Leave --task out, or give other files.")
    assert not (here / "recipe.toml").exists()


def test_json_lines_of_one_text_are_told_what_they_lack(here, capsys):
    write(here / "a.jsonl", '{"id": 1, "text": "one"}')
    assert main(["new", "a.jsonl"]) == 2
    assert "'a.jsonl', line 1 has 1 key with a text; a source and a target need two" in (
        capsys.readouterr().err
    )


def test_a_recipe_whose_plan_is_refused_is_not_left_behind(here, capsys):
    write(here / "a.tsv", *("the cat sleeps\tDET NOUN VERB" for _ in range(9)))
    write(here / "v.tsv", "the cat sleeps\tDET NOUN")
    assert main(["new", "a.tsv", "--task", "tags", "--valid", "v.tsv"]) == 2
    assert "example 1 has 3 words and 2 labels" in capsys.readouterr().err
    assert sorted(path.name for path in here.iterdir()) == ["a.tsv", "v.tsv"]
