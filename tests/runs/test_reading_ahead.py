"""Reading ahead: inputs of any number, a few windows at a time, in their order."""

import threading
import time

import pytest

from regard.decoding import Greedy, Limits
from regard.runs import trained as trained_runs
from regard.runs.reading_ahead import windows
from regard.runs.trained import Request, load
from regard.tasks.predictions import AnswerOptions
from tests.factories import make_run

OPTIONS = AnswerOptions(Greedy(limits=Limits(max_tokens=4)))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return load(make_run(tmp_path_factory.mktemp("lines") / "run"), device="cpu")


def test_windows_hold_all_inputs_in_order_and_no_more_than_asked():
    found = list(windows(range(100), list, 7))
    assert [one for window in found for one in window] == list(range(100))
    assert max(map(len, found)) == 7
    assert list(windows([], list, 7)) == []


def test_an_endless_stream_is_read_a_few_windows_ahead_of_its_caller():
    taken = []

    def endless():
        while True:
            taken.append(len(taken))
            yield taken[-1]

    each = windows(endless(), list, 5)
    first = next(each)
    for _ in range(3):
        next(each)
    assert first == [0, 1, 2, 3, 4]
    # four are given, one is ready, one is read, and one is collected
    assert len(taken) <= 7 * 5 + 2
    each.close()


def test_a_window_is_given_as_soon_as_no_input_follows_at_once():
    comes = threading.Event()

    def slow():
        yield "first"
        comes.wait()
        yield "second"

    each = windows(slow(), list, 5)
    assert next(each) == ["first"]
    comes.set()
    assert list(each) == [["second"]]


def test_the_next_window_is_read_while_the_caller_works():
    read = threading.Event()

    def reads(window):
        if window[0] > 0:
            read.set()
        return window

    each = windows(range(4), reads, 2)
    next(each)
    assert read.wait(timeout=5), "the second window is read before it is asked for"
    each.close()


def test_an_error_comes_after_what_stood_before_it():
    def broken():
        yield 1
        raise ValueError("line 2 is broken")

    each = windows(broken(), list, 5)
    assert next(each) == [1]
    with pytest.raises(ValueError, match="line 2 is broken"):
        next(each)

    def refuses(window):
        raise ValueError(f"{window} cannot be read")

    with pytest.raises(ValueError, match=r"\[7\] cannot be read"):
        next(windows([7], refuses, 5))


def test_threads_end_when_their_caller_leaves():
    before = threading.active_count()
    each = windows(iter(int, 1), list, 3)
    next(each)
    each.close()
    for _ in range(100):
        if threading.active_count() <= before:
            break
        time.sleep(0.02)
    assert threading.active_count() <= before


def test_answers_to_lines_are_those_of_predict_in_order(trained, monkeypatch):
    monkeypatch.setattr(trained_runs, "LINES_PER_BATCH", 3)
    texts = ["a b c d e", "", "c", "d d d e", "b", "a a", "e d", "b c d"]
    lines = (Request(text) if i % 2 else text for i, text in enumerate(texts))
    found = [one.text for one in trained.predict_lines(lines, OPTIONS)]
    assert found == [one.text for one in trained.predict(texts, search=OPTIONS.search)]


def test_a_text_is_cut_into_pieces_once(trained, monkeypatch):
    source, cut = trained.loaded.source, []
    encode_all = source.encode_all

    def counted(texts):
        cut.extend(texts)
        return encode_all(texts)

    monkeypatch.setattr(source, "encode_all", counted)
    monkeypatch.setattr(source, "encode", lambda text: pytest.fail("cut a second time"))
    trained.predict(["a b", "c d e"], search=OPTIONS.search)
    assert cut == ["a b", "c d e"]


def test_a_stream_that_never_pauses_for_long_is_answered_before_a_window_is_full():
    def steady():
        for number in range(100):
            time.sleep(0.005)
            yield number

    found = list(windows(steady(), list, 1000))
    assert [one for window in found for one in window] == list(range(100))
    assert max(map(len, found)) < 50


def test_whatever_ends_a_thread_reaches_the_caller():
    class Panic(BaseException):
        """As libraries in other languages raise."""

    def panics(window):
        raise Panic

    def broken():
        yield "a"
        raise Panic

    with pytest.raises(Panic):
        list(windows("ab", panics, 5))
    with pytest.raises(Panic):
        list(windows(broken(), list, 5))
