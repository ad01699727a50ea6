"""Show, Attend and Tell for one picture and one caption, step by step, in plain vector algebra.

`p` maps the names of the decoder's parameters to tensors. How a step's weights become those of its
context is the caller's: `focus(t, alpha)`.
"""

import torch

from tests.oracles.recurrent import lstm, weights_of


def perceptron(p, name, x):
    """tanh(W relu(W' x))"""
    inner = torch.relu(p[f"{name}.0.weight"] @ x + p[f"{name}.0.bias"])
    return torch.tanh(p[f"{name}.3.weight"] @ inner + p[f"{name}.3.bias"])


def scores(p, annotations, h):
    """v · tanh(W h + U a + c) for every cell"""
    found = []
    for a in annotations:
        inner = h @ p["cell.score.W"][0] + a @ p["cell.score.U"][0] + p["cell.score.c"][0, 0]
        found.append((p["cell.score.v"][0] * torch.tanh(inner)).sum())
    return torch.stack(found)


def read(p, annotations, tokens, focus):
    """What the output layer reads after each token, alpha and beta of every step."""
    mean = sum(annotations) / len(annotations)
    h, c = perceptron(p, "f_h", mean), perceptron(p, "f_c", mean)
    W, U = weights_of(p, "cell.cells.layers.0")
    said, alphas, betas = [], [], []
    for t, token in enumerate(tokens):
        word = p["embedding.weight"][token]
        alpha = torch.softmax(scores(p, annotations, h), 0)
        beta = torch.sigmoid(p["cell.gate.weight"][0] @ h + p["cell.gate.bias"][0])
        z = beta * sum(w * a for w, a in zip(focus(t, alpha), annotations, strict=True))
        h, c = lstm(torch.cat([word, z]), (h, c), W, U)
        deep = word + p["L_h.weight"] @ h + p["L_z.weight"] @ z + p["L_z.bias"]
        said.append(torch.tanh(deep))
        alphas.append(alpha)
        betas.append(beta)
    return torch.stack(said), torch.stack(alphas), torch.stack(betas)


def soft(t, alpha):
    """Every cell counts."""
    return alpha


def drawn(path):
    """The cell of each step."""
    return lambda t, alpha: torch.eye(len(alpha), dtype=alpha.dtype)[path[t]]


def likeliest(t, alpha):
    """The cell with the largest weight."""
    return torch.eye(len(alpha), dtype=alpha.dtype)[int(alpha.argmax())]
