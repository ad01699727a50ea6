"""Interface: the attention function that transformers calls in each layer, and its mask function.

    context, weights = attention(module, query, key, value, mask, scaling=…, …)

The chain that stands in the layer computes the context. An argument that would change the outputs
and is not honoured is refused by name: an ignored `position_bias` makes T5 wrong in silence.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.additive_masks import BiasedMask
from regard.attention.attend import Attended
from regard.attention.chain import Chain
from regard.attention.links import AnyMask
from regard.attention.masks import FULL, is_full
from regard.attention.patterns.causal import CausalPattern
from regard.attention.sinks import SinkSelection
from regard.attention.soft_cap import SoftCappedScore
from regard.bridge.mask_functions import MaskFunction, SymbolicMask, symbolic_mask
from regard.errors import MissingExtra, SettingError
from regard.places import Places

IMPLEMENTATION = "regard"
"""The name of our attention in transformers' tables."""
CHAIN_NAME = "regard_chain"
"""The name under which a layer's attention holds its chain."""

UNATTACHED = Chain()
"""The chain of a layer without one, as a model has that shares its config with an attached one."""

HONOURED = frozenset({"scaling", "dropout", "is_causal", "position_bias", "s_aux", "softcap"})
"""Arguments that the chain computes with."""
ELSEWHERE = frozenset(
    {
        "attention_mask", "cache_position", "deterministic", "num_items_in_batch",
        "output_attentions", "output_hidden_states", "output_router_logits", "past_key_values",
        "position_ids", "return_dict", "sliding_window", "use_cache",
    }
)  # fmt: skip
"""Arguments that the mask, the positions or the outputs contain already, or that are for other
kernels; eager ignores them too."""


class _Call(NamedTuple):
    """What a layer asks for besides query, key and value."""

    scaling: float | None = None
    dropout: float = 0.0
    is_causal: bool | None = None
    position_bias: Tensor | None = None
    softcap: float | None = None
    s_aux: Tensor | None = None
    """The sinks of the heads."""


def register() -> None:
    """Enter our attention and our masks into transformers' tables."""
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError as error:
        raise MissingExtra(
            "bridge: models of transformers need transformers 5 or newer. Install "
            "regard[transformers]."
        ) from error
    AttentionInterface.register(IMPLEMENTATION, attention)
    AttentionMaskInterface.register(IMPLEMENTATION, mask)


def attention(
    module: nn.Module,
    query: Float[Tensor, "b h q d"],
    key: Float[Tensor, "b g k d"],
    value: Float[Tensor, "b g k dv"],
    attention_mask: Tensor | None = None,
    **named: Any,
) -> tuple[Float[Tensor, "b q h dv"], Float[Tensor, "b h q k"] | None]:
    """Context and, where they are asked for, weights; as transformers' own attentions give them."""
    who = type(module).__name__
    call = _read(who, named)
    chain = getattr(module, CHAIN_NAME, UNATTACHED)
    _check_cap(who, chain, call.softcap)
    _check_sinks(who, chain, call.s_aux)
    query = _rescaled(query, chain, call.scaling)
    key, value = (_for_each_head(side, query.shape[1]) for side in (key, value))
    mask, places = _masked(chain, query, key, attention_mask, call)
    # the model's share is dropped unless the chain has one of its own
    dropout = None if chain.dropout else call.dropout
    attended = chain(query, key, value, mask, places, dropout=dropout)
    weights = _weights(attended, query, key) if _wants_weights(module, named) else None
    return attended.context.transpose(1, 2).contiguous(), weights


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    mask_function: MaskFunction | None = None,
    attention_mask: Tensor | None = None,
    *,
    local_size: int | None = None,
    dtype: torch.dtype | None = None,
    config: object = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = True,
    use_vmap: bool = False,
    device: Any = "cpu",
) -> Tensor:
    """A mask that takes no memory, or a matrix for functions that index no tensors of places.

    The function and the padding say everything: `local_size`, `dtype`, `config` and what may be
    left out are for other masks.
    """
    from transformers import masking_utils

    function: Any = mask_function or masking_utils.causal_mask_function
    if use_vmap:
        matrix: Tensor | None = masking_utils.sdpa_mask(
            batch_size, q_length, kv_length, q_offset, kv_offset, function, attention_mask,
            allow_is_causal_skip=False, use_vmap=True, device=device,
        )  # fmt: skip
        assert matrix is not None
        return matrix
    past = int(q_offset) - kv_offset
    places = Places.between(q_length, kv_length, past=past, device=torch.device(device))
    valid = None if attention_mask is None else attention_mask.bool()
    return symbolic_mask(function, valid, n_sentences=batch_size, places=places, dropped=kv_offset)


def _read(who: str, named: Mapping[str, Any]) -> _Call:
    """The arguments that are honoured; any other one that is given is refused."""
    unknown = [
        name
        for name, value in named.items()
        if value is not None and name not in HONOURED and name not in ELSEWHERE
    ]
    if unknown:
        raise SettingError(
            f"bridge: {who} passes {', '.join(unknown)} to its attention, which our chains do not "
            f"know; they know {', '.join(sorted(HONOURED))}. Leave it out of the model's call if "
            "it is yours; if the architecture needs it, detach, and run the model by its own "
            "model.set_attn_implementation('eager')."
        )
    return _Call(**{name: named[name] for name in HONOURED & named.keys()})


