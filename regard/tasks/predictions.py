"""Requests and predictions: what a caller asks of a run, and what the run answers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import torch

from regard.data.subwords import Subwords
from regard.decoding import Hypothesis, Search, Sentence
from regard.errors import DataError
from regard.hardware.hardware import Hardware
from regard.models import Stepper


@final
@dataclass(frozen=True)
class WithPrecision:
    """A search whose products are made in the precision of a hardware."""

    search: Search
    hardware: Hardware

    def __call__(
        self, model: Stepper, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """Search."""
        with self.hardware.products():
            return self.search(model, sentences, device=device)


@dataclass(frozen=True)
class Request:
    """A text to answer, and what its answer must look like."""

    text: str
    prefix: str = ""
    """What the answer begins with."""
    must_contain: Sequence[str] = ()
    """Phrases that the answer holds; beam search only."""
    seed: int = 0
    """Of its draws, when it is sampled."""
    name: str = "a text"
    """What an error calls it, such as line 7."""


@dataclass(frozen=True)
class Answer:
    """One answer to a text."""

    text: str
    score: float
    tokens: tuple[str, ...]


@dataclass(frozen=True)
class Candidate:
    """A word for a hidden one."""

    text: str
    probability: float


@dataclass(frozen=True)
class Prediction:
    """The best answer to a text, and the others that were asked for."""

    source: str
    text: str
    score: float
    tokens: tuple[str, ...]
    alignment: str | None = None
    """Links between words in Pharaoh format, if they were asked for."""
    n_best: tuple[Answer, ...] = ()
    """All answers, best first."""
    note: str | None = None
    """What a reader should know: that a text was left out, answered in pieces, or cut; that a
    picture could not be read."""
    candidates: tuple[tuple[Candidate, ...], ...] = ()
    """For each hidden word of the text, the likeliest words, where a run fills them in."""


@dataclass(frozen=True)
class AnswerOptions:
    """How requests are to be answered."""

    search: Search
    has_alignments: bool = False
    on_long: str = "error"
    dictionary: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ReadOnlyAnswers:
    """Answers that one pass over a text gives, with the probabilities of their pieces."""

    answers: tuple[Answer, ...] = ()
    probabilities: tuple[tuple[float, ...], ...] = ()
    """Of the pieces of each answer; different pieces may look alike, so their texts do not tell."""
    note: str | None = None


def cut_note(answer: Hypothesis) -> str | None:
    """What to say of an answer that did not end by itself."""
    return None if answer.has_ended else "the answer was cut at the longest allowed"


def prediction(
    source: str,
    hypotheses: Sequence[Hypothesis],
    target: Subwords,
    written: Callable[[Hypothesis], str],
) -> Prediction:
    """All answers to a source, the best of them first.

    Args:
        source: what was asked.
        hypotheses: what a search found.
        target: the sub-words of answers.
        written: a hypothesis as text.
    """
    answers = tuple(
        Answer(written(one), one.score, tuple(target.readable(token) for token in one.tokens))
        for one in hypotheses
    )
    best = answers[0]
    return Prediction(
        source=source,
        text=best.text,
        score=best.score,
        tokens=best.tokens,
        n_best=answers,
        note=cut_note(hypotheses[0]),
    )


def without_answer(request: Request) -> Prediction:
    """An empty answer to a text that has nothing to answer; what it should hold is told."""
    is_plain = not (request.prefix or request.must_contain)
    note = "the text is empty, and so is its answer: it has no prefix and no phrases"
    return Prediction(request.text, "", 0.0, (), note=None if is_plain else note)


def left_out(request: Request, longest: int) -> Prediction:
    """No answer, to a text that is longer than the model reads."""
    note = f"left out: the text has more tokens than the {longest:,} that the model reads"
    return Prediction(request.text, "", float("nan"), (), note=note)


def _cut_of(parts: Sequence[Prediction]) -> str:
    n_cut = sum(part.note is not None for part in parts)
    return f"; {n_cut} answers of pieces were cut at the longest allowed" if n_cut else ""


def joined(request: Request, parts: Sequence[Prediction]) -> Prediction:
    """One prediction of several pieces of a text; a text in one piece stays as it is."""
    if len(parts) == 1:
        return parts[0]
    return Prediction(
        source=request.text,
        text=" ".join(part.text for part in parts),
        score=sum(part.score for part in parts),
        tokens=tuple(token for part in parts for token in part.tokens),
        note=f"answered in {len(parts)} pieces, since the text is too long for the model; the "
        f"whole has neither alignment nor n-best list{_cut_of(parts)}",
    )


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


def one_line(text: str) -> str:
    """A text without line breaks."""
    return " ".join(text.splitlines())


def check_are_several(texts: object, who: str) -> None:
    """Reject a string where a list of texts is expected."""
    if isinstance(texts, str):
        raise DataError(
            f"{who}: expected a list of texts, got the text '{texts[:40]}'. Write [text]."
        )
