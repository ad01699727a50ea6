"""Evaluating a run: the right loss, the same scores as of the texts alone, links by force."""

from dataclasses import replace

import pytest
import torch

import regard
from regard.choices import Choice
from regard.data import BOS, EOS, Example
from regard.decoding import Greedy, Limits
from regard.errors import DataError, LengthError, SettingError, UnknownChoice
from regard.evaluating import (
    DecoderRow,
    Gold,
    HeadView,
    PieceWords,
    score_all,
    write_pharaoh,
)
from regard.evaluating.attention_links import LEFT_OUT, view_links
from regard.inspecting.capture import attention_of, weights_of
from regard.inspecting.token_labels import words_of
from regard.runs.alignment import align, read_gold
from regard.runs.evaluation import EVALUATE_METRICS, ScoredAnswers, answer, score, search_for
from regard.runs.evaluation_texts import chosen_texts, texts_of_files
from regard.tasks.predictions import AnswerOptions
from tests.factories import make_run

PAIRS = [
    Example("a b c", ("c b a", "a c")),
    Example("e d", ("d e a b c d",)),
    Example("b", ("",)),
    Example("a c e d b", ("e d",)),
]
GREEDY = Greedy(limits=Limits(max_tokens=8))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return regard.load(make_run(tmp_path_factory.mktemp("evaluation") / "run"))


def _surprise(trained, source, target):
    """Minus the log-probability of a target, token by token and alone in its batch."""
    loaded = trained.loaded
    wanted = [*loaded.target.encode(target), EOS]
    read = torch.tensor([[*loaded.source.encode(source), EOS]])
    with torch.no_grad():
        logits = loaded.model(read, torch.tensor([[BOS, *wanted[:-1]]]))[0].double()
    chances = logits.log_softmax(-1)
    return -sum(chances[i, token].item() for i, token in enumerate(wanted)), len(wanted)


def test_the_loss_is_that_of_every_reference_token_by_token(trained):
    each = [_surprise(trained, pair.source, text) for pair in PAIRS for text in pair.targets]
    nats, tokens = (sum(column) for column in zip(*each, strict=True))
    loss, perplexity = EVALUATE_METRICS["loss"](ScoredAnswers(trained, PAIRS, [""] * len(PAIRS)))
    assert loss.value == pytest.approx(nats / tokens, abs=1e-5)
    assert perplexity.value == pytest.approx(torch.tensor(nats / tokens).exp().item(), rel=1e-4)
    assert loss.signature == f"nats|per:sub-word|tokens:{tokens}"


def test_pairs_that_the_model_cannot_read_do_not_count_and_are_told(trained):
    long = [*PAIRS, Example("a", ("b" * 64,)), Example("a" * 64, ("b",))]
    plain = EVALUATE_METRICS["loss"](ScoredAnswers(trained, PAIRS, [""] * 4))
    noted = EVALUATE_METRICS["loss"](ScoredAnswers(trained, long, [""] * 6))
    assert [one.value for one in noted] == pytest.approx([one.value for one in plain])
    assert noted[0].note.startswith("2 of 7 pairs have more tokens than the 64")
    assert EVALUATE_METRICS["loss"](ScoredAnswers(trained, long[4:], ["", ""])) == ()


def test_the_scores_are_those_of_the_texts(trained):
    said = answer(trained, [pair.source for pair in PAIRS], AnswerOptions(GREEDY))
    scores = score(
        ScoredAnswers(trained, PAIRS, said.texts), ["bleu", "chrf", "ter", "exact", "ratio"]
    )
    assert scores == score_all(said.texts, [pair.targets for pair in PAIRS])
    assert said.texts == tuple(
        one.text for one in trained.predict([pair.source for pair in PAIRS], search=GREEDY)
    )
    with pytest.raises(UnknownChoice, match="Did you mean 'bleu'"):
        score(ScoredAnswers(trained, PAIRS, said.texts), ["blue"])


def test_an_empty_text_is_answered_by_an_empty_one_and_every_answer_is_counted(trained):
    count = []
    said = answer(trained, ["", "a b", " "], AnswerOptions(GREEDY), each=lambda: count.append(1))
    assert (said.texts[0], said.texts[2]) == ("", "")
    assert said.texts[1] == trained.predict(["a b"], search=GREEDY)[0].text
    assert len(count) == 3
    assert said.tokens_per_second == pytest.approx(said.tokens / said.seconds)


