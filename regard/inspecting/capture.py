"""Capture: the attention of a pass, as maps by kind or as a record.

    with capture(model) as record:
        model(source, target)
    record.weights("cross", 0, 2)

The pass runs unchanged, fast paths included. Afterwards the record holds every attention that ran
in this thread, by kind and layer, and does not change any more. Chains are captured by
`regard.attention.capture.captured`, torch's own attentions by `torch_attention`; a block in
which neither captured one ends in an error that gives the reason. `look_at` records an answer that
was searched for in the ordinary way, by one teacher-forced pass over source and answer.
"""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

import regard
from regard.attention import AttentionMap
from regard.attention.capture import captured
from regard.attention.tables import name_of
from regard.choices import find
from regard.data.subword_kinds import EOS
from regard.data.subwords import Subwords
from regard.errors import DataError, SettingError
from regard.inspecting.lazy_map import LazyMap
from regard.inspecting.record import Attention, Record, Weights
from regard.inspecting.token_labels import Tokens, check_names, read_ids, read_text
from regard.inspecting.torch_attention import LISTENING, torch_attention
from regard.models import Model
from regard.models.model import kind_of
from regard.models.stepper import BOS

SIDES: Mapping[str, tuple[str, str]] = {
    "encoder": ("source", "source"),
    "decoder": ("target", "target"),
    "cross": ("target", "source"),
    "sequence": ("sequence", "sequence"),
}
"""The names of the query side and the key side, by kind of attention."""
SELF = ("sequence", "sequence")

HEARD = (
    "capture hears regard's own attentions (Chain, and the heads and models made of it) and "
    "torch's nn.MultiheadAttention, alone or inside nn.TransformerEncoderLayer; it hears no "
    "subclass of these two and no scripted module"
)
"""The part of an error that names what a record can be made of."""
REMEDY = (
    "Take regard.capture, which hears models of transformers and scaled_dot_product_attention too; "
    "or make a run of published weights (regard import) and look at the run."
)


class HeardCall(Protocol):
    """One attention of another library that ran."""

    @property
    def is_self(self) -> bool:
        """Whether a sequence looked at itself."""

    def map(self, example: int) -> LazyMap:
        """The map of one sentence of the batch."""


class Listening(NamedTuple):
    """What a capture hears besides chains, and what it calls the attentions of a model."""

    listeners: Sequence[Callable[[nn.Module], AbstractContextManager[Mapping[str, HeardCall]]]] = (
        torch_attention,
    )
    kind_of: Callable[[str], str | None] = kind_of
    """The kind of attention of a chain by its place in the model, if it is known."""
    heard: str = HEARD
    remedy: str = REMEDY


OURS_AND_TORCH_S = Listening()


@torch.inference_mode()
def attention_of(
    model: Model, source: Sequence[int], target: Sequence[int]
) -> dict[str, tuple[AttentionMap, ...]]:
    """Every map of one answer, by one teacher-forced pass over source and answer.

    Up to four kinds, each with a map of shape `1 h q k` for each layer: "sequence" (of a language
    model the whole row of source and answer at itself), "encoder" (source looks at source),
    "decoder" (each row at the rows before it; row 0 reads the begin token) and "cross" (row i,
    which predicts target token i, at the source; one more row predicts the end). The target is
    given without begin and end.
    """
    read, given = _one_row(model, source, target)
    with evaluating(model):
        maps = model.maps(read, given)
    check_looks(maps)
    return maps


def _one_row(model: Model, source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, Tensor]:
    """A source, and an answer behind its begin token, as the model takes them."""
    device = model.output.weight.device
    read, given = (torch.tensor([row], device=device) for row in (list(source), [BOS, *target]))
    return read, given


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Turn dropout off inside the block; restore the model's mode afterwards."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def crossing(maps: Mapping[str, tuple[AttentionMap, ...]], who: str) -> tuple[AttentionMap, ...]:
    """The maps in which words of an answer look at words of a source; errors name `who`."""
    check_looks(maps)
    if "cross" not in maps:
        raise SettingError(
            f"{who} looks at {', '.join(maps)}, and at no source apart from its own text, so that "
            "no word answers another. Take a run that translates."
        )
    if any(layer.columns != "keys" for layer in maps["cross"]):
        raise SettingError(
            f"{who} looks at slots of a shortened memory, which are no words. Take a run without "
            "one."
        )
    return maps["cross"]


def check_looks(maps: Mapping[str, tuple[AttentionMap, ...]]) -> None:
    """Refuse the maps of a model that has no attention."""
    if not maps:
        raise SettingError(
            "attention: this model looks at nothing, since one vector holds its whole source "
            "(model.attends = 'none'); there are no weights and no alignments to show. Take a run "
            "whose model has an attention."
        )


def weights_of(maps: Sequence[AttentionMap]) -> Float[Tensor, "layers heads q k"]:
    """The weights of all layers; each map is of a single sentence."""
    return torch.stack([layer.dense()[0] for layer in maps])


