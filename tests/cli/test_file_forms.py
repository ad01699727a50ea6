"""Every verb reads a file as the run's data were, whatever form they had and however packed."""

import gzip
import io
import json
import lzma
import re
import sys

import pytest

from regard.choices import Choice
from regard.cli import main
from regard.data import Example
from regard.errors import DataError
from regard.recipes import read_recipe
from regard.recipes.recipe import examples
from regard.runs.evaluation_texts import texts_of_files
from regard.runs.trained import Prediction, Trained
from tests.captioning import RECIPE as CAPTIONER
from tests.captioning import draw, trained_captioner
from tests.factories import make_run

TREEBANK = (
    "1\ta\t_\tDET\t_\t_\t2\t_\t_\t_\n2\tb\t_\tNOUN\t_\t_\t0\t_\t_\t_\n\n"
    "1\tc\t_\tVERB\t_\t_\t0\t_\t_\t_\n\n"
)
OBJECTS = '{"in": {"en": "a b"}, "out": "b a"}\n{"in": {"en": "c"}, "out": ["c", "d"]}\n'
PAPERS = (
    '{"title": "a", "body": ["b e"], "abstract": "b a"}\n'
    '{"title": "c", "body": [], "abstract": "c"}\n'
)
KEYS = 'source = "in.en", target = "out"'

FORMS = {
    "tsv": ("{{ name = 'tsv', path = '{path}' }}", "x.tsv", "a b\tb a\nc\tc\td\n"),
    "tsv by another name": ("{{ name = 'tsv', path = '{path}' }}", "x.txt", "a b\tb a\nc\tc\td\n"),
    "jsonl": (f"{{{{ name = 'jsonl', path = '{{path}}', {KEYS} }}}}", "x.jsonl", OBJECTS),
    "jsonl by another name": (
        f"{{{{ name = 'jsonl', path = '{{path}}', {KEYS} }}}}", "x.txt", OBJECTS,
    ),
    "shards of tsv": ("{{ name = 'shards', folder = '{folder}' }}", "x.tsv", "a b\tb a\nc\tc\n"),
    "shards of jsonl": (
        f"{{{{ name = 'shards', folder = '{{folder}}', {KEYS} }}}}", "x.jsonl", OBJECTS,
    ),
    "documents": (
        "{{ name = 'documents', path = '{path}', source = ['title', 'body'], max_words = 2 }}",
        "x.jsonl",
        PAPERS,
    ),
    "conllu": ("{{ name = 'conllu', path = '{path}' }}", "x.conllu", TREEBANK),
}  # fmt: skip
"""What a run learned from, and a file of that form: the reader, a name, a content."""
PACKED = {"": str.encode, ".gz": lambda text: gzip.compress(text.encode()),
          ".xz": lambda text: lzma.compress(text.encode())}  # fmt: skip


def learned_from(folder, train, **spec):
    """A run whose recipe says that it learned from this."""
    run = make_run(folder, **spec)
    for split, count in (("train", 40), ("valid", 5)):
        text = (run / "recipe.toml").read_text()
        old = f'{split} = {{ name = "copy", count = {count} }}'
        assert old in text
        (run / "recipe.toml").write_text(text.replace(old, f"{split} = {train}"))
    return run


@pytest.fixture(params=[(form, packing) for form in FORMS for packing in PACKED], ids="".join)
def given(request, tmp_path):
    """A run, a file of the form that it learned from, and what the training reader reads of it."""
    form, packing = request.param
    train, name, content = FORMS[form]
    path = tmp_path / "data" / f"{name}{packing}"
    path.parent.mkdir()
    path.write_bytes(PACKED[packing](content))
    train = train.format(path=path, folder=path.parent).replace("'", '"')
    run = learned_from(tmp_path / "run", train)
    choice = read_recipe(run / "recipe.toml").data.train
    return run, path, list(examples(choice, "train")())


@pytest.fixture
def asked(monkeypatch):
    """The texts that runs are asked; each is answered by an x."""
    texts = []

    def answers(trained, requests, options):
        for place, request in enumerate(requests):
            texts.append(getattr(request, "text", request))
            yield place, Prediction(texts[-1], "x", 0.0, ())

    monkeypatch.setattr(Trained, "predict_each", answers)
    return texts


def test_predict_asks_what_the_training_reader_reads(given, asked):
    run, path, read = given
    assert main(["predict", str(run), str(path)]) == 0
    assert asked == [one.source for one in read]


def test_evaluate_asks_and_wants_what_the_training_reader_reads(given, asked, tmp_path):
    run, path, read = given
    words = ["--metrics", "exact", "--out", str(tmp_path / "out")]
    assert main(["evaluate", str(run), "--source", str(path), *words]) == 0
    assert asked == [one.source for one in read]
    assert texts_of_files(path, [], read_recipe(run / "recipe.toml")) == read


