"""Keys or values of one head, shortened by loops; and who sees which slot."""

import numpy as np


def linformer(tokens, mixing, exists):
    """slot[s] = sum over real tokens of E[s,n] token[n]"""
    slots = np.zeros((len(mixing), tokens.shape[1]))
    for s in range(len(mixing)):
        for n in range(len(tokens)):
            if exists[n]:
                slots[s] += mixing[s][n] * tokens[n]
    return slots


def linformer_visible(n_queries, n_slots, exists):
    """Every slot, unless no token is real."""
    return np.full((n_queries, n_slots), bool(any(exists)))


def memory_compressed(tokens, kernel, exists, is_causal):
    """slot[m] = sum_r C[r] token[stride · m + r]; a causal memory keeps the first token in front"""
    stride, width = len(kernel), tokens.shape[1]
    n_slots = (len(tokens) + stride - 1) // stride
    slots = np.zeros((n_slots, width))
    for m in range(n_slots):
        for r in range(stride):
            n = stride * m + r
            if n >= len(tokens) or not exists[n]:
                continue
            for a in range(width):
                for c in range(width):
                    slots[m, c] += tokens[n, a] * kernel[r][a][c]
    return np.concatenate([tokens[:1], slots]) if is_causal else slots


def memory_compressed_visible(n_queries, exists, stride, is_causal, past=0):
    """Slots that hold a real token; causal: those that ended, and until one did, the first token"""
    n_slots = (len(exists) + stride - 1) // stride
    holds = [any(exists[stride * m : stride * (m + 1)]) for m in range(n_slots)]
    if not is_causal:
        return np.array([holds] * n_queries)
    visible = np.zeros((n_queries, n_slots + 1), dtype=bool)
    for row in range(n_queries):
        i = row + past
        visible[row, 0] = i < stride - 1 and exists[0]
        for m in range(n_slots):
            last_token = stride * m + stride - 1
            visible[row, m + 1] = last_token <= i and holds[m]
    return visible
