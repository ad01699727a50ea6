"""Recurrent encoder-decoders of one sentence, step by step, in plain vector algebra.

`p` maps the names of parameters to tensors. A gate matrix has its bias in its last column. Nothing
is padded, nothing is batched, and gradients follow by themselves.
"""

import torch

SOURCE, TARGET = "source.weight", "target.weight"


def lstm(x, state, W, U):
    """i, f, g, o of W x + U h; c' = f c + i g; h' = o tanh(c')"""
    h, c = state
    d = len(h)
    z = W[:, :-1] @ x + W[:, -1] + U @ h
    i, f, o = (torch.sigmoid(z[k * d : (k + 1) * d]) for k in (0, 1, 3))
    c = f * c + i * torch.tanh(z[2 * d : 3 * d])
    return o * torch.tanh(c), c


def gru(x, state, W, U):
    """r, z, n of W x + U h, the reset gate on U h alone; h' = (1 - z) n + z h"""
    (h,) = state
    d = len(h)
    a, b = W[:, :-1] @ x + W[:, -1], U @ h
    r, z = (torch.sigmoid(a[k * d : (k + 1) * d] + b[k * d : (k + 1) * d]) for k in (0, 1))
    n = torch.tanh(a[2 * d :] + r * b[2 * d :])
    return ((1 - z) * n + z * h,)


STEPS = {"lstm": (lstm, 2), "gru": (gru, 1)}


def weights_of(p, name):
    return p[f"{name}.kernel.weight_ih_l0"], p[f"{name}.kernel.weight_hh_l0"]


def run(p, name, cell, xs):
    """The hidden state after each vector, and the last state."""
    step, n_states = STEPS[cell]
    W, U = weights_of(p, name)
    state = tuple(U.new_zeros(U.shape[1]) for _ in range(n_states))
    said = []
    for x in xs:
        state = step(x, state, W, U)
        said.append(state[0])
    return said, state


def encode(p, cell, n_layers, reads, tokens):
    """The states in the order of the sentence, and each layer's last state by direction."""
    xs, last = [p[SOURCE][token] for token in tokens], []
    for i in range(n_layers):
        sides, ends = [], {}
        for way in reads:
            order = xs if way == "forwards" else xs[::-1]
            said, ends[way] = run(p, f"encoder.layers.{i}.{way}", cell, order)
            sides.append(said if way == "forwards" else said[::-1])
        xs = [torch.cat(parts) for parts in zip(*sides, strict=True)]
        last.append(ends)
    return xs, last


def copied(p, last):
    """The only direction's states"""
    return [next(iter(ends.values())) for ends in last]


def projected(p, last):
    """W [fwd; bwd] of every vector, without anything else"""
    states, n = [], 0
    for ends in last:
        layer = []
        for parts in zip(*ends.values(), strict=True):
            layer.append(p[f"bridge.W.{n}.weight"] @ torch.cat(parts))
            n += 1
        states.append(tuple(layer))
    return states


def backward(p, last):
    """tanh(W bwd) of every vector"""
    states, n = [], 0
    for ends in last:
        layer = []
        for vector in ends["backwards"]:
            layer.append(torch.tanh(p[f"bridge.W.{n}.weight"] @ vector))
            n += 1
        states.append(tuple(layer))
    return states


BRIDGES = {"copy": copied, "projected": projected, "backward": backward}


def stack_step(p, prefix, cell, x, states):
    """One step of all layers; the lowest reads x"""
    after = []
    for i, state in enumerate(states):
        W, U = weights_of(p, f"{prefix}cells.layers.{i}")
        state = STEPS[cell][0](x, state, W, U)
        after.append(state)
        x = state[0]
    return after


def scores_of(p, prefix, name, q, keys):
    """The score of one query with every key"""
    P = {k: p.get(f"{prefix}look.chain.score.{k}") for k in "WUv"}
    W, U, v = (None if P[k] is None else P[k][0] for k in "WUv")
    return torch.stack(
        [
            {
                "dot": lambda k, j: q @ k,
                "scaled_dot": lambda k, j: q @ k / len(q) ** 0.5,
                "general": lambda k, j: q @ (W @ k),
                "concat": lambda k, j: v @ torch.tanh(torch.cat([q, k]) @ W),
                "additive": lambda k, j: v @ torch.tanh(q @ W + k @ U),
                "location": lambda k, j: (q @ W)[j],
            }[name](key, j)
            for j, key in enumerate(keys)
        ]
    )


