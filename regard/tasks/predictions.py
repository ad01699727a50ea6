"""Requests, the inputs that a run is to answer, and predictions, its answers."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from reprlib import repr as shortened
from typing import Any, NamedTuple, final

import torch

from regard.data.subwords import Subwords
from regard.decoding import Decodable, Follower, Hypothesis, Sampling, Search, Sentence
from regard.errors import DataError, SettingError, counted
from regard.hardware.hardware import Hardware

MAX_NAMED_TEXTS, MAX_NAMED_WORDS = 3, 5
"""How many texts, and how many words of each, a note names."""


@final
@dataclass(frozen=True)
class WithPrecision:
    """A search whose matrix products have the precision of a hardware setting."""

    search: Search
    hardware: Hardware

    def __call__(
        self, model: Decodable, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """Search."""
        with self.hardware.products():
            return self.search(model, sentences, device=device)


@dataclass(frozen=True)
class Request:
    """A text to answer, and constraints on the answer."""

    text: str
    prefix: str = ""
    """The beginning of the answer."""
    must_contain: Sequence[str] = ()
    """Phrases that the answer holds; beam search only."""
    seed: int = 0
    """The seed of its draws, if the answer is sampled."""
    name: str = "a text"
    """Its name in errors, such as line 7."""
    follower: Follower | None = None
    """Who follows the search for the answer, and may end it."""
    tokens: Sequence[int] | None = None
    """The tokens of its text without the end token, if it was read ahead."""

    def read_as(self, tokens: Sequence[int]) -> "Request":
        """The same with the tokens of its text."""
        # several times as fast as `replace`
        return Request(
            self.text, self.prefix, self.must_contain, self.seed, self.name, self.follower, tokens
        )


@dataclass(frozen=True)
class Answer:
    """One answer to a text."""

    text: str
    score: float
    tokens: tuple[str, ...]
    has_ended: bool = True
    """Whether the model ended it; if not, a limit cut it."""


@dataclass(frozen=True)
class WordCandidate:
    """A candidate for a hidden word or for a label."""

    text: str
    probability: float


@dataclass(frozen=True)
class Prediction:
    """The best answer to a text, and the others that were requested."""

    source: str
    text: str
    score: float
    tokens: tuple[str, ...]
    alignment: str | None = None
    """Links between words in Pharaoh format, if they were requested."""
    n_best: tuple[Answer, ...] = ()
    """All answers, best first."""
    note: str | None = None
    """A note for the reader: a text was left out, answered in pieces or cut, or a picture could not
    be read."""
    has_ended: bool = True
    """Whether the model ended the best answer, or all pieces of it; if not, a limit cut it."""
    candidates: tuple[tuple[WordCandidate, ...], ...] = ()
    """For each hidden word of the text, the likeliest words, where a run fills them in; for each
    label, the likeliest labels."""
    unseen: tuple[str, ...] = ()
    """Words of the text that no training text of the run had, nor their pieces."""
    search: str = ""
    """Where recordings can be replayed: "recorded", or "plain" and the reason."""

    def __repr__(self) -> str:
        note = "" if self.note is None else f", note={shortened(self.note)}"
        texts = f"{shortened(self.source)} → {shortened(self.text)}"
        return f"Prediction({texts}, score={self.score:.4f}{note})"

    @classmethod
    def of(
        cls, source: str, answers: Sequence[Answer], *, note: str | None, search: str = ""
    ) -> "Prediction":
        """All answers to a source, the best of them first."""
        best = answers[0]
        return cls(
            source, best.text, best.score, best.tokens, n_best=tuple(answers), note=note,
            has_ended=best.has_ended, search=search,
        )  # fmt: skip


@dataclass(frozen=True)
class AnswerOptions:
    """How requests are to be answered."""

    search: Search
    has_alignments: bool = False
    on_long: str = "error"
    dictionary: Mapping[str, str] | None = None
    has_probabilities: bool = False
    """Whether labels come with the probabilities of all labels."""


class ReadOnlyAnswers(NamedTuple):
    """Answers from one pass over a text, and the probability of each piece."""

    prediction: Prediction
    probabilities: tuple[tuple[float, ...], ...] = ()
    """For each answer, those of its pieces; pieces with equal texts may differ in probability."""


def cut_note(answer: Hypothesis) -> str | None:
    """A note for an answer without an end token."""
    return None if answer.has_ended else "the answer was cut at the longest allowed"


def prediction(
    source: str,
    hypotheses: Sequence[Hypothesis],
    target: Subwords,
    written: Callable[[Hypothesis], str] | None = None,
    *,
    search: str = "",
) -> Prediction:
    """The prediction from a search's hypotheses; `written`, if given, makes their texts.

    `search` says how they were searched for.
    """
    answers = [
        Answer(
            target.decode(one.tokens) if written is None else written(one),
            one.score,
            tuple(map(target.readable, one.tokens)),
            one.has_ended,
        )
        for one in hypotheses
    ]
    return Prediction.of(source, answers, note=cut_note(hypotheses[0]), search=search)


def without_answer(request: Request) -> Prediction:
    """An empty answer to a blank text; a note says so if it had a prefix or phrases."""
    is_plain = not (request.prefix or request.must_contain)
    note = "the text is empty, and so is its answer: it has no prefix and no phrases"
    return Prediction(request.text, "", 0.0, (), note=None if is_plain else note)


def left_out(
    requests: Sequence[Request], pieces: Sequence[tuple[int, Request]], longest: int
) -> Iterator[tuple[int, Prediction]]:
    """An empty prediction for each text without pieces: it is longer than the model reads."""
    note = f"left out: the text has more tokens than the {longest:,} that the model reads"
    for place in sorted({*range(len(requests))} - {place for place, _ in pieces}):
        yield place, Prediction(requests[place].text, "", math.nan, (), note=note)


def joined(request: Request, parts: Sequence[Prediction]) -> Prediction:
    """One prediction of several pieces of a text; a text in one piece stays as it is."""
    if len(parts) == 1:
        return parts[0]
    n_cut = sum(part.note is not None for part in parts)
    cut = f"; {n_cut} answers of pieces were cut at the longest allowed" if n_cut else ""
    return Prediction(
        source=request.text,
        text=" ".join(part.text for part in parts),
        score=sum(part.score for part in parts),
        tokens=tuple(token for part in parts for token in part.tokens),
        has_ended=all(part.has_ended for part in parts),
        note=f"answered in {len(parts)} pieces, since the text is too long for the model; the "
        f"whole has neither alignment nor n-best list{cut}",
    )


def unseen_note(unseen: Mapping[str, Sequence[str]], count: int) -> str | None:
    """A sentence on words that no training text had, by the names of the texts that hold them.

    `count` is the number of all texts.
    """
    if not unseen:
        return None
    some = list(unseen.items())[:MAX_NAMED_TEXTS]
    named = "; ".join(f"{name}: {_some_words(words)}" for name, words in some)
    more = "; …" if len(unseen) > len(some) else ""
    has = "has" if len(unseen) == 1 else "have"
    return (
        f"{len(unseen):,} of {counted(count, 'text')} {has} words that no training text of the run "
        f"had ({named}{more}): of these the model knows nothing"
    )


def unseen_words_note(words: Sequence[str]) -> str | None:
    """The same of a single text."""
    if not words:
        return None
    return (
        f"no training text of the run had these words: {_some_words(words)}; of them the model "
        "knows nothing"
    )


def _some_words(words: Sequence[str]) -> str:
    more = ", …" if len(words) > MAX_NAMED_WORDS else ""
    return ", ".join(f"'{word}'" for word in words[:MAX_NAMED_WORDS]) + more


def answer_line(answer: Prediction) -> str:
    """The best answer on one line, with its alignment or its candidates after tabs."""
    parts = [one_line(answer.text), *([] if answer.alignment is None else [answer.alignment])]
    if any(len(words) > 1 for words in answer.candidates):
        parts += [
            ", ".join(f"{word.text} {word.probability:.4f}" for word in words)
            for words in answer.candidates
        ]
    return "\t".join(parts)


def n_best_lines(number: int, answer: Prediction) -> str:
    """All answers to a request, a line each; only the best has an alignment."""
    answers = answer.n_best or (Answer(answer.text, answer.score, answer.tokens),)
    # a request that was left out has no score
    scores = ("" if math.isnan(one.score) else f"{one.score:.4f}" for one in answers)
    lines = [
        "\t".join([str(number), score, one_line(one.text)])
        for score, one in zip(scores, answers, strict=True)
    ]
    if answer.alignment is not None:
        lines[0] += f"\t{answer.alignment}"
    return "\n".join(lines)


def check_no_search(does: str, requests: Sequence[Request], options: AnswerOptions) -> None:
    """Refuse what has a meaning for a search alone, of a run that `does` something else."""
    asked = {
        "a prefix": any(one.prefix for one in requests),
        "phrases to hold": any(one.must_contain for one in requests),
        "alignments": options.has_alignments,
        "replaced unknown words": options.dictionary is not None,
        "sampling": isinstance(options.search, Sampling),
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise SettingError(
                f"predict: this run {does}, and {what} has no meaning for it. Leave it out."
            )


def one_line(text: str) -> str:
    """A text without line breaks."""
    return " ".join(text.splitlines())


def listed_texts(texts: object, who: str) -> list[Any]:
    """Texts as a list, read once, so that a generator serves; anything else is refused."""
    if isinstance(texts, str):
        raise DataError(
            f"{who}: expected a list of texts, got the text '{texts[:40]}'. Write [text]."
        )
    if not isinstance(texts, Iterable):
        raise DataError(f"{who}: expected a list of texts, got {texts!r:.40}. Write [text].")
    listed = list(texts)
    for place, text in enumerate(listed):
        if not isinstance(text, str | Request):
            kind = type(text).__name__
            raise DataError(
                f"{who}: expected a list of texts, got {text!r:.40} ({kind}) at place {place}. "
                "Write each as a text, in quotation marks."
            )
    return listed


def check_is_text(text: object, who: str) -> None:
    """Refuse what is no text where one is expected, such as a list of them."""
    if not isinstance(text, str):
        raise DataError(
            f"{who}: expected one text, got {text!r:.40} ({type(text).__name__}). Write a text in "
            "quotation marks; several are asked one after another."
        )
