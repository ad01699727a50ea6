"""Answers to texts by a search: cut, split or refused where a text is too long, then decoded."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from regard.choices import find
from regard.data.kinds import EOS, UNK
from regard.decoding import Hypothesis, Search, Sentence
from regard.decoding.batching import decode_each
from regard.errors import SettingError
from regard.inspecting.record import Record
from regard.inspecting.text_record import reads_answers
from regard.tasks.constraint_tokens import wished
from regard.tasks.long_texts import in_pieces
from regard.tasks.predictions import (
    AnswerOptions,
    Prediction,
    Request,
    WithPrecision,
    cut_note,
    joined,
    left_out,
    prediction,
)
from regard.tasks.ready_run import ReadyRun
from regard.tasks.unknown_words import replaced
from regard.tasks.word_links import alignment, check_links, links


def answer_each(
    run: ReadyRun, requests: Sequence[Request], options: AnswerOptions, *, stays_whole: bool
) -> Iterator[tuple[int, Prediction]]:
    """Answers as they come, each with the place of its request.

    Args:
        run: what answers.
        requests: the texts.
        options: how they are answered.
        stays_whole: whether no text may be answered in pieces.
    """
    if options.has_alignments or options.dictionary is not None:
        # before the long search
        check_links(run.loaded)
    _check_can_be_begun(run, requests)
    shorten = find(options.on_long, ON_LONG)
    pieces: list[tuple[int, Request]] = []
    for place, request in enumerate(requests):
        parts = (
            shorten(run, request, stays_whole=stays_whole) if is_long(run, request) else [request]
        )
        pieces += [(place, part) for part in parts]
    waiting: dict[int, dict[int, Prediction]] = {}
    counts = Counter(place for place, _ in pieces)
    for place, request in enumerate(requests):
        if place not in counts:
            yield place, left_out(request, run.longest)
    sentences = [_sentence(run, request) for _, request in pieces]
    search, device = WithPrecision(options.search, run.hardware), run.hardware.device
    for number, hypotheses in decode_each(run.stepper, sentences, search, device=device):
        place, request = pieces[number]
        parts_of = waiting.setdefault(place, {})
        parts_of[number] = _prediction(run, request, hypotheses, options)
        if len(parts_of) == counts[place]:
            yield place, joined(requests[place], [parts_of[key] for key in sorted(parts_of)])


def look_at_answer(run: ReadyRun, text: str, search: Search) -> Record:
    """Every weight with which the best answer to a text was written."""
    sentence, exact = _sentence(run, Request(text)), WithPrecision(search, run.hardware)
    with run.hardware.on_threads():
        found = exact(run.stepper, [sentence], device=run.hardware.device)[0][0]
    return replace(run.read_over(run.read(text), found.tokens), note=cut_note(found))


def is_long(run: ReadyRun, request: Request) -> bool:
    """Whether a text has more tokens than the model reads."""
    # counting the tokens of a much too long text would take long
    fewest = run.loaded.source.fewest(run.read(request.text)) + 1
    return fewest > run.longest or run.length(request.text) > run.longest


def refuse_long(run: ReadyRun, request: Request, *, stays_whole: bool) -> list[Request]:
    """Raise the error of a text that is too long."""
    parted = "have such texts split or skipped (--on-long)"
    whole = "leave such texts out (--on-long skip)"
    run.check_length(request, whole if stays_whole else parted)
    return [request]


def _split(run: ReadyRun, request: Request, *, stays_whole: bool) -> list[Request]:
    if stays_whole:
        refuse_long(run, request, stays_whole=True)
    if request.must_contain:
        raise SettingError(
            "a text that is split cannot have phrases that its answer must contain: nobody knows "
            "in which piece. Shorten it, or leave the phrases out."
        )
    first, *rest = in_pieces(request.text, run.longest, run.length)
    return [replace(request, text=first), *(Request(part, seed=request.seed) for part in rest)]


def _skip(run: ReadyRun, request: Request, *, stays_whole: bool) -> list[Request]:
    return []


@runtime_checkable
class Shorten(Protocol):
    """What becomes of a text that is longer than the model can read."""

    def __call__(self, run: ReadyRun, request: Request, *, stays_whole: bool) -> list[Request]:
        """The requests that are answered instead."""


ON_LONG: Mapping[str, Shorten] = {
    "error": refuse_long,
    "skip": _skip,
    "split": _split,
}
"""By the name that --on-long takes."""


def _check_can_be_begun(run: ReadyRun, requests: Sequence[Request]) -> None:
    """Refuse prefixes where the model labels each place of a text and reads no answer."""
    given = any(one.prefix or one.must_contain for one in requests)
    if given and not reads_answers(run.loaded.model):
        raise SettingError(
            f"predict: the run '{run.path}' says what each place of a text is, whatever an "
            "answer begins with: a prefix and phrases to hold have no meaning for it. Leave "
            "them out."
        )


def _sentence(run: ReadyRun, request: Request) -> Sentence:
    read = [*run.loaded.source.encode(run.read(request.text)), EOS]
    return replace(wished(run.loaded, request), source=read)


def _prediction(
    run: ReadyRun, request: Request, hypotheses: Sequence[Hypothesis], options: AnswerOptions
) -> Prediction:
    found = prediction(
        request.text,
        hypotheses,
        run.loaded.target,
        lambda one: _written(run, request.text, one, options.dictionary),
    )
    if not options.has_alignments:
        return found
    return replace(found, alignment=alignment(run.loaded, request.text, hypotheses[0]))


def _written(
    run: ReadyRun, text: str, one: Hypothesis, dictionary: Mapping[str, str] | None
) -> str:
    """The text of an answer, its unknown words replaced if there is a dictionary."""
    written = run.loaded.target.decode(one.tokens)
    if dictionary is None or UNK not in one.tokens:
        return written
    read = run.read(text)
    return replaced(written, read.split(), links(run.loaded, read, one.tokens), dictionary)
