"""What distance adds, pair by pair, with nothing saved."""

import numpy as np


def clipped(offset, clip):
    """The offset, no further than clip to either side."""
    return max(-clip, min(clip, offset))


def shaw(n_queries, n_keys, table, clip):
    """The n × n × d tensor a[i,j] = w[clip(j - i)]; row 0 of the table is the offset -clip."""
    vectors = np.zeros((n_queries, n_keys, len(table[0])))
    for i in range(n_queries):
        for j in range(n_keys):
            vectors[i, j] = table[clipped(j - i, clip) + clip]
    return vectors


def depths(heads):
    """How many steps each word is away from its root (-1 has no head)."""
    found = []
    for word in range(len(heads)):
        steps, at = 0, word
        while heads[at] != -1:
            steps, at = steps + 1, heads[at]
        found.append(steps)
    return found


def tree_distances(heads):
    """rel(i,j): depth difference along an edge, else sign(i - j) (depth(i) + depth(j))."""
    n, depth = len(heads), depths(heads)
    distance = np.zeros((n, n), dtype=int)
    for i in range(n):
        for j in range(n):
            if heads[i] == j or heads[j] == i:
                distance[i, j] = depth[i] - depth[j]
            elif i != j:
                distance[i, j] = (1 if i > j else -1) * (depth[i] + depth[j])
    return distance


def structural(heads, sentence_table, tree_table, clip):
    """The n × n × d tensor R[clip(j - i)] + T[clip(rel(i,j))]."""
    n, distance = len(heads), tree_distances(heads)
    vectors = shaw(n, n, sentence_table, clip)
    for i in range(n):
        for j in range(n):
            vectors[i, j] += tree_table[clipped(int(distance[i, j]), clip) + clip]
    return vectors


def bucket(offset, n_buckets, max_distance, is_causal):
    """T5's bucket of key minus query; the logarithm's floor is taken in whole numbers."""
    if is_causal:
        first, per_side, distance = 0, n_buckets, max(-offset, 0)
    else:
        per_side = n_buckets // 2
        first, distance = (per_side if offset > 0 else 0), abs(offset)
    exact = per_side // 2
    if distance < exact:
        return first + distance
    # largest s with s <= steps · log(distance / exact) / log(max_distance / exact)
    steps, s = per_side - exact, 0
    while s + 1 < steps and (
        distance**steps * exact ** (s + 1) >= max_distance ** (s + 1) * exact**steps
    ):
        s += 1
    return first + exact + s


def bucketed(n_queries, n_keys, table, max_distance, is_causal):
    """The bias of every pair, from one head's table."""
    bias = np.zeros((n_queries, n_keys))
    for i in range(n_queries):
        for j in range(n_keys):
            bias[i, j] = table[bucket(j - i, len(table), max_distance, is_causal)]
    return bias


def slopes(n_heads):
    """2^(-8 h / H) for a power of two; else that of the lower one, and every second of the next."""
    whole = 1
    while whole * 2 <= n_heads:
        whole *= 2
    found = [2.0 ** (-8.0 * h / whole) for h in range(1, whole + 1)]
    h = 1
    while len(found) < n_heads:
        found.append(2.0 ** (-8.0 * h / (2 * whole)))
        h += 2
    return found


def linear_bias(n_queries, n_keys, slope):
    """-slope · |j - i|"""
    bias = np.zeros((n_queries, n_keys))
    for i in range(n_queries):
        for j in range(n_keys):
            bias[i, j] = -slope * abs(j - i)
    return bias
