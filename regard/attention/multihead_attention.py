"""Multi-head attention with the interface of torch's own, around any chain.

    layer.self_attn = regard.MultiheadAttention(512, 8, chain=Chain(select="sparsemax"))

Arguments, results and the names in the state dict are those of `torch.nn.MultiheadAttention`, so
that weights load both ways. What differs: a row whose keys are all hidden gives zeros and finite
gradients, where torch gives NaN; weights are computed only where they are asked for; and they are
not those that dropout left.

Paper: Vaswani et al. 2017, section 3.2.2.
"""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from regard.attention.attend import Attended
from regard.attention.chain import Chain, chain_of
from regard.attention.links import AnyMask, Pattern
from regard.attention.masks import all_of, given, is_full, padding
from regard.attention.patterns.causal import CausalPattern
from regard.attention.widths import Widths
from regard.dims import Dims
from regard.errors import SettingError, ShapeError

WHO = "MultiheadAttention"


@final
class MultiheadAttention(nn.Module):
    """A drop-in for `torch.nn.MultiheadAttention`; `chain` says how its heads attend."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        chain: Chain | None = None,
    ) -> None:
        super().__init__()
        dims = Dims(d_model=embed_dim, n_heads=num_heads, d_key=kdim, d_value=vdim)
        self.embed_dim, self.kdim, self.vdim = embed_dim, dims.key, dims.value
        self.num_heads, self.head_dim, self.batch_first = num_heads, dims.d_head, batch_first
        if chain is not None and dropout:
            raise SettingError(
                f"{WHO}: chain holds the dropout of its weights, so dropout would change nothing. "
                f"Write chain=Chain(…, dropout={dropout:g})."
            )
        self.chain = Chain(dropout=dropout) if chain is None else chain_of(WHO, chain)
        self.chain.check_fits(WHO, Widths(num_heads, *[self.head_dim] * 3))
        self.dropout, self.add_zero_attn = self.chain.dropout, add_zero_attn
        self._qkv_same_embed_dim = False
        """What torch's layers read before they skip this module: no kernel of theirs has links."""
        if add_bias_kv or add_zero_attn:
            self._check_takes_more_keys()

        def new(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        is_joint = embed_dim == self.kdim == self.vdim
        self.in_proj_weight = new(3 * embed_dim, embed_dim) if is_joint else None
        self.q_proj_weight = None if is_joint else new(embed_dim, embed_dim)
        self.k_proj_weight = None if is_joint else new(embed_dim, self.kdim)
        self.v_proj_weight = None if is_joint else new(embed_dim, self.vdim)
        self.in_proj_bias = new(3 * embed_dim) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k = new(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = new(1, 1, embed_dim) if add_bias_kv else None
        matrices = (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        for matrix in matrices:
            if matrix is not None:
                nn.init.xavier_uniform_(matrix)
        for vector in (self.in_proj_bias, self.out_proj.bias):
            if vector is not None:
                nn.init.zeros_(vector)
        for more in (self.bias_k, self.bias_v):
            if more is not None:
                nn.init.xavier_normal_(more)

    def forward(
        self,
        query: Float[Tensor, "*q m"],
        key: Float[Tensor, "*k mk"],
        value: Float[Tensor, "*k mv"],
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Float[Tensor, "*q m"], Tensor | None]:
        """The output and, if asked for, the weights, with torch's meaning of every mask.

        True in a mask hides a pair; floats are added to the scores. `is_causal` alone is a causal
        mask; beside `attn_mask` it says that this is one, which is then not read.
        """
        self._check_tensors(query, key, value)
        is_single = query.dim() == 2
        if is_single:
            query, key, value = query[None], key[None], value[None]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first and query.dim() > 1:
            query, key, value = (each.transpose(0, 1) for each in (query, key, value))
        self._check_inputs(query, key, value)
        queries, keys, values = self._by_head(query, key, value)
        sizes = (len(query), query.shape[1], key.shape[1])
        mask = self._mask(attn_mask, key_padding_mask, sizes, is_causal=is_causal)
        weights: Tensor | None = None
        if need_weights and torch.is_grad_enabled():
            attended, weights = self.chain.with_weights(queries, keys, values, mask)
        else:
            attended = self.chain(queries, keys, values, mask)
            weights = attended.map.dense() if need_weights else None
        output = self._joined(attended)
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if is_single:
            return output[0], None if weights is None else weights[0]
        return output if self.batch_first else output.transpose(0, 1), weights

    def extra_repr(self) -> str:
        """Its sizes."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"

    def _by_head(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Projected queries, keys and values of each head, with the keys that options append."""
        if self.in_proj_weight is not None and query is key is value:
            parts = linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            weights = (
                (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
                if self.in_proj_weight is None
                else self.in_proj_weight.chunk(3)
            )
            biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
            parts = tuple(
                linear(given, weight, bias)
                for given, weight, bias in zip((query, key, value), weights, biases, strict=True)
                if weight is not None
            )
        queries, keys, values = parts
        if self.bias_k is not None and self.bias_v is not None:
            keys = torch.cat([keys, self.bias_k.expand(len(keys), 1, -1)], 1)
            values = torch.cat([values, self.bias_v.expand(len(values), 1, -1)], 1)
        if self.add_zero_attn:
            keys, values = pad(keys, (0, 0, 0, 1)), pad(values, (0, 0, 0, 1))
        heads = (self.num_heads, self.head_dim)
        queries, keys, values = (
            each.unflatten(-1, heads).transpose(1, 2) for each in (queries, keys, values)
        )
        return queries, keys, values

    def _mask(
        self,
        pairs: Tensor | None,
        keys: Tensor | None,
        sizes: tuple[int, int, int],
        *,
        is_causal: bool,
    ) -> AnyMask:
        """Torch's two masks as one of ours: True = may attend, and a key that is appended is seen.

        `sizes` are those of the batch, the queries and the keys that were given.
        """
        n_more = (self.bias_k is not None) + self.add_zero_attn
        keys = None if keys is None else _as_hidden(self._checked(keys, "key_padding_mask", sizes))
        is_pattern = is_causal and not n_more and (keys is None or keys.dtype == torch.bool)
        if is_pattern:
            pairs = None
        elif is_causal and pairs is None:
            device = self.out_proj.weight.device
            pairs = torch.ones(sizes[1:], dtype=torch.bool, device=device).triu(1)
        patterns: list[Pattern] = [CausalPattern()] if is_pattern else []
        matrices: list[Tensor] = []
        if keys is not None:
            keys = pad(keys, (0, n_more))
            matrices.append(keys[:, None, None])
            patterns += [padding(~keys)] if keys.dtype == torch.bool else []
        if pairs is not None:
            pairs = pad(self._checked(pairs, "attn_mask", sizes), (0, n_more))
            matrices.append(pairs if pairs.dim() == 2 else pairs.unflatten(0, (sizes[0], -1)))
            patterns += [given(~matrices[-1])] if pairs.dtype == torch.bool else []
        added = [each for each in matrices if each.is_floating_point()]
        if not added:
            return all_of(*patterns)
        total = sum(added[1:], added[0])
        for hidden in (each for each in matrices if each.dtype == torch.bool):
            total = total.masked_fill(hidden, -torch.inf)
        return total

    def _joined(self, heads: Attended) -> Float[Tensor, "b q m"]:
        joined: Tensor = self.out_proj(heads.context.transpose(1, 2).flatten(-2))
        return joined

    def _check_takes_more_keys(self) -> None:
        """Refuse links that read positions: an appended key has none."""
        links = self.chain
        reads = not links.relation.is_zero or not is_full(links.pattern)
        if reads or links.memory is not None or links.select.as_window() is not None:
            raise SettingError(
                f"{WHO}: add_bias_kv and add_zero_attn append keys that stand nowhere, but {links} "
                "has a link that reads positions. Leave the options out, or the link."
            )

    def _check_tensors(self, *inputs: Tensor) -> None:
        """Refuse lists, and numbers of another kind than the weights."""
        dtype = self.out_proj.weight.dtype
        for one, name in zip(inputs, ("query", "key", "value"), strict=True):
            if not isinstance(one, Tensor):
                raise ShapeError(
                    f"{WHO}: {name} must be a tensor, got an object of {type(one).__name__}. "
                    f"Write torch.tensor({name})."
                )
            if one.dtype != dtype and not torch.is_autocast_enabled(one.device.type):
                raise ShapeError(
                    f"{WHO}: expected {name} of {dtype}, as the weights are, got {one.dtype}. "
                    f"Write {name}.to({dtype}), or make the module with dtype={one.dtype}."
                )

    def _check_inputs(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        widths = (self.embed_dim, self.kdim, self.vdim)
        shapes = [tuple(each.shape) for each in (query, key, value)]
        is_three = all(len(shape) == 3 for shape in shapes)
        if not is_three or widths != tuple(shape[-1] for shape in shapes):
            order = "(b, n, width)" if self.batch_first else "(n, b, width)"
            raise ShapeError(
                f"{WHO}: expected query, key and value of shape {order} or (n, width), with widths "
                f"of {widths[0]}, {widths[1]} and {widths[2]}; got, batch first, {shapes[0]}, "
                f"{shapes[1]} and {shapes[2]}. batch_first=True puts sentences first."
            )

    def _checked(self, mask: Tensor, name: str, sizes: tuple[int, int, int]) -> Tensor:
        """A mask of a shape that torch takes; others are refused."""
        if not isinstance(mask, Tensor):
            raise ShapeError(
                f"{WHO}: {name} must be a tensor, got an object of {type(mask).__name__}. Write "
                f"torch.tensor({name}); patterns stand in the chain: chain=Chain(pattern=…)."
            )
        b, n_queries, n_keys = sizes
        pairs = ((n_queries, n_keys), (b * self.num_heads, n_queries, n_keys))
        wanted = pairs if name == "attn_mask" else ((b, n_keys),)
        if tuple(mask.shape) not in wanted:
            shapes = " or ".join(map(str, wanted))
            raise ShapeError(
                f"{WHO}: {name} must be of shape {shapes} for {b} sentences, {n_queries} queries "
                f"and {n_keys} keys, got {tuple(mask.shape)}. If the sentences come first in "
                "query, key and value, make the module with batch_first=True."
            )
        if mask.dtype != torch.bool and not mask.is_floating_point():
            raise ShapeError(
                f"{WHO}: {name} must be boolean (True hides) or of floats that are added to the "
                f"scores, got {mask.dtype}. Write mask.bool()."
            )
        return mask


def _as_hidden(mask: Tensor) -> Tensor:
    """A padding mask as booleans, where its floats only hide: torch's layers make floats of it."""
    if mask.dtype == torch.bool or torch.compiler.is_compiling():
        return mask
    hidden = mask == -torch.inf
    return hidden if bool(((mask == 0) | hidden).all()) else mask