def test_a_long_text_is_refused_or_told(trained):
    with pytest.raises(LengthError, match="has at least 81 tokens"):
        answer(trained, ["a" * 80, "b"], AnswerOptions(GREEDY))
    said = answer(trained, ["a" * 80, "b"], AnswerOptions(GREEDY, on_long="skip"))
    assert said.texts[0] == ""
    assert said.notes[0].startswith("1 of 2 texts: left out")


def test_a_beam_of_one_is_greedy(trained):
    assert isinstance(search_for(trained, beam=1, length_penalty=0.6), Greedy)
    assert search_for(trained, beam=3, length_penalty=0.0).width == 3
    with pytest.raises(SettingError, match="--beam must be at least 1, got 0"):
        search_for(trained, beam=0, length_penalty=0.6)


def test_json_lines_are_read_by_the_run_s_keys_and_come_alone(trained, tmp_path):
    objects, answers = tmp_path / "one.jsonl", tmp_path / "answers"
    objects.write_text('{"in": "Don\\u2019t", "out": "b"}\n')
    answers.write_text("c\n")
    settings = {"source": "in", "target": "out", "path": "x", "normalise": "europarl"}
    recipe = _learned_from(trained, Choice("jsonl", settings))
    # as it stands there: whoever asks the run brings it to the run's form
    assert texts_of_files(objects, [], recipe) == [Example("Don’t", ("b",))]
    for files in ((objects, [answers]), (answers, [objects])):
        with pytest.raises(DataError, match=r"one\.jsonl' holds JSON objects, .* Give it alone"):
            texts_of_files(*files, recipe)


def _learned_from(trained, train, valid=None):
    recipe = trained.loaded.recipe
    return replace(recipe, data=replace(recipe.data, train=train, valid=valid or train))


SENTENCE = "1\ta\ta\tDET\tDT\t_\t2\tdet\t_\t_\n2\tdog\tdog\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({}, Example("a dog", ("DET NOUN",))),
        ({"tags": "xpos"}, Example("a dog", ("DT NN",))),
        ({"has_trees": True}, Example("a↑2 dog↑0", ("DET NOUN",))),
    ],
)
def test_a_treebank_is_read_as_the_run_s_own(trained, tmp_path, settings, want):
    path = tmp_path / "other.conllu"
    path.write_text(SENTENCE)
    recipe = _learned_from(trained, Choice("conllu", {"path": "x", **settings}))
    assert texts_of_files(path, [], recipe) == [want]


def test_a_running_text_is_cut_as_the_validation_text_is(trained, tmp_path):
    path = tmp_path / "other.txt"
    path.write_text("a b c\nd e\n")
    recipe = _learned_from(
        trained,
        Choice("running_text", {"path": "x", "words": 4, "every": 1}),
        Choice("running_text", {"path": "y", "words": 3, "context": 2}),
    )
    found = texts_of_files(path, [], recipe)
    assert found == [
        Example("", ("a b c",)), Example("b c", ("¶ d e",)), Example("d e", ("¶",))
    ]  # fmt: skip
    both = tmp_path / "both.tsv"
    both.write_text("a\tb\n")
    assert texts_of_files(both, [], recipe) == [Example("a", ("b",))]


def test_texts_come_from_files_or_from_a_split(trained, tmp_path):
    recipe = trained.loaded.recipe
    both = tmp_path / "both.tsv"
    both.write_text("a\tb\tc\nd\te\n")
    assert [one.targets for one in texts_of_files(both, [])] == [("b", "c"), ("e",)]
    assert len(chosen_texts(recipe, None, [], "valid")) == 5
    with pytest.raises(
        SettingError, match=r"no data\.test\. Give --source .* take --split valid\.$"
    ):
        chosen_texts(recipe, None, [], "test")
    imported = replace(recipe.data, valid=Choice("elsewhere", {"model": "bert"}))
    with pytest.raises(SettingError, match=r"no data\.test\. Give --source and --reference\.$"):
        chosen_texts(replace(recipe, data=imported), None, [], "test")
    with pytest.raises(UnknownChoice, match="Did you mean 'valid'"):
        chosen_texts(recipe, None, [], "vaild")
    with pytest.raises(SettingError, match="got nothing"):
        chosen_texts(None, None, [], None)
    with pytest.raises(SettingError, match="got --source, --split, a run"):
        chosen_texts(recipe, both, [], "valid")
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(DataError, match=r"is empty\. Give at least one line"):
        texts_of_files(empty, [empty])


