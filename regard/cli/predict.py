"""regard predict: texts in, answers out, line by line; or pictures in, captions out."""

import json
import math
import queue
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from regard.cli.loaded_runs import load_for_verb
from regard.cli.options import ALPHA, BEAM, LIMIT, Device, MaxTokens, OnLong, refuse
from regard.cli.progress import counting, spinning
from regard.cli.requests import lines_of, tell
from regard.cli.streams import has_reader
from regard.cli.vectors import check_file, write_vectors
from regard.decoding import Beam, Greedy, Limits, PaperPenalty, Sampling, Search
from regard.errors import DataError, SettingError
from regard.runs.dictionaries import dictionary_of
from regard.runs.length_limits import limits_of
from regard.runs.trained import Prediction, Request, Trained
from regard.tasks import Task
from regard.tasks.looks import counted_words
from regard.tasks.predictions import answer_line

LINES_PER_BATCH = 2048
"""How many lines are answered together; output begins before the last is read."""


MAX_NAMED_LINES = 5
"""How many lines with empty answers are named."""


def predict(
    run: Path = typer.Argument(help="A finished run."),
    files: list[str] | None = typer.Argument(
        None, help="Texts, one a line, or as the run's data; pictures; - is standard input."
    ),
    text: list[str] = typer.Option([], help="A text given here; may be repeated."),
    beam: int = typer.Option(BEAM, help="Width of the beam; 1 is greedy search."),
    n_best: int = typer.Option(1, help="Answers for each text, best first; a beam is as wide."),
    length_penalty: float = typer.Option(ALPHA, help="The Transformer paper's alpha; 0 is none."),
    max_tokens: MaxTokens = None,
    prefix: str = typer.Option("", help="What every answer begins with."),
    constraints: Path | None = typer.Option(
        None, help="A file with a line for each text: phrases to hold, separated by tabs."
    ),
    sample: bool = typer.Option(False, "--sample", help="Draw answers instead of searching."),
    temperature: float = typer.Option(1.0, help="For --sample; below 1 the likely is likelier."),
    top_k: int | None = typer.Option(None, help="For --sample: among so many tokens."),
    top_p: float = typer.Option(1.0, help="For --sample: among tokens that hold so much."),
    seed: int = typer.Option(0, help="For --sample."),
    ensemble: list[Path] = typer.Option([], help="Another run that writes along; may be repeated."),
    alignments: bool = typer.Option(False, "--alignments", help="Link words to source words."),
    replace_unknown: bool = typer.Option(
        False, "--replace-unknown", help="Translate unknown words by a dictionary, or copy them."
    ),
    vectors: Path | None = typer.Option(
        None, help="Write a vector for each text into x.npy or x.safetensors; of an encoder."
    ),
    on_long: OnLong = "error",
    device: Device = None,
    precision: str | None = typer.Option(None, help="float32, or bfloat16 on cuda."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object a line."),
) -> None:
    """Answer texts with a trained run; without files and --text, standard input is read.

    Answers come in the order of the texts, a line each; an empty line gives an empty line, but a
    language model that goes on with texts begins one there. With --alignments, words are linked
    after a tab in Pharaoh format. With --n-best 3, a text has three lines, the best first: its
    number, a score and an answer, with tabs between them, and of the best alone its links. With
    --replace-unknown, an unknown word becomes the translation of the source word it was read off;
    the first time, that takes a pass over the training data.

    A file is read as the run's data were: of a .tsv what stands before the first tab, of a .jsonl
    what the run's keys name, of a .conllu the words; packed files too. Other files hold a text a
    line. Where a run learned from tsv or JSON lines, such lines of any file, of standard input and
    of --text are read so too. What is left unread is told.

    A run that guesses hidden words fills in every [MASK] of a text; with --n-best, the likeliest
    words follow after a tab with their probabilities. With --vectors, an encoder writes a vector
    for each text instead, empty ones too; a text that is too long is an error with its line.

    A run that captions takes pictures, folders of them, or a file of captions; standard input has
    an address a line. A picture that cannot be read gives an empty line and exit code 1 at the end.

    Example: regard predict runs/dates --text "9. Mai 2029"
    """
    if vectors is not None:
        check_file(vectors)
        refuse(
            "predict",
            "--vectors writes a vector for each text and no answers",
            {
                "--beam": beam != BEAM,
                "--n-best": n_best != 1,
                "--length-penalty": length_penalty != ALPHA,
                LIMIT: max_tokens is not None,
                "--prefix": prefix,
                "--constraints": constraints,
                "--sample": sample,
                "--ensemble": ensemble,
                "--alignments": alignments,
                "--replace-unknown": replace_unknown,
                "--json": as_json,
            },
        )
        if on_long != "error":
            raise SettingError(
                "predict: --vectors writes a row for each text, of the whole text: none is split "
                "or left out, and one that is too long is an error that names its line. Leave "
                "--on-long out."
            )
    trained = load_for_verb(run, *ensemble, device=device, precision=precision)
    task = trained.task
    task.check_alone(ensemble)
    limits = limits_of(trained, max_tokens, "predict", LIMIT)
    searched = {"--beam": beam != BEAM, "--length-penalty": length_penalty != ALPHA}
    if task.why_no_search is not None:
        refuse("predict", task.why_no_search, searched)
    if sample:
        refuse("predict", "answers are drawn (--sample) and not searched for", searched)
        search: Search = Sampling(
            n_samples=n_best, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed,
            limits=limits,
        )  # fmt: skip
    else:
        drawing = {"--temperature": temperature != 1.0, "--top-k": top_k, "--seed": seed}
        _refuse({**drawing, "--top-p": top_p != 1.0})
        search = _searched(beam, n_best, length_penalty, limits)
    wishes, n_wishes = _wishes(constraints)
    dictionary = dictionary_of(trained, counting) if replace_unknown else None
    console = Console(stderr=True, highlight=False)
    if (files or []).count("-") > 1:
        raise SettingError("predict: standard input (-) can be read once only.")
    is_stream = (files or ([] if text else ["-"])) == ["-"] and not text
    is_typed = bool(is_stream and sys.stdin and sys.stdin.isatty())
    recipe = trained.loaded.recipe
    given = [] if is_stream else files or []
    sources = task.sources
    known = [line for name in given for line in sources.requests(trained, name, lines_of, tell)]
    known += [sources.typed(recipe, each, "--text", tell) for each in text]
    if not is_stream:
        # before anything long begins; how many texts a stream has is not known
        _check_wishes(constraints, n_wishes, len(known))
    lines = sources.requests(trained, "-", lines_of, tell) if is_stream else iter(known)
    if vectors is not None:
        write_vectors(trained, [*lines], vectors)
        return
    arriving = _Arriving(lines)
    bar = _bar(console, known, is_typed=is_typed)
    number, n_failed, empty = 0, 0, list[int]()
    with bar:
        what = f"answering {counted_words(known[0])}" if len(known) == 1 else "answering"
        row = bar.add_task(what, total=len(known) or None)
        while some := arriving.some():
            requests = [
                Request(line, prefix, wishes.get(i, ()), seed=i, name=f"line {i + 1:,}")
                for i, line in enumerate(some, number)
            ]
            for said in _in_order(trained, requests, search, alignments, on_long, dictionary):
                number += 1
                n_failed += task.has_failed(said)
                if said.source.strip() and not (said.text.strip() or said.note):
                    empty.append(number)
                bar.advance(row)
                if said.note:
                    console.print(f"line {number}: {said.note}", markup=False)
                print(_shown(task, number, said, n_best, as_json=as_json), flush=True)
                if not has_reader(sys.stdout):
                    return
    _check_wishes(constraints, n_wishes, number)
    if empty:
        named = ", ".join(map(str, empty[:MAX_NAMED_LINES])) + (
            " …" if len(empty) > MAX_NAMED_LINES else ""
        )
        console.print(
            f"{len(empty):,} of {number:,} answers are empty (line {named}): the model ended them "
            "at once",
            markup=False,
        )
    if n_failed:
        console.print(f"{n_failed:,} of {number:,} pictures could not be read", markup=False)
        raise typer.Exit(1)


def _bar(console: Console, known: Sequence[str], *, is_typed: bool) -> Progress:
    """A bar that counts texts; for a single long one, or a stream, a sign of life."""
    if len(known) < 2:
        # a user who types sees the answers come
        return spinning(console, is_hidden=is_typed)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, disable=not console.is_terminal, transient=True)