def test_compare_asks_what_the_training_reader_reads_and_counts_what_it_wants(
    given, asked, tmp_path, capsys
):
    run, path, read = given
    (tmp_path / "said").write_text("b a\n" * len(read))
    words = ["--hypotheses", f"other={tmp_path / 'said'}", "--training", str(path), "--json"]
    fast = ["--samples", "5", "--trials", "5"]
    assert main(["compare", str(run), "--source", str(path), *words, *fast]) == 0
    assert asked == [one.source for one in read]
    by_file = json.loads(capsys.readouterr().out)
    words.remove("--training")
    words.remove(str(path))
    assert main(["compare", str(run), "--source", str(path), *words, *fast]) == 0
    assert json.loads(capsys.readouterr().out) == by_file, "as the recipe's training data"


def test_a_look_is_at_the_source_alone(tmp_path, monkeypatch, capsys):
    run = learned_from(tmp_path / "run", '{ name = "tsv", path = "x.tsv" }')
    for words in (["a b\tb a"], []):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\tb a\n")))
        assert main(["look", str(run), *words, "--target", "b", "--json"]) == 0
        said = capsys.readouterr()
        assert json.loads(said.out)["source"] == "a b"
        assert "before the first tab" in said.err


def test_lines_of_a_stream_and_typed_ones_are_read_as_those_of_a_file(
    tmp_path, asked, monkeypatch, capsys
):
    run = learned_from(tmp_path / "run", '{ name = "tsv", path = "x.tsv" }')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a b\tb a\nc d\n\n")))
    assert main(["predict", str(run)]) == 0
    assert main(["predict", str(run), "--text", "e\tf"]) == 0
    assert asked == ["a b", "c d", "", "e"]
    told = "of each line the text before the first tab is read; references follow it"
    assert capsys.readouterr().err.count(told) == 2, "once a stream, and nothing is dropped unsaid"


@pytest.mark.parametrize(
    "train", ['{ name = "copy", count = 9 }', '{ name = "parallel", source = "a", target = "b" }']
)
def test_a_tsv_file_holds_source_and_reference_for_any_run(train, tmp_path, asked, capsys):
    run, path = learned_from(tmp_path / "run", train), tmp_path / "x.tsv"
    path.write_text("a b\tb a\nc\n\nd\te\tf\n")
    assert main(["predict", str(run), str(path)]) == 0
    assert asked == ["a b", "c", "", "d"]
    assert "before the first tab" in capsys.readouterr().err


def test_a_tsv_file_of_one_column_and_other_files_are_plain_lines(tmp_path, asked, capsys):
    tabs = learned_from(tmp_path / "tabs", '{ name = "tsv", path = "x.tsv" }')
    plain = make_run(tmp_path / "plain")
    (tmp_path / "one.tsv").write_text("a b\nc\n")
    (tmp_path / "x.txt").write_text("a b\nc\n")
    (tmp_path / "tab.txt").write_text("a\tb\n")
    for run in (tabs, plain):
        for name in ("one.tsv", "x.txt"):
            assert main(["predict", str(run), str(tmp_path / name)]) == 0
    assert asked == ["a b", "c"] * 4
    assert "tab" not in capsys.readouterr().err
    asked.clear()
    assert main(["predict", str(plain), str(tmp_path / "tab.txt")]) == 0
    assert asked == ["a\tb"], "a run that learned from plain lines may have learned from tabs"


