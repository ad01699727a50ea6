"""Recordings, on a stand-in for CUDA graphs: the same operations into the same memory."""

import json
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.cli import main
from regard.decoding import (
    Beam,
    Ensemble,
    Forbidden,
    Greedy,
    Limits,
    NoRepeatedNgrams,
    RepetitionPenalty,
    Sampling,
    Sentence,
    trellis,
)
from regard.decoding.gpu import recordings
from regard.decoding.gpu.recorded_steps import Recording
from regard.decoding.gpu.recordings import RECORDED, RecordedModel, Recordings
from regard.models.captioner.network import Album
from regard.models.stepper import EOS
from regard.runs.trained import load
from tests.decoding.writers import SPECS, Table, language_model, other_model, transformer
from tests.factories import make_run
from tests.models.captioner.small import SOFT, TRANSFORMER, annotations, build

aten = torch.ops.aten
WAITS = (aten._local_scalar_dense.default, aten.nonzero.default)
"""How tensors become numbers or shapes, which leaves the device."""


class Operations(TorchDispatchMode):
    """Writes down what is done, and does it again into the same tensors."""

    def __init__(self):
        super().__init__()
        self.done = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        # a list becomes a tensor on the host; a lone number is filled in by a kernel
        if operation in WAITS or (operation is aten.lift_fresh.default and args[0].dim()):
            raise RuntimeError(f"{operation} cannot be captured")
        found = operation(*args, **(kwargs or {}))
        self.done.append((operation, args, kwargs or {}, found))
        return found

    def replay(self):
        for operation, args, kwargs, before in self.done:
            new = operation(*args, **kwargs)
            for place, each in zip(_tensors(before), _tensors(new), strict=True):
                if place.data_ptr() != each.data_ptr():
                    place.copy_(each)


def _tensors(found):
    several = found if isinstance(found, list | tuple) else [found]
    return [each for each in several if isinstance(each, torch.Tensor)]


class CpuCapture:
    """A stand-in for CUDA graphs on a CPU: a capture computes nothing that counts."""

    n_captured, is_full = 0, False

    def has_room(self):
        return not self.is_full

    def capture_graph(self, work):
        type(self).n_captured += 1
        with Operations() as operations:
            found = work()
        return found, operations.replay


@pytest.fixture
def recorded(monkeypatch):
    """Makes a model whose searches are recorded on the CPU; no sentence leaves a plain batch."""
    monkeypatch.setattr(CpuCapture, "n_captured", 0)
    # batches that shrink are rounded otherwise
    monkeypatch.setattr(trellis, "DONE_SHARE", 2)
    return lambda model: RecordedModel(model, Recordings(CpuCapture))


LIMITS = Limits(max_tokens=6)
RULES = (RepetitionPenalty(1.5), NoRepeatedNgrams(2), Forbidden((5, 7)))
SEARCHES = {
    "greedy": Greedy(limits=LIMITS),
    "beam": Beam(width=3, n_best=3, limits=LIMITS),
    "beam with rules": Beam(width=3, n_best=2, limits=LIMITS, rules=RULES),
    "sampling": Sampling(n_samples=2, top_p=0.9, limits=LIMITS),
}
MODELS = {
    "transformer": lambda: transformer("post_norm"),
    "language model": lambda: language_model("rotary"),
    "recurrent": lambda: other_model("luong"),
    "ensemble": lambda: Ensemble([transformer("post_norm"), transformer("shaw")]),
}


def asked(n, n_tokens=8, *, seed=0, prefix=()):
    rows = torch.randint(4, 11, (n, n_tokens), generator=torch.Generator().manual_seed(seed))
    return [Sentence(row, seed=i + seed, prefix=prefix) for i, row in enumerate(rows.tolist())]


def single(model):
    """The same model in float32, in which users search."""
    parts = model.models if isinstance(model, Ensemble) else [model]
    for part in parts:
        part.float()
    return model


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


def again_is_plain(again, model, search, sentences):
    return search(again, sentences) == search(model, sentences)


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


def test_a_recording_that_answers_otherwise_than_the_plain_search_is_never_used(
    recorded, monkeypatch
):
    model, beam = transformer("post_norm"), SEARCHES["beam"]
    again = recorded(model)
    # as if a graph held the numbers of the batch that it was captured with
    monkeypatch.setattr(Recording, "begin", lambda self, given: self._read())
    for seed in range(3):
        assert again_is_plain(again, model, beam, asked(4, seed=seed))
    assert again.recordings.said.startswith(
        "plain: RuntimeError: the recording answers otherwise than the plain search: a score of -"
    )


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


def assert_close_answers(found, want):
    for one, other in zip(found, want, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-9)


def test_two_streams_at_once_do_not_share_a_recording(recorded):
    model, greedy = transformer("post_norm"), SEARCHES["greedy"]
    again = recorded(model)
    first, second = asked(2)
    want = [list(greedy.stream(model, one)) for one in (first, second)]
    for _ in range(2):
        list(greedy.stream(again, first))
    streams = [greedy.stream(again, one) for one in (first, second)]
    found = [[], []]
    for _ in range(8):
        for place, stream in enumerate(streams):
            found[place] += [token for token in [next(stream, None)] if token is not None]
    assert found == want
    assert again.recordings.said == "plain: another search replays the same recording"


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


def test_only_so_many_shapes_are_recorded(recorded, monkeypatch):
    monkeypatch.setattr(recordings, "MAX_RECORDINGS", 1)
    model, greedy = transformer("post_norm"), SEARCHES["greedy"]
    again = recorded(model)
    for n in (1, 1, 2, 2):
        greedy(again, asked(n))
    assert again.recordings.said == "plain: no more than 1 shape of a run are recorded"


def test_nothing_is_recorded_without_memory(recorded, monkeypatch):
    monkeypatch.setattr(CpuCapture, "is_full", True)
    model, greedy = transformer("post_norm"), SEARCHES["greedy"]
    again = recorded(model)
    for _ in range(2):
        assert again_is_plain(again, model, greedy, asked(2))
    assert again.recordings.said == (
        "plain: recordings and weights hold half of the memory already"
    )


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
    monkeypatch.setattr(recordings, "GRAPH_CAPTURES", {"cpu": CpuCapture})
    trained = load(path, device="cpu", threads=1)
    ways = []
    for _ in range(3):
        found = trained.predict(texts)
        assert [one.text for one in found] == [one.text for one in plain]
        ways.append({one.search for one in found})
    assert ways == [{"plain: the first batch of its shape"}, {RECORDED}, {RECORDED}]
    assert trained.searches == "1 times plain: the first batch of its shape; 2 times recorded"
    assert main(["predict", str(path), "--text", "a b", "--json", "--threads", "1"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["search"] == "plain: the first batch of its shape"
