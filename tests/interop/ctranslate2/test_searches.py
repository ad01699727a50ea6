"""A run answers by CTranslate2 as by torch, in every family that CTranslate2 can hold."""

from dataclasses import replace

import pytest
import torch

import regard
from regard.data.subword_kinds import BOS, EOS
from regard.decoding import Beam, GnmtPenalty, Greedy, Limits, NoPenalty
from regard.interop.ctranslate2 import CTranslate2
from regard.tasks.predictions import Request
from regard.tasks.searched_texts import sentence_of
from tests.interop.ctranslate2.families import FAMILIES, TEXTS, made

LIMITS = Limits(max_tokens=9)


def both(run):
    ours = regard.load(run, device="cpu")
    return ours, replace(ours, engine=CTranslate2(cache="temporary").opened(ours))


@torch.no_grad()
def token_scores(trained, source, answer):
    """The log-probability of each token of an answer, by one pass of our model over it."""
    logits = trained.loaded.model(torch.tensor([source]), torch.tensor([[BOS, *answer]]))
    return logits[0].log_softmax(-1)[range(len(answer) + 1), [*answer, EOS]].tolist()


@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_and_greedy_answers_are_those_of_torch(tmp_path, family):
    ours, theirs = both(made(tmp_path / "run", FAMILIES[family]))
    sentences = [sentence_of(ours, Request(text)) for text in TEXTS]
    size, draws = len(ours.loaded.target), torch.Generator().manual_seed(3)
    answers = [
        torch.randint(3, size, (1 + i % 9,), generator=draws).tolist()
        for i in range(len(sentences))
    ]
    engine = theirs.engine
    found = engine.reader.token_scores(engine.model, sentences, answers)
    for sentence, answer, scores in zip(sentences, answers, found, strict=True):
        assert scores == pytest.approx(token_scores(ours, sentence.source, answer), abs=1e-4)
    wanted, found = (one.predict(TEXTS, search=Greedy(limits=LIMITS)) for one in (ours, theirs))
    assert [one.tokens for one in found] == [one.tokens for one in wanted]
    assert [one.score for one in found] == pytest.approx([one.score for one in wanted], abs=1e-4)


@pytest.mark.parametrize("family", ["reads, pre-norm", "continues, rotary"])
def test_a_beam_finds_the_answers_of_torch_with_their_scores(tmp_path, family):
    ours, theirs = both(made(tmp_path / "run", FAMILIES[family]))
    for penalty in (GnmtPenalty(0.6), NoPenalty()):
        search = Beam(width=4, penalty=penalty, limits=LIMITS)
        wanted, found = (one.predict(TEXTS, search=search) for one in (ours, theirs))
        pairs = list(zip(wanted, found, strict=True))
        same = [(mine, their) for mine, their in pairs if mine.tokens == their.tokens]
        assert len(same) >= len(TEXTS) - 2
        assert [their.score for _, their in same] == pytest.approx(
            [mine.score for mine, _ in same], abs=1e-4
        )
