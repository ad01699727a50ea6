"""Graphed beam: on a GPU, captures the steps of a beam search as CUDA graphs and replays them.

A step of a search is hundreds of small operations, and launching each takes longer than running it.
Batches of one shape run the same operations, so that from the third such batch on one call launches
a whole step, and one the reading of the sources if that can be captured. Batches are padded to
multiples of a few sizes, to have few shapes.

Cost: the memory of the longest answer's caches for every shape seen; a second for the capture.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar, cast, final, runtime_checkable

import torch
from torch import Tensor

from regard.decoding.beam import Beam, BeamStep
from regard.decoding.search_engine import Decodable, SearchEngine
from regard.decoding.sentences import Sentence, SentenceBatch
from regard.decoding.trellis import BeamState, Hypothesis, Trellis
from regard.hardware.cuda_graphs import GraphPool
from regard.models.stepper import Stepper
from regard.models.transformer import Transformer

ROUND_SENTENCES, ROUND_TOKENS = 32, 8
"""Batches are padded to multiples of these."""

STEPS_BETWEEN_CHECKS = 4
"""How often a search checks whether all sentences are done, as a check makes the GPU wait."""

T = TypeVar("T")


@runtime_checkable
class GraphCapture(Protocol):
    """The interface: captures the steps of one search."""

    def capture_graph(self, work: Callable[[], T]) -> tuple[T, Callable[[], object]]:
        """The results of some work, at fixed addresses, and a function that computes them again."""


GRAPH_CAPTURES: Mapping[str, Callable[[], GraphCapture]] = {"cuda": GraphPool}
"""The capture of each kind of device that has graphs."""

Step = Callable[[BeamState, int], BeamStep]


@final
class GraphedBeam:
    """A beam search that gets faster with every batch of a shape that it has seen before.

    On devices without graphs, such as a CPU, and for sentences that must contain phrases, it runs
    the beam search without them.
    """

    def __init__(self, search: Beam) -> None:
        self.search = search
        self._graphs: dict[tuple[Any, ...], _StepGraphs | None] = {}
        self._is_capturable: dict[Stepper, bool] = {}
        """The models so far, and whether the reading of each one's sources can be captured."""

    @torch.inference_mode()
    def __call__(
        self, model: Decodable, sentences: Sequence[Sentence], *, device: torch.device | str = "cpu"
    ) -> list[list[Hypothesis]]:
        """The answers of each sentence."""
        has_constraints = any(sentence.must_contain for sentence in sentences)
        capture = GRAPH_CAPTURES.get(torch.device(device).type)
        if isinstance(model, SearchEngine):
            return self.search(model, sentences, device=device)
        if capture is None or has_constraints or not sentences:
            return self.search(model, sentences, device=device)
        filled = [*sentences, *[sentences[-1]] * (-len(sentences) % ROUND_SENTENCES)]
        batch = SentenceBatch.of(filled, self.search.limits, torch.device(device))
        batch = batch.wider(-batch.source.shape[1] % ROUND_TOKENS)
        chooser = self.search.chooser(filled, batch)

        def step(before: BeamState, t: int) -> BeamStep:
            return self.search.advance(model, chooser, before, t)

        if model not in self._is_capturable:
            self._is_capturable[model] = getattr(model, "is_capturable", False)
        # the inputs that differ between batches of one shape: tensors in tuples
        given: tuple[Any, ...] = batch
        if not self._is_capturable[model]:
            given = self.search.begin(batch, model.start(batch.source))

        def start() -> BeamState:
            if given is not batch:
                return cast(BeamState, given)
            state = cast(Transformer, model).read(batch.source, is_full=batch.is_full)
            return self.search.begin(batch, state)

        shapes = [tuple(x.shape) for x in _tensors(given)]
        key = (model, batch.longest, batch.is_full, *shapes)
        if key not in self._graphs or batch.forced.numel():
            # kernels are chosen and compiled the first time, which cannot be captured
            self._graphs.setdefault(key, None)
            return self._search_steps(batch, start(), step)[: len(sentences)]
        graphs = self._graphs[key]
        if graphs is None:
            reads = start if self._is_capturable[model] else None
            graphs = self._graphs[key] = _StepGraphs(given, reads, step, capture())
        return self._search_steps(batch, graphs.start(given), graphs.step)[: len(sentences)]

    def _search_steps(
        self, batch: SentenceBatch, beam: BeamState, step: Step
    ) -> list[list[Hypothesis]]:
        trellis, limits = Trellis(len(batch.source)), self.search.limits
        for t in range(1, batch.longest + 1):
            found = step(beam, t)
            trellis.record(found.chosen, found.ends)
            beam = found.after
            # before the shortest length no sentence can be done
            if t > limits.min_tokens and t % STEPS_BETWEEN_CHECKS == 0 and bool(found.done.all()):
                break
        return trellis.best(self.search.n_best, self.search.penalty)


class _StepGraphs:
    """The graphs of every step of a search; each reads the results of the one before."""

    def __init__(
        self,
        given: tuple[Any, ...],
        reads: Callable[[], BeamState] | None,
        step: Step,
        capture: GraphCapture,
    ) -> None:
        self._given, self._step, self._capture = given, step, capture
        self._start = cast(BeamState, given)
        self._read: Callable[[], object] = lambda: None
        if reads is not None:
            self._start, self._read = capture.capture_graph(reads)
        self._steps: list[tuple[BeamStep, Callable[[], object]]] = []

    def start(self, given: tuple[Any, ...]) -> BeamState:
        """Begin with another batch of the same shape."""
        for mine, new in zip(_tensors(self._given), _tensors(given), strict=True):
            mine.copy_(new)
        self._read()
        return self._start

    def step(self, before: BeamState, t: int) -> BeamStep:
        """Replay step t, which is captured if it has not been yet."""
        if t > len(self._steps):
            last = self._steps[-1][0].after if self._steps else self._start
            self._steps.append(self._capture.capture_graph(lambda: self._step(last, t)))
        found, replay = self._steps[t - 1]
        replay()
        return found


def _tensors(tree: Any) -> Iterator[Tensor]:
    """The tensors of tuples in tuples, in order."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple):
        for part in tree:
            yield from _tensors(part)