@pytest.mark.parametrize(("name", "content", "what"), [
    ("x.tsv", "a\tb\n", "holds references behind tabs"),
    ("x.jsonl", OBJECTS, "holds JSON objects"),
    ("x.conllu.gz", TREEBANK, "holds a treebank"),
])  # fmt: skip
def test_a_file_with_both_sides_is_not_given_with_another(name, content, what, tmp_path, capsys):
    both, other = tmp_path / name, tmp_path / "other"
    both.write_bytes(PACKED[".gz" if name.endswith(".gz") else ""](content))
    other.write_text("c\n")
    run = make_run(tmp_path / "run")
    for first, second in ((both, other), (other, both)):
        words = ["--source", str(first), "--reference", str(second), "--metrics", "loss"]
        assert main(["evaluate", str(run), *words]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"{name}' {what}, " in said
        assert "Give it alone, as --source." in said


def test_a_tab_in_one_line_makes_no_file_one_of_both_sides(tmp_path, asked, capsys):
    run = learned_from(tmp_path / "run", '{ name = "tsv", path = "x.tsv" }')
    source, reference = tmp_path / "a.en", tmp_path / "a.de"
    source.write_text("a b\n\nc\n")
    reference.write_text("b\ta\n\nc\n")
    words = ["--source", str(source), "--reference", str(reference), "--metrics", "exact"]
    assert main(["evaluate", str(run), *words]) == 0
    assert asked == ["a b", "", "c"]
    assert "tab" not in capsys.readouterr().err
    reference.write_text("b\ta\n\nc\td\n")
    assert main(["evaluate", str(run), *words]) == 0, "references may have a tab in every line"
    source.write_text("a b\te\n\nc\n")
    asked.clear()
    assert main(["evaluate", str(run), *words]) == 0
    assert asked == ["a b", "", "c"]
    assert "before the first tab" in capsys.readouterr().err, "nothing is left unread in silence"
    source.write_text("a b\te\n\nc\td\n")
    assert main(["evaluate", str(run), *words]) == 2
    assert "holds references behind tabs" in " ".join(capsys.readouterr().err.split())


def test_target_texts_of_training_may_have_a_tab_in_one_line(tmp_path, asked, capsys):
    run = learned_from(tmp_path / "run", '{ name = "tsv", path = "x.tsv" }')
    for name, content in {"a": "a b\n", "said": "b\n", "train": "b\ta\nc\n"}.items():
        (tmp_path / name).write_text(content)
    given = {"--source": "a", "--reference": "said", "--training": "train"}
    words = [word for key, name in given.items() for word in (key, str(tmp_path / name))]
    words += ["--hypotheses", f"other={tmp_path / 'said'}", "--samples", "5", "--trials", "5"]
    assert main(["compare", str(run), *words]) == 0, capsys.readouterr().err


def test_a_tsv_file_of_one_column_may_have_references_beside_it(tmp_path):
    (tmp_path / "x.tsv").write_text("a\n")
    (tmp_path / "y.tsv").write_text("b\n")
    assert texts_of_files(tmp_path / "x.tsv", [tmp_path / "y.tsv"]) == [Example("a", ("b",))]


def test_json_objects_of_a_run_that_learned_from_none_have_the_reader_s_own_keys(
    tmp_path, asked, capsys
):
    run, path = make_run(tmp_path / "run"), tmp_path / "x.jsonl"
    path.write_text('{"source": "a b", "target": "c"}\n')
    assert main(["predict", str(run), str(path)]) == 0
    assert main(["evaluate", str(run), "--source", str(path), "--metrics", "exact"]) == 0
    assert asked == ["a b", "a b"]
    path.write_text('{"en": "a b"}\n')
    assert main(["predict", str(run), str(path)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "x.jsonl', line 1 has no 'source'; it has en." in said


def test_running_text_is_continued_line_by_line_and_judged_in_rows(tmp_path, asked):
    train = '{ name = "running_text", path = "x.txt", words = 2, context = 1 }'
    run, path = learned_from(tmp_path / "run", train), tmp_path / "y.txt"
    path.write_text("a b c\nd\n")
    assert main(["predict", str(run), str(path)]) == 0
    assert asked == ["a b c", "d"]
    asked.clear()
    assert main(["evaluate", str(run), "--source", str(path), "--metrics", "exact"]) == 0
    assert asked == ["", "b", "¶"]


CAPTIONS = {
    "caption_lines": ("x.jsonl", lambda said: "\n".join(
        json.dumps({"image": name, "caption": text}) for name, text in said.items()) + "\n"),
    "karpathy": ("x.json", lambda said: json.dumps({"images": [
        {"filename": name, "sentences": [{"raw": text}]} for name, text in said.items()]})),
    "flickr8k": ("x.token.txt", lambda said: "".join(
        f"{name}#0\t{text}\n" for name, text in said.items())),
}  # fmt: skip


@pytest.mark.parametrize("reader", CAPTIONS)
def test_captioned_pictures_are_read_as_the_run_s_own(reader, tmp_path, monkeypatch, asked):
    name, written = CAPTIONS[reader]
    photos, project = tmp_path / "project" / "photos", tmp_path / "project"
    photos.mkdir(parents=True)
    said = {f"{n}.png": draw(photos / f"{n}.png", n) for n in range(3)}
    (project / name).write_text(written(said))
    settings = f'{{ name = "{reader}", path = "{name}", pictures = "photos" }}'
    monkeypatch.chdir(project)
    recipe = re.sub(r'\{ name = "scenes", count = \d+ \}', settings, CAPTIONER)
    run = trained_captioner(project / "made", recipe)
    read = list(examples(Choice(reader, {"path": name, "pictures": "photos"}), "train")())
    assert main(["predict", str(run), name]) == 0
    assert asked == [one.source for one in read] == [f"photos/{n}.png" for n in range(3)]
    asked.clear()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "there")
    other = tmp_path / "there" / f"{name}.gz"
    other.write_bytes(gzip.compress(written(dict(list(said.items())[:2])).encode()))
    assert main(["evaluate", str(run), "--source", str(other), "--metrics", "captions"]) == 0
    assert asked == [str(photos / "0.png"), str(photos / "1.png")]
    asked.clear()
    assert main(["predict", str(run), str(photos / "2.png")]) == 0
    assert asked == [str(photos / "2.png")], "a picture is one"


def test_a_file_that_is_missing_is_told_whatever_its_form(tmp_path, capsys):
    run = learned_from(tmp_path / "run", '{ name = "tsv", path = "x.tsv" }')
    for name in ("no.tsv", "no.jsonl", "no.conllu", "no.txt", "no.tsv.gz"):
        assert main(["predict", str(run), str(tmp_path / name)]) == 2
        assert "there is no file" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(DataError, match="there is no file"):
        texts_of_files(tmp_path / "no.tsv", [])
