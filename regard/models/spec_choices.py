"""Spec choices: builds every choice of a [model] section once as a check, before any training.

Parts are built on the meta device, without numbers, and discarded. A part that cannot be built is
an error with the key of its choice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from regard.attention import SCORES, SELECTIONS
from regard.attention.tables import Meets, check_meetings
from regard.choices import Choice
from regard.dims import Dims
from regard.errors import MissingExtra, RegardError
from regard.layers.vision import ENCODERS
from regard.models.attention_spec import ATTENTION_KINDS, RELATION_CHOICES, AttentionSpec
from regard.models.captioner.spec import CaptionerSpec
from regard.models.kinds import Spec
from regard.models.self_attention import make_links
from regard.models.spec import POSITION_CHOICES, ChainSpec


def wrong_choices(spec: Spec) -> Iterator[tuple[str, str]]:
    """The errors of a spec's choices and their settings, by key."""
    for key, make in _makings(spec):
        try:
            with torch.device("meta"), _Unfilled():
                make()
        except MissingExtra:
            # a missing package is no mistake of a recipe
            continue
        except RegardError as error:
            yield key, str(error)


def frozen_encoder(spec: Spec) -> str | None:
    """The name of a model's picture encoder if it is frozen, else None."""
    if not isinstance(spec, CaptionerSpec):
        return None
    with torch.device("meta"), _Unfilled():
        encoder = spec.encoder.build(ENCODERS, spec.dims)
    return spec.encoder.name if encoder.is_frozen else None


def _makings(spec: Spec) -> Iterator[tuple[str, Callable[[], object]]]:
    """Keys of [model], and the function that builds the part each chooses."""
    for key, table in spec.tables.items():
        is_whole = key == "positions" or spec.dims.n_heads == 1
        dims = spec.dims if is_whole else spec.dims.head()
        yield from _choices(f"model.{key}", getattr(spec, key), table, dims)
    if not isinstance(spec, ChainSpec):
        return
    for kind in ATTENTION_KINDS:
        own: AttentionSpec | None = getattr(spec, kind)
        for key, table in own.tables.items() if own is not None else ():
            dims = spec.dims_of(kind).head()
            yield from _choices(f"model.{kind}.{key}", getattr(own, key), table, dims)
        # without choices of their own decoder and cross-attention are as the encoder's
        if own is not None or kind == ATTENTION_KINDS[0]:
            for way in spec.attention(kind).attends:
                path = "model" if own is None else f"model.{kind}"
                yield path, partial(_check_meeting, spec, kind, way)


def _choices(
    path: str, held: Any, table: Mapping[str, Any], dims: Dims
) -> Iterator[tuple[str, Callable[[], object]]]:
    for choice in held if isinstance(held, tuple) else (held,):
        if isinstance(choice, Choice):
            yield path, partial(choice.build, table, dims)


def _check_meeting(spec: ChainSpec, kind: str, way: Choice) -> None:
    """Refuse links that cannot meet; a link that cannot be built has an error of its own."""
    head, chain = spec.dims_of(kind).head(), spec.attention(kind)
    related = chain.relation
    makes: list[Callable[[], Iterable[object]]] = [
        lambda: [spec.positions.build(POSITION_CHOICES, spec.dims)],
        lambda: [chain.score.build(SCORES, head)],
        lambda: [related.build(RELATION_CHOICES, head)] if related else [],
        lambda: make_links(way, head, is_causal=False),
        lambda: [chain.select.build(SELECTIONS, head)],
    ]
    links: list[object] = []
    for make in makes:
        with suppress(RegardError):
            links += make()
    check_meetings(link for link in links if isinstance(link, Meets))


@final
class _Unfilled(TorchFunctionMode):
    """Skips random initialisation on the meta device, for which torch would import many modules."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Pass the call on, except draws from a normal distribution."""
        if func is Tensor.normal_:
            return args[0]
        return func(*args, **(kwargs or {}))
