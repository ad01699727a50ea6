"""Worker: answers batches of jobs with one loaded run, and writes what it finds to a connection.

It reads jobs and drops, and writes tokens, answers, errors and signs of life, as JSON. Between two
steps of a search it looks for drops and deadlines, so that such an answer ends at the next step.

A job that fails fails alone: the others of its batch are answered without it. A batch that does not
fit in memory is halved once.
"""

import hashlib
import json
import math
import signal
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, final

import torch

from regard.attention.own_parts import import_parts
from regard.data.subword_kinds import EOS
from regard.decoding import Sampling, Search
from regard.decoding.batching import BATCH_TOKENS
from regard.decoding.sampling import SEED_FACTOR
from regard.errors import RegardError, SettingError
from regard.hardware.memory import lacks_memory, spare_loaded_objects
from regard.interop.engines import engine_named
from regard.runs.evaluation import search_for
from regard.runs.example_inputs import own_examples
from regard.runs.trained import Trained, load
from regard.serving.prediction_schemas import SearchOptions
from regard.tasks.predictions import AnswerOptions, Prediction, Request
from regard.training.run_folder import finished_weights

Message = dict[str, Any]

HASH_CHARACTERS = 12
LOOK_SECONDS = 0.005
"""How often, at most, a search looks for messages."""
BEAT_SECONDS = 0.5
"""How often a search that takes long gives a sign of life."""
FLUSH_SECONDS = 0.01
"""How long a finished answer waits for others that are sent with it."""
WARM_UP_TOKENS = 16
"""The longest answer of a warm-up."""
WHOLE_CHARACTER = "\ufffd"
"""What decoding gives for bytes that are not yet a character."""


def search_of(trained: Trained, options: SearchOptions) -> Search:
    """The search that `regard predict` makes of the same options."""
    limits = trained.limits(options.max_tokens, "predict", "max_tokens")
    if options.sample:
        return Sampling(
            n_samples=options.n_best, temperature=options.temperature, top_k=options.top_k,
            top_p=options.top_p, limits=limits, rules=trained.default_search().rules,
        )  # fmt: skip
    return search_for(
        trained, beam=options.beam, length_penalty=options.length_penalty, n_best=options.n_best,
        limits=limits,
    )  # fmt: skip


def weights_hash(path: Path) -> str:
    """The beginning of the SHA-256 of a run's weights."""
    with finished_weights(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:HASH_CHARACTERS]


def job_seed(seed: int, place: int) -> int:
    """The seed of a text by the request's seed and its place: as `regard predict --seed` draws."""
    return (seed * SEED_FACTOR + place) % 2**63


def warm_up_answers(trained: Trained) -> list[str]:
    """The beginnings of greedy answers to the run's own examples; equal loads give equal ones."""
    if not trained.task.is_searched or trained.engine is not None:
        search: Search = trained.default_search()
    else:
        longest = WARM_UP_TOKENS if trained.task.has_free_length else None
        search = search_of(trained, SearchOptions(beam=1, max_tokens=longest))
    inputs = own_examples(trained).inputs or ("a",) * trained.task.sources.has_lengths
    options = AnswerOptions(search, on_long="skip" if trained.task.sources.has_lengths else "error")
    try:
        found = dict(trained.predict_each(inputs, options))
    except SettingError:
        # a run that gives vectors has no answers to compare
        return []
    return [found[place].text for place in range(len(inputs))]


