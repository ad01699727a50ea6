"""A finished run, loaded: it predicts answers to texts or pictures, and records attention.

    regard.load("runs/dates").predict(["9. Mai 2029"])[0].text
    regard.load("runs/captions").predict(["dog.jpg"])[0].text

A call goes `predict` → `predict_each` → the task's `answer_each` → `regard.tasks.searched_texts` →
`regard.decoding`. `on_long` chooses what becomes of long texts. Loading a run executes no code.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, final, runtime_checkable

from jaxtyping import Float
from torch import Tensor

from regard.data.subword_kinds import SPECIALS
from regard.data.subwords import Subwords
from regard.decoding import Greedy, Limits, Search, SearchEngine
from regard.decoding.beam import DEFAULT_BEAM_WIDTH
from regard.decoding.length_penalties import DEFAULT_ALPHA
from regard.errors import CheckpointError, RunError, SettingError
from regard.hardware.hardware import Hardware
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.record import Record
from regard.models import Model, build_model, shapes_of
from regard.recipes.data_paths import run_of
from regard.recipes.part_files import check_parts
from regard.recipes.recipe import Recipe, read_recipe
from regard.runs.reading_ahead import windows
from regard.tasks import Task, task_of
from regard.tasks.captioning import pictures_refusal
from regard.tasks.embedding import sentence_vectors
from regard.tasks.loaded_run import Loaded, LoadedRun, has_old_labels, load_subwords
from regard.tasks.predictions import (
    Answer,
    AnswerOptions,
    Prediction,
    Request,
    check_is_text,
    listed_texts,
    without_answer,
)
from regard.tasks.searched_texts import ON_LONG
from regard.tasks.word_links import check_has_unknown_words
from regard.training.adapters import WHOLE
from regard.training.checkpoints import load_weights, tensor_forms
from regard.training.run_folder import finished_weights

if TYPE_CHECKING:
    from regard.runs.evaluation_report import EvaluationReport

__all__ = ["ON_LONG", "Answer", "Prediction", "Request", "Trained", "load"]

LINES_PER_BATCH = 2048
"""How many lines are answered together; output begins before the last is read."""
OWN_FILES = "Put recipe and vocabularies beside the weights that were trained with them."
"""The remedy where the files of a run do not belong together."""


@final
@dataclass(frozen=True)
class Trained(LoadedRun):
    """A loaded run: its model, vocabularies and hardware, and the other runs of an ensemble."""

    def __repr__(self) -> str:
        task, others = self.loaded.recipe.model.task, "".join(f" + {one}" for one in self.others)
        where = self.hardware.device
        return f"Trained('{self.path}', {task}, {self.loaded}{others}, {where})"

    @property
    def task(self) -> Task:
        """What the run is for."""
        return task_of(self.loaded.recipe)

    @property
    def model(self) -> Model:
        """The model, on its device: a torch module."""
        return self.loaded.model

    @property
    def tokenizer(self) -> Subwords:
        """The vocabulary of what the run reads; `loaded.target` is that of its answers."""
        return self.loaded.source

    def limits(self, max_tokens: int | None, who: str, key: str) -> Limits:
        """The limits of a search: `max_tokens`, checked by `check_limit`, or the default."""
        check_limit(self.loaded.recipe, max_tokens, who, key)
        return self.default_search().limits if max_tokens is None else Limits(max_tokens=max_tokens)

    def predict(
        self,
        texts: Iterable[str | Request],
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
        texts, search = listed_texts(texts, "predict"), search or self.default_search()
        options = AnswerOptions(search, has_alignments, on_long, dictionary)
        with self.hardware.on_threads():
            found = dict(self._answer_each(texts, options))
        return [found[place] for place in range(len(texts))]

    def predict_each(
        self, texts: Iterable[str | Request], options: AnswerOptions
    ) -> Iterator[tuple[int, Prediction]]:
        """Yield answers in the order of completion, each with the place of its text."""
        each = self._answer_each(listed_texts(texts, "predict"), options)
        while True:
            # between two answers torch has the threads that the caller gave it
            with self.hardware.on_threads():
                found = next(each, None)
            if found is None:
                return
            yield found

    def predict_lines(
        self, lines: Iterable[str | Request], options: AnswerOptions
    ) -> Iterator[Prediction]:
        """Yield answers in the order of their texts, each as soon as all before it are known.

        Texts are taken as they come and at most `LINES_PER_BATCH` at a time, so that a stream may
        be endless; they are read and cut into pieces while the model answers those before.
        """

        def read(some: list[str | Request]) -> list[Request]:
            requests = [Request(one) if isinstance(one, str) else one for one in some]
            reads_texts = self.task.sources.has_lengths
            return self.read_ahead(requests) if reads_texts else requests

        for requests in windows(lines, read, LINES_PER_BATCH):
            found: dict[int, Prediction] = {}
            answers = self.predict_each(requests, options)
            for place in range(len(requests)):
                while place not in found:
                    found.update([next(answers)])
                yield found.pop(place)

    def _answer_each(
        self, texts: Sequence[str | Request], options: AnswerOptions
    ) -> Iterator[tuple[int, Prediction]]:
        if options.dictionary is not None:
            self.check_reads_texts("unknown words")
            check_has_unknown_words(self.loaded)
        task, filled = self.task, dict[int, Request]()
        for place, text in enumerate(texts):
            request = Request(text) if isinstance(text, str) else text
            if task.is_blank(self, request.text):
                yield place, without_answer(request)
            else:
                filled[place] = request
        places, requests = list(filled), list(filled.values())
        reads_texts = task.sources.has_lengths
        if reads_texts and any(request.tokens is None for request in requests):
            requests = self.read_ahead(requests)
        for number, answer in task.answer_each(self, requests, options):
            unseen = self.unseen_in(requests[number]) if reads_texts else ()
            yield places[number], replace(answer, unseen=unseen) if unseen else answer

    def stream(self, text: str | Request, *, search: Search | None = None) -> Iterator[str]:
        """The answer to a text in parts, each as soon as it is written; together the whole answer.

            for part in regard.load("runs/book").stream("It was"):
                print(part, end="", flush=True)

        Args:
            text: what to answer, the address of a picture to caption, or a `Request`.
            search: Greedy, or Sampling to draw; greedy unless given.
        """
        request = text if isinstance(text, Request) else Request(text)
        check_is_text(request.text, "stream")
        if self.task.is_blank(self, request.text):
            return iter(())
        usual = self.default_search()
        search = search or Greedy(limits=usual.limits, rules=usual.rules)
        return self.task.stream(self, request, search)

    def evaluate(
        self,
        sources: Path | str | Sequence[str] | None = None,
        references: Path | str | Sequence[str] | Sequence[Sequence[str]] = (),
        *,
        split: str | None = None,
        metrics: Sequence[str] | None = None,
        beam: int = DEFAULT_BEAM_WIDTH,
        length_penalty: float = DEFAULT_ALPHA,
        max_tokens: int | None = None,
        tokenizer: str | None = None,
        on_long: str = "error",
    ) -> "EvaluationReport":
        """Score the run on a split of its data, on files, or on texts: as `regard evaluate` does.

        Args:
            sources: a file of texts, or a list of texts; the test split, or the validation split of
                a recipe without one, unless given.
            references: the file of their references, several such files, or a list of them.
            split: "valid" or "test", instead of texts.
            metrics: names such as "bleu" and "chrf"; those that suit the run unless given.
            beam: the width of the beam; 1 is greedy search.
            length_penalty: the Transformer paper's alpha; 0 leaves scores as they are.
            max_tokens: the longest answer.
            tokenizer: sacreBLEU's; by the references' script unless given.
            on_long: what becomes of a text that is too long: "error", "skip" or "split".
        """
        # these modules need this one
        from regard.runs.evaluation_report import EvaluationSettings, evaluate
        from regard.runs.evaluation_texts import texts_asked_for

        settings = EvaluationSettings(
            metrics=metrics,
            beam=beam,
            length_penalty=length_penalty,
            max_tokens=max_tokens,
            tokenizer=tokenizer,
            on_long=on_long,
        )
        given, name = texts_asked_for(self.loaded.recipe, sources, references, split, self.path)
        return evaluate(self, given, name, settings)

    def vectors(
        self, texts: Iterable[str], *, each: Callable[[], object] = lambda: None
    ) -> Float[Tensor, "n m"]:
        """A vector of length 1 for each text, of a run whose model is an encoder.

        `each` is called after each text, so that a bar can count them.
        """
        return sentence_vectors(self, texts, each)

    def look(self, text: str, target: str | None = None, *, search: Search | None = None) -> Record:
        """The record of the run's answer, or of `target`: texts, tokens and all weights."""
        check_is_text(text, "look")
        if target is not None:
            check_is_text(target, "look: target")
        return self.task.look(self, text, target, search)

    def look_at_picture(
        self, address: str, target: str | None = None, *, search: Search | None = None
    ) -> CaptionRecord:
        """Where each word of a picture's caption looked; `target` is a caption to look at."""
        check_is_text(address, "look_at_picture")
        return self.task.look_at_picture(self, address, target, search)

    def check_reads_texts(self, who: str) -> None:
        """Refuse a run on pictures, for work that needs the words of a source."""
        if not self.task.sources.has_lengths:
            raise pictures_refusal(who)

    def read(self, text: str) -> str:
        """A text normalised as the training data are."""
        return self.task.read_text(self.loaded.recipe, text)


