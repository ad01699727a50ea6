"""Recordings, on a stand-in for CUDA graphs: the same operations into the same memory."""

import json
from dataclasses import replace
from itertools import product

import pytest
import torch

from regard.cli import main
from regard.decoding import (
    Beam,
    Greedy,
    Limits,
    Sentence,
)
from regard.decoding.gpu import recordings
from regard.decoding.gpu.recorded_steps import Recording
from regard.decoding.gpu.recordings import RECORDED, RecordedModel, Recordings
from regard.models import build_language_model, build_transformer
from regard.models.captioner.network import Album
from regard.models.stepper import EOS
from regard.runs.trained import load
from regard.serving.worker import free_memory
from tests.decoding.gpu.cpu_capture import (
    LIMITS,
    MODELS,
    SEARCHES,
    CpuCapture,
    again_is_plain,
    asked,
    assert_close_answers,
    single,
)
from tests.decoding.writers import SPECS, Table, decided, transformer
from tests.factories import make_run
from tests.models.captioner.small import SOFT, TRANSFORMER, annotations, build


@pytest.mark.parametrize(
    ("name", "search"),
    [
        *(("transformer", search) for search in SEARCHES),
        *product(["language model", "recurrent"], ["greedy", "beam", "sampling"]),
        ("ensemble", "beam"),
    ],
)
def test_a_replayed_search_gives_the_answers_of_the_plain_one_to_the_last_bit(
    name, search, recorded
):
    model, search = single(MODELS[name]()), SEARCHES[search]
    again, ways = recorded(model), []
    for seed in range(3):
        sentences = asked(4, seed=seed)
        assert again_is_plain(again, model, search, sentences)
        ways.append(again.recordings.said)
    assert ways == ["plain: the first batch of its shape", RECORDED, RECORDED]


@pytest.mark.parametrize(("spec", "search"), [(SOFT, "beam"), (TRANSFORMER, "sampling")])
def test_captions_are_replayed_for_the_pictures_of_each_album(spec, search, recorded):
    model, search, ways = build(spec).float(), SEARCHES[search], []
    again = recorded(model)
    for seed in range(3):
        seen = annotations(4).float()
        sentences = [Sentence([i], seed=seed + i) for i in range(len(seen))]
        album = again.reading(lambda writer, seen=seen: Album(writer, seen.__getitem__))
        assert search(album, sentences) == search(Album(model, seen.__getitem__), sentences)
        ways.append(again.recordings.said)
    assert ways[1:] == [RECORDED, RECORDED]


def test_answers_that_begin_with_something_are_replayed_with_their_own_beginnings(recorded):
    model, beam = transformer("post_norm"), SEARCHES["beam"]
    again = recorded(model)
    for prefix in ((5, 6), (7, 8), (9, 4)):
        sentences = asked(4, prefix=prefix)
        assert again_is_plain(again, model, beam, sentences)
    assert again.recordings.said == RECORDED


def test_batches_are_filled_up_to_few_sizes_and_answer_for_their_own_sentences(recorded):
    model, beam = transformer("post_norm"), SEARCHES["beam"]
    again = recorded(model)
    for n, n_tokens in ((5, 6), (7, 8), (8, 7), (6, 8)):
        sentences = asked(n, n_tokens, seed=n)
        assert_close_answers(beam(again, sentences), beam(model, sentences))
    # without padding in the sources the encoder has another path
    assert [*again.recordings.counts.values()] == [2, 2]


@pytest.mark.parametrize(("name", "n_read"), [("post_norm", 1), ("sparsemax", 0)])
def test_sources_are_read_by_a_graph_only_if_kernels_read_them(name, n_read, recorded):
    model, beam = transformer(name), Beam(width=2, limits=Limits(min_tokens=2, max_tokens=2))
    assert model.is_capturable == bool(n_read)
    again = recorded(model)
    for seed in range(4):
        assert again_is_plain(again, model, beam, asked(2, seed=seed))
    assert CpuCapture.n_captured == n_read + 2, "nothing is captured twice"


@pytest.mark.parametrize("name", sorted(SPECS))
def test_whether_a_source_can_be_captured_is_known_on_any_device(name):
    model = transformer(name)
    is_capturable = model.is_capturable
    assert model.to("meta").is_capturable == is_capturable


class Late:
    """A rule that makes a tensor of its own at each step."""

    def to(self, device):
        return self

    def __call__(self, scores, written):
        return scores.index_fill(1, torch.tensor([5, 7]), -torch.inf)


class Waiting:
    """A model that asks the device for a shape at each step."""

    def __init__(self, model):
        self.start, self.select, self.branch, self._step = (
            model.start,
            model.select,
            model.branch,
            model.step,
        )

    def step(self, state, tokens):
        assert len(tokens.nonzero()) == len(tokens)
        return self._step(state, tokens)