class Size(NamedTuple):
    """The number of layers and heads of one kind of attention."""

    n_layers: int
    n_heads: int


def sizes_of(model: Model) -> dict[str, Size]:
    """Layers and heads by kind; they are the same for every text, so the shortest one is read."""
    maps = attention_of(model, [EOS], [])
    return {kind: Size(len(layers), layers[0].shape[-3]) for kind, layers in maps.items()}


def check_reads_answers(model: Model) -> None:
    """Refuse a given answer to a model that does not read its answers: no map would change."""
    if not model.reads_answers:
        raise SettingError(
            "look: this run reads a text at once, and where it looks does not depend on an answer: "
            "a target would change nothing. Leave it out."
        )


def look_at(
    model: Model, source: Subwords, target: Subwords, text: str, answer: Sequence[int]
) -> Record:
    """Record one answer: the tokens that a model wrote, or might have, without begin and end.

    Source and target are the vocabularies that cut the text and the answer.
    """
    if not text.strip():
        raise DataError("look: the text is empty; there is nothing to look at. Give a sentence.")
    maps = attention_of(model, [*source.encode(text), EOS], answer)
    before = [] if model.reads_answers else [BOS]
    read = read_text(source, text, before=before, after=[EOS])
    tokens: dict[str, tuple[Tokens, Tokens]] = {"encoder": (read, read)}
    if model.reads_answers:
        predicted, given = (
            read_ids(target, answer, after=[EOS]),
            read_ids(target, answer, before=[BOS]),
        )
        tokens |= {"decoder": (predicted, given), "cross": (predicted, read)}
        if order := model.in_one_row(*_one_row(model, [*source.encode(text), EOS], answer)):
            row = Tokens.joined([({"source": read, "target": given}[side], i) for side, i in order])
            tokens["sequence"] = (row, row)
    kinds = {
        kind: recorded(layers, *find(kind, tokens), SIDES[kind]) for kind, layers in maps.items()
    }
    return Record(text, target.decode(answer), kinds, versions=versions())


class _Layer(NamedTuple):
    """One attention that ran."""

    weights: Weights
    sides: tuple[str, str]
    columns: str = "keys"
    mechanism: str = "scaled_dot, soft"
    mask: str = "given"


def _layer(one: AttentionMap, sides: tuple[str, str], example: int = 0) -> _Layer:
    if example not in range(len(one.query)):
        raise SettingError(
            f"capture: there is no example {example!r:.40} in a batch of {len(one.query)}; they "
            "are counted from 0. Give another, or leave it out for the first."
        )
    # a copy of the links, so that further training does not change the record
    own = replace(
        one,
        score=deepcopy(one.score),
        relation=deepcopy(one.relation),
        select=deepcopy(one.select),
        output=None if one.output is None else one.output.clone(),
    )
    weights = own if len(own.query) == 1 else LazyMap(lambda: own, own.shape, example)
    relation = [] if own.relation.is_zero else [own.relation]
    among = [] if own.columns == "keys" else [f"among {own.columns}"]
    mechanism = [*map(name_of, [own.score, *relation, own.select]), *among]
    masks = map(name_of, getattr(own.mask, "parts", [own.mask]))
    # the name of a class, split into words
    words = (re.sub(r"(?<=[a-z])(?=[A-Z])", " ", one.removesuffix("Pattern")) for one in masks)
    return _Layer(weights, sides, own.columns, ", ".join(mechanism), ", ".join(words).lower())


def recorded(
    maps: Sequence[AttentionMap], queries: Tokens, keys: Tokens, sides: tuple[str, str]
) -> Attention:
    """One kind of attention for a record, from one map per layer; links are copied from the model.

    Columns stand for keys, unless they are slots of a shortened memory. `sides` names what the
    queries and the keys are, such as target and source.
    """
    return _attention([_layer(one, sides) for one in maps], queries, keys)


def _attention(layers: Sequence[_Layer], queries: Tokens, keys: Tokens) -> Attention:
    query_side, key_side = layers[0].sides
    if (columns := layers[0].columns) != "keys":
        key_side, keys = columns, Tokens.numbered("slot", layers[0].weights.shape[-1])
    return Attention(
        queries,
        keys,
        tuple(one.weights for one in layers),
        f"query ({query_side})",
        f"key ({key_side})",
        _by_layer([one.mechanism for one in layers]),
        _by_layer([one.mask for one in layers]),
    )


def _by_layer(texts: Sequence[str]) -> str:
    """The text that all layers share, or each distinct text after the numbers of its layers."""
    layers: dict[str, list[str]] = {}
    for number, text in enumerate(texts, start=1):
        layers.setdefault(text, []).append(str(number))
    if len(layers) == 1:
        return texts[0]
    return "; ".join(
        f"layer{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}: {text}"
        for text, numbers in layers.items()
    )


