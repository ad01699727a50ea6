"""Searches by CTranslate2, which mean what those of `regard.decoding` mean.

    score(y) = log p(y | source) / penalty(|y|)

CTranslate2 divides by a power of the length; here its scores are multiplied back, and divided and
ordered by the penalty of the search. Padding and begin count in the probabilities but are never
written: an answer that would hold one is searched again without them, and its log-probability read
off the model as it is.

Greedy search is the same function in both. A beam differs in one thing: there a finished
hypothesis leaves its place to another, here it keeps it, so that now and then the answer of a model
that is unsure differs.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol, final, overload, runtime_checkable

from regard.data.subword_kinds import BOS, EOS, PAD
from regard.data.subwords import Subwords
from regard.decoding import Beam, Hypothesis, LengthPenalty, Sentence
from regard.errors import SettingError
from regard.tasks.loaded_run import Loaded

LEAST_POWER = 1e-6
"""With the power 0 CTranslate2 stops at the first finished beam, whatever the number of answers."""
LENGTHS_OF_POWER = (32.0, 64.0)
PATIENCE = 2
"""How many answers, in widths of the beam, end a search there. Unlikely answers that end early
count: with 1, a search may end before the likely one does."""
END_TOKENS = (EOS, PAD, BOS)


Row = Sequence[Any]
"""The tokens of a hypothesis as CTranslate2 gives them: names, or numbers."""


class Found(NamedTuple):
    """The hypotheses of one sentence."""

    rows: Sequence[Row]
    """Each with the token that ended it, if one did."""
    log_probabilities: Sequence[float]


@runtime_checkable
class AnswerReader(Protocol):
    """Asks one class of CTranslate2's for answers, in its own terms."""

    def groups(self, sentences: Sequence[Sentence]) -> Iterator[list[int]]:
        """The sentences that can be searched together."""

    def found(
        self, model: Any, sentences: Sequence[Sentence], settings: Mapping[str, Any], most: int
    ) -> Iterator[tuple[list[Row], list[float]]]:
        """For each sentence its hypotheses, and their scores."""

    def number(self, token: Any) -> int:
        """The number of a token of a hypothesis."""

    def token_scores(
        self, model: Any, sentences: Sequence[Sentence], answers: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """The log-probability of each token of the answers."""


@final
class SourceReader:
    """For models with an encoder, by `ctranslate2.Translator`."""

    def __init__(self, loaded: Loaded) -> None:
        self.source, self.target = loaded.source.pieces, loaded.target.pieces
        self.numbers = {piece: number for number, piece in enumerate(self.target)}

    def groups(self, sentences: Sequence[Sentence]) -> Iterator[list[int]]:
        """All at once: padding is masked."""
        yield list(range(len(sentences)))

    def found(
        self, model: Any, sentences: Sequence[Sentence], settings: Mapping[str, Any], most: int
    ) -> Iterator[tuple[list[Row], list[float]]]:
        """For each sentence its hypotheses, and their scores."""
        results = model.translate_batch(
            self._read(sentences), max_input_length=0, max_decoding_length=most,
            min_decoding_length=settings["min_length"], **_without(settings, "min_length"),
        )  # fmt: skip
        for one in results:
            yield one.hypotheses, one.scores

    def number(self, token: Any) -> int:
        """The number of a piece."""
        return self.numbers[token]

    def token_scores(
        self, model: Any, sentences: Sequence[Sentence], answers: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """The log-probability of each token of the answers, and of the end token behind it."""
        targets = [[self.target[token] for token in answer] for answer in answers]
        scored = model.score_batch(self._read(sentences), targets, max_input_length=0)
        return [one.log_probs for one in scored]

    def _read(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        # the end token is put behind every source by the model's configuration
        return [[self.source[token] for token in one.source[:-1]] for one in sentences]


@final
class PromptReader:
    """For language models, by `ctranslate2.Generator`."""

    def __init__(self, loaded: Loaded) -> None:
        self.pieces, self.prompt = loaded.target.pieces, loaded.model.prompt

    def groups(self, sentences: Sequence[Sentence]) -> Iterator[list[int]]:
        """Prompts of one length: only those are read at once and searched alike."""
        by_length = defaultdict(list)
        for place, one in enumerate(sentences):
            by_length[len(self.prompt(one.source))].append(place)
        yield from by_length.values()

    def found(
        self, model: Any, sentences: Sequence[Sentence], settings: Mapping[str, Any], most: int
    ) -> Iterator[tuple[list[Row], list[float]]]:
        """For each sentence its hypotheses, and their scores."""
        results = model.generate_batch(
            self._read(sentences), include_prompt_in_result=False, max_length=most, **settings
        )
        for one in results:
            yield one.sequences_ids, one.scores

    def number(self, token: Any) -> int:
        """A token is a number."""
        return int(token)

    def token_scores(
        self, model: Any, sentences: Sequence[Sentence], answers: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """The log-probability of each token of the answers, and of the end token behind it."""
        prompts = self._read(sentences)
        rows = [
            [*prompt, *(self.pieces[token] for token in answer), self.pieces[EOS]]
            for prompt, answer in zip(prompts, answers, strict=True)
        ]
        scored = model.score_batch(rows, max_input_length=0)
        return [
            one.log_probs[len(prompt) - 1 :] for one, prompt in zip(scored, prompts, strict=True)
        ]

    def _read(self, sentences: Sequence[Sentence]) -> list[list[str]]:
        return [[self.pieces[token] for token in self.prompt(one.source)] for one in sentences]


READERS: Mapping[str, Callable[[Loaded], AnswerReader]] = {
    "Translator": SourceReader,
    "Generator": PromptReader,
}
"""By the class of CTranslate2's that opens a model."""


@final
class LazyNumbers(Sequence[float]):
    """Numbers that are computed once, when the first of them is read."""

    def __init__(self, compute: Callable[[], list[float]]) -> None:
        self._compute = compute

    @cached_property
    def _numbers(self) -> list[float]:
        return self._compute()

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, at: int) -> float: ...

    @overload
    def __getitem__(self, at: slice) -> list[float]: ...

    def __getitem__(self, at: int | slice) -> float | list[float]:
        return self._numbers[at]


@final
@dataclass(frozen=True)
class CTranslate2Search:
    """A model in CTranslate2, with which searches are called in place of a stepper."""

    engine_name: str
    model: Any
    reader: AnswerReader
    target: Subwords
    notes: tuple[str, ...] = ()
    """What the comparison with torch found."""

    def with_notes(self, notes: tuple[str, ...]) -> "CTranslate2Search":
        """The same with notes."""
        return replace(self, notes=notes)

    def search_beam(self, search: Beam, sentences: Sequence[Sentence]) -> list[list[Hypothesis]]:
        """The answers of each sentence; what CTranslate2 lacks is refused."""
        self._check(search, sentences)
        most = [search.limits.of(sentence) for sentence in sentences]
        answers: dict[int, Found] = {}
        for group in self.reader.groups(sentences):
            answers |= self._searched(search, sentences, group, max(most[i] for i in group))
        for place, found in list(answers.items()):
            if self._needs_another(found, most[place]):
                again = self._searched(search, sentences, [place], most[place], forbids=(PAD, BOS))
                answers[place] = self._exact(sentences[place], again[place])
        longest = max(len(row) for found in answers.values() for row in found.rows)
        divisors = [search.penalty.divisor(float(length)) for length in range(longest + 1)]
        return [
            self._best(answers[place], divisors, search.n_best, sentence)
            for place, sentence in enumerate(sentences)
        ]

    def _needs_another(self, found: Found, most: int) -> bool:
        """Whether an answer is longer than its own limit, or ends with what is never written."""
        lasts = [self.reader.number(token) for token in {row[-1] for row in found.rows if row}]
        if not {PAD, BOS}.isdisjoint(lasts):
            return True
        return max(map(len, found.rows)) > most and any(
            len(row) - (self.reader.number(row[-1]) == EOS) > most for row in found.rows
        )

    def _searched(
        self,
        search: Beam,
        sentences: Sequence[Sentence],
        places: Sequence[int],
        most: int,
        forbids: Sequence[int] = (),
    ) -> dict[int, Found]:
        power = _power(search.penalty)
        if search.n_best > 1:
            power = max(power, LEAST_POWER)
        is_greedy = search.width == 1
        settings: dict[str, Any] = {
            "beam_size": search.width,
            "num_hypotheses": 1 if is_greedy or not power else search.width * PATIENCE,
            "length_penalty": 0.0 if is_greedy else power,
            "patience": PATIENCE,
            "min_length": search.limits.min_tokens,
            "end_token": [token for token in END_TOKENS if token not in forbids],
            "suppress_sequences": [[self.target.pieces[token]] for token in forbids] or None,
            "return_end_token": True,
            "return_scores": True,
        }
        chosen = [sentences[place] for place in places]
        results = self.reader.found(self.model, chosen, settings, most)
        powers = [length ** settings["length_penalty"] for length in range(most + 2)]
        return {
            place: Found(
                rows,
                [score * powers[len(row)] for row, score in zip(rows, scores, strict=True)],
            )
            for place, (rows, scores) in zip(places, results, strict=True)
        }

    def _exact(self, sentence: Sentence, found: Found) -> Found:
        """Log-probabilities among all pieces, after a search without some of them."""
        totals = []
        for row in found.rows:
            tokens = [self.reader.number(token) for token in row]
            written = tokens[:-1] if tokens[-1:] and tokens[-1] in END_TOKENS else tokens
            (each,) = self.reader.token_scores(self.model, [sentence], [written])
            totals.append(sum(each[: len(row)]))
        return Found(found.rows, totals)

    def _best(
        self, found: Found, divisors: Sequence[float], n_best: int, sentence: Sentence
    ) -> list[Hypothesis]:
        """The best answers by the search's own penalty."""
        totals, number = found.log_probabilities, self.reader.number
        scores = [total / divisors[len(row)] for row, total in zip(found.rows, totals, strict=True)]
        answers = []
        # only what is given is read
        for i in sorted(range(len(scores)), key=scores.__getitem__, reverse=True)[:n_best]:
            tokens = tuple(map(number, found.rows[i]))
            has_ended = tokens[-1:] == (EOS,)
            written = tokens[:-1] if has_ended else tokens
            each = LazyNumbers(partial(self._token_scores, sentence, written, len(tokens)))
            answers.append(Hypothesis(written, scores[i], totals[i], each, has_ended))
        return answers

    def _token_scores(self, sentence: Sentence, written: Sequence[int], count: int) -> list[float]:
        """The log-probabilities of the first tokens of an answer and its end token."""
        (found,) = self.reader.token_scores(self.model, [sentence], [written])
        return found[:count]

    def _check(self, search: Beam, sentences: Sequence[Sentence]) -> None:
        if search.rules:
            raise SettingError(
                f"--engine {self.engine_name}: the rules against repetitions (the recipe's "
                "[decoding], --repetition-penalty, --no-repeated-ngrams) are torch's alone. Leave "
                "--engine out, or turn them off: predict --repetition-penalty 1 "
                "--no-repeated-ngrams 0."
            )
        given = {
            "a prefix": any(sentence.prefix for sentence in sentences),
            "phrases to hold": any(sentence.must_contain for sentence in sentences),
        }
        for name, is_given in given.items():
            if is_given:
                raise SettingError(
                    f"--engine {self.engine_name}: {name} of answers are searched for with torch "
                    "alone. Leave --engine out, or the other."
                )


def _power(penalty: LengthPenalty) -> float:
    """The power of the length that is nearest to a penalty, for answers of usual lengths."""
    short, long = LENGTHS_OF_POWER
    return math.log2(penalty.divisor(long) / penalty.divisor(short)) / math.log2(long / short)


def _without(settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key != name}
