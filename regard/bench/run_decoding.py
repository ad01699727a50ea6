"""Decoding speed of a run: `Trained.predict` beside CTranslate2, from texts to texts.

    regard                     regard.load(RUN).predict(texts)
    regard with ctranslate2    regard.load(RUN, engine=CTranslate2()).predict(texts)
    ctranslate2                the same weights, asked as the README of `regard export` asks it

Answers end where the model ends them. All take turns in one process, on equally many threads;
ratios are taken within each turn, and the median of the ratios is reported, of the time that passed
and of that which processors worked.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from regard.data.files import lines
from regard.decoding.batching import BATCH_TOKENS
from regard.decoding.beam import DEFAULT_BEAM_WIDTH
from regard.decoding.length_penalties import DEFAULT_ALPHA
from regard.errors import DataError, SettingError, counted
from regard.interop.ctranslate2 import CTranslate2
from regard.interop.ctranslate2.engine import open_model
from regard.interop.ctranslate2.folder import write_model
from regard.interop.ctranslate2.searches import PATIENCE
from regard.runs.evaluation import search_for
from regard.runs.evaluation_texts import texts_asked_for
from regard.runs.trained import Trained, load

OURS, BY_ENGINE, PEER = "regard", "regard with ctranslate2", "ctranslate2"
TRANSLATOR = "Translator"
WARM_UP_TEXTS = 64

Answerer = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True, kw_only=True)
class RunCase:
    """The measured run and the texts that it answers."""

    run: Path
    texts: Path | None = None
    """A file of texts; the run's test split, or validation split, unless given."""
    n_texts: int = 1000
    """At most so many of them."""
    beam: int = DEFAULT_BEAM_WIDTH
    device: str = "cpu"
    threads: int | None = 1
    turns: int = 5
    peers: Sequence[str] = (PEER,)


