"""A finished run that one can ask: texts in, answers out, and what was looked at on the way.

    regard.load("runs/dates").predict(["9. Mai 2029"])[0].text
    regard.load("runs/captions").predict(["dog.jpg"])[0].text

Nothing is cut in silence: a text that is longer than the model can read is an error, or it is left
out or answered in pieces, as the caller wishes, and its prediction says so.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

from jaxtyping import Float
from torch import Tensor

from regard.choices import find
from regard.data.kinds import EOS, UNK
from regard.decoding import Beam, Ensemble, Hypothesis, Limits, Search, Sentence
from regard.decoding.batching import decode_each
from regard.decoding.cpu_layout import arranged
from regard.errors import SettingError
from regard.hardware.hardware import Hardware
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.record import Record
from regard.inspecting.text_record import check_reads_answers, look_at, reads_answers
from regard.models import Stepper
from regard.runs.ensemble_checks import check_can_write_together
from regard.runs.loading import load_run
from regard.tasks.captioning import caption_each, look_at_picture
from regard.tasks.constraint_tokens import wished
from regard.tasks.length_checks import answer_refusal, encode_fitting, text_refusal
from regard.tasks.loaded import Loaded
from regard.tasks.long_texts import in_pieces, stays_whole
from regard.tasks.masked_words import asked_of, check_alone, fill_each, fills_words
from regard.tasks.normalisation import read_text
from regard.tasks.predictions import (
    Answer,
    Prediction,
    Request,
    Wishes,
    WithPrecision,
    check_are_several,
    cut_note,
    joined,
    left_out,
    prediction,
    without_answer,
)
from regard.tasks.sentence_vectors import check_one_run, is_speechless, sentence_vectors
from regard.tasks.source_kinds import check_reads_texts
from regard.tasks.unknown_words import check_has_unknown_words, replaced
from regard.tasks.word_links import alignment, check_links, links
from regard.training.loop import CPU

__all__ = ["ON_LONG", "Answer", "Prediction", "Request", "Trained", "load"]


@final
@dataclass(frozen=True)
class Trained:
    """A model with its vocabularies, where it runs, and others that write with it."""

    path: Path
    loaded: Loaded
    hardware: Hardware = CPU
    others: tuple[Loaded, ...] = ()
    """Runs that write together with this one."""
    _stepper: Stepper = field(init=False, repr=False)

    def __post_init__(self) -> None:
        place = self.hardware.device
        models = [one.model.to(place) for one in (self.loaded, *self.others)]
        if place.type == "cpu":
            models = [arranged(model) for model in models]
        stepper: Stepper = models[0] if len(models) == 1 else Ensemble(models)
        object.__setattr__(self, "_stepper", stepper)

    @property
    def longest(self) -> int:
        """The most tokens that the model reads or writes, the end token counted."""
        return self.loaded.recipe.model.max_len

    def default_search(self) -> Beam:
        """A beam of 5, with answers at most 50 tokens longer than their source."""
        # what says something of each place of a text says its end too
        most = self.longest - reads_answers(self.loaded.model)
        return Beam(width=5, limits=Limits(max_tokens=most, beyond_source=50))

    def predict(
        self,
        texts: Sequence[str | Request],
        *,
        search: Search | None = None,
        has_alignments: bool = False,
        on_long: str = "error",
        dictionary: Mapping[str, str] | None = None,
    ) -> list[Prediction]:
        """Answer each text, in order; a blank one has an empty answer and the score 0.

        A language model that goes on with texts begins one where a text is blank.

        Args:
            texts: what to answer, or addresses of pictures to caption; a `Request` where the answer
                has to begin with or hold something.
            search: how answers are found; `default_search` unless given.
            has_alignments: link each word to the source word it was read off, by one more pass.
            on_long: what becomes of a text that is too long: "error", "skip" or "split".
            dictionary: translations of source words (regard.runs.dictionaries); given one, an
                unknown word becomes that of the source word it was read off, else that word itself.
        """
        found = dict(
            self.predict_each(
                texts,
                search=search,
                has_alignments=has_alignments,
                on_long=on_long,
                dictionary=dictionary,
            )
        )
        return [found[place] for place in range(len(texts))]

    def predict_each(
        self,
        texts: Sequence[str | Request],
        *,
        search: Search | None = None,
        has_alignments: bool = False,
        on_long: str = "error",
        dictionary: Mapping[str, str] | None = None,
    ) -> Iterator[tuple[int, Prediction]]:
        """Answers as they come, each with the place of its text, so that a bar can count them."""
        wishes = Wishes(search or self.default_search(), has_alignments, on_long, dictionary)
        each = self._answer_each(texts, wishes)
        while True:
            # between two answers torch has the threads that the caller gave it
            with self.hardware.on_threads():
                found = next(each, None)
            if found is None:
                return
            yield found

    def _answer_each(
        self, texts: Sequence[str | Request], wishes: Wishes
    ) -> Iterator[tuple[int, Prediction]]:
        check_are_several(texts, "predict")
        if wishes.dictionary is not None:
            check_has_unknown_words(self.loaded)
        requests = [Request(one) if isinstance(one, str) else one for one in texts]
        asked = [place for place, one in enumerate(requests) if not self.asks_nothing(one.text)]
        for place in sorted(set(range(len(requests))) - set(asked)):
            yield place, without_answer(requests[place])
        some = [requests[place] for place in asked]
        for number, said in ANSWERING[asked_of(self.loaded.recipe)](self, some, wishes):
            yield asked[number], said

    def asks_nothing(self, text: str) -> bool:
        """Whether a text has nothing to answer: it is blank, and no beginning of an answer."""
        # an empty address is that of no picture, which its reader tells
        is_blank_text = self.loaded.recipe.source_kind == "texts" and not text.strip()
        # most models do not say; those that go on with a text do
        return is_blank_text and not getattr(self.loaded.model, "continues_source", False)

    def vectors(
        self, texts: Sequence[str], *, each: Callable[[], object] = lambda: None
    ) -> Float[Tensor, "n m"]:
        """A vector of length 1 for each text, of a run whose model is an encoder.

        Args:
            texts: what is read.
            each: called after each text, so that a bar can count them.
        """
        check_one_run(self.others)
        check_are_several(texts, "vectors")
        with self.hardware.on_threads():
            return sentence_vectors(self.loaded, self.hardware, texts, each=each)

    def look(self, text: str, target: str | None = None, *, search: Search | None = None) -> Record:
        """Every weight with which a text was answered; `target` is an answer to look at instead."""
        check_reads_texts(self.loaded.recipe, "look")
        self.check_length(Request(text))
        read, note = self._read(text), None
        if target is None and fills_words(self.loaded.recipe):
            (said,) = self.predict([text], search=search)
            return replace(self.read_over(read, []), target=said.text, note=said.note)
        if target is not None:
            check_reads_answers(self.loaded.model)
            answer = self._answer(target)
        elif is_speechless(self.loaded.recipe):
            answer = []
        else:
            sentence = self._sentence(Request(text))
            exactly = WithPrecision(search or self.default_search(), self.hardware)
            with self.hardware.on_threads():
                found = exactly(self._stepper, [sentence], device=self.hardware.device)[0][0]
            answer, note = list(found.tokens), cut_note(found)
        return replace(self.read_over(read, answer), note=note)

    def read_over(self, read: str, answer: Sequence[int]) -> Record:
        """Every weight with which the model reads a text, in its own form, and writes an answer."""
        with self.hardware.on_threads():
            return look_at(self.loaded.model, self.loaded.source, self.loaded.target, read, answer)

    def check_length(self, request: Request, remedy: str = "look at a part of it") -> None:
        """Refuse a text that is too long to be read as a whole, and say what to do about it."""
        refusal = text_refusal(request, remedy)
        encode_fitting(self.loaded.source, self._read(request.text), self.longest, refusal)

    def check_answer(self, target: str) -> None:
        """Refuse an answer that the model could not have written."""
        check_reads_answers(self.loaded.model)
        self._answer(target)

    def look_at_picture(
        self, address: str, target: str | None = None, *, search: Search | None = None
    ) -> CaptionRecord:
        """Where each word of a picture's caption looked; `target` is a caption to look at."""
        with self.hardware.on_threads():
            return look_at_picture(
                self._stepper,
                self.loaded,
                address,
                None if target is None else self._answer(target),
                search=search or self.default_search(),
                hardware=self.hardware,
            )

    def _answer(self, target: str) -> list[int]:
        """The tokens of an answer that somebody gave."""
        read = self._read(target)
        return encode_fitting(self.loaded.target, read, self.longest, answer_refusal)

    def _answer_texts(
        self, requests: Sequence[Request], wishes: Wishes
    ) -> Iterator[tuple[int, Prediction]]:
        if wishes.has_alignments or wishes.dictionary is not None:
            # before the long search
            check_links(self.loaded)
        self._check_can_be_begun(requests)
        pieces: list[tuple[int, Request]] = []
        for place, request in enumerate(requests):
            parts = (
                find(wishes.on_long, ON_LONG)(self, request)
                if self._is_long(request)
                else [request]
            )
            pieces += [(place, part) for part in parts]
        waiting: dict[int, dict[int, Prediction]] = {}
        counts = Counter(place for place, _ in pieces)
        for place, request in enumerate(requests):
            if place not in counts:
                yield place, left_out(request, self.longest)
        sentences = [self._sentence(request) for _, request in pieces]
        exactly = WithPrecision(wishes.search, self.hardware)
        answered = decode_each(self._stepper, sentences, exactly, device=self.hardware.device)
        for number, hypotheses in answered:
            place, request = pieces[number]
            said = self._prediction(request, hypotheses, wishes)
            parts_of = waiting.setdefault(place, {})
            parts_of[number] = said
            if len(parts_of) == counts[place]:
                whole = [parts_of[key] for key in sorted(parts_of)]
                yield place, joined(requests[place], whole)

    def _fill(
        self, requests: Sequence[Request], wishes: Wishes
    ) -> Iterator[tuple[int, Prediction]]:
        check_alone(self.loaded.recipe, self.others)
        short: list[tuple[int, Request]] = []
        for place, request in enumerate(requests):
            if not self._is_long(request):
                short.append((place, replace(request, text=self._read(request.text))))
            elif wishes.on_long == "skip":
                yield place, left_out(request, self.longest)
            else:
                _refuse(self, request)
        for place, one in fill_each(self.loaded, self.hardware, short, wishes):
            yield place, one.prediction

    def _caption(
        self, requests: Sequence[Request], wishes: Wishes
    ) -> Iterator[tuple[int, Prediction]]:
        return caption_each(
            self._stepper,
            self.loaded,
            [(one, wished(self.loaded, one)) for one in requests],
            wishes,
            self.hardware,
        )

    def _check_can_be_begun(self, requests: Sequence[Request]) -> None:
        """A model that answers at each place of a text does not go on with what is given."""
        given = any(one.prefix or one.must_contain for one in requests)
        if given and not reads_answers(self.loaded.model):
            raise SettingError(
                f"predict: the run '{self.path}' says what each place of a text is, whatever an "
                "answer begins with: a prefix and phrases to hold have no meaning for it. Leave "
                "them out."
            )

    def _read(self, text: str) -> str:
        """A text in the form of those that the run learned from."""
        return read_text(self.loaded.recipe, text)

    def _is_long(self, request: Request) -> bool:
        # a text that is much too long is not cut, which takes long
        fewest = self.loaded.source.fewest(self._read(request.text)) + 1
        return fewest > self.longest or self.length(request.text) > self.longest

    def length(self, text: str) -> int:
        """How many tokens the model would read, the end token counted."""
        return len(self.loaded.source.encode(self._read(text))) + 1

    def _sentence(self, request: Request) -> Sentence:
        read = [*self.loaded.source.encode(self._read(request.text)), EOS]
        return replace(wished(self.loaded, request), source=read)

    def _prediction(
        self, request: Request, hypotheses: Sequence[Hypothesis], wishes: Wishes
    ) -> Prediction:
        said = prediction(
            request.text,
            hypotheses,
            self.loaded.target,
            lambda one: self._written(request.text, one, wishes.dictionary),
        )
        if not wishes.has_alignments:
            return said
        return replace(said, alignment=alignment(self.loaded, request.text, hypotheses[0]))

    def _written(self, text: str, one: Hypothesis, dictionary: Mapping[str, str] | None) -> str:
        """The text of an answer, its unknown words replaced if there is a dictionary."""
        written = self.loaded.target.decode(one.tokens)
        if dictionary is None or UNK not in one.tokens:
            return written
        read = self._read(text)
        return replaced(written, read.split(), links(self.loaded, read, one.tokens), dictionary)


