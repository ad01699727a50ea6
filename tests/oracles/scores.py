"""The score of one query with one key, written out. Vectors are 1-D numpy arrays."""

import math

import numpy as np

ACTIVATIONS = {
    "tanh": math.tanh,
    "relu": lambda x: max(x, 0.0),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
}


def dot(q, k):
    """q · k"""
    assert len(q) == len(k)
    return sum(q[c] * k[c] for c in range(len(q)))


def scaled_dot(q, k):
    """q · k / sqrt(d)"""
    return dot(q, k) / math.sqrt(len(q))


def general(q, k, W):
    """q · W k"""
    return sum(q[a] * W[a][c] * k[c] for a in range(len(q)) for c in range(len(k)))


def concat(q, k, W, v):
    """v · tanh(W [q; k]), with the two vectors really joined; W has a row for each joined number"""
    joined = [*q, *k]
    total = 0.0
    for f in range(len(v)):
        total += v[f] * math.tanh(sum(joined[c] * W[c][f] for c in range(len(joined))))
    return total


def additive(q, k, W, U, v, c=None, activation="tanh"):
    """v · act(W q + U k + c)"""
    total = 0.0
    for f in range(len(v)):
        hidden = sum(q[a] * W[a][f] for a in range(len(q)))
        hidden += sum(k[a] * U[a][f] for a in range(len(k)))
        hidden += 0.0 if c is None else c[f]
        total += v[f] * ACTIVATIONS[activation](hidden)
    return total


def location(q, j, W):
    """(W q)[j]: column j of W belongs to position j"""
    return sum(q[a] * W[a][j] for a in range(len(q)))


def every_pair(query, key, score):
    """score(head, q, k, j) of every pair, as b h q k."""
    n_batch, n_heads, n_queries, _ = query.shape
    n_keys = key.shape[-2]
    out = np.zeros((n_batch, n_heads, n_queries, n_keys))
    for b in range(n_batch):
        for h in range(n_heads):
            for i in range(n_queries):
                for j in range(n_keys):
                    out[b, h, i, j] = score(h, query[b, h, i], key[b, h, j], j)
    return out
