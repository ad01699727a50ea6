"""Recordings of one model: one is replayed at a time, and their memory is given back."""

import gc
import weakref
from dataclasses import replace

import pytest
import torch

from regard.decoding import Beam, Ensemble, Limits, Sampling, Sentence
from regard.decoding.gpu import recordings
from regard.decoding.gpu.recorded_steps import Recording
from regard.decoding.gpu.recordings import RECORDED
from regard.models.captioner.network import Album
from regard.models.stepper import EOS
from tests.decoding.gpu.cpu_capture import (
    LIMITS,
    SEARCHES,
    CpuCapture,
    again_is_plain,
    asked,
    single,
)
from tests.decoding.writers import transformer
from tests.models.captioner.small import SOFT, annotations, build


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
    assert again.recordings.said == "plain: another search replays a recording"


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


def test_streams_of_two_shapes_do_not_run_in_the_memory_that_recordings_share(recorded):
    model, greedy = transformer("post_norm"), SEARCHES["greedy"]
    again = recorded(model)
    first, second = asked(1)[0], asked(1, 16)[0]
    for one in (first, first, second, second):
        list(greedy.stream(again, one))
    ways = []
    for one in (first, second):
        stream = greedy.stream(again, one)
        next(stream)
        ways.append((again.recordings.said, stream))
    assert [said for said, _ in ways] == [RECORDED, "plain: another search replays a recording"]
    ways[0][1].close()
    list(greedy.stream(again, second))
    assert again.recordings.said == RECORDED


def test_a_recording_is_given_out_once_until_it_is_released(recorded):
    shared, made = recorded(transformer("post_norm")).recordings, object.__new__(Recording)
    for _ in range(2):
        found = shared.ready(("key",), lambda capture: made)
    assert (found, shared.ready(("key",), lambda capture: made)) == (made, None)
    shared.release()
    assert shared.ready(("key",), lambda capture: made) is made


def test_a_replay_that_cannot_begin_lets_the_next_one_begin(recorded, monkeypatch):
    model, greedy = transformer("post_norm"), SEARCHES["greedy"]
    again = recorded(model)
    for _ in range(2):
        greedy(again, asked(2))
    with monkeypatch.context() as patch:
        patch.setattr(Recording, "begin", lambda self, given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            greedy(again, asked(2))
    assert again_is_plain(again, model, greedy, asked(2))
    assert again.recordings.said == RECORDED


def test_recordings_are_freed_and_made_anew(recorded):
    model, greedy = transformer("post_norm"), SEARCHES["greedy"]
    again = recorded(model)
    for _ in range(2):
        greedy(again, asked(2))
    again.recordings.free()
    ways = []
    for _ in range(2):
        assert again_is_plain(again, model, greedy, asked(2))
        ways.append(again.recordings.said)
    assert ways == ["plain: the first batch of its shape", RECORDED]


def test_all_recordings_are_freed_when_a_capture_runs_out_of_memory(recorded, monkeypatch):
    model, greedy = transformer("post_norm"), SEARCHES["greedy"]
    again = recorded(model)
    for _ in range(2):
        greedy(again, asked(2))

    def fails(self, work):
        raise torch.OutOfMemoryError("injected")

    monkeypatch.setattr(CpuCapture, "capture_graph", fails)
    for _ in range(2):
        assert again_is_plain(again, model, greedy, asked(4))
    assert again.recordings.said == "plain: OutOfMemoryError: injected"
    greedy(again, asked(2))
    assert again.recordings.said == "plain: the first batch of its shape"


@pytest.mark.parametrize("change", ["other weights", "other numbers"])
@pytest.mark.parametrize("several", [False, True])
def test_recordings_are_made_anew_once_the_weights_lie_elsewhere(change, several, recorded):
    one, beam = single(transformer("post_norm")), SEARCHES["beam"]
    model = Ensemble([one, transformer("shaw").float()]) if several else one
    again = recorded(model)
    for _ in range(2):
        beam(again, asked(2))
    if change == "other numbers":
        one.double()
    else:
        weights = {name: weight.flip(0) for name, weight in one.state_dict().items()}
        one.load_state_dict(weights, assign=True)
    ways = []
    for _ in range(2):
        assert again_is_plain(again, model, beam, asked(2))
        ways.append(again.recordings.said)
    assert ways == ["plain: the first batch of its shape", RECORDED]


def test_the_draws_of_every_seed_are_replayed_by_one_recording(recorded):
    model = transformer("post_norm")
    again = recorded(model)
    for seed in range(3):
        search = Sampling(n_samples=2, seed=seed, limits=LIMITS)
        assert again_is_plain(again, model, search, asked(2))
    assert again.recordings.said == RECORDED


def test_only_so_many_shapes_are_remembered(recorded, monkeypatch):
    monkeypatch.setattr(recordings, "MAX_SEEN", 2)
    model = transformer("post_norm")
    again = recorded(model)
    for max_tokens in (1, 2, 3, 1):
        Beam(width=2, limits=Limits(max_tokens=max_tokens))(again, asked(1))
    assert again.recordings.counts == {"plain: the first batch of its shape": 4}


def test_a_recording_keeps_no_pictures(recorded):
    model = build(SOFT).float()
    again, seen = recorded(model), annotations(2).float()
    sentences = [Sentence([i]) for i in range(2)]
    albums = []
    for _ in range(3):
        album = again.reading(lambda writer: Album(writer, seen.__getitem__))
        albums.append(weakref.ref(album.model))
        SEARCHES["greedy"](album, sentences)
        del album
    gc.collect()
    assert again.recordings.said == RECORDED
    assert [album() for album in albums] == [None] * 3


class Leaving:
    """A follower that wants three tokens."""

    def __init__(self):
        self.left = 3

    def wants_more(self):
        self.left -= 1
        return self.left > 0

    def write(self, token):
        """The test reads the stream instead."""


def test_a_replayed_stream_ends_with_its_answer(recorded):
    model, greedy = transformer("post_norm"), SEARCHES["greedy"]
    with torch.no_grad():
        # answers do not end by themselves
        model.output.weight[EOS] = 0.0
    again = recorded(model)
    for _ in range(3):
        one = replace(asked(1)[0], follower=Leaving())
        assert len(list(greedy.stream(again, one))) == 3
    assert again.recordings.said == RECORDED