def _links(trained, pair, view):
    source, target = trained.loaded.source, trained.loaded.target
    text, said = pair.source, pair.targets[0]
    maps = attention_of(trained.loaded.model, [*source.encode(text), EOS], target.encode(said))
    pieces = PieceWords(
        [*words_of(text, source.offsets(text)), LEFT_OUT], words_of(said, target.offsets(said))
    )
    return view_links(weights_of(maps["cross"]), pieces, view.row)[view]


def test_a_head_whose_links_are_the_gold_ones_makes_no_error_and_is_the_best(trained):
    view = HeadView(1, 0, DecoderRow.NEXT)
    pairs = [pair for pair in PAIRS if pair.targets[0]] * 2
    golds = [Gold(_links(trained, pair, view)) for pair in pairs]
    counted = []
    found = align(trained, pairs, golds, each=lambda: counted.append(1))
    assert found.table[view].error_rate == 0
    assert found.best.reported_on.error_rate == 0
    assert found.table[found.best.view].error_rate == 0
    assert found.best.reported_on.links < found.table[view].links
    assert found.best_of_row[DecoderRow.NEXT].reported_on.error_rate == 0
    before = found.best_of_row[DecoderRow.PREDICTING]
    assert before.view.row is DecoderRow.PREDICTING
    chosen = [found.table[one] for one in found.table if one.is_head and one.row is before.view.row]
    assert before.chosen_on.error_rate > 0
    assert min(counts.error_rate for counts in chosen) <= found.table[before.view].error_rate
    said = found.as_json()["best_of_row"]
    assert said["next"]["reported_on"]["error_rate"] == 0
    assert (said["predicting"]["row"], said["predicting"]["head"]) == (
        "predicting", before.view.head + 1,
    )  # fmt: skip
    # two layers of two heads, a mean each and one of all, by two rows
    assert len(found.table) == 2 * (2 * 2 + 2 + 1)
    assert len(counted) == len(pairs) == found.sentences


def test_sentences_too_long_to_align_are_counted_and_one_has_no_best_head(trained):
    pairs = [PAIRS[0], Example("a" * 70, ("a",))]
    found = align(trained, pairs, [Gold(frozenset({(0, 0)}))] * 2)
    assert (found.sentences, found.left_out, found.best) == (1, 1, None)
    assert found.as_json()["best_head"] is None
    assert found.as_json()["best_of_row"] == {}
    with pytest.raises(DataError, match="all 1 sentences have more tokens than the 64"):
        align(trained, pairs[1:], [Gold(frozenset())])


def test_sentences_without_gold_are_counted_and_half_without_any_choose_no_head(trained):
    pairs, link = [PAIRS[0]] * 4, Gold(frozenset({(0, 0)}))
    none = Gold(frozenset())
    some = align(trained, pairs, [link, link, none, none])
    assert (some.sentences, some.without_gold) == (4, 2)
    assert some.as_json()["without_gold"] == 2
    assert some.best is not None
    half = align(trained, pairs, [link, none, link, none])
    assert (half.without_gold, half.best, half.best_of_row) == (2, None, {})
    assert align(trained, pairs, [link] * 4).without_gold == 0


def test_gold_links_are_read_in_both_formats(tmp_path):
    pharaoh, naacl = tmp_path / "pharaoh", tmp_path / "naacl"
    pharaoh.write_text("0-0 1p2\n\n2-1\n")
    naacl.write_text("0001 1 1 S\n0001 2 3 P\n0003 3 2 S\n")
    read = read_gold(pharaoh, sentences=3)
    assert read == read_gold(naacl, sentences=3)
    assert write_pharaoh([read[0].possible]) == ["0-0 1-2"]
    shifted = tmp_path / "shifted"
    shifted.write_text("1-1 2p3\n\n3-2\n")
    assert read_gold(shifted, sentences=3, first=1) == read
    with pytest.raises(SettingError, match="count from 0 or from 1, got 2"):
        read_gold(shifted, sentences=3, first=2)
    with pytest.raises(DataError, match=r"^alignment: '.*shifted': line 1: '1-1 2p3' is no link"):
        read_gold(shifted, sentences=3, kind="naacl")
    (tmp_path / "none").write_text("\n")
    with pytest.raises(DataError, match=r"'.*none' is empty"):
        read_gold(tmp_path / "none", sentences=1)
