"""A finished run that one can ask: order, wishes, long texts, ensembles, alignments."""

import reprlib

import pytest
import torch

import regard
from regard.data import Subwords
from regard.decoding import Beam, Greedy, Limits, Sampling
from regard.errors import (
    CheckpointError,
    DataError,
    LengthError,
    RunError,
    SettingError,
    UnknownChoice,
)
from regard.runs.trained import Request, Trained
from regard.tasks.predictions import check_is_text, listed_texts
from tests.factories import ENCODER, TRANSFORMER, make_run

TEXTS = ["a b", "e d c b a", "c", "d d d e"]
GREEDY = Greedy(limits=Limits(max_tokens=12))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("trained") / "run")


@pytest.fixture(scope="module")
def trained(run):
    return regard.load(run)


def test_answers_come_in_the_order_of_the_texts_whoever_else_is_asked(trained):
    together = trained.predict(TEXTS, search=GREEDY)
    alone = [trained.predict([text], search=GREEDY)[0] for text in TEXTS]
    assert [said.source for said in together] == TEXTS
    assert [said.text for said in together] == [said.text for said in alone]
    for ours, theirs in zip(together, alone, strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=1e-4)


def test_a_run_and_its_answers_say_on_one_line_what_they_are(run, trained):
    (said,) = trained.predict(["a b"], search=GREEDY)
    assert repr(said) == (
        f"Prediction('a b' → {reprlib.repr(said.text)}, score={said.score:.4f}, "
        "note='the answer w...ngest allowed')"
    )
    count = sum(weight.numel() for weight in trained.model.parameters())
    assert repr(trained) == (
        f"Trained('{run}', translation, Loaded(Transformer of {count:,} parameters), cpu)"
    )


def test_a_run_gives_its_model_its_tokenizer_and_its_task(trained):
    assert isinstance(trained.model, torch.nn.Module)
    assert trained.tokenizer.decode(trained.tokenizer.encode("a b")) == "a b"
    assert repr(trained.tokenizer).startswith(f"Subwords({len(trained.tokenizer)} pieces of kind")
    assert trained.task.how_answered is None


@pytest.mark.parametrize("verb", ["predict", "vectors"])
def test_a_text_is_no_list_of_texts(trained, verb):
    with pytest.raises(DataError, match=rf"{verb}: expected a list of texts, got the text 'a b'\."):
        getattr(trained, verb)("a b")


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (3, r"predict: expected a list of texts, got 3\. Write \[text\]\."),
        (["a", 3], r"got 3 \(int\) at place 1\. Write each as a text, in quotation marks\."),
    ],
)
def test_numbers_are_no_texts(texts, said):
    # types are checked in tests before `predict` itself is reached
    with pytest.raises(DataError, match=said):
        listed_texts(texts, "predict")


def test_texts_may_come_from_a_generator(trained):
    said = trained.predict((text for text in TEXTS), search=GREEDY)
    assert [one.source for one in said] == TEXTS


def test_a_list_is_no_text_to_look_at():
    with pytest.raises(DataError, match=r"look: expected one text, got \['a b'\] \(list\)\."):
        check_is_text(["a b"], "look")


def test_the_best_answer_is_the_first_of_the_n_best(trained):
    search = Beam(width=4, n_best=3, limits=Limits(max_tokens=8))
    said = trained.predict(["a b c"], search=search)[0]
    assert [answer.score for answer in said.n_best] == sorted(
        (answer.score for answer in said.n_best), reverse=True
    )
    assert len({answer.text for answer in said.n_best}) == 3
    assert (said.text, said.score) == (said.n_best[0].text, said.n_best[0].score)


def test_an_answer_begins_with_its_prefix_and_holds_its_phrases(trained):
    asked = Request("a b", prefix="d e", must_contain=["c c"])
    said = trained.predict([asked], search=Beam(width=8, limits=Limits(max_tokens=16)))[0]
    assert said.text.startswith("d e")
    assert "c c" in said.text


def test_a_seed_of_its_own_makes_each_text_s_draws(trained):
    drawn = Sampling(limits=Limits(max_tokens=10))
    first, again, other = (
        trained.predict([Request("a b c", seed=seed)], search=drawn)[0].text for seed in (1, 1, 2)
    )
    assert first == again != other


