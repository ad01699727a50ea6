"""What a chain of links must give, by the oracles: links in, loops over plain numbers out."""

import numpy as np

from regard.attention import Chain
from regard.attention.tables import name_of
from tests.contracts.building import Inputs
from tests.oracles import chain as chains
from tests.oracles import memories, patterns, relations, scores, selections


def expected(chain: Chain, inputs: Inputs):
    """Weights and context, in loops."""
    query, key, value = (plain(x) for x in (inputs.query, inputs.key, inputs.value))
    allowed = visible_pairs(chain.pattern, query.shape[-2], key.shape[-2])
    visible = allowed & inputs.exists[:, None, :]
    related = related_vectors(chain, inputs)
    if chain.memory is not None:
        key, value, visible = shortened(chain, key, value, inputs.exists, query.shape[-2])
    return chains.attend(
        query,
        key,
        value,
        score=score_of_pair(chain.score),
        select=weights_of_row(chain.select),
        visible=visible,
        **related,
    )


def plain(tensor):
    """The numbers of a tensor."""
    return tensor.detach().numpy()


def score_of_pair(score):
    """The oracle of a score, as score(head, q, k, j)."""
    p = {name: plain(weight) for name, weight in getattr(score, "named_parameters", dict)()}
    return {
        "dot": lambda h, q, k, j: scores.dot(q, k),
        "scaled_dot": lambda h, q, k, j: scores.scaled_dot(q, k),
        "general": lambda h, q, k, j: scores.general(q, k, p["W"][h]),
        "concat": lambda h, q, k, j: scores.concat(q, k, p["W"][h], p["v"][h]),
        "additive": lambda h, q, k, j: scores.additive(q, k, p["W"][h], p["U"][h], p["v"][h]),
        "location": lambda h, q, k, j: scores.location(q, j, p["W"][h]),
    }[name_of(score)]


def weights_of_row(select):
    """The oracle of a selection, as select(head, scores, visible, i, q)."""

    def local_predictive(h, s, seen, i, q):
        W, v = plain(select.W)[h], plain(select.v)[h, :, 0]
        return selections.local_predictive(s, seen, q, W, v, select.half_width, select.sigma)

    return {
        "soft": lambda h, s, seen, i, q: selections.soft(s, seen, select.temperature),
        "hard": lambda h, s, seen, i, q: selections.hard(s, seen, selections.argmax(s, seen)),
        "local_monotonic": lambda h, s, seen, i, q: selections.local_monotonic(
            s, seen, i, select.half_width
        ),
        "local_predictive": local_predictive,
        "sparsemax": lambda h, s, seen, i, q: selections.sparsemax(s, seen),
        "top_k": lambda h, s, seen, i, q: selections.top_k(s, seen, select.count),
    }[name_of(select)]


def visible_pairs(pattern, n_queries, n_keys, past=0):
    """The oracle of a pattern; random blocks are read from the pattern, the rest is not."""
    sizes = {"n_queries": n_queries, "n_keys": n_keys, "past": past}
    return {
        "full": lambda: patterns.full(**sizes),
        "causal": lambda: patterns.causal(**sizes),
        "sliding_window": lambda: patterns.sliding_window(**sizes, size=pattern.size),
        "blocks": lambda: patterns.blocks(**sizes, size=pattern.size),
        "global_tokens": lambda: patterns.global_tokens(
            **sizes, first=pattern.first, last=pattern.last
        ),
        "random_links": lambda: patterns.random_links(
            **sizes, block=pattern.block, links=pattern.links(n_keys)
        ),
        "big_bird": lambda: patterns.big_bird(
            **sizes,
            block=pattern.block,
            links=pattern.union.parts[-1].links(n_keys),
            is_causal=pattern.is_causal,
        ),
    }[name_of(pattern)]()


def related_vectors(chain: Chain, inputs: Inputs):
    """What a relation adds, as the arguments of the oracle's chain."""
    relation, (n_batch, n_heads, n_queries, _) = chain.relation, inputs.query.shape
    n_keys = inputs.key.shape[-2]

    def shaw(table):
        tables = np.broadcast_to(plain(table), (n_heads, *table.shape[1:]))
        pairs = [relations.shaw(n_queries, n_keys, head, relation.clip) for head in tables]
        return np.stack([np.stack(pairs)] * n_batch)

    def structural(heads):
        tables = zip(plain(relation.R), plain(relation.T), strict=True)
        return np.stack([relations.structural(heads, R, T, relation.clip) for R, T in tables])

    def bucketed(table):
        return relations.bucketed(
            n_queries, n_keys, table, relation.max_distance, relation.is_causal
        )

    return {
        "NoRelation": dict,
        "shaw": lambda: {"key_vectors": shaw(relation.wK), "value_vectors": shaw(relation.wV)},
        "structural": lambda: {
            "key_vectors": np.stack([structural(heads) for heads in inputs.heads.tolist()])
        },
        "bucketed": lambda: {"bias": np.stack([bucketed(table) for table in plain(relation.t)])},
        "linear_bias": lambda: {
            "bias": np.stack(
                [relations.linear_bias(n_queries, n_keys, m) for m in relations.slopes(n_heads)]
            )
        },
    }[name_of(relation)]()


def shortened(chain: Chain, key, value, exists, n_queries):
    """Keys, values and visibility over the slots of the chain's memory."""
    memory, is_causal = chain.memory, name_of(chain.pattern) == "causal"

    def linformer(tokens, mixing, b, h):
        return memories.linformer(tokens, mixing[h % len(mixing)], exists[b])

    def memory_compressed(tokens, kernel, b, h):
        return memories.memory_compressed(tokens, kernel[h], exists[b], is_causal)

    def every_head(tokens, shorten, parameter):
        return np.stack(
            [
                np.stack([shorten(head, plain(parameter), b, h) for h, head in enumerate(sentence)])
                for b, sentence in enumerate(tokens)
            ]
        )

    if name_of(memory) == "linformer":
        visible = [memories.linformer_visible(n_queries, memory.E.shape[-2], e) for e in exists]
        parts = (linformer, memory.E), (linformer, memory.F)
    else:
        visible = [
            memories.memory_compressed_visible(n_queries, e, memory.stride, is_causal)
            for e in exists
        ]
        parts = (memory_compressed, memory.C_K), (memory_compressed, memory.C_V)
    return every_head(key, *parts[0]), every_head(value, *parts[1]), np.stack(visible)