def load(
    run: Path | str,
    *others: Path | str,
    device: str | None = None,
    precision: str | None = None,
) -> Trained:
    """Read a finished run, or several that write together.

    Args:
        run: its directory.
        others: more runs for an ensemble; their vocabularies must be the first one's.
        device: "cpu" or "cuda"; a GPU where there is one.
        precision: "float32", or "bfloat16" on a GPU.
    """
    hardware = Hardware.chosen(device, precision or "float32", compiles=False)
    first, *rest = (load_run(Path(path)) for path in (run, *others))
    for path, other in zip(others, rest, strict=True):
        check_can_write_together(first, other, f"ensemble: '{path}'", f"'{run}'")
    return Trained(Path(run), first, hardware, tuple(rest))


def _refuse(trained: Trained, request: Request) -> list[Request]:
    parted = "have such texts split or skipped (--on-long)"
    whole = "leave such texts out (--on-long skip)"
    remedy = whole if stays_whole(trained.loaded.recipe) else parted
    trained.check_length(request, remedy)
    return [request]


def _split(trained: Trained, request: Request) -> list[Request]:
    if stays_whole(trained.loaded.recipe):
        _refuse(trained, request)
    if request.must_contain:
        raise SettingError(
            "a text that is split cannot have phrases that its answer must contain: nobody knows "
            "in which piece. Shorten it, or leave the phrases out."
        )
    first, *rest = in_pieces(request.text, trained.longest, trained.length)
    return [replace(request, text=first), *(Request(part, seed=request.seed) for part in rest)]


ANSWERING: Mapping[
    str, Callable[[Trained, Sequence[Request], Wishes], Iterator[tuple[int, Prediction]]]
] = {
    "texts": Trained._answer_texts,
    "pictures": Trained._caption,
    "hidden_words": Trained._fill,
}
"""How requests are answered, by what is asked of a run (`asked_of`)."""

ON_LONG: Mapping[str, Callable[[Trained, Request], list[Request]]] = {
    "error": _refuse,
    "skip": lambda trained, request: [],
    "split": _split,
}
"""What becomes of a text that is longer than the model can read."""
