"""regard compare: runs and files of answers, a table, a page, JSON, mistakes."""

import json
import re

import pytest

import regard
from regard.cli import main
from regard.decoding import Limits
from regard.evaluating import Resampling, compare
from regard.recipes.recipe import examples
from regard.runs.evaluation import search_for
from regard.training.checkpoints import read_tensors, write_tensors
from tests.factories import ENCODER, make_run

FEW = ["--samples", "9", "--trials", "9"]
QUICK = [*FEW, "--beam", "1"]
SOURCES = ["a b c", "d e", "e d c b", "a"]
REFERENCES = ["c b a", "e d", "b c d e", "a"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    make_run(folder / "one", max_len=20)
    weights = read_tensors(make_run(folder / "two", max_len=20) / "model.safetensors")
    turned = {name: each.flip(-1).contiguous() for name, each in weights.items()}
    write_tensors(folder / "two" / "model.safetensors", turned)
    (make_run(folder / "spoilt") / "model.safetensors").write_bytes(b"no weights")
    (folder / "source").write_text("".join(f"{text}\n" for text in SOURCES))
    (folder / "wanted").write_text("".join(f"{text}\n" for text in REFERENCES))
    (folder / "right").write_text("".join(f"{text}\n" for text in REFERENCES))
    (folder / "short").write_text("a\n")
    (folder / "empty").touch()
    (folder / "blank").write_text("\n \n")
    (folder / "long").write_text("a\n" + "b " * 49 + "b\n")
    return folder


def _says(capsys, *words, code=0):
    assert main(["compare", *map(str, words)]) == code
    return capsys.readouterr()


def test_runs_are_compared_as_the_library_compares_their_answers(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    words = ["one", "two", "--source", "source", "--reference", "wanted", *QUICK]
    found = json.loads(_says(capsys, *words, "--json").out)
    greedy = {
        name: [said.text for said in regard.load(name).predict(SOURCES, search=_greedy(name))]
        for name in ("one", "two")
    }
    recipe = regard.load("one").loaded.recipe
    want = compare(
        greedy,
        [[text] for text in REFERENCES],
        sources=SOURCES,
        training=[one.targets[0] for one in examples(recipe.data.train, "train")()],
        resampling=Resampling(samples=9, trials=9),
    )
    assert found["baseline"] == "one"
    assert [system["name"] for system in found["systems"]] == ["one", "two"]
    for system, wanted in zip(found["systems"], want.systems, strict=True):
        assert [one["value"] for one in system["scores"]] == [one.value for one in wanted.scores]
    assert found["versus"][0]["differences"][0]["p_bootstrap"] == (
        want.versus[0].differences[0].p_bootstrap
    )
    assert len(found["by_frequency"]) == len(want.by_frequency) > 0
    text = _says(capsys, *words).out
    assert "two against one" in text
    assert "BLEU by length of source" in text
    assert "F1 of words by frequency in training" in text


def _greedy(name):
    return search_for(regard.load(name), beam=1, length_penalty=0.6)


@pytest.mark.parametrize(
    ("task", "measure", "names"),
    [
        ("tags", "token accuracy", ["token accuracy", "exact match"]),
        ("label", "exact match", ["exact match"]),
    ],
)
def test_labels_are_compared_by_how_many_are_right(tmp_path, capsys, task, measure, names):
    run = make_run(tmp_path / "run", "a b", "X Y", kind="words", model=ENCODER.format(task=task))
    for name, lines in (("source", "a b\nb\n"), ("wanted", "X Y\nY\n"), ("other", "X X\nY\n")):
        (tmp_path / name).write_text(lines)
    words = [run, "--hypotheses", f"other={tmp_path / 'other'}", "--source", tmp_path / "source",
             "--reference", tmp_path / "wanted", *FEW]  # fmt: skip
    found = json.loads(_says(capsys, *words, "--json").out)
    assert [score["name"] for score in found["systems"][1]["scores"]] == names
    assert (found["length_measure"], found["sentence_measure"]) == (measure, measure)
    assert found["systems"][1]["scores"][-1]["value"] == 50.0
    assert f"{measure} by length of source" in _says(capsys, *words).out


def test_answers_of_any_system_are_compared_without_a_run(files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(files)
    page = tmp_path / "page.html"
    words = ["--hypotheses", "echo=source", "--hypotheses", "oracle=right", "--reference", "wanted"]
    said = _says(capsys, *words, *FEW, "--out", page)
    assert f"wrote {page}" in said.err
    assert "oracle against echo" in said.out
    html = page.read_text()
    assert "oracle" in html
    assert "http://" not in html.replace("http://www.w3.org", "")
    found = json.loads(_says(capsys, *words, *FEW, "--json").out)
    assert found["systems"][1]["scores"][3]["value"] == 100
    assert found["by_source_length"] == []


def test_long_texts_are_refused_skipped_or_split_as_in_evaluate(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    words = ["one", "two", "--source", "long", "--reference", "long", *QUICK]
    assert (
        "has at least 51 tokens, but the model reads at most 20"
        in _says(capsys, *words, code=2).err
    )
    said = _says(capsys, *words, "--on-long", "skip").err
    for name in ("one", "two"):
        assert f"{name}: 1 of 2 texts: left out" in said
    said = _says(capsys, *words, "--on-long", "split").err
    for name in ("one", "two"):
        assert f"{name}: 1 of 2 texts: answered in " in said


def test_answers_end_where_somebody_says(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    asked = ["one", "two", "--source", "source", "--reference", "wanted", *QUICK, "--json"]
    search = search_for(regard.load("one"), beam=1, length_penalty=0.6, limits=Limits(max_tokens=1))
    want = {
        name: [said.text for said in regard.load(name).predict(SOURCES, search=search)]
        for name in ("one", "two")
    }
    free = json.loads(_says(capsys, *asked).out)
    found = json.loads(_says(capsys, *asked, "--max-tokens", "1").out)
    ratio = [sum(map(len, want[name])) / sum(map(len, REFERENCES)) for name in want]
    assert max(ratio) < 0.5
    expected = compare(want, [[text] for text in REFERENCES], sources=SOURCES)
    for system, wanted in zip(found["systems"], expected.systems, strict=True):
        assert [one["value"] for one in system["scores"]] == [one.value for one in wanted.scores]
    assert found["systems"][0]["scores"] != free["systems"][0]["scores"]


def test_a_run_meets_a_file_on_a_split(files, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(files)
    recipe = regard.load("one").loaded.recipe
    right = [one.targets[0] for one in examples(recipe.data.valid, "valid")()]
    (tmp_path / "right").write_text("".join(f"{text}\n" for text in right))
    words = ["one", "--split", "valid", "--hypotheses", f"oracle={tmp_path / 'right'}", *QUICK]
    found = json.loads(_says(capsys, *words, "--json").out)
    assert [system["name"] for system in found["systems"]] == ["one", "oracle"]
    assert found["systems"][1]["scores"][0]["value"] == pytest.approx(100)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("one --source source --reference wanted", "expected at least two systems, got 1"),
        ("one nowhere --source source --reference wanted", "'nowhere' is not a finished run"),
        ("one one --source source --reference wanted", "'one' was given twice"),
        ("one two --source source --reference short", "must have as many lines as each other"),
        ("one two --source empty --reference empty", "'empty' is empty"),
        ("one two --split vaild", "Did you mean 'valid'"),
        ("one two", "expected --source with --reference, or a run with --split, got a run"),
        ("one --source source --reference wanted --hypotheses x", "takes NAME=FILE, got 'x'"),
        (
            "one --source source --reference wanted --hypotheses x=short",
            "'short' has 1 line, but there are 4 sentences",
        ),
        (
            "one --source source --reference wanted --hypotheses one=right",
            "'one' is the name of two systems",
        ),
        (
            "--hypotheses a=right --hypotheses a=right --reference wanted",
            "'a' is the name of two systems",
        ),
        (
            "--hypotheses a=right --hypotheses b=right --reference wanted --reference short",
            "'wanted' has 4, 'short' has 1",
        ),
        ("one two --split valid --out page.htm", "ends in .html; got 'page.htm'"),
        ("one two --split valid --out gone/page.html", "there is no folder 'gone'"),
        ("one two --split valid --tokenizer 14a", "tokenizer: there is no '14a'"),
        ("one two --split valid --on-long splt", "Did you mean 'split'"),
        ("one two --split valid --samples 0", "samples and trials must be at least 1"),
        ("one two --split valid --seed -1", "significance: seed must be at least 0, got -1."),
        (
            "one two --split valid --max-tokens 20",
            "compare: 'one': --max-tokens must lie between 1 and 19, the model's limit, got 20.",
        ),
        (
            "--hypotheses a=right --hypotheses b=right --reference wanted --max-tokens 3",
            "the answers are in files, so --max-tokens would change nothing. Leave it out.",
        ),
    ],
)
def test_mistakes_are_told_in_a_line_or_two(files, capsys, monkeypatch, words, message):
    monkeypatch.chdir(files)
    said = _says(capsys, *words.split(), code=2)
    assert message in said.err
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.fixture(scope="module")
def formed(tmp_path_factory):
    """Two runs that learned from texts in a form, one that did not, and texts that are in none."""
    folder = tmp_path_factory.mktemp("formed")
    train = '{ name = "tsv", path = "gone.tsv", normalise = "hansards" }'
    for name in ("hansards", "other", "plain"):
        run = make_run(folder / name, "ce est le avis de le ministre", kind="words")
        recipe = run / "recipe.toml"
        if name != "plain":
            copy = r'\{ name = "copy", count = \d+ \}'
            recipe.write_text(re.sub(copy, train, recipe.read_text()))
    (folder / "raw").write_text("C'est l'avis du ministre.\nDu ministre à la Chambre\n")
    (folder / "in_form").write_text(
        "ce est le avis de le ministre .\nde le ministre a la chambre\n"
    )
    return folder


FORM = "texts, references and answers are in the form 'hansards', as the training data are"


def test_answers_and_texts_of_training_in_files_take_the_form_of_the_first_run(
    formed, capsys, monkeypatch
):
    monkeypatch.chdir(formed)
    found = []
    for name in ("raw", "in_form"):
        words = ["hansards", "other", "--source", "raw", "--reference", "raw", "--training", name]
        said = _says(capsys, *words, "--hypotheses", f"oracle={name}", *QUICK, "--json")
        assert said.err.count(FORM) == 1
        found.append(json.loads(said.out))
    assert found[0]["systems"][2]["scores"][0]["value"] == pytest.approx(100)
    assert found[0] == found[1]
    assert found[0]["by_frequency"][0]["label"] == "1"  # training saw every word


def test_a_form_is_told_only_where_there_is_one(formed, capsys, monkeypatch):
    monkeypatch.chdir(formed)
    words = ["--source", "raw", "--reference", "raw", "--hypotheses", "oracle=in_form", *QUICK]
    said = _says(capsys, "plain", *words, "--json")
    assert "in the form" not in said.err
    assert json.loads(said.out)["systems"][1]["scores"][0]["value"] < 90


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        (
            "hansards plain",
            "compare: 'hansards' learned from texts in the form 'hansards', but 'plain' from texts "
            "as they are. Give runs of one form, or the answers of one as --hypotheses NAME=FILE",
        ),
        ("plain hansards", "'plain' learned from texts as they are, but 'hansards' from texts in"),
    ],
)
def test_runs_of_two_forms_are_refused(formed, capsys, monkeypatch, runs, message):
    monkeypatch.chdir(formed)
    words = [*runs.split(), "--source", "raw", "--reference", "raw", *QUICK]
    said = _says(capsys, *words, code=2)
    assert message in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone", "there is no file 'gone'"),
        ("empty", "compare: --training: 'empty' is empty. Give the target texts of training"),
        ("blank", "compare: --training: 'blank' is empty."),
    ],
)
def test_texts_of_training_are_read_before_a_run_is(files, capsys, monkeypatch, name, message):
    monkeypatch.chdir(files)
    words = ["spoilt", "two", "--source", "source", "--reference", "wanted", *QUICK]
    assert "spoilt" in _says(capsys, *words, code=2).err
    said = _says(capsys, *words, "--training", name, code=2).err
    assert message in said
    assert "spoilt" not in said


def test_rare_words_are_told_by_the_texts_that_are_given(files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    words = ["--hypotheses", "echo=source", "--hypotheses", "oracle=right", "--reference", "wanted"]
    found = json.loads(_says(capsys, *words, *FEW, "--training", "short", "--json").out)
    assert len(found["by_frequency"]) == 2


def test_the_help_has_an_example(capsys):
    assert "Example: regard compare" in _says(capsys, "--help").out
