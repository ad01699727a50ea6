"""Recurrent models that write: caches, beams and batches change no answer, whatever the parts."""

import random
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import pad

from regard.attention import SCORES, SELECTIONS
from regard.choices import Choice
from regard.decoding import Beam, Greedy, Limits, Sampling, Sentence, fast_model
from regard.errors import SettingError
from regard.layers.recurrent import BRIDGES, READOUTS, RECURRENCES
from regard.models.recurrent.network import build_recurrent
from regard.models.recurrent.spec import RecurrentSpec
from regard.models.stepper import BOS, EOS, PAD, count_rows
from tests.assertions import assert_close
from tests.decoding.writers import decided, decode_all

V, LIMITS = 11, Limits(max_tokens=4)
SETTINGS = {
    "local_monotonic": {"half_width": 1},
    "local_predictive": {"half_width": 1},
    "top_k": {"count": 2},
}


def drawn(seed):
    """A spec of parts drawn by lot, of those that can meet."""
    lot = random.Random(seed)
    while True:
        select = lot.choice([*SELECTIONS])
        try:
            return RecurrentSpec(
                d_embedding=5,
                d_hidden=6,
                n_layers=lot.choice([1, 2]),
                cell=lot.choice([*RECURRENCES]),
                is_bidirectional=lot.random() < 0.5,
                reverses_source=lot.random() < 0.5,
                bridge=lot.choice([*BRIDGES]),
                attends=lot.choice(["current", "previous", "current", "previous", "none"]),
                attends_to_end=lot.random() < 0.5,
                score=Choice(lot.choice([*SCORES])),
                select=Choice(select, SETTINGS.get(select, {})),
                feeds_input=lot.random() < 0.5,
                has_coverage=lot.random() < 0.3,
                readout=lot.choice([*READOUTS]),
                initialisation=lot.choice(["uniform", "orthogonal"]),
                max_len=16,
            )
        except SettingError:
            continue


SPECS = [
    *map(drawn, range(12)),
    RecurrentSpec(
        d_embedding=6, d_hidden=6, n_layers=1, attends="none", feeds_input=False, readout="state"
    ),
]
IDS = [
    f"{s.cell} {s.attends} {s.score.name} {s.select.name}"
    f"{' fed' * s.feeds_input}{' covered' * s.has_coverage}"
    for s in SPECS
]


def build(spec):
    model = build_recurrent(spec, n_source_tokens=V, n_target_tokens=V).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return decided(model)


def tokens(*shape):
    return torch.randint(4, V, shape)


def sentences(n, longest=6):
    rows = [[*row, EOS] for row in tokens(n, longest).tolist()]
    return [Sentence(row[i % longest :], seed=i) for i, row in enumerate(rows)]


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_stepping_equals_the_whole_pass_and_padding_changes_nothing(spec):
    model, source, target = build(spec), tokens(2, 7), tokens(2, 6)
    source[0, 6], source[1, 4], source[1, 5:] = EOS, EOS, PAD
    whole = model(source, target)
    state, parts = model.start(pad(source, (0, 3), value=PAD)), []
    for cut in (target[:, :1], target[:, 1:4], target[:, 4:]):
        logits, state = model.step(state, cut)
        parts.append(logits)
    assert_close("logits", torch.cat(parts, 1), whole)
    longer = model(pad(source, (0, 3), value=PAD), pad(target, (0, 2), value=PAD))
    assert_close("padded", longer[:, :6], whole)
    other = target.clone()
    other[:, 3] = 4 + (other[:, 3] - 3) % 7
    assert_close("past", model(source, other)[:, :3], whole[:, :3])
    assert not torch.equal(model(source, other)[:, 3], whole[:, 3])


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_rows_that_branch_share_their_sentence_s_source(spec):
    model, source, first = build(spec), tokens(3, 5), tokens(3, 1)
    _, state = model.step(model.start(source), first)
    state = model.branch(state, torch.zeros(3, 2, dtype=torch.int64))
    second = tokens(3, 2)
    _, state = model.step(state, second.reshape(-1, 1))
    state = model.branch(state, torch.tensor([[1, 0], [1, 1], [0, 0]]))
    state = model.select(state, torch.tensor([4, 5, 0, 1]))
    assert count_rows(state.source) == 2
    # the sentence of each row, and which of its second words it wrote
    sentence, chosen = torch.tensor([2, 2, 0, 0]), torch.tensor([0, 0, 1, 0])
    more = tokens(4, 2)
    logits, _ = model.step(state, more)
    read = torch.cat([first[sentence], second[sentence, chosen][:, None], more], 1)
    assert_close("logits", logits, model(source[sentence], read)[:, 2:])


@pytest.mark.parametrize("spec", SPECS, ids=IDS)
def test_what_a_beam_says_of_its_answer_is_what_a_whole_pass_says(spec):
    model, asked = build(spec), sentences(3)
    found = Beam(width=3, n_best=3, limits=LIMITS)(model, asked)
    for sentence, answers in zip(asked, found, strict=True):
        for h in answers:
            read = torch.tensor([[BOS, *h.tokens]])
            own = model(torch.tensor([list(sentence.source)]), read)[0].log_softmax(-1)
            written = [*h.tokens, *([EOS] if h.has_ended else [])]
            want = own[torch.arange(len(written)), torch.tensor(written)].detach()
            got = torch.tensor(h.token_log_probabilities, dtype=torch.float64)
            assert_close("log-probabilities", got, want, atol=2e-6)


@pytest.mark.parametrize("spec", SPECS[::2], ids=IDS[::2])
def test_an_answer_does_not_depend_on_its_batch_and_a_beam_of_one_is_greedy(spec):
    model, asked = build(spec), sentences(5)
    for search in (Beam(width=2, n_best=2, limits=LIMITS), Sampling(n_samples=2, limits=LIMITS)):
        together = search(model, asked)
        order = torch.randperm(5).tolist()
        moved = decode_all(model, [asked[i] for i in order], search, batch_tokens=8)
        for got, want in zip(moved, (together[i] for i in order), strict=True):
            assert [h.tokens for h in got] == [h.tokens for h in want]
            assert [h.score for h in got] == pytest.approx([h.score for h in want], abs=1e-5)
    narrow = Beam(width=1, limits=LIMITS)(model, asked)
    for (one,), (other,) in zip(narrow, Greedy(limits=LIMITS)(model, asked), strict=True):
        assert one.tokens == other.tokens


@pytest.mark.parametrize("spec", SPECS[:4], ids=IDS[:4])
def test_an_empty_source_has_an_answer_too(spec):
    model, asked = build(spec), [Sentence([]), Sentence([5, 6, 7, EOS])]
    search = Beam(width=2, limits=LIMITS)
    together = decode_all(model, asked, search)
    assert all(h.log_probability > -1000 for row in together for h in row)
    assert [h.tokens for h in search(model, asked[:1])[0]] == [h.tokens for h in together[0]]


@pytest.mark.parametrize("spec", [SPECS[0], SPECS[-1]], ids=[IDS[0], IDS[-1]])
def test_a_fast_model_is_the_same_model(spec):
    model, source, target = build(replace(spec, tied="none")), tokens(2, 5), tokens(2, 4)
    assert_close(
        "logits", fast_model(model, torch.device("cpu"))(source, target), model(source, target)
    )
