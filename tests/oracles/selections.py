"""The weights of one row, written out. A row is a 1-D array of scores and one of visibility."""

import math

import numpy as np


def soft(scores, visible, temperature=1.0):
    """exp(e[j] / T) / sum over visible keys of exp(e / T)"""
    weights = np.zeros(len(scores))
    seen = [j for j in range(len(scores)) if visible[j]]
    if not seen:
        return weights
    highest = max(scores[j] for j in seen)
    for j in seen:
        weights[j] = math.exp((scores[j] - highest) / temperature)
    return weights / sum(weights)


def argmax(scores, visible):
    """The first visible key of the highest score, or None if none is visible."""
    seen = [j for j in range(len(scores)) if visible[j]]
    return max(seen, key=lambda j: scores[j]) if seen else None


def hard(scores, visible, chosen):
    """One for the chosen key, zero for every other."""
    weights = np.zeros(len(scores))
    if chosen is not None:
        assert visible[chosen]
        weights[chosen] = 1.0
    return weights


def entropy(weights):
    """-sum w log w"""
    return -sum(w * math.log(w) for w in weights if w > 0)


def extent(visible):
    """Number of keys up to the last visible one."""
    return max((j + 1 for j in range(len(visible)) if visible[j]), default=0)


def local_monotonic(scores, visible, i, half_width):
    """A softmax over the visible keys at most half_width from p = min(i, S - 1)."""
    p = min(i, extent(visible) - 1)
    inside = [bool(visible[j]) and abs(j - p) <= half_width for j in range(len(scores))]
    return soft(scores, inside)


def predicted_centre(visible, q, W, v):
    """p = S sigmoid(v · tanh(W q)), S keys up to the last visible one"""
    total = 0.0
    for f in range(len(v)):
        total += v[f] * math.tanh(sum(q[a] * W[a][f] for a in range(len(q))))
    return extent(visible) / (1 + math.exp(-total))


def local_predictive(scores, visible, q, W, v, half_width, sigma=None):
    """A softmax around floor(p), then the Gaussian of the real p; not normalised again."""
    sigma = half_width / 2 if sigma is None else sigma
    p = predicted_centre(visible, q, W, v)
    inside = [bool(visible[j]) and abs(j - math.floor(p)) <= half_width for j in range(len(scores))]
    weights = soft(scores, inside)
    for j in range(len(scores)):
        weights[j] *= math.exp(-((j - p) ** 2) / (2 * sigma**2))
    return weights


def sparsemax(scores, visible):
    """max(e - tau, 0), with tau found by halving the interval in which the row sums to one."""
    weights = np.zeros(len(scores))
    seen = [j for j in range(len(scores)) if visible[j]]
    if not seen:
        return weights
    high = max(scores[j] for j in seen)
    low = high - 1.0
    for _ in range(200):
        tau = (low + high) / 2
        mass = sum(max(scores[j] - tau, 0.0) for j in seen)
        low, high = (tau, high) if mass > 1 else (low, tau)
    for j in seen:
        weights[j] = max(scores[j] - (low + high) / 2, 0.0)
    return weights


def top_k(scores, visible, count):
    """The softmax of the visible scores that are no lower than the count-th best of them."""
    seen = sorted((scores[j] for j in range(len(scores)) if visible[j]), reverse=True)
    lowest = seen[min(count, len(seen)) - 1] if seen else math.inf
    kept = [bool(visible[j]) and scores[j] >= lowest for j in range(len(scores))]
    return soft(scores, kept)


def every_row(scores, visible, select):
    """select(scores, visible) of every row; both arrays are `… q k`."""
    visible = np.broadcast_to(visible, scores.shape)
    out = np.zeros(scores.shape)
    for at in np.ndindex(scores.shape[:-1]):
        out[at] = select(scores[at], visible[at])
    return out
