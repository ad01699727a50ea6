"""Search steps: the one loop of every search; it notes each step, and finished sentences leave.

    state → advance → chosen rows, ends → state        until no sentence is left

A search says how it begins and advances; `searched` is the loop. A model that takes the steps in
its own way (`regard.decoding.gpu.recordings`) goes through the same loop.
"""

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, Protocol, cast, final, runtime_checkable

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.decoding.rules import GeneratedTokens
from regard.decoding.sentences import Follower, Limits, Sentence, SentenceBatch, cut_short
from regard.decoding.trellis import Chosen, Hypothesis, SearchState, Trellis
from regard.models.stepper import BOS, EOS, Stepper


class SearchStep(NamedTuple):
    """The result of one step of the search."""

    chosen: Chosen
    ends: Bool[Tensor, "b w"]
    done: Bool[Tensor, " b"]
    """Sentences that gain nothing from a further step."""
    after: SearchState


Walk = Generator[SearchStep, None, list[list[Hypothesis]]]
"""Every step of all rows that are left, and the answers at the end."""
Advance = Callable[[Stepper, SearchState, int], SearchStep]
"""Writes token t of every row, without waiting for the device."""


@runtime_checkable
class StepwiseSearch(Protocol):
    """A search that goes step by step, with an answer for each sentence at the end."""

    @property
    def limits(self) -> Limits:
        """How short and how long answers may be."""

    @property
    def is_told(self) -> bool:
        """Whether a token is never taken back, so that followers are told it."""

    @property
    def steps_key(self) -> Hashable:
        """What searches with equal steps have in common, whatever numbers they draw."""

    def batch(self, sentences: Sequence[Sentence], device: torch.device) -> SentenceBatch:
        """The sentences as tensors."""

    def advance(self, sentences: Sequence[Sentence], batch: SentenceBatch) -> Advance:
        """The step of the search over these sentences."""

    def begin(self, model: Stepper, batch: SentenceBatch, state: Any) -> SearchState:
        """The state after the model has read the sources, before the first token."""

    def answers(self, trellis: Trellis) -> list[list[Hypothesis]]:
        """The answers of each sentence."""


@runtime_checkable
class SearchSteps(Protocol):
    """The steps of one search over some sentences, one after another."""

    sentences: Sequence[Sentence]
    longest: int

    def shorten(self, followers: Sequence[Follower | None], t: int) -> None:
        """End at step t the answers whose followers want no more."""

    def take(self, t: int) -> SearchStep:
        """Write token t of every row."""

    def done(self, step: SearchStep, t: int) -> list[bool]:
        """The sentences that are done; empty if that is not known after this step."""

    def keep(self, stay: Sequence[int]) -> None:
        """Go on with some of the sentences."""

    def close(self) -> None:
        """The search has ended, or its caller has left it."""


@runtime_checkable
class StepsItself(Protocol):
    """A model that takes the steps of a search in its own way."""

    def steps_of(
        self, search: StepwiseSearch, sentences: Sequence[Sentence], device: torch.device
    ) -> SearchSteps:
        """The steps of a search over some sentences."""


@final
class PlainSteps:
    """Steps that call the model."""

    def __init__(
        self,
        search: StepwiseSearch,
        model: Stepper,
        sentences: Sequence[Sentence],
        batch: SentenceBatch,
        begun: SearchState | None = None,
        *,
        may_leave: bool = True,
    ) -> None:
        """`begun` is the state before the first token, if the sources were read already.

        `may_leave`: whether finished sentences leave the batch.
        """
        self.sentences, self.longest = sentences, batch.longest
        self._may_leave = may_leave
        self.n_taken = 0
        self._model, self._advance = model, search.advance(sentences, batch)
        self._state = begun or search.begin(model, batch, model.start(batch.source))

    def shorten(self, followers: Sequence[Follower | None], t: int) -> None:
        """End at step t the answers whose followers want no more."""
        self._state = self._state._replace(most=cut_short(self._state.most, followers, t))

    def take(self, t: int) -> SearchStep:
        """Write token t of every row."""
        step = self._advance(self._model, self._state, t)
        self._state, self.n_taken = step.after, t
        return step

    def done(self, step: SearchStep, t: int) -> list[bool]:
        """The sentences that are done, if they may leave, or all are."""
        is_done = cast(list[bool], step.done.tolist())
        return is_done if self._may_leave or all(is_done) else []

    def keep(self, stay: Sequence[int]) -> None:
        """Go on with some of the sentences."""
        self._state = _kept(self._model, self._state, stay)

    def close(self) -> None:
        """Plain steps hold nothing beyond their state."""