def test_a_long_text_is_an_error_that_names_both_lengths(trained):
    message = r"has at least 101 tokens, but the model reads at most 64 .*split"
    with pytest.raises(LengthError, match=message):
        trained.predict(["a" * 100])


@pytest.mark.parametrize("model", [TRANSFORMER, ENCODER.format(task="words")])
def test_a_text_that_is_much_too_long_is_left_out_or_refused_without_being_cut(
    model, tmp_path, monkeypatch
):
    trained = regard.load(make_run(tmp_path / "run", model=model), device="cpu")
    encode, cut = Subwords.encode, []
    monkeypatch.setattr(
        Subwords, "encode", lambda self, text: cut.append(text) or encode(self, text)
    )
    (said,) = trained.predict(["a" * 1000], on_long="skip")
    assert said.note.startswith("left out")
    with pytest.raises(
        LengthError, match=r"has at least [\d,]+ tokens, but the model reads at most"
    ):
        trained.predict(["a" * 1000])
    assert not cut


def test_a_long_text_is_left_out_or_answered_in_pieces_if_one_wishes_and_says_so(trained):
    texts = ["a b", "b " * 50, "c"]
    skipped = trained.predict(texts, search=GREEDY, on_long="skip")
    assert (skipped[1].text, skipped[1].n_best) == ("", ())
    assert skipped[1].note.startswith("left out")
    split = trained.predict(texts, search=GREEDY, on_long="split")
    assert split[1].note.startswith("answered in 2 pieces")
    pieces = trained.predict(["b " * 31 + "b", ("b " * 18).strip()], search=GREEDY)
    assert split[1].text == " ".join(said.text for said in pieces)
    for kept in (0, 2):
        assert split[kept].text == skipped[kept].text
    with pytest.raises(UnknownChoice, match="skip"):
        trained.predict(texts, on_long="skp")


def test_a_run_beside_itself_writes_what_it_writes_alone(run, trained):
    search = Beam(width=3, limits=Limits(max_tokens=10))
    twice = regard.load(run, run).predict(TEXTS, search=search)
    once = trained.predict(TEXTS, search=search)
    assert [said.text for said in twice] == [said.text for said in once]
    for ours, theirs in zip(twice, once, strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=1e-4)


def test_runs_of_other_vocabularies_do_not_write_together(run, tmp_path):
    other = make_run(tmp_path / "other", "x y z")
    with pytest.raises(RunError, match=r"other vocabularies than .*start_from"):
        regard.load(run, other)


def test_alignments_link_every_written_word_to_a_source_word(trained):
    said = trained.predict(["a b c d"], search=GREEDY, has_alignments=True)[0]
    links = [tuple(map(int, link.split("-"))) for link in said.alignment.split()]
    assert {target for _, target in links} <= set(range(len(said.text.split())))
    assert all(0 <= source < 4 for source, _ in links)


def test_looking_gives_the_answer_that_predicting_gives(trained):
    record = trained.look("a b c")
    assert record.target == trained.predict(["a b c"])[0].text
    assert trained.look("a b c", target="c b").target == "c b"


def test_only_the_first_piece_of_a_split_text_has_its_prefix(trained):
    asked = Request("b " * 50, prefix="d e")
    said = trained.predict([asked], search=GREEDY, on_long="split")[0]
    rest = trained.predict([("b " * 18).strip()], search=GREEDY)[0].text
    assert said.text.startswith("d e")
    assert said.text.endswith(rest)
    with pytest.raises(SettingError, match="no piece is known to hold them"):
        trained.predict([Request("b " * 50, must_contain=["c"])], on_long="split")


def test_what_is_too_long_to_be_read_is_too_long_to_be_looked_at(trained):
    with pytest.raises(LengthError, match="has at least 101 tokens"):
        trained.look("a" * 100)
    with pytest.raises(LengthError, match="the answer has at least 101 tokens"):
        trained.look("a", target="a" * 100)


def test_a_model_without_finite_scores_is_refused(tmp_path):
    spoilt = regard.load(make_run(tmp_path / "spoilt"))
    for parameter in spoilt.loaded.model.parameters():
        parameter.data.fill_(float("nan"))
    with pytest.raises(CheckpointError, match="no finite score"):
        Trained(tmp_path, spoilt.loaded).predict(["a b"], search=GREEDY)