@dataclass(frozen=True)
class RunResult:
    """Seconds of every turn, and how the answers compare."""

    case: RunCase
    n_texts: int
    seconds: Mapping[str, Sequence[float]]
    processor_seconds: Mapping[str, Sequence[float]]
    """The time that processors worked in each turn, whatever else the machine did."""
    same: Mapping[str, float]
    """The share of texts to which another gives our answer."""
    searches: str
    """How our batches were searched for."""

    def ratios(self, seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
        """How many times as fast as the peer each is: the median over the turns."""
        theirs = seconds.get(PEER, ())
        return {
            name: median(peer / own for peer, own in zip(theirs, each, strict=True))
            for name, each in seconds.items()
            if theirs
        }

    def as_dict(self) -> dict[str, Any]:
        """Plain data, speeds and ratios included."""
        case = {
            key: str(value) if isinstance(value, Path) else value
            for key, value in asdict(self.case).items()
        }
        speeds = {name: self.n_texts / median(each) for name, each in self.seconds.items()}
        return {
            "case": case,
            "n_texts": self.n_texts,
            "seconds": {name: list(each) for name, each in self.seconds.items()},
            "texts_per_s": speeds,
            "ratio": self.ratios(self.seconds),
            "ratio_by_processor_time": self.ratios(self.processor_seconds),
            "same": dict(self.same),
            "search": self.searches,
        }


def run_decoding_text(result: RunResult) -> str:
    """A table as plain text."""
    case, plain = result.case, result.as_dict()
    table = [
        f"{case.run}: {result.n_texts:,} texts, beam {case.beam}, float32 on {case.device}"
        + (f", {counted(case.threads, 'thread')}" if case.threads else "")
        + f"; {result.searches}.",
        "",
        f"{'':<24} {'texts/s':>9} {'of ctranslate2':>15} {'by CPU time':>13} {'our answers':>12}",
    ]
    for name, speed in plain["texts_per_s"].items():
        ratios = (plain[key].get(name) for key in ("ratio", "ratio_by_processor_time"))
        ratio, by_processor = ("" if each is None else f"{each:.2f} ×" for each in ratios)
        same = f"{100 * result.same[name]:.1f} %" if name in result.same else ""
        table.append(f"{name:<24} {speed:>9,.0f} {ratio:>15} {by_processor:>13} {same:>12}")
    return "\n".join(table)


def bench_run(
    case: RunCase, *, each_turn: Callable[[float], None] = lambda share: None
) -> RunResult:
    """Answer the texts in turns; `each_turn` is called with the share of the turns done."""
    if case.turns < 1 or case.n_texts < 1:
        raise SettingError("bench decode: expected at least one turn and one text.")
    trained = load(case.run, device=case.device, threads=case.threads)
    trained.check_reads_texts("bench decode: --run")
    texts = list(islice(_texts(case, trained), case.n_texts))
    if not any(text.strip() for text in texts):
        held = "the split of the run" if case.texts is None else f"'{case.texts}'"
        raise DataError(
            f"bench decode: {held} holds no text. Give --texts FILE with a line at least."
        )
    with _answerers(case, trained) as answerers:
        answers = {}
        for name, answer in answerers.items():
            answer(texts[:WARM_UP_TEXTS])
            answers[name] = answer(texts)
        seconds: dict[str, list[float]] = {name: [] for name in answerers}
        processor: dict[str, list[float]] = {name: [] for name in answerers}
        for number in range(case.turns):
            for name, answer in answerers.items():
                start, worked = time.perf_counter(), time.process_time()
                answer(texts)
                seconds[name].append(time.perf_counter() - start)
                processor[name].append(time.process_time() - worked)
            each_turn((number + 1) / case.turns)
    same = {
        name: sum(one == other for one, other in zip(answers[OURS], theirs, strict=True))
        / len(texts)
        for name, theirs in answers.items()
        if name != OURS
    }
    return RunResult(case, len(texts), seconds, processor, same, trained.searches)


def _texts(case: RunCase, trained: Trained) -> Iterator[str]:
    """The texts of the file, read as `regard predict` reads it, or of the run's test split."""
    if case.texts is None:
        found, _ = texts_asked_for(trained.loaded.recipe, None, (), None, trained.path)
        return (example.source for example in found)
    return trained.task.sources.requests(
        trained, str(case.texts), lambda name: lines(Path(name)), lambda note: None
    )


@contextmanager
def _answerers(case: RunCase, trained: Trained) -> Iterator[dict[str, Answerer]]:
    def by(run: Trained) -> Answerer:
        search = search_for(run, beam=case.beam, length_penalty=DEFAULT_ALPHA)
        return lambda texts: [one.text for one in run.predict(texts, search=search)]

    if PEER not in case.peers:
        yield {OURS: by(trained)}
        return
    engine = load(
        case.run, device=case.device, threads=case.threads, engine=CTranslate2(cache="temporary")
    )
    with tempfile.TemporaryDirectory(prefix="regard-bench-") as name:
        folder = Path(name)
        opened_by = write_model(
            folder, trained.loaded, quantization=None, is_closed=False, about={}
        )
        if opened_by != TRANSLATOR:
            raise SettingError(
                "bench decode: ctranslate2 is asked for models that read a source and write an "
                "answer, but this run is a language model. Add --peers none."
            )
        model = open_model(folder, TRANSLATOR, "float32", trained.hardware)
        yield {OURS: by(trained), BY_ENGINE: by(engine), PEER: _peer(case, trained, model)}


def _peer(case: RunCase, trained: Trained, model: Any) -> Answerer:
    """CTranslate2 by itself: the vocabularies are the run's, all else is its own."""
    source, target = trained.loaded.source, trained.loaded.target
    numbers = {piece: number for number, piece in enumerate(target.pieces)}
    most = trained.default_search().limits.max_tokens

    def answer(texts: Sequence[str]) -> list[str]:
        rows = [
            [source.pieces[number] for number in row]
            for row in source.encode_all([trained.read(text) for text in texts])
        ]
        found = model.translate_batch(
            rows, beam_size=case.beam, patience=PATIENCE, length_penalty=DEFAULT_ALPHA,
            max_input_length=0, max_decoding_length=most, max_batch_size=BATCH_TOKENS,
            batch_type="tokens",
        )  # fmt: skip
        return [target.decode(numbers[piece] for piece in one.hypotheses[0]) for one in found]

    return answer
