"""By length: reads the rows of each length separately, for layers that depend on the text's end.

BigBird's last block is seen by all, and its random blocks are drawn among the existing ones. So a
row must not be read with the padding of its batch, neither in training nor afterwards.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.subword_kinds import PAD
from regard.errors import SettingError
from regard.models.shapes import Tokens


def rows_by_length(tokens: Tokens, least: int = 0) -> list[tuple[Tensor, int]]:
    """The rows of each length, with that length; lengths below `least` count as `least`."""
    lengths = (tokens != PAD).sum(1).clamp(min=least)
    return [((lengths == n).nonzero().squeeze(1), n) for n in lengths.unique().tolist()]


def read_apart(
    tokens: Tokens,
    read: Callable[[Int[Tensor, " r"], int], Float[Tensor, "r l m"]],
) -> Float[Tensor, "b n m"]:
    """The outputs of `read` for all rows, called once for each length; zeros at padding."""
    if tokens.is_cuda and torch.cuda.is_current_stream_capturing():
        raise SettingError(
            "model: what these layers see depends on where each text ends, which a CUDA graph of "
            "the work cannot know. Train with --no-compile, or take sliding_window."
        )
    # kernels on a GPU want at least one token
    parts = [(rows, read(rows, length)) for rows, length in rows_by_length(tokens, least=1)]
    first = parts[0][1]
    whole = first.new_zeros(*tokens.shape, first.shape[-1])
    for rows, part in parts:
        whole[rows, : part.shape[1]] = part
    return whole
