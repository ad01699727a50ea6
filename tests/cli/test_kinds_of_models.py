"""The verbs take every kind of model that a recipe can name."""

import json

import pytest

import regard
from regard.cli import main
from regard.inspecting.capture import sizes_of
from regard.models import KINDS
from tests.factories import TRANSFORMER, make_run

SMALL = "d_embedding = 8\nd_hidden = 8\nn_layers = 1"
SMALL_STACKS = "d_model = 8\nn_heads = 2\nd_hidden = 8\nn_encoder_layers = 1\nn_decoder_layers = 1"
STACK = "d_model = 8\nn_heads = 2\nd_hidden = 8\nn_layers = 2"
SECTIONS = {
    "transformer": TRANSFORMER,
    "luong": f'kind = "recurrent"\nsize = "luong"\n{SMALL}',
    "luong, local": f'kind = "recurrent"\nselect = "local_predictive"\n{SMALL}',
    "bahdanau": f'kind = "recurrent"\nsize = "bahdanau"\n{SMALL}',
    "language model": f'kind = "language_model"\n{STACK}',
    "running text": f'kind = "language_model"\nrows = "running"\n{STACK}',
    "T-DMCA": f'kind = "language_model"\nattends = ["blocks:size=4", "memory_compressed"]\n{STACK}',
    "marian": f'kind = "marian"\n{SMALL_STACKS}',
    "gpt2": f'kind = "gpt2"\n{STACK}',
    "convolutional": 'kind = "convolutional"\nd_model = 8\nn_encoder_layers = 2',
}
LOOKS_AT_NOTHING = f'kind = "recurrent"\nsize = "sutskever"\n{SMALL}'


def test_every_kind_has_an_example_here():
    # what looks at pictures cannot be asked in words; its verbs are tested in test_captions.py
    # and what only reads, in test_encoder_run.py
    # the kinds of published models are asked in test_import.py and tests/interop
    asked = {*KINDS} - {"transformer", "encoder", "captioner", "bart", "t5", "llama"}
    assert all(any(kind in text for text in SECTIONS.values()) for kind in asked)


@pytest.mark.parametrize("name", SECTIONS)
def test_predict_look_and_evaluate_take_it(name, tmp_path, capsys):
    run = make_run(tmp_path / "run", model=SECTIONS[name])
    assert (
        main(["predict", str(run), "--text", "a b", "--beam", "2", "--alignments", "--json"]) == 0
    )
    assert "alignment" in json.loads(capsys.readouterr().out)
    assert main(["look", str(run), "a b", "--out", str(tmp_path / "x.html")]) == 0
    (tmp_path / "texts").write_text("a b\nc d e\n")
    files = ["--source", str(tmp_path / "texts"), "--reference", str(tmp_path / "texts")]
    capsys.readouterr()
    assert main(["evaluate", str(run), *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", SECTIONS)
def test_what_there_is_to_look_at_is_known_before_anything_is(name, tmp_path):
    trained = regard.load(make_run(tmp_path / "run", model=SECTIONS[name]))
    record = trained.look("a b c d e", "e d c")
    seen = {kind: (len(one.layers), one.n_heads) for kind, one in record.attention.items()}
    assert sizes_of(trained.loaded.model) == seen
    assert trained.loaded.model.reads_answers


READER = 'kind = "encoder"\ntask = "{task}"\nd_model = 8\nn_heads = 2\nd_hidden = 8\nn_layers = 1'


@pytest.mark.parametrize("task", ["tags", "label"])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alignments"], "looks at encoder, and at no source apart from its own text"),
        (
            ["--prefix", "a"],
            "this run gives labels, and a prefix has no meaning for it. Leave it out.",
        ),
    ],
    ids=["alignments", "prefix"],
)
def test_what_a_model_that_only_reads_cannot_do_is_refused(task, words, message, tmp_path, capsys):
    run = make_run(tmp_path / "run", model=READER.format(task=task))
    assert main(["predict", str(run), "--text", "a b", *words]) == 2
    said = capsys.readouterr()
    assert message in " ".join(said.err.split())
    assert said.out == ""


@pytest.mark.parametrize(
    "words", [["look", "RUN", "a b"], ["predict", "RUN", "--text", "a b", "--alignments"]]
)
def test_a_model_that_looks_at_nothing_answers_but_shows_nothing(words, tmp_path, capsys):
    run = make_run(tmp_path / "run", model=LOOKS_AT_NOTHING)
    assert main(["predict", str(run), "--text", "a b"]) == 0
    capsys.readouterr()
    assert main([str(run) if word == "RUN" else word for word in words]) == 2
    assert "this model looks at nothing" in capsys.readouterr().err