def answered(
    search: StepwiseSearch,
    model: Stepper,
    sentences: Sequence[Sentence],
    device: torch.device | str,
) -> list[list[Hypothesis]]:
    """The answers of each sentence."""
    with torch.inference_mode():
        steps = steps_of(search, model, sentences, device)
        return answers_of(search, steps)[: len(sentences)]


def answers_of(search: StepwiseSearch, steps: SearchSteps) -> list[list[Hypothesis]]:
    """The answers of each sentence of some steps, once all have been taken."""
    found = searched(search, steps)
    while True:
        try:
            next(found)
        except StopIteration as end:
            return cast(list[list[Hypothesis]], end.value)


def streamed(
    search: StepwiseSearch, model: Stepper, sentence: Sentence, device: torch.device | str
) -> Iterator[int]:
    """The tokens of the first row of one sentence, as they come, without its end token."""
    with torch.inference_mode():
        steps = steps_of(search, model, [sentence], device)
    with closing(searched(search, steps)) as found:
        has_ended = False
        while not has_ended:
            # the mode ends with each step, so that the caller is never in it
            with torch.inference_mode():
                step = next(found, None)
            if step is None:
                return
            # one wait for the device
            both = torch.stack([step.chosen.token[0, 0], step.ends[0, 0].long()])
            token, has_ended = both.tolist()
            if token != EOS:
                yield token


def steps_of(
    search: StepwiseSearch,
    model: Stepper,
    sentences: Sequence[Sentence],
    device: torch.device | str,
) -> SearchSteps:
    """The steps of a search over some sentences: the model's own, or plain ones."""
    place = torch.device(device)
    if isinstance(model, StepsItself):
        return model.steps_of(search, sentences, place)
    return PlainSteps(search, model, sentences, search.batch(sentences, place))


def searched(search: StepwiseSearch, steps: SearchSteps) -> Walk:
    """Take all steps, and yield each; the answers come at the end."""
    with closing(steps):
        trellis = Trellis(len(steps.sentences))
        for t in range(1, steps.longest + 1):
            present = [steps.sentences[i].follower for i in trellis.sentences]
            if any(present):
                steps.shorten(present, t)
            step = steps.take(t)
            trellis.record(step.chosen, step.ends)
            if search.is_told and any(present):
                _tell(present, step.chosen)
            yield step
            is_done = steps.done(step, t)
            if is_done and all(is_done):
                break
            if is_done and (stay := trellis.drop(is_done)):
                steps.keep(stay)
        return search.answers(trellis)


def began(batch: SentenceBatch, state: Any, width: int, n_kept: int) -> SearchState:
    """The state before the first token, in which a sentence may have `width` rows."""
    device, n = batch.source.device, len(batch.source)
    return SearchState(
        state=state,
        tokens=torch.full((n, 1), BOS, device=device),
        written=GeneratedTokens.nothing(n, device),
        live=torch.zeros(n, 1, device=device),
        places=torch.full((n,), width, device=device),
        kept=torch.full((n, n_kept), -torch.inf, device=device),
        most=batch.most,
    )


def _kept(model: Stepper, before: SearchState, stay: Sequence[int]) -> SearchState:
    """The state of some sentences, with all their rows."""
    width, device = before.live.shape[1], before.live.device
    places = torch.tensor(stay, device=device)
    rows = (places[:, None] * width + torch.arange(width, device=device)).flatten()
    return SearchState(
        state=model.select(before.state, rows),
        tokens=before.tokens[rows],
        written=before.written.keep(rows),
        live=before.live[places],
        places=before.places[places],
        kept=before.kept[places],
        most=before.most[places],
    )


def _tell(followers: Sequence[Follower | None], chosen: Chosen) -> None:
    """Tell each follower the token of its answer, unless that has ended before."""
    lives = (chosen.score[:, 0] > -torch.inf).tolist()
    for follower, token, is_live in zip(followers, chosen.token[:, 0].tolist(), lives, strict=True):
        if follower is not None and is_live:
            follower.write(token)