@runtime_checkable
class Engine(Protocol):
    """Another program that a run's answers can be searched with, and its settings."""

    def opened(self, run: Trained) -> SearchEngine:
        """The run's model in that program; refused if it would answer otherwise than torch."""


def load(
    run: Path | str,
    *others: Path | str,
    device: str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    engine: Engine | None = None,
) -> Trained:
    """Read a finished run, or several that write together.

    Args:
        run: its directory, or one of its checkpoints (RUN/checkpoints/step-000500).
        others: more runs for an ensemble; their vocabularies must be the first one's.
        device: "cpu" or "cuda"; a GPU where there is one.
        precision: "float32", or "bfloat16" on a GPU.
        threads: how many share a product on a CPU; one for each free core unless given.
        engine: what searches for answers; torch unless given. See `regard.interop.engines`.
    """
    for given in (run, *others):
        if not isinstance(given, str | Path):
            raise RunError(f"load: expected the folder of a run, got {given!r:.40}. Give its path.")
    hardware = Hardware.chosen(device, precision or "float32", compiles=False, threads=threads)
    first, *rest = (load_run(Path(path)) for path in (run, *others))
    forms = [task_of(one.recipe).sources.form(one.recipe) for one in (first, *rest)]
    for path, other, form in zip(others, rest, forms[1:], strict=True):
        sides = ((other.source, first.source), (other.target, first.target))
        if any(theirs.fingerprint != ours.fingerprint for theirs, ours in sides):
            raise RunError(
                f"ensemble: '{path}' has other vocabularies than '{run}'. Train it with "
                "training.start_from, or with the same data and [tokens]."
            )
        if form != forms[0]:
            raise RunError(
                f"ensemble: '{path}' looks at other sources than '{run}': texts or pictures, of "
                "one size and framing, must be the same for all."
            )
    trained = Trained(Path(run), first, hardware, tuple(rest))
    return trained if engine is None else replace(trained, engine=engine.opened(trained))