@pytest.mark.parametrize(
    ("make", "search", "change", "why"),
    [
        (
            MODELS["transformer"],
            replace(SEARCHES["beam"], rules=(Late(),)),
            {},
            "plain: RuntimeError: aten.lift_fresh.default cannot be captured",
        ),
        (
            MODELS["transformer"],
            replace(SEARCHES["beam"], rules=[Late()]),
            {},
            "plain: the search has rules that are no tuple, or cannot be hashed",
        ),
        (
            MODELS["transformer"],
            SEARCHES["beam"],
            {"must_contain": [[6]]},
            "plain: answers that must hold phrases",
        ),
        (
            lambda: Waiting(transformer("post_norm")),
            SEARCHES["greedy"],
            {},
            "plain: RuntimeError: aten.nonzero.default cannot be captured",
        ),
    ],
)
def test_what_cannot_be_recorded_is_searched_plainly_and_says_why(
    make, search, change, why, recorded
):
    model = make()
    again = recorded(model)
    for seed in range(3):
        sentences = [replace(one, **change) for one in asked(4, seed=seed)]
        assert again_is_plain(again, model, search, sentences)
    assert again.recordings.said == why


@pytest.mark.parametrize(
    ("name", "sentences"),
    [
        ("post_norm", asked(4)),
        ("post_norm", asked(1)),
        ("post_norm", asked(1) * 4),
        ("sparsemax", asked(1)),
    ],
)
def test_a_recording_that_answers_otherwise_than_the_plain_search_is_never_used(
    name, sentences, recorded, monkeypatch
):
    model, beam = transformer(name), SEARCHES["beam"]
    again = recorded(model)
    # as if a graph held the numbers that it was captured with
    monkeypatch.setattr(Recording, "begin", lambda self, given: self._read())
    for _ in range(3):
        assert again_is_plain(again, model, beam, sentences)
    assert again.recordings.said.startswith(
        "plain: RuntimeError: the recording answers otherwise than the plain search: a score of -"
    )


@pytest.mark.parametrize("build", [build_transformer, build_language_model])
def test_no_source_is_padded_beyond_what_the_model_reads(build):
    sizes = (
        {"n_tokens": 11}
        if build is build_language_model
        else dict.fromkeys(("n_source_tokens", "n_target_tokens"), 11)
    )
    model = decided(build(replace(SPECS["learned"], max_len=12), **sizes)).double()
    again = RecordedModel(model, Recordings(model, CpuCapture()), 12)
    greedy = Greedy(limits=Limits(max_tokens=2))
    for _ in range(3):
        assert_close_answers(greedy(again, asked(2, 10)), greedy(model, asked(2, 10)))
    assert again.recordings.said == RECORDED


def test_a_step_that_cannot_be_recorded_is_taken_plainly_and_so_are_all_later_ones(
    recorded, monkeypatch
):
    model = transformer("post_norm")
    with torch.no_grad():
        # all answers reach their limit
        model.output.weight[EOS] = 0.0
    # of one shape, as both are filled up to 8 tokens
    short, longer = asked(4, 2), asked(4, 6)
    search = Beam(width=3, limits=Limits(max_tokens=64, beyond_source=4))
    again = recorded(model)
    for _ in range(2):
        search(again, short)
    assert again.recordings.said == RECORDED

    def fails(self, work):
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    monkeypatch.setattr(CpuCapture, "capture_graph", fails)
    for _ in range(2):
        assert_close_answers(search(again, longer), search(model, longer))
    assert again.recordings.said == (
        "plain: RuntimeError: CUDA error: operation not permitted when stream is capturing"
    )


def test_a_follower_is_told_tokens_and_ends_a_replayed_answer(recorded):
    class Leaving:
        def __init__(self):
            self.left, self.told = 3, []

        def wants_more(self):
            self.left -= 1
            return self.left > 0

        def write(self, token):
            self.told.append(token)

    model = transformer("post_norm")
    with torch.no_grad():
        model.output.weight[EOS] = 0.0
    again, greedy = recorded(model), SEARCHES["greedy"]
    for seed in range(3):
        follower = Leaving()
        sentences = asked(4, seed=seed)
        sentences[1] = replace(sentences[1], follower=follower)
        found = greedy(again, sentences)
        assert found[1][0].tokens == tuple(follower.told)
        assert (len(found[1][0].tokens), found[1][0].has_ended) == (3, False)
        assert len(found[0][0].tokens) == 6, "the others are answered to their end"
    assert again.recordings.said == RECORDED


def test_a_stepper_in_python_alone_is_searched_for_as_before(recorded):
    model, greedy = Table(7), Greedy(limits=LIMITS)
    again = recorded(model)
    sentences = [Sentence([4, 5]), Sentence([6])]
    for _ in range(3):
        assert greedy(again, sentences) == greedy(model, sentences)
    assert greedy(again, []) == []


def test_a_loaded_run_replays_its_searches_and_each_answer_says_so(tmp_path, monkeypatch, capsys):
    path, texts = make_run(tmp_path / "run"), ["a b c", "d e a", "c c b", "e d"]
    plain = load(path, device="cpu", threads=1).predict(texts)
    monkeypatch.setattr(recordings, "GRAPH_CAPTURES", {"cpu": lambda device: CpuCapture()})
    trained = load(path, device="cpu", threads=1)
    ways = []
    for _ in range(3):
        found = trained.predict(texts)
        assert [one.text for one in found] == [one.text for one in plain]
        ways.append({one.search for one in found})
    assert ways == [{"plain: the first batch of its shape"}, {RECORDED}, {RECORDED}]
    assert trained.searches == "1 times plain: the first batch of its shape; 2 times recorded"
    free_memory(trained)
    assert trained.predict(texts)[0].search == "plain: the first batch of its shape"
    assert main(["predict", str(path), "--text", "a b", "--json", "--threads", "1"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["search"] == "plain: the first batch of its shape"
