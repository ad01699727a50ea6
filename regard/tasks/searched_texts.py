"""Answers to texts by a search: long texts are refused, left out or split, then all are decoded."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from regard.choices import find
from regard.data.subword_kinds import EOS, UNK, UNKNOWN
from regard.data.subwords import Subwords
from regard.decoding import (
    Decodable,
    Greedy,
    Hypothesis,
    Sampling,
    Search,
    SearchEngine,
    Sentence,
)
from regard.decoding.batching import decode_each
from regard.errors import SettingError
from regard.inspecting.record import Record
from regard.tasks.input_format import normalised_text
from regard.tasks.loaded_run import Loaded, LoadedRun
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
from regard.tasks.word_links import alignment, check_links, links, replaced

ON_LONG: Mapping[str, str] = {
    "error": "is refused",
    "skip": "is left out",
    "split": "is answered in pieces",
}
"""The treatments of a text that is too long for the model, by the value of --on-long."""


def answer_each(
    run: LoadedRun, requests: Sequence[Request], options: AnswerOptions, *, stays_whole: bool
) -> Iterator[tuple[int, Prediction]]:
    """Answers as they come, each with the place of its request.

    Where `stays_whole`, no text may be answered in pieces.
    """
    if options.has_alignments or options.dictionary is not None:
        # checked before the long search
        check_links(run.loaded)
    pieces = pieces_of(run, requests, options.on_long, stays_whole=stays_whole)
    yield from left_out(requests, pieces, run.longest)
    counts = Counter(place for place, _ in pieces)
    answered: dict[int, dict[int, Prediction]] = defaultdict(dict)
    sentences = [sentence_of(run, request) for _, request in pieces]
    search, device = WithPrecision(options.search, run.hardware), run.hardware.device
    for number, hypotheses in decode_each(run.stepper, sentences, search, device=device):
        place, request = pieces[number]
        found = _prediction(run, request, hypotheses, options)
        if counts[place] == 1:
            yield place, found
            continue
        parts = answered[place]
        parts[number] = found
        if len(parts) == counts[place]:
            yield place, joined(requests[place], [parts[key] for key in sorted(parts)])


def stream(run: LoadedRun, request: Request, search: Search) -> Iterator[str]:
    """The answer to a text in parts, each as soon as it is written; together they are all of it."""
    run.check_length(request)
    yield from streamed_text(run, run.stepper, sentence_of(run, request), search)


def streamed_text(
    run: LoadedRun, model: Decodable, sentence: Sentence, search: Search
) -> Iterator[str]:
    """The texts of the tokens of an answer, as they come."""
    if isinstance(model, SearchEngine):
        raise SettingError(
            f"stream: {run.engine_name} gives an answer at its end. Leave the engine out."
        )
    if not isinstance(search, Greedy | Sampling):
        raise SettingError(
            "stream: a beam knows its answer at the end alone. Take Greedy or Sampling."
        )
    target, ids, said = run.loaded.target, list[int](), ""
    tokens = search.stream(model, sentence, device=run.hardware.device)
    while True:
        # between two parts the caller has its own threads and precision
        with run.hardware.on_threads(), run.hardware.products():
            token = next(tokens, None)
        ids += [] if token is None else [token]
        text = target.decode(ids)
        # the first bytes of a character are no text yet
        ready = text if token is None else text.rstrip(UNKNOWN)
        if len(ready) > len(said):
            yield ready[len(said) :]
            said = ready
        if token is None:
            return


def look_at_answer(run: LoadedRun, text: str, search: Search) -> Record:
    """Every weight with which the best answer to a text was written."""
    sentence, exact = sentence_of(run, Request(text)), WithPrecision(search, run.hardware)
    with run.hardware.on_threads():
        found = exact(run.stepper, [sentence], device=run.hardware.device)[0][0]
    return replace(run.read_over(run.read(text), found.tokens), note=cut_note(found))


def pieces_of(
    run: LoadedRun, requests: Sequence[Request], on_long: str, *, stays_whole: bool
) -> list[tuple[int, Request]]:
    """Requests that the model can read, and pieces of longer ones, with their places."""
    find(on_long, ON_LONG, key="on_long")
    return [
        (place, piece)
        for place, request in enumerate(requests)
        for piece in _pieces(run, request, on_long, stays_whole=stays_whole)
    ]


def _pieces(
    run: LoadedRun, request: Request, on_long: str, *, stays_whole: bool
) -> Sequence[Request]:
    if request.tokens is None:
        request = run.read_ahead([request])[0]
    if request.tokens is not None and len(request.tokens) < run.longest:
        return [request]
    if on_long == "skip":
        return []
    if on_long == "error" or stays_whole:
        parted = "have such texts split or skipped (--on-long)"
        whole = "leave such texts out (--on-long skip)"
        run.check_length(request, whole if stays_whole else parted)
    if request.must_contain:
        raise SettingError(
            "a text that is split cannot have phrases that its answer must contain: no piece is "
            "known to hold them. Shorten it, or leave the phrases out."
        )
    first, *rest = in_pieces(request.text, run.longest, run.length)
    return [
        replace(request, text=first, tokens=None),
        *(replace(request, text=part, tokens=None, prefix="") for part in rest),
    ]


def constrained(loaded: Loaded, request: Request, source: Sequence[int] = ()) -> Sentence:
    """A source with the prefix and phrases of its answer, in the tokens of a run."""
    target = loaded.target
    if not (request.prefix or request.must_contain):
        return Sentence(source, prefix=target.before, seed=request.seed, follower=request.follower)
    prefix, *phrases = (
        normalised_text(loaded.recipe, text) for text in (request.prefix, *request.must_contain)
    )
    _check_are_known(target, [prefix, *phrases], request.name)
    return Sentence(
        source,
        prefix=target.encode(prefix) if prefix else target.before,
        must_contain=[target.encode_inside(phrase) for phrase in phrases],
        seed=request.seed,
        follower=request.follower,
    )


def _check_are_known(target: Subwords, texts: Sequence[str], name: str) -> None:
    """Refuse a word outside the vocabulary: any other unknown word would satisfy it."""
    unknown = next((word for word in " ".join(texts).split() if UNK in target.encode(word)), None)
    if unknown is not None:
        raise SettingError(
            f"predict: {name}: no answer of this run can hold '{unknown}', which is not in its "
            "vocabulary. Leave it out, or take a run of sub-words."
        )


def sentence_of(run: LoadedRun, request: Request) -> Sentence:
    """A request in the tokens of a run."""
    return constrained(run.loaded, request, [*run.tokens_of(request), EOS])


def _prediction(
    run: LoadedRun, request: Request, hypotheses: Sequence[Hypothesis], options: AnswerOptions
) -> Prediction:
    loaded = run.loaded

    def written(one: Hypothesis) -> str:
        text = loaded.target.decode(one.tokens)
        if options.dictionary is None or UNK not in one.tokens:
            return text
        read = run.read(request.text)
        return replaced(text, read.split(), links(loaded, read, one.tokens), options.dictionary)

    found = prediction(request.text, hypotheses, loaded.target, written, search=run.last_search)
    if not options.has_alignments:
        return found
    return replace(found, alignment=alignment(loaded, request.text, hypotheses[0]))