def measured_batch(trained: Trained) -> int:
    """Source tokens of the largest batch that fits in memory, as far as a trial shows.

    The trial answers as many copies of the longest example as such a batch holds, and half as many
    until they fit.
    """
    inputs, tokens = own_examples(trained).inputs, BATCH_TOKENS
    if not inputs or not trained.task.sources.has_lengths:
        return tokens
    longest = max(inputs, key=trained.length)
    search = search_of(trained, SearchOptions())
    while tokens > trained.longest:
        try:
            trained.predict([longest] * max(1, tokens // trained.length(longest)), search=search)
        except Exception as error:
            if not lacks_memory(error):
                raise
        else:
            break
        # outside of the exception, which holds the tensors of the search
        tokens //= 2
        free_memory(trained)
    free_memory(trained)
    return tokens


def free_memory(trained: Trained) -> None:
    """Give back recordings, and what a GPU's allocator keeps; a CPU's keeps nothing."""
    trained.free_recordings()
    if trained.hardware.device.type == "cuda":
        torch.cuda.empty_cache()


@final
@dataclass(eq=False)
class FollowedJob:
    """One job in its batch; the search follows it."""

    message: Message
    worker: "Worker"
    reason: str | None = None
    """Why the answer ended early: "cancelled" or "deadline"."""
    _written: list[int] = field(default_factory=list)
    _told: str = ""

    @property
    def number(self) -> int:
        """The job's number."""
        return int(self.message["number"])

    def wants_more(self) -> bool:
        """False once the job was dropped, or its time is over."""
        self.worker.look()
        if self.reason is None:
            if self.number in self.worker.dropped:
                self.reason = "cancelled"
            elif time.monotonic() >= self.message["deadline"]:
                self.reason = "deadline"
        return self.reason is None

    def write(self, token: int) -> None:
        """Send a token of the answer, and what it adds to the text."""
        if not self.message["wants_tokens"] or token == EOS:
            return
        target = self.worker.trained.loaded.target
        self._written.append(token)
        text = target.decode(self._written)
        is_whole = text.startswith(self._told) and not text.endswith(WHOLE_CHARACTER)
        delta = text[len(self._told) :] if is_whole else ""
        self._told += delta
        name = target.readable(token)
        self.worker.send({"number": self.number, "token": name, "delta": delta}, now=True)

    def rest(self, text: str) -> str:
        """What the tokens that were told lack of the whole answer."""
        is_told = bool(self._written) and text.startswith(self._told)
        return text[len(self._told) :] if is_told else ""

    def request(self) -> Request:
        """The request as `predict` takes it."""
        message = self.message
        return Request(
            message["text"], message["prefix"], tuple(message["must_contain"]), message["seed"],
            message["name"], self,
        )  # fmt: skip


@final
class Worker:
    """A loaded run at one end of a connection."""

    def __init__(self, trained: Trained, connection: Connection) -> None:
        self.trained = trained
        self.dropped = set[int]()
        """The numbers of jobs whose answers are not wanted any more."""
        self._connection, self._weights = connection, weights_hash(trained.path)
        self._batches: list[Message] = []
        self._unsent: list[Message] = []
        self._searches: dict[SearchOptions, Search] = {}
        self._looked = self._sent = time.monotonic()
        self._n_retries = 0

    def run(self) -> None:
        """Warm up, and answer until the other end closes."""
        try:
            answers, batch_tokens = warm_up_answers(self.trained), BATCH_TOKENS
            if self.trained.hardware.device.type == "cuda":
                batch_tokens = measured_batch(self.trained)
            ready = {"answers": answers, "batch_tokens": batch_tokens, "weights": self._weights}
            self.send({"ready": ready}, now=True)
            while True:
                while not self._batches:
                    self._receive()
                batch = self._batches.pop(0)
                self._answer(batch)
        except (EOFError, OSError):
            # the server has gone, or it lets this worker go
            return

    def _answer(self, batch: Message) -> None:
        self._n_retries, began = 0, time.monotonic()
        options = SearchOptions.model_construct(**batch["options"])
        jobs = [FollowedJob(message, self) for message in batch["jobs"]]
        self._answer_all(jobs, options, may_halve=True)
        seconds = time.monotonic() - began
        self.dropped.clear()
        memory = 0
        if self.trained.hardware.device.type == "cuda":
            memory = torch.cuda.memory_reserved(self.trained.hardware.device)
        done = {"seconds": seconds, "retries": self._n_retries, "device_bytes": memory}
        self.send({"done": done}, now=True)

    def look(self) -> None:
        """Read what has come meanwhile, and give a sign of life; often called, seldom done."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        while self._connection.poll():
            self._receive()
        if now - self._sent > BEAT_SECONDS:
            self.send({"beat": True}, now=True)

    def send(self, message: Message, *, now: bool = False) -> None:
        """Send a message, at once or together with those that come within a moment."""
        self._unsent.append(message)
        if now or time.monotonic() - self._sent > FLUSH_SECONDS:
            self._connection.send_bytes(json.dumps(self._unsent).encode())
            self._unsent, self._sent = [], time.monotonic()

    def _receive(self) -> None:
        message = json.loads(self._connection.recv_bytes())
        if "drop" in message:
            self.dropped.update(message["drop"])
        else:
            self._batches.append(message)

    def _answer_all(
        self, jobs: Sequence[FollowedJob], options: SearchOptions, *, may_halve: bool
    ) -> None:
        """Answer jobs together, or those that cannot be apart."""
        left = {job.number: job for job in jobs}
        error = self._answered(left, options)
        if error is None:
            return
        rest = list(left.values())
        if lacks_memory(error):
            self._free_memory()
            if may_halve and len(rest) > 1:
                self._n_retries += 1
                middle = len(rest) // 2
                self._answer_all(rest[:middle], options, may_halve=False)
                self._answer_all(rest[middle:], options, may_halve=False)
                return
            if may_halve:
                # one job alone is tried once more, with the memory that was freed
                self._n_retries += 1
                self._answer_all(rest, options, may_halve=False)
                return
        if len(rest) > 1 and not lacks_memory(error):
            for job in rest:
                self._answer_all([job], options, may_halve=may_halve)
            return
        for job in rest:
            message = _message(error, job.message["name"])
            self.send({"number": job.number, "error": _kind(error), "message": message})

    def _answered(self, left: dict[int, FollowedJob], options: SearchOptions) -> Exception | None:
        """Answer jobs, and take them out of those that are left; the error that stopped it."""
        jobs = list(left.values())
        try:
            if options not in self._searches:
                self._searches[options] = search_of(self.trained, options)
            answering = AnswerOptions(self._searches[options], options.alignments, options.on_long)
            requests = [job.request() for job in jobs]
            for place, answer in self.trained.predict_each(requests, answering):
                job = left.pop(jobs[place].number)
                self.send(_answer_message(job, answer, has_failed=self.trained.task.has_failed))
        except (EOFError, BrokenPipeError):
            raise
        except Exception as error:
            if not isinstance(error, RegardError) and not lacks_memory(error):
                traceback.print_exc()
            # its frames hold the tensors of the search
            return error.with_traceback(None)
        return None

    def _free_memory(self) -> None:
        free_memory(self.trained)


def _kind(error: Exception) -> str:
    if lacks_memory(error):
        return "out_of_memory"
    return type(error).__name__ if isinstance(error, RegardError) else "internal"


def _message(error: Exception, name: str) -> str:
    if lacks_memory(error):
        return f"serve: {name}: there is not enough memory for it. Send less, or try again later."
    if isinstance(error, RegardError):
        return str(error)
    return f"serve: {name}: the model could not answer; the server's log says why."


def _number(score: float) -> float | None:
    return score if math.isfinite(score) else None


def _answer_message(job: FollowedJob, answer: Prediction, *, has_failed: Any) -> Message:
    """An answer as the server sends it on."""
    if has_failed(answer):
        return {"number": job.number, "error": "DataError", "message": str(answer.note)}
    ended = {True: "eos", False: "length"}
    found: Message = {
        "text": answer.text,
        "score": _number(answer.score),
        "tokens": list(answer.tokens),
        "finish_reason": job.reason or ended[answer.has_ended],
        "note": answer.note if job.reason is None else None,
    }
    if answer.alignment is not None:
        found["alignment"] = answer.alignment
    if len(answer.n_best) > 1:
        found["n_best"] = [
            {
                "text": one.text,
                "score": _number(one.score),
                "tokens": list(one.tokens),
                "finish_reason": ended[one.has_ended],
            }
            for one in answer.n_best
        ]
    if answer.candidates:
        found["candidates"] = [
            [{"text": one.text, "probability": one.probability} for one in words]
            for words in answer.candidates
        ]
    message: Message = {"number": job.number, "answer": found}
    if rest := job.rest(answer.text):
        message["delta"] = rest
    return message


def work(spec: Mapping[str, Any], connection: Connection) -> None:
    """Load the run that is described, and answer."""
    for path in spec["imports"]:
        import_parts(Path(path))
    if spec["threads"]:
        torch.set_num_threads(spec["threads"])
    try:
        trained = load(spec["run"], device=spec["device"], engine=engine_named(spec["engine"]))
    except RegardError as error:
        message = {"failed": {"kind": type(error).__name__, "message": str(error)}}
        connection.send_bytes(json.dumps([message]).encode())
        return
    spare_loaded_objects()
    Worker(trained, connection).run()


def main() -> None:
    """The process of a worker: its arguments are a file descriptor and a spec as JSON."""
    # the server decides when its workers end
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    work(json.loads(sys.argv[2]), Connection(int(sys.argv[1])))
