"""Streams: an answer in parts, each as soon as it is written, which together are the answer."""

import pytest

import regard
from regard.cli import main
from regard.decoding import Beam, Greedy, Limits, Sampling
from regard.errors import SettingError
from tests.factories import make_run
from tests.training.test_language_run import WRITER

LIMITS = Limits(max_tokens=12)


@pytest.fixture(scope="module")
def translator(tmp_path_factory):
    return regard.load(make_run(tmp_path_factory.mktemp("stream") / "run"), device="cpu")


@pytest.mark.parametrize("search", [Greedy(limits=LIMITS), Sampling(seed=3, limits=LIMITS)])
def test_the_parts_together_are_the_answer(translator, search):
    (whole,) = translator.predict(["a b c"], search=search)
    parts = list(translator.stream("a b c", search=search))
    assert "".join(parts) == whole.text
    assert len(parts) > 1


def test_the_first_part_comes_before_the_last_is_computed(translator, monkeypatch):
    stepped = []
    step = translator.stepper.step
    object.__setattr__(translator.stepper, "step", lambda *a: (stepped.append(1), step(*a))[1])
    parts = translator.stream("a b c", search=Greedy(limits=LIMITS))
    next(parts)
    assert len(stepped) < 3


@pytest.mark.parametrize("kind", ["bytes", "bpe"])
def test_a_character_of_several_bytes_comes_whole(tmp_path, kind):
    run = make_run(tmp_path / "run", "é 😀 ü", kind=kind, model=WRITER.format(rows="running"))
    one = regard.load(run, device="cpu")
    search = Sampling(seed=1, limits=Limits(max_tokens=30))
    (whole,) = one.predict(["é"], search=search)
    assert "".join(one.stream("é", search=search)) == whole.text


@pytest.mark.parametrize("task", ["label", "tags", "words"])
def test_what_is_read_off_at_once_is_one_part(tmp_path, task):
    sizes = "d_model = 8\nn_heads = 2\nd_hidden = 8\nn_layers = 1"
    run = make_run(tmp_path, kind="words", model=f'kind = "encoder"\ntask = "{task}"\n{sizes}')
    one = regard.load(run, device="cpu")
    (whole,) = one.predict(["a b c"])
    assert list(one.stream("a b c")) == [whole.text]


def test_a_blank_text_has_no_part_and_a_beam_cannot_stream(translator):
    assert list(translator.stream("  ")) == []
    with pytest.raises(
        SettingError, match=r"a beam knows its answer at the end alone\. Take Greedy"
    ):
        list(translator.stream("a", search=Beam(limits=LIMITS)))


def test_the_command_line_streams_what_predict_says(translator, capsys):
    run = str(translator.path)
    asked = ["predict", run, "--text", "a b", "--text", "c d", "--max-tokens", "9"]
    assert main([*asked, "--beam", "1"]) == 0
    whole = capsys.readouterr().out
    assert main([*asked, "--stream"]) == 0
    assert capsys.readouterr().out == whole
    assert main([*asked, "--stream", "--json"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "--stream writes tokens as they come, so --json would change nothing" in said
