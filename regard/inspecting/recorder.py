"""A record of whatever ran: our own models, or somebody else's that hold torch's attention.

    with capture(model) as record:
        model(source, target)
    record.weights("cross", 0, 2)

The pass runs as it always does, fast paths and all. Afterwards the record holds every attention
that ran in this thread, by kind and layer, and does not change any more. A block in which none was
heard ends in an error that says why.
"""

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.attention import AttentionMap
from regard.attention.capture import captured
from regard.errors import SettingError
from regard.inspecting.capture import check_looks, frozen, with_values
from regard.inspecting.foreign import LISTENING, foreign
from regard.inspecting.lazy_map import Later
from regard.inspecting.record import Attention, Record, Weights
from regard.inspecting.text_record import by_layer, mask_of, mechanism_of, versions
from regard.inspecting.token_labels import Tokens
from regard.models import Model

KINDS: Sequence[tuple[str, str]] = (
    (r"\bcross", "cross"),
    (r"^encoder\b", "encoder"),
    (r"\blook\.chain$", "cross"),
    (r"^decoder\.\d+\.chain$", "cross"),
    (r"^decoder\..*\bbranches\.attention\.chain$", "cross"),
    (r"^decoder\b.*\battention\.chain$", "decoder"),
    (r"^layers\.\d+\.attention\.chain$", "decoder"),
)
"""What the places of our own models' chains mean; the first that fits."""

SIDES: Mapping[str, tuple[str, str]] = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
}

HEARD = (
    "capture hears regard's own attentions (Chain, and the heads and models made of it) and "
    "torch's nn.MultiheadAttention, alone or inside nn.TransformerEncoderLayer; it hears no "
    "subclass of these two and no scripted module"
)
"""For errors: what a record can be made of."""


class _Found(NamedTuple):
    """One attention that ran."""

    kind: str
    weights: Weights
    sides: tuple[str, str]
    columns: str
    mechanism: str
    mask: str


@contextmanager
def capture(
    model: nn.Module, *, names: Sequence[Sequence[str]] = (), example: int = 0
) -> Iterator[Record]:
    """Record every attention that runs inside the block; the record is empty until the block ends.

    Our own models have the kinds "encoder", "decoder" and "cross"; an `nn.MultiheadAttention` of
    another model has its place there without the numbers of layers, such as "layers.self_attn".
    Where a kind's layers differ in length, each length is a kind of its own.

    Args:
        model: what will run.
        names: the tokens of one or several sequences; a side with as many places gets their names.
        example: which sentence of a batch to look at.
    """
    record = Record("", "", {}, versions=versions())
    with captured(model) as chains, foreign(model) as others, _last_call(model) as asked:
        yield record
    found = [_chain(name, one, example) for name, one in chains.items()]
    if not found and asked and isinstance(model, Model):
        # a decoder whose steps wait for each other asks no chain; one more pass shows its looks
        with torch.no_grad():
            maps = with_values(model, *asked[-1])
        check_looks(maps)
        found = [_chain("", one, example, kind) for kind, layers in maps.items() for one in layers]
    for name, heard in others.items():
        kind = ".".join(part for part in name.split(".") if not part.isdigit()) or "self"
        sides = ("sequence", "sequence") if heard.is_self else ("target", "source")
        found.append(_Found(kind, heard.map(example), sides, "keys", "scaled_dot, soft", "given"))
    if not found:
        raise _heard_nothing(type(model).__name__, was_called=bool(asked))
    object.__setattr__(record, "attention", MappingProxyType(_by_kind(found, names)))


def _heard_nothing(name: str, *, was_called: bool) -> SettingError:
    if not was_called:
        return SettingError(
            f"capture: no call of this {name} was heard inside the block. Call it between "
            "'with capture(model) as record:' and the end of the block, in the same thread; a copy "
            f"that fast_model made calls past every listener. In what is called, {HEARD}."
        )
    return SettingError(
        f"capture: this {name} was called, but none of its attentions was heard: {HEARD}. Build it "
        "of one of these; or make a run of published weights (regard import) and look at the run."
    )


@contextmanager
def _last_call(model: nn.Module) -> Iterator[list[tuple[Any, ...]]]:
    """What a model was last called with in this thread; empty if it was not called."""
    asked: list[tuple[Any, ...]] = []
    if type(model) in LISTENING or isinstance(model, torch.jit.ScriptModule):
        # the first are heard whenever they are called, and a hook of their own would switch their
        # fast path off; a scripted module takes none
        yield asked
        return
    thread = threading.get_ident()

    def listen(_: nn.Module, args: tuple[Any, ...]) -> None:
        if threading.get_ident() == thread:
            asked[:] = [args]

    handle = model.register_forward_pre_hook(listen)
    try:
        yield asked
    finally:
        handle.remove()


def _chain(name: str, one: AttentionMap, example: int, kind: str = "") -> _Found:
    kind = kind or next((kind for form, kind in KINDS if re.search(form, name)), _plain(name))
    sides, one = SIDES.get(kind, ("sequence", "sequence")), frozen(one)
    weights: Weights = one if len(one.query) == 1 else Later(lambda: one, one.shape, example)
    return _Found(kind, weights, sides, one.columns, mechanism_of(one), mask_of(one))


def _plain(name: str) -> str:
    parts = [part for part in name.split(".") if not part.isdigit() and part != "chain"]
    return ".".join(parts) or "self"


def _by_kind(found: Sequence[_Found], names: Sequence[Sequence[str]]) -> dict[str, Attention]:
    groups: dict[tuple[str, tuple[int, ...]], list[_Found]] = {}
    for one in found:
        groups.setdefault((one.kind, tuple(one.weights.shape[-3:])), []).append(one)
    shapes = [kind for kind, _ in groups]
    out = {}
    for (kind, (_, n_queries, n_keys)), layers in groups.items():
        first = layers[0]
        called = kind if shapes.count(kind) == 1 else f"{kind} {n_queries}×{n_keys}"
        key_side = first.sides[1] if first.columns == "keys" else first.columns
        is_named = first.columns == "keys"
        out[called] = Attention(
            _tokens(n_queries, names, "token"),
            _tokens(n_keys, names if is_named else (), "token" if is_named else "slot"),
            tuple(one.weights for one in layers),
            f"query ({first.sides[0]})",
            f"key ({key_side})",
            by_layer(one.mechanism for one in layers),
            by_layer(one.mask for one in layers),
        )
    return out


def _tokens(count: int, names: Sequence[Sequence[str]], nameless: str) -> Tokens:
    fitting = next((tuple(side) for side in names if len(side) == count), None)
    if fitting is None:
        return Tokens.numbered(nameless, count)
    return Tokens(fitting, tuple(range(count)), fitting)
