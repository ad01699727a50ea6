"""Attach: a transformers model whose attention our chains compute, the outputs being its own.

    with attach(model): model(**inputs)

Every attention of the model gets a chain of its own, a part of the model as any other: it moves,
trains and is captured with it. Detached, the model is as it was.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import TracebackType
from typing import Any, final

from torch import Tensor, nn

from regard.attention.chain import Chain, chain_of
from regard.attention.engine import Explanation
from regard.attention.links import ChainLink, Pattern
from regard.attention.masks import FULL, all_of
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.sinks import SinkSelection
from regard.attention.soft_cap import SoftCappedScore
from regard.attention.tables import name_of
from regard.bridge.interface import CHAIN_NAME, IMPLEMENTATION, register
from regard.bridge.layers import Layer, check_heard, check_is_model, layers_of, published
from regard.choices import unknown
from regard.errors import MeetingError, SettingError, counted

ChainOfLayer = Chain | Mapping[Any, Chain] | Callable[[Layer], Chain | None]
"""One chain for all layers; chains by number, kind or place; or a function that gives each its."""


def attach(model: nn.Module, *, chain: ChainOfLayer | None = None) -> "Attachment":
    """Let our chains compute the attention of a transformers model, until it is detached.

    A model of your own may have models of transformers as parts; all of them are attached.
    Without a chain the outputs stay the model's own. With one its mechanism is swapped: the masks,
    the scale and the soft cap of the model stay, and the chain's links replace the others. A
    mapping has the numbers of layers (counted from 0), kinds ("encoder", "decoder", "cross"), pairs
    of both, or places in the model as keys; a function gets a `Layer` and gives a chain, or None to
    leave the mechanism. A layer takes a copy of its chain, so that layers share no weights.
    """
    check_is_model("attach", model)
    if not published(model):
        raise SettingError(
            f"bridge: expected a model of transformers, or one with such a part, got "
            f"{type(model).__name__}, in which no attention implementation can be set. For a model "
            "that calls scaled_dot_product_attention itself, record it by regard.capture(model)."
        )
    register()
    layers = layers_of(model)
    check_heard(model, layers)
    return Attachment(
        model, {layer: _chain(layer, _chosen(layer, layers, chain)) for layer in layers}
    )


@final
class Attachment:
    """An attached model, until `detach`, or the end of a with-block."""

    def __init__(self, model: nn.Module, chains: Mapping[Layer, Chain]) -> None:
        self.model = model
        self.layers = tuple(chains)
        configs: Iterator[Any] = (getattr(part, "config", None) for part in model.modules())
        known = {id(config): config for config in configs if hasattr(config, "sub_configs")}
        self._configs = [(config, config._attn_implementation) for config in known.values()]
        self._before = [(layer.part, getattr(layer.part, CHAIN_NAME, None)) for layer in chains]
        self.chains = {layer.path: chain for layer, chain in chains.items()}
        """The chain of every attention, by its place in the model."""
        for layer, chain in chains.items():
            own = next(layer.part.parameters(), None)
            if own is not None:
                chain.to(own.device, own.dtype)
            setattr(layer.part, CHAIN_NAME, chain.train(layer.part.training))
        self._switch(IMPLEMENTATION)

    def __repr__(self) -> str:
        kinds = Counter(str(chain) for chain in self.chains.values())
        counts = ", ".join(f"{counted(count, 'layer')} of {kind}" for kind, count in kinds.items())
        return f"Attachment({type(self.model).__name__}: {counts})"

    def explain(self, n_queries: int, n_keys: int | None = None) -> dict[str, Explanation]:
        """The path that each attention takes for these lengths, by its place in the model."""
        return {layer.path: self._explain(layer, n_queries, n_keys) for layer in self.layers}

    def detach(self) -> None:
        """Give the model its own attention back; a second call changes nothing."""
        for layer in self.layers if self._before else ():
            if getattr(layer.part, CHAIN_NAME, None) is not self.chains[layer.path]:
                raise SettingError(
                    f"attach: {layer.path} was attached again since, and that attachment has to "
                    "go first. Call its detach(), then this one."
                )
        for part, before in self._before:
            if before is not None:
                setattr(part, CHAIN_NAME, before)
            elif hasattr(part, CHAIN_NAME):
                delattr(part, CHAIN_NAME)
        for config, implementation in self._configs:
            config._attn_implementation_internal = implementation
        self._before, self._configs = [], []

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.detach()

    def _explain(self, layer: Layer, n_queries: int, n_keys: int | None) -> Explanation:
        config = layer.part.config
        n_heads = getattr(config, "num_attention_heads", 1)
        d_head = getattr(config, "head_dim", None) or getattr(config, "hidden_size", 64) // n_heads
        chain = self.chains[layer.path]
        return chain.explain(n_queries, n_keys, n_heads=n_heads, d_query=d_head, mask=_mask(layer))

    def _switch(self, implementation: str) -> None:
        for config, _ in self._configs:
            config._attn_implementation_internal = implementation


def _chosen(layer: Layer, layers: Sequence[Layer], chain: ChainOfLayer | None) -> Chain | None:
    """The chain that the caller gave a layer, if any."""
    if chain is None or isinstance(chain, Chain):
        return chain
    if not isinstance(chain, Mapping):
        if isinstance(chain, type | ChainLink) or not callable(chain):
            return chain_of("attach", chain)
        return chain(layer)
    names = {name: one for one in layers for name in _names(one)}
    for name in chain:
        if name not in names:
            raise SettingError(
                f"attach: the mapping has a chain for {name!r}. "
                f"{unknown(str(name), [str(one) for one in names])}"
            )
    return next((chain[name] for name in _names(layer) if name in chain), None)


def _names(layer: Layer) -> tuple[object, ...]:
    """What a mapping may call a layer, the most exact first."""
    return (layer.path, (layer.kind, layer.number), layer.kind, layer.number)


def _chain(layer: Layer, chosen: Chain | None) -> Chain:
    """The chain of a layer, with the layer's soft cap and sinks."""
    chain = deepcopy(chain_of(f"attach: {layer.path}", chosen))
    cap = getattr(layer.part, "attn_logit_softcapping", None)
    links = [chain.score, chain.relation, chain.pattern, chain.select]
    if layer.is_causal:
        for link in [*links, *([] if chain.memory is None else [chain.memory])]:
            if link.cannot_write is not None:
                raise MeetingError(
                    f"attach: {layer.path} writes from left to right, and {name_of(link)} cannot: "
                    f"{link.cannot_write}."
                )
    if cap is not None:
        if not chain.score.is_scaled_dot:
            raise MeetingError(
                f"attach: {layer.path} caps its scores at {cap}, which is defined for a scaled dot "
                f"product, and the chain has {name_of(chain.score)}. Take scaled_dot, whose scores "
                "keep the cap."
            )
        chain.score = SoftCappedScore(cap)
    sinks = getattr(layer.part, "sinks", None)
    if isinstance(sinks, Tensor):
        if chain.select.as_softmax() != 1:
            raise MeetingError(
                f"attach: {layer.path} has sinks, which take a share of a softmax, and the chain "
                f"has {name_of(chain.select)}. Take soft, which keeps the sinks."
            )
        chain.select = SinkSelection(sinks)
    return chain


def _mask(layer: Layer) -> Pattern:
    """The mask that a layer's model makes for it where there is no padding."""
    if not layer.is_causal:
        return FULL
    window = getattr(
        layer.part, "sliding_window", getattr(layer.part.config, "sliding_window", None)
    )
    return (
        CausalPattern()
        if not window
        else all_of(CausalPattern(), SlidingWindowPattern(size=window - 1))
    )