def _refuse(given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if value:
            raise SettingError(
                f"predict: {name} is for answers that are drawn. Add --sample, or leave {name} out."
            )


def _searched(beam: int, n_best: int, length_penalty: float, limits: Limits) -> Search:
    if beam < 1:
        raise SettingError(f"predict: --beam must be at least 1, got {beam}.")
    if beam != BEAM and beam < n_best:
        raise SettingError(
            f"predict: --n-best {n_best} needs a beam at least as wide, got --beam {beam}. Take "
            f"--beam {n_best}, or fewer answers."
        )
    if beam == n_best == 1:
        return Greedy(limits=limits)
    penalty = PaperPenalty(length_penalty)
    return Beam(width=max(beam, n_best), n_best=n_best, penalty=penalty, limits=limits)


def _check_wishes(path: Path | None, n_wishes: int | None, n_texts: int) -> None:
    if n_wishes is not None and n_wishes != n_texts:
        raise DataError(
            f"predict: '{path}' has {n_wishes} lines, but there are {n_texts} texts. Give a line, "
            "empty if need be, for each text."
        )


def _wishes(path: Path | None) -> tuple[dict[int, tuple[str, ...]], int | None]:
    """The phrases for each line that has any, and how many lines there are."""
    if path is None:
        return {}, None
    lines = [line.rstrip("\n") for line in lines_of(str(path))]
    held = {i: tuple(filter(None, line.split("\t"))) for i, line in enumerate(lines) if line}
    return held, len(lines)


class _Arriving:
    """Lines as they arrive: `some` gives all that are there, and waits only for the first."""

    def __init__(self, lines: Iterator[str]) -> None:
        # a stream may have no end
        self.waiting: queue.Queue[str | Exception | None] = queue.Queue(maxsize=LINES_PER_BATCH)
        self.has_ended = False
        self.failed: Exception | None = None
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def _read(self, lines: Iterator[str]) -> None:
        try:
            for line in lines:
                self.waiting.put(line)
        except Exception as error:  # raised where the lines are taken
            self.waiting.put(error)
        self.waiting.put(None)

    def some(self) -> list[str]:
        """At least one line, unless there are no more; an error once all before it were given."""
        found: list[str] = []
        while not self.has_ended and self.failed is None and len(found) < LINES_PER_BATCH:
            if found and self.waiting.empty():
                break
            line = self.waiting.get()
            if isinstance(line, Exception):
                self.failed = line
            elif line is None:
                self.has_ended = True
            else:
                found.append(line)
        if self.failed is not None and not found:
            raise self.failed
        return found


def _in_order(
    trained: Trained,
    requests: Sequence[Request],
    search: Search,
    has_alignments: bool,
    on_long: str,
    dictionary: Mapping[str, str] | None,
) -> Iterator[Prediction]:
    """Predictions in the order of the requests, each as soon as those before it are there."""
    found: dict[int, Prediction] = {}
    each = trained.predict_each(
        requests,
        search=search,
        has_alignments=has_alignments,
        on_long=on_long,
        dictionary=dictionary,
    )
    given = 0
    while given < len(requests):
        while given not in found:
            place, said = next(each)
            found[place] = said
        yield found.pop(given)
        given += 1


def _shown(task: Task, number: int, said: Prediction, n_best: int, *, as_json: bool) -> str:
    """A prediction as it is printed, with the number of its text where there are several."""
    if as_json:
        return _as_json(said)
    return answer_line(said) if n_best == 1 else task.n_best_lines(number, said)


def _as_json(said: Prediction) -> str:
    row = asdict(said)
    row["score"] = None if math.isnan(said.score) else said.score
    if not said.candidates:
        del row["candidates"]
    return json.dumps(row, ensure_ascii=False)
