"""Examples that a run is offered: each can be asked as it is, and is answered."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from starlette.testclient import TestClient

from regard.runs.example_inputs import NO_EXAMPLES, SENTENCES, other_examples, own_examples
from regard.serving import build_app
from regard.serving.registry import open_runs
from regard.tasks.masked_words import with_hidden_word
from tests.factories import ENCODER, make_run
from tests.serving.serving import write_card

LINES = "= Cats =\nthe cat , it saw the dog\nthe dog saw 3 cats\n"
ROWS = ["= Cats = ¶ the cat", ", it saw the dog ¶", "the dog saw 3 cats ¶"]
TREES = "".join(
    f"{n}\t{word}\t_\t{tag}\t_\t_\t{head}\t_\t_\t_\n"
    for n, word, tag, head in ((1, "the", "DET", 2), (2, "cat", "NOUN", 0))
)
LANGUAGE_MODEL = """\
kind = "language_model"
rows = "running"
d_model = 16
n_heads = 2
d_hidden = 16
n_layers = 1"""
TAGS = ENCODER.format(task="tags")
KNOWS_TREES = f'{TAGS}\npositions = "tree_depth"'


def _offered(tmp_path, valid, *, model, kind="words"):
    """What a run with this validation data is offered, after all of it was asked."""
    run = make_run(tmp_path / "run", LINES, kind=kind, model=model)
    recipe = (run / "recipe.toml").read_text()
    own = recipe.replace('valid = { name = "copy", count = 5 }', f"valid = {valid}")
    assert own != recipe
    (run / "recipe.toml").write_text(own)
    write_card(run)
    registry = open_runs([run], device="cpu")
    with TestClient(build_app(registry), base_url="http://127.0.0.1:8000") as client:
        told = client.get("/api/runs/run/info").json()
        for text in told["examples"]:
            said = client.post("/api/runs/run/predict", json={"text": text})
            assert said.status_code == 200, said.text
            assert "no word is hidden" not in (said.json()["note"] or "")
    return told["examples"], other_examples(registry.run("run").trained)


def _running_text(tmp_path, *, context=0):
    (tmp_path / "a.txt").write_text(LINES)
    path = tmp_path / "a.txt"
    return f'{{ name = "running_text", path = "{path}", words = 6, context = {context} }}'


def test_a_language_model_is_offered_rows_where_nothing_stands_before_them(tmp_path):
    own, others = _offered(tmp_path, _running_text(tmp_path), model=LANGUAGE_MODEL)
    assert own == ROWS
    assert others == list(SENTENCES)


def test_what_stands_before_a_row_is_offered_where_there_is_something(tmp_path):
    own, _ = _offered(tmp_path, _running_text(tmp_path, context=2), model=LANGUAGE_MODEL)
    assert own == [ROWS[0], "the cat", "dog ¶"]


def test_a_run_that_fills_in_words_is_offered_texts_with_one_hidden(tmp_path):
    words = ENCODER.format(task="words")
    own, others = _offered(tmp_path, _running_text(tmp_path), model=words)
    assert own == ["= Cats = ¶ [MASK] cat", ", it saw [MASK] dog ¶", "the dog [MASK] 3 cats ¶"]
    assert others[0] == "A dog ate the [MASK] because it was hungry."
    assert [one.count("[MASK]") for one in (*own, *others)] == [1] * 7


def test_a_run_that_knows_trees_is_offered_no_text_without_one(tmp_path):
    (tmp_path / "a.conllu").write_text(TREES)
    valid = f'{{ name = "conllu", path = "{tmp_path / "a.conllu"}", has_trees = true }}'
    offered = _offered(tmp_path, valid, model=KNOWS_TREES, kind="parsed_words")
    assert offered == (["the↑2 cat↑0"], [])


def test_empty_texts_are_not_offered(tmp_path):
    (tmp_path / "a.tsv").write_text("the cat\tcat\n \t \n\tthe dog\n")
    own, _ = _offered(tmp_path, f'{{ name = "tsv", path = "{tmp_path / "a.tsv"}" }}', model=TAGS)
    assert own == ["the cat", "the dog"]


def test_a_run_whose_data_have_nothing_to_ask_says_so(tmp_path):
    run = make_run(tmp_path / "run", LINES, kind="words", model=TAGS)
    (run / "examples.json").write_text('{"version": 1, "inputs": [" "]}')
    found = own_examples(open_runs([run], device="cpu").run("run").trained)
    assert (found.inputs, found.why_none) == ((), NO_EXAMPLES)


def test_texts_longer_than_the_model_reads_are_not_offered(tmp_path):
    lines = ["the cat " * 40, *["the dog"] * 5, "cat " * 63, "cat " * 64]
    (tmp_path / "a.tsv").write_text("".join(f"{line}\tcat\n" for line in lines))
    own, _ = _offered(tmp_path, f'{{ name = "tsv", path = "{tmp_path / "a.tsv"}" }}', model=TAGS)
    assert own == ["the dog", lines[-2]]
    (tmp_path / "a.tsv").write_text("".join(f"{line}\tcat\n" for line in lines[-2:]))
    own, _ = _offered(tmp_path, f'{{ name = "tsv", path = "{tmp_path / "a.tsv"}" }}', model=TAGS)
    assert own == [lines[-2]]


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("one", "[MASK]"),
        ("a [MASK] ate", "a [MASK] ate"),
        ("3 < 4 .", "3 < [MASK] ."),
        ("  the  cat's ,\tdog\n", "  the  cat's ,\t[MASK]\n"),
    ],
)
def test_one_word_is_hidden_and_all_else_stays(text, hidden):
    assert with_hidden_word(text) == hidden


def test_examples_of_a_run_are_read_once_and_keep_no_other_run_waiting(tmp_path, monkeypatch):
    first, second = (make_run(tmp_path / name) for name in ("first", "second"))
    registry, begun, may_end, read = open_runs([first, second], device="cpu"), Event(), Event(), []

    def slow(trained):
        read.append(trained.path.name)
        if trained.path == first:
            begun.set()
            assert may_end.wait(60)
        return own_examples(trained)

    monkeypatch.setattr("regard.serving.registry.own_examples", slow)
    with ThreadPoolExecutor(3) as others:
        waiting = [others.submit(lambda: registry.run("first").example_inputs()) for _ in range(2)]
        try:
            assert begun.wait(60)
            assert others.submit(lambda: registry.run("second").example_inputs()).result(20).inputs
        finally:
            may_end.set()
        one, other = (each.result(60) for each in waiting)
    assert one is other
    assert sorted(read) == ["first", "second"]