def _check_cap(who: str, chain: Chain, cap: float | None) -> None:
    """Refuse a soft cap that the chain's score does not have."""
    own = chain.score.cap if isinstance(chain.score, SoftCappedScore) else None
    if own != cap:
        raise SettingError(
            f"bridge: {who} passes softcap={cap} to its attention, and its chain caps its scores "
            f"at {own}. Attach the model itself (attach(model)), whose layers say their cap by "
            "attn_logit_softcapping; a model that says it otherwise runs by "
            "model.set_attn_implementation('eager')."
        )


def _check_sinks(who: str, chain: Chain, sinks: Tensor | None) -> None:
    """Refuse sinks that the chain's selection does not have."""
    own = chain.select.held if isinstance(chain.select, SinkSelection) else ()
    given = () if sinks is None else (sinks,)
    if [id(one) for one in own] != [id(one) for one in given]:
        raise SettingError(
            f"bridge: {who} passes {'no ' * (not given)}sinks (s_aux) to its attention, and its "
            f"chain has {'others' if own else 'none'}. Attach the model itself (attach(model)), "
            "whose layers hold them as their sinks; a model that holds them otherwise runs by "
            "model.set_attn_implementation('eager')."
        )


def _rescaled(query: Tensor, chain: Chain, scaling: float | None) -> Tensor:
    """Queries that make a scaled dot product one of the layer's scale; other scores have theirs."""
    own = query.shape[-1] ** -0.5
    if scaling is None or scaling == own or not chain.score.is_scaled_dot:
        return query
    return query * (scaling / own)


def _for_each_head(side: Tensor, n_heads: int) -> Float[Tensor, "b h k d"]:
    """Keys or values of groups, repeated for every head of the group."""
    return side if side.shape[1] == n_heads else side.repeat_interleave(n_heads // side.shape[1], 1)


def _masked(
    chain: Chain, query: Tensor, key: Tensor, mask: Tensor | None, call: _Call
) -> tuple[AnyMask | BiasedMask, Places]:
    """The mask of a call, bias included, and the places it speaks of."""
    n_queries, n_keys = query.shape[-2], key.shape[-2]
    places = Places.between(n_queries, n_keys, past=_past(chain, query, key), device=query.device)
    shown: AnyMask = FULL
    if isinstance(mask, SymbolicMask):
        shown, places = mask.pattern, mask.places
    elif mask is not None:
        shown = _behind(_read_matrix(mask), places)
    elif call.is_causal and n_queries > 1:
        shown = CausalPattern()
        places = Places.between(n_queries, n_keys, device=query.device)
    if call.position_bias is None:
        return shown, places
    return BiasedMask(shown, _behind(call.position_bias, places)), places


def _past(chain: Chain, query: Tensor, key: Tensor) -> int:
    """The keys before the first query, where only a pattern of the chain would tell."""
    return 0 if is_full(chain.pattern) else max(0, key.shape[-2] - query.shape[-2])


def _read_matrix(mask: Tensor) -> Tensor:
    """A boolean matrix, or one of floats where they are more than the two sides of a mask."""
    if not mask.is_floating_point():
        return mask.bool()
    # transformers hides a pair by the lowest number instead of minus infinity
    hidden = mask <= torch.finfo(mask.dtype).min
    added = mask.masked_fill(hidden, 0.0)
    is_plain = not (added.requires_grad or bool(added.any()))
    return ~hidden if is_plain else added.masked_fill(hidden, -torch.inf)


def _behind(matrix: Tensor, places: Places) -> Tensor:
    """A matrix of these queries with rows for the places before them; one row serves all."""
    past = places.past or 0
    return matrix if past == 0 or matrix.shape[-2] == 1 else pad(matrix, (0, 0, past, 0))


def _wants_weights(module: nn.Module, named: Mapping[str, Any]) -> bool:
    """Whether the caller of the model asked for weights, as far down as the model hands that on."""
    asked = named.get("output_attentions")
    if asked is None:
        asked = getattr(getattr(module, "config", None), "output_attentions", False)
    return bool(asked) or any(name.endswith("attentions") for name in _collected())


def _collected() -> Collection[str]:
    """What transformers collects from the layers of the model that is running."""
    from transformers.utils import output_capturing

    collector = getattr(output_capturing, "_active_collector", None)
    return () if collector is None else collector.get() or ()


def _weights(attended: Attended, query: Tensor, key: Tensor) -> Float[Tensor, "b h q k"]:
    """The weights of every pair, with their gradient."""
    seen = attended.map
    if seen.columns != "keys" or not torch.is_grad_enabled():
        return seen.dense()
    scores = seen.score(query, key, seen.places) + seen.relation.to_scores(query, seen.places)
    visible = seen.mask.visible(seen.places)
    rows = seen.select.summarise(scores, visible, query, seen.places)
    return seen.select.weigh(scores, visible, rows, seen.places)
