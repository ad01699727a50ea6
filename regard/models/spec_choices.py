"""Choosing: every choice of a [model] section is made once, before anything is read or learned.

What is made has no numbers in it (the meta device) and is thrown away. What cannot be made is told
with the key of its choice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.attention import RELATIONS, SCORES, SELECTIONS, meetings
from regard.choices import Choice
from regard.dims import Dims
from regard.errors import MissingExtra, RegardError
from regard.layers.vision import ENCODERS
from regard.models.captioner.spec import CaptionerSpec
from regard.models.convolutional.building import PLACING
from regard.models.convolutional.spec import ConvolutionalSpec
from regard.models.encoders.spec import READING_PATTERNS, EncoderSpec
from regard.models.kinds import Spec
from regard.models.language.spec import LanguageSpec
from regard.models.recurrent.spec import RecurrentSpec
from regard.models.self_attention import attending
from regard.models.spec import TransformerSpec
from regard.positions import POSITIONS

Makings = Iterator[tuple[str, Callable[[], object]]]
"""Keys of [model], and what makes the part that each chooses."""


def wrong_choices(spec: Spec) -> Iterator[tuple[str, str]]:
    """What is wrong with a spec's choices and their settings, each with its key."""
    for key, make in CHOICES.get(spec.kind, _no_choices)(spec):
        try:
            with torch.device("meta"), _Unfilled():
                make()
        except MissingExtra:
            # what is not installed is no mistake of a recipe
            continue
        except RegardError as error:
            yield key, str(error)


def frozen_encoder(spec: Spec) -> str | None:
    """The name of the encoder with which a model looks at pictures, if it never learns."""
    if not isinstance(spec, CaptionerSpec):
        return None
    with torch.device("meta"), _Unfilled():
        encoder = spec.encoder.build(ENCODERS, Dims(d_model=spec.d_embedding))
    return spec.encoder.name if encoder.is_frozen else None


def _transformer(spec: TransformerSpec) -> Makings:
    return _stack(spec, "model.encoder_attends")


def _language_model(spec: LanguageSpec) -> Makings:
    return _stack(spec.stack, "model.attends")


def _stack(spec: TransformerSpec, key: str) -> Makings:
    """The links of every layer, and whether they may meet; `key` says how layers attend."""
    head = spec.dims.head()
    yield from _links(spec.score, spec.select, head)
    yield "model.positions", partial(spec.positions.build, PLACES, spec.dims)
    if spec.relation is not None:
        yield "model.relation", partial(spec.relation.build, RELATIONS, head)
    for way in spec.encoder_attends:
        # a pattern's settings are right or wrong whatever else hides the future
        yield key, partial(attending, way, head, is_causal=False)
        yield "model", partial(_check_meeting, spec, way)


def _check_meeting(spec: TransformerSpec, way: Choice) -> None:
    """Refuse links that cannot meet; one that cannot be made is told with its own key."""
    head = spec.dims.head()
    makes: list[Callable[[], Iterable[object]]] = [
        lambda: [spec.positions.build(PLACES, spec.dims)],
        lambda: [spec.score.build(SCORES, head)],
        lambda: [spec.relation.build(RELATIONS, head)] if spec.relation else [],
        lambda: attending(way, head, is_causal=False),
        lambda: [spec.select.build(SELECTIONS, head)],
    ]
    links: list[object] = []
    for make in makes:
        with suppress(RegardError):
            links += make()
    meetings.check(link for link in links if isinstance(link, meetings.Meets))


def _recurrent(spec: RecurrentSpec) -> Makings:
    return _links(spec.score, spec.select, spec.dims)


def _convolutional(spec: ConvolutionalSpec) -> Makings:
    yield from _links(spec.score, spec.select, spec.dims)
    yield "model.positions", partial(spec.positions.build, PLACING, spec.dims)


def _reader(spec: EncoderSpec) -> Makings:
    yield "model.positions", partial(spec.positions.build, PLACES, spec.dims)
    if spec.relation is not None:
        yield "model.relation", partial(spec.relation.build, RELATIONS, spec.dims.head())
    if spec.pattern is not None:
        yield "model.pattern", partial(spec.pattern.build, READING_PATTERNS, spec.dims)


def _captioner(spec: CaptionerSpec) -> Makings:
    yield "model.encoder", partial(spec.encoder.build, ENCODERS, Dims(d_model=spec.d_embedding))


def _no_choices(spec: Spec) -> Makings:
    return iter(())


def _links(score: Choice, select: Choice, dims: Dims) -> Makings:
    yield "model.score", partial(score.build, SCORES, dims)
    yield "model.select", partial(select.build, SELECTIONS, dims)


def _nowhere(dims: Dims) -> None:
    return None


PLACES: Mapping[str, Callable[..., object]] = {**POSITIONS, "none": _nowhere}
"""What `model.positions` may name."""

CHOICES: Mapping[str, Callable[..., Makings]] = {
    "transformer": _transformer,
    "recurrent": _recurrent,
    "convolutional": _convolutional,
    "captioner": _captioner,
    "language_model": _language_model,
    "encoder": _reader,
}
"""The choices of a spec, by kind; published families have none."""


@final
class _Unfilled(TorchFunctionMode):
    """Draws no numbers where there is no room for any; torch would load half of itself for it."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The call as it is, but for numbers of a normal distribution."""
        if func is Tensor.normal_:
            return args[0]
        return func(*args, **(kwargs or {}))
