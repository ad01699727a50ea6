"""Rows of one length read apart from the others, for layers that ask where a text ends.

BigBird's last block is seen by all, and its random blocks are drawn among those that there are. So
a row must not be read with the padding that its batch gave it, neither in training nor afterwards.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.data.kinds import PAD
from regard.errors import SettingError


def read_apart(
    tokens: Int[Tensor, "b n"],
    read: Callable[[Int[Tensor, " r"], int], Float[Tensor, "r l m"]],
) -> Float[Tensor, "b n m"]:
    """What is read of each row, with zeros where it is padded.

    Args:
        tokens: rows with padding behind them.
        read: some rows, and their one length → their states.
    """
    if tokens.is_cuda and torch.cuda.is_current_stream_capturing():
        raise SettingError(
            "model: what these layers see depends on where each text ends, which a recording of "
            "the work cannot know. Train with --no-compile, or take sliding_window."
        )
    # kernels on a GPU want at least one token
    lengths = (tokens != PAD).sum(1).clamp(min=1)
    parts = [
        (rows, read(rows, length))
        for length in lengths.unique().tolist()
        for rows in [(lengths == length).nonzero().squeeze(1)]
    ]
    first = parts[0][1]
    whole = first.new_zeros(*tokens.shape, first.shape[-1])
    for rows, part in parts:
        whole[rows, : part.shape[1]] = part
    return whole