def versions() -> dict[str, str]:
    """The versions of the packages that made a record."""
    return {"regard": regard.__version__, "torch": str(torch.__version__)}


@contextmanager
def capture(
    model: nn.Module,
    *,
    names: Sequence[Sequence[str]] = (),
    example: int = 0,
    listening: Listening = OURS_AND_TORCH_S,
) -> Iterator[Record]:
    """Record every attention that runs inside the block; the record is empty until the block ends.

    Our own models have the kinds "encoder", "decoder" and "cross"; an `nn.MultiheadAttention` of
    another model has its place there without the numbers of layers, such as "layers.self_attn".
    Where a kind's layers differ in length, each length is a kind of its own.

    `names` are the tokens of one or several sequences: a side with as many places gets their names.
    `example` is the sentence of a batch that is looked at.
    """
    check_names(names)
    record = Record("", "", {}, versions=versions())
    with ExitStack() as stack:
        chains = stack.enter_context(captured(model))
        others = [stack.enter_context(listener(model)) for listener in listening.listeners]
        called = stack.enter_context(_last_call(model))
        yield record
    found = [
        (listening.kind_of(place) or _without_numbers(place), one) for place, one in chains.items()
    ]
    # looked up on the class, since a submodule may be called `maps` too
    show = getattr(type(model), "maps", None)
    if not found and called and show is not None:
        # a recurrent decoder calls no chain that could be captured; one more pass gives its maps
        with torch.no_grad():
            maps = show(model, *called[-1])
        check_looks(maps)
        found = [(name, one) for name, layers in maps.items() for one in layers]
    layers = [(name, _layer(one, SIDES.get(name, SELF), example)) for name, one in found]
    for place, heard in ((place, one) for some in others for place, one in some.items()):
        sides = SELF if heard.is_self else SIDES["cross"]
        layers.append((_without_numbers(place), _Layer(heard.map(example), sides)))
    if not layers:
        raise _heard_nothing(type(model).__name__, listening, was_called=bool(called))
    object.__setattr__(record, "attention", MappingProxyType(_by_kind(layers, names)))


def _without_numbers(place: str) -> str:
    """The kind of another library's attention: its place in the model without layer numbers."""
    parts = [part for part in place.split(".") if not part.isdigit() and part != "chain"]
    return ".".join(parts) or "self"


def _heard_nothing(name: str, listening: Listening, *, was_called: bool) -> SettingError:
    if not was_called:
        return SettingError(
            f"capture: no call of this {name} was heard inside the block. Call it between "
            "'with capture(model) as record:' and the end of the block, in the same thread; a copy "
            f"that fast_model made calls past every listener. In what is called, {listening.heard}."
        )
    return SettingError(
        f"capture: this {name} was called, but none of its attentions was heard: "
        f"{listening.heard}. {listening.remedy}"
    )


@contextmanager
def _last_call(model: nn.Module) -> Iterator[list[tuple[Any, ...]]]:
    """The arguments of the model's last call in this thread; empty if it was not called."""
    called: list[tuple[Any, ...]] = []
    if type(model) in LISTENING or isinstance(model, torch.jit.ScriptModule):
        # `torch_attention` captures torch's own modules without a hook on them, which would
        # switch their fast path off; a scripted module accepts no hook
        yield called
        return
    thread = threading.get_ident()

    def listen(_: nn.Module, args: tuple[Any, ...]) -> None:
        if threading.get_ident() == thread:
            called[:] = [args]

    handle = model.register_forward_pre_hook(listen)
    try:
        yield called
    finally:
        handle.remove()


def _by_kind(
    found: Sequence[tuple[str, _Layer]], names: Sequence[Sequence[str]]
) -> dict[str, Attention]:
    groups: dict[tuple[str, tuple[int, ...]], list[_Layer]] = {}
    for kind, one in found:
        groups.setdefault((kind, tuple(one.weights.shape[-3:])), []).append(one)
    sides = {size for _, (_, *both) in groups for size in both}
    if names and not sides.intersection(map(len, names)):
        raise SettingError(
            f"capture: names of {' and '.join(str(len(side)) for side in names)} tokens, but there "
            f"are {' and '.join(map(str, sorted(sides)))} places. Give each place its name, those "
            "that the tokenizer adds too."
        )
    kinds = [kind for kind, _ in groups]
    return {
        kind if kinds.count(kind) == 1 else f"{kind} {n_queries}×{n_keys}": _attention(
            layers, _tokens(n_queries, names), _tokens(n_keys, names)
        )
        for (kind, (_, n_queries, n_keys)), layers in groups.items()
    }


def _tokens(count: int, names: Sequence[Sequence[str]]) -> Tokens:
    fitting = next((tuple(side) for side in names if len(side) == count), None)
    if fitting is None:
        return Tokens.numbered("token", count)
    return Tokens(fitting, tuple(range(count)), fitting)
