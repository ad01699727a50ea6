"""Who sees whom, pair by pair. `past` is the position of the first query."""

import numpy as np


def pairs(n_queries, n_keys, rule, past=0):
    """The matrix of rule(i, j) over positions."""
    visible = np.zeros((n_queries, n_keys), dtype=bool)
    for row in range(n_queries):
        for j in range(n_keys):
            visible[row, j] = rule(row + past, j)
    return visible


def full(n_queries, n_keys, past=0):
    """Everything."""
    return pairs(n_queries, n_keys, lambda i, j: True, past)


def causal(n_queries, n_keys, past=0):
    """j <= i"""
    return pairs(n_queries, n_keys, lambda i, j: j <= i, past)


def sliding_window(n_queries, n_keys, size, past=0):
    """|j - i| <= size"""
    return pairs(n_queries, n_keys, lambda i, j: abs(j - i) <= size, past)


def blocks(n_queries, n_keys, size, past=0):
    """i and j stand in the same block"""
    return pairs(n_queries, n_keys, lambda i, j: i // size == j // size, past)


def global_tokens(n_queries, n_keys, first, last, past=0):
    """Either stands among the first, or among the last, of the n_keys positions."""

    def is_global(p):
        return p < first or p >= n_keys - last

    return pairs(n_queries, n_keys, lambda i, j: is_global(i) or is_global(j), past)


def random_links(n_queries, n_keys, block, links, past=0):
    """links[a][b] says whether block b was drawn for block a; the draw itself is given."""
    return pairs(n_queries, n_keys, lambda i, j: links[i // block][j // block], past)


def big_bird(n_queries, n_keys, block, links, is_causal, past=0):
    """Neighbouring blocks, the first and last `block` positions, and the given random blocks."""

    def rule(i, j):
        if is_causal and j > i:
            return False
        near = abs(i // block - j // block) <= 1
        at_start = i < block or j < block
        at_end = not is_causal and (i >= n_keys - block or j >= n_keys - block)
        return near or at_start or at_end or links[i // block][j // block]

    return pairs(n_queries, n_keys, rule, past)
