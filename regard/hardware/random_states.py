"""Random states: where the random numbers of a process stand, on the CPU and on its GPU."""

from collections.abc import Mapping

import torch
from torch import Tensor

from regard.errors import CheckpointError

CPU_STATE, CUDA_STATE = "random.cpu", "random.cuda"


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The states that a training on this device draws from, by name."""
    states = {CPU_STATE: torch.get_rng_state()}
    if device.type == "cuda":
        states[CUDA_STATE] = torch.cuda.get_rng_state(device)
    return states


def restore(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Go on drawing from where the states were taken.

    A state that another device would need is left alone: a run may go on elsewhere, though not to
    the bit.
    """
    try:
        if CPU_STATE in states:
            torch.set_rng_state(states[CPU_STATE])
        if CUDA_STATE in states and device.type == "cuda":
            torch.cuda.set_rng_state(states[CUDA_STATE], device)
    except (RuntimeError, TypeError) as error:
        raise CheckpointError(f"random states: torch refuses the saved state: {error}.") from error
