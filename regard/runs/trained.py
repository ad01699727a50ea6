"""A finished run that one can ask: texts in, answers out, and what was looked at on the way.

    regard.load("runs/dates").predict(["9. Mai 2029"])[0].text
    regard.load("runs/captions").predict(["dog.jpg"])[0].text

Nothing is cut in silence: a text that is longer than the model can read is an error, or it is left
out or answered in pieces, as the caller wishes, and its prediction says so.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from jaxtyping import Float
from torch import Tensor

from regard.decoding import Beam, Ensemble, Limits, Search, fast_model
from regard.hardware.hardware import Hardware
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.record import Record
from regard.inspecting.text_record import check_reads_answers, look_at, reads_answers
from regard.models import Stepper
from regard.runs.finished_runs import check_can_write_together, load_run
from regard.tasks import Task, task_of
from regard.tasks.captioning import pictures_refusal
from regard.tasks.embedding import check_one_run, sentence_vectors
from regard.tasks.loaded import Loaded
from regard.tasks.long_texts import answer_refusal, encode_fitting, text_refusal
from regard.tasks.predictions import (
    Answer,
    AnswerOptions,
    Prediction,
    Request,
    check_are_several,
    without_answer,
)
from regard.tasks.searched_texts import ON_LONG
from regard.tasks.unknown_words import check_has_unknown_words
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
    stepper: Stepper = field(init=False, repr=False)

    def __post_init__(self) -> None:
        place = self.hardware.device
        models = [fast_model(one.model, place) for one in (self.loaded, *self.others)]
        stepper: Stepper = models[0] if len(models) == 1 else Ensemble(models)
        object.__setattr__(self, "stepper", stepper)

    @property
    def task(self) -> Task:
        """What the run is for."""
        return task_of(self.loaded.recipe)

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
        wishes = AnswerOptions(search or self.default_search(), has_alignments, on_long, dictionary)
        each = self._answer_each(texts, wishes)
        while True:
            # between two answers torch has the threads that the caller gave it
            with self.hardware.on_threads():
                found = next(each, None)
            if found is None:
                return
            yield found

    def _answer_each(
        self, texts: Sequence[str | Request], wishes: AnswerOptions
    ) -> Iterator[tuple[int, Prediction]]:
        check_are_several(texts, "predict")
        if wishes.dictionary is not None:
            self.check_reads_texts("unknown words")
            check_has_unknown_words(self.loaded)
        requests = [Request(one) if isinstance(one, str) else one for one in texts]
        asked = [
            place for place, one in enumerate(requests) if not self.task.is_blank(self, one.text)
        ]
        for place in sorted(set(range(len(requests))) - set(asked)):
            yield place, without_answer(requests[place])
        some = [requests[place] for place in asked]
        for number, answer in self.task.answer_each(self, some, wishes):
            yield asked[number], answer

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
            return sentence_vectors(self.loaded, self.hardware, texts, read=self.read, each=each)

    def look(self, text: str, target: str | None = None, *, search: Search | None = None) -> Record:
        """Every weight with which a text was answered; `target` is an answer to look at instead."""
        return self.task.look(self, text, target, search)

    def look_at_picture(
        self, address: str, target: str | None = None, *, search: Search | None = None
    ) -> CaptionRecord:
        """Where each word of a picture's caption looked; `target` is a caption to look at."""
        with self.hardware.on_threads():
            return self.task.look_at_picture(self, address, target, search)

    def read_over(self, read: str, answer: Sequence[int]) -> Record:
        """Every weight with which the model reads a normalised text and writes an answer."""
        with self.hardware.on_threads():
            return look_at(self.loaded.model, self.loaded.source, self.loaded.target, read, answer)

    def check_reads_texts(self, who: str) -> None:
        """Refuse a run that looks at pictures, for work that needs the words of a source."""
        if not self.task.sources.has_lengths:
            raise pictures_refusal(who)

    def check_length(self, request: Request, remedy: str = "look at a part of it") -> None:
        """Refuse a text that is too long to be read as a whole, and say what to do about it."""
        refusal = text_refusal(request, remedy)
        encode_fitting(self.loaded.source, self.read(request.text), self.longest, refusal)

    def check_answer(self, target: str) -> None:
        """Refuse an answer that the model could not have written."""
        check_reads_answers(self.loaded.model)
        self.answer_tokens(target)

    def answer_tokens(self, target: str) -> list[int]:
        """The tokens of an answer that the caller gave."""
        read = self.read(target)
        return encode_fitting(self.loaded.target, read, self.longest, answer_refusal)

    def read(self, text: str) -> str:
        """A text normalised as those that the run learned from."""
        return self.task.read_text(self.loaded.recipe, text)

    def length(self, text: str) -> int:
        """How many tokens the model would read, the end token counted."""
        return len(self.loaded.source.encode(self.read(text))) + 1


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
