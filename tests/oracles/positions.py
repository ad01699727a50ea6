"""Positions as vectors, number by number."""

import math

import numpy as np

from tests.oracles.relations import depths


def frequency(pair, width):
    """w[i] = 10000^(-2i / width)"""
    return 10000.0 ** (-2.0 * pair / width)


def sinusoidal(positions, width):
    """sin(p w[i]) in channel 2i, cos(p w[i]) in channel 2i + 1"""
    out = np.zeros((len(positions), width))
    for row, p in enumerate(positions):
        for pair in range(width // 2):
            angle = p * frequency(pair, width)
            out[row, 2 * pair] = math.sin(angle)
            out[row, 2 * pair + 1] = math.cos(angle)
    return out


def rotary(x, positions):
    """Every pair of neighbouring channels turned by a 2 × 2 rotation; x is n × d."""
    n, width = x.shape
    out = np.zeros((n, width))
    for row in range(n):
        for pair in range(width // 2):
            angle = positions[row] * frequency(pair, width)
            turn = np.array(
                [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
            )
            out[row, 2 * pair : 2 * pair + 2] = turn @ x[row, 2 * pair : 2 * pair + 2]
    return out


def tree_depth(positions, heads, W, U, c):
    """tanh(W PE[index] + U PE[depth] + c); W and U have one row for each output channel"""
    width = len(W)
    index, depth = sinusoidal(positions, width), sinusoidal(depths(heads), width)
    out = np.zeros((len(positions), width))
    for row in range(len(positions)):
        for m in range(width):
            total = c[m]
            for a in range(width):
                total += W[m][a] * index[row, a] + U[m][a] * depth[row, a]
            out[row, m] = math.tanh(total)
    return out
