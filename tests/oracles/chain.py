"""The whole chain in loops: score → relate → mask → select → combine.

The parts are given as plain functions and arrays, so that any score meets any selection.
"""

import numpy as np


def attend(
    query,
    key,
    value,
    *,
    score,
    select,
    visible,
    bias=None,
    key_vectors=None,
    value_vectors=None,
):
    """Weights (b h q k) and context (b h q dv).

    Args:
        query: b h q dq.
        key: b h k dk.
        value: b h k dv.
        score: score(head, q, k, j), a number for one query and one key at position j.
        select: select(head, scores, visible, i, q), the weights of one row.
        visible: b q k, True where the query may see the key.
        bias: h q k, added to the scores.
        key_vectors: b h q k dk, added to the keys, pair by pair.
        value_vectors: b h q k dv, added to the values, pair by pair.
    """
    n_batch, n_heads, n_queries, _ = query.shape
    n_keys, width = value.shape[-2:]
    weights = np.zeros((n_batch, n_heads, n_queries, n_keys))
    context = np.zeros((n_batch, n_heads, n_queries, width))
    for b in range(n_batch):
        for h in range(n_heads):
            for i in range(n_queries):
                scores = np.zeros(n_keys)
                for j in range(n_keys):
                    k = (
                        key[b, h, j]
                        if key_vectors is None
                        else key[b, h, j] + key_vectors[b, h, i, j]
                    )
                    scores[j] = score(h, query[b, h, i], k, j)
                    scores[j] += 0.0 if bias is None else bias[h, i, j]
                weights[b, h, i] = select(h, scores, visible[b, i], i, query[b, h, i])
                for j in range(n_keys):
                    v = value[b, h, j]
                    v = v if value_vectors is None else v + value_vectors[b, h, i, j]
                    context[b, h, i] += weights[b, h, i, j] * v
    return weights, context