def load_run(path: Path) -> Loaded:
    """Read a finished run, or one of its checkpoints; inconsistent files are refused."""
    weights, home = finished_weights(path), run_of(path)
    check_parts(home)
    recipe = read_recipe(home / "recipe.toml")
    source, target = load_subwords(recipe, home)
    is_old = has_old_labels(recipe, home)
    # the special pieces had a row each among the labels
    n_rows = len(target) + is_old * len(SPECIALS)
    sizes = {"n_source_tokens": len(source), "n_target_tokens": n_rows}
    wanted, found = shapes_of(recipe.model, **sizes), tensor_forms(weights)
    if any(WHOLE in name for name in found):
        raise CheckpointError(
            f"'{weights}' holds adapters that are still learned (training.lora), beside the "
            "weights that they adapt. Give the finished run, or go on with it: regard train "
            "--resume."
        )
    for name, shape in wanted.items():
        if name in found and found[name][1] != shape:
            raise CheckpointError(
                f"'{weights}': '{name}' must be {shape} by the recipe, got {found[name][1]}. "
                f"{OWN_FILES}"
            )
    if missing := sorted(wanted.keys() - found.keys()):
        raise CheckpointError(
            f"'{weights}' lacks {missing[:3]}, which the recipe asks for. {OWN_FILES}"
        )
    model = build_model(recipe.model, **sizes)
    load_weights(weights, model)
    if is_old:
        model.without_special_rows()
    return Loaded(recipe, source, target, model.eval())


def check_limit(recipe: Recipe, max_tokens: int | None, who: str, key: str) -> None:
    """Refuse a limit of tokens that exceeds the run's; errors name `who` and `key`."""
    if max_tokens is None:
        return
    if not task_of(recipe).has_free_length:
        raise SettingError(
            f"{who}: this run writes no answers of a length of its own, so {key} has no meaning "
            "for it. Leave it out."
        )
    most = recipe.model.max_len - 1
    if not 1 <= max_tokens <= most:
        raise SettingError(
            f"{who}: {key} must lie between 1 and {most}, the model's limit, got {max_tokens}."
        )
