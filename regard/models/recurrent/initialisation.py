"""Initialisations: the first weights of a recurrent model, by paper.

    uniform      every weight U[-0.1, 0.1]
    orthogonal   recurrent matrices orthogonal, gate by gate; the score N(0, 0.001²) with v = 0, so
                 that attention begins exactly uniform; biases 0; everything else N(0, 0.01²)

    scaled       weights by the widths they join (Xavier), states kept by a forget gate near 1;
                 not from these papers, but models a tenth as wide as theirs learn with it

First weights are so small that the loss begins at the logarithm of the vocabulary's size.

Paper: Luong, Pham & Manning 2015, section 4.1; Bahdanau, Cho & Bengio 2015, appendix B.1.
"""

from collections.abc import Callable, Mapping

import torch
from torch import nn

from regard.layers.recurrent import RecurrentLayer

REACH = 0.1


@torch.no_grad()
def uniform(model: nn.Module) -> None:
    """Every number between -0.1 and 0.1; the biases of the gates are 0, as the paper has none."""
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -REACH, REACH)
    for layer in _layers(model):
        layer.of_input[:, -1] = 0


@torch.no_grad()
def orthogonal(model: nn.Module) -> None:
    """Orthogonal matrices for states, and small weights elsewhere."""
    for name, parameter in model.named_parameters():
        is_of_score = ".chain.score." in name
        nn.init.normal_(parameter, std=0.001 if is_of_score else 0.01)
        if is_of_score and name.endswith((".v", ".c")):
            nn.init.zeros_(parameter)
    for layer in _layers(model):
        layer.of_input[:, -1] = 0
        for gate in layer.of_state.chunk(layer.recurrence.n_gates):
            nn.init.orthogonal_(gate)


@torch.no_grad()
def scaled(model: nn.Module) -> None:
    """By fan-in and fan-out; embeddings of about unit length."""
    for parameter in model.parameters():
        if parameter.dim() > 1:
            # a score has a matrix for each head; torch would take the three for a convolution
            for matrix in parameter.view(-1, *parameter.shape[-2:]):
                nn.init.xavier_uniform_(matrix)
    for part in model.modules():
        if isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
    for layer in _layers(model):
        layer.of_input[:, -1] = layer.recurrence.bias(layer.kernel.hidden_size)


INITIALISATIONS: Mapping[str, Callable[[nn.Module], None]] = {
    "uniform": uniform,
    "orthogonal": orthogonal,
    "scaled": scaled,
}
"""The names that `model.initialisation` may have."""


def _layers(model: nn.Module) -> list[RecurrentLayer]:
    return [part for part in model.modules() if isinstance(part, RecurrentLayer)]