def select_of(p, prefix, name, scores, q, i, half_width=None, sigma=None):
    """Scores become weights; every key is visible"""
    S, at = len(scores), torch.arange(len(scores))
    if name == "soft":
        return torch.softmax(scores, 0)
    if name == "local_monotonic":
        inside = (at - min(i, S - 1)).abs() <= half_width
        return torch.softmax(scores.masked_fill(~inside, -torch.inf), 0)
    assert name == "local_predictive"
    W, v = p[f"{prefix}look.chain.select.W"][0], p[f"{prefix}look.chain.select.v"][0, :, 0]
    centre = S * torch.sigmoid(torch.tanh(q @ W) @ v)
    inside = (at - centre.detach().floor()).abs() <= half_width
    weights = torch.softmax(scores.masked_fill(~inside, -torch.inf), 0)
    sigma = half_width / 2 if sigma is None else sigma
    return weights * torch.exp(-((at - centre) ** 2) / (2 * sigma**2))


def attentional(p, prefix, context, h, word):
    """tanh(W [c; h])"""
    return torch.tanh(p[f"{prefix}says.readout.W.weight"] @ torch.cat([context, h]))


def maxout(p, prefix, context, h, word):
    """The larger of each pair of U h + V E y + C c"""
    parts = zip("UVC", (h, word, context), strict=True)
    total = sum(p[f"{prefix}says.readout.{k}.weight"] @ x for k, x in parts if len(x))
    return torch.stack([torch.maximum(*pair) for pair in total.split(2)])


def state(p, prefix, context, h, word):
    """h"""
    return h


READOUTS = {"attentional": attentional, "maxout": maxout, "state": state}


class Luong:
    """h → weights → c → readout, which may be fed; with score None nobody looks."""

    def __init__(self, *, score, select, feeds, readout="attentional", **settings):
        self.score, self.select, self.feeds = score, select, feeds
        self.readout, self.settings = READOUTS[readout], settings

    def __call__(self, p, prefix, cell, keys, states, target):
        fed, said, rows = None, [], []
        for i, token in enumerate(target):
            word = p[TARGET][token]
            if fed is None and self.feeds:
                fed = torch.zeros_like(states[-1][0])
            states = stack_step(
                p, prefix, cell, torch.cat([word, fed]) if self.feeds else word, states
            )
            h = states[-1][0]
            context, weights = h[:0], None
            if self.score is not None:
                scores = scores_of(p, prefix, self.score, h, keys)
                weights = select_of(p, prefix, self.select, scores, h, i, **self.settings)
                context = sum(w * k for w, k in zip(weights, keys, strict=True))
            fed = self.readout(p, prefix, context, h, word)
            said.append(fed)
            rows.append(weights)
        return torch.stack(said), rows


class Bahdanau:
    """The state before → weights → c, which is read with the word; then the readout."""

    def __init__(self, *, score, select, readout="maxout", **settings):
        self.score, self.select = score, select
        self.readout, self.settings = READOUTS[readout], settings

    def __call__(self, p, prefix, cell, keys, states, target):
        said, rows = [], []
        for i, token in enumerate(target):
            word, s = p[TARGET][token], states[-1][0]
            scores = scores_of(p, prefix, self.score, s, keys)
            weights = select_of(p, prefix, self.select, scores, s, i, **self.settings)
            context = sum(w * k for w, k in zip(weights, keys, strict=True))
            states = stack_step(p, prefix, cell, torch.cat([word, context]), states)
            said.append(self.readout(p, prefix, context, states[-1][0], word))
            rows.append(weights)
        return torch.stack(said), rows


class Covering:
    """Luong with coverage in an additive score: v tanh(W q + U h + w (weights so far))."""

    def __call__(self, p, prefix, cell, keys, states, target):
        W, U, v = (p[f"{prefix}look.chain.score.{k}"][0] for k in "WUv")
        covered, fed = torch.zeros(len(keys), dtype=v.dtype), torch.zeros_like(states[-1][0])
        said, rows = [], []
        for token in target:
            word = p[TARGET][token]
            states = stack_step(p, prefix, cell, torch.cat([word, fed]), states)
            h = states[-1][0]
            scores = torch.stack(
                [v @ torch.tanh(h @ W + k @ U[:-1] + c * U[-1])
                 for k, c in zip(keys, covered, strict=True)]
            )  # fmt: skip
            weights = torch.softmax(scores, 0)
            covered = covered + weights
            context = sum(w * k for w, k in zip(weights, keys, strict=True))
            fed = attentional(p, prefix, context, h, word)
            said.append(fed)
            rows.append(weights)
        return torch.stack(said), rows
