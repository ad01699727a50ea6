"""Greedy search against a slow search that knows no cache."""

import torch

from regard.data.subword_kinds import BOS, EOS, PAD
from regard.decoding import greedy
from regard.models import TransformerSpec, build_transformer

SPEC = TransformerSpec(
    d_model=16, n_heads=2, d_hidden=16, n_encoder_layers=1, n_decoder_layers=1, max_len=32
)


def _slowly(model, source, max_tokens):
    out, tokens = [], [BOS]
    for _ in range(max_tokens):
        logits = model(source[None], torch.tensor([tokens]))[0, -1]
        logits[[PAD, BOS]] = -torch.inf
        best = int(logits.argmax())
        if best == EOS:
            break
        out.append(best)
        tokens.append(best)
    return out


def test_it_equals_a_search_without_cache_whatever_else_is_in_the_batch():
    model = build_transformer(SPEC, n_source_tokens=7, n_target_tokens=7).double().eval()
    with torch.no_grad():
        # large logits make the next token depend on every token before it
        model.output.weight.normal_(std=4.0)
    source = torch.randint(3, 7, (9, 6))
    for row in range(9):
        source[row, 2 + row % 5 :] = PAD
    together = greedy(model, source, max_tokens=8)
    assert len({len(row) for row in together}) > 1, "rows should end at different lengths"
    for row in range(9):
        alone = source[row][source[row] != PAD]
        assert together[row] == _slowly(model, alone, 8)
        assert greedy(model, alone[None], max_tokens=8) == [together[row]]


def test_it_stops_at_the_limit():
    model = build_transformer(SPEC, n_source_tokens=7, n_target_tokens=7).eval()
    with torch.no_grad():
        model.output.weight[EOS] -= 100.0 * model.output.weight[EOS].sign()
    assert all(len(row) <= 3 for row in greedy(model, torch.randint(3, 7, (2, 4)), max_tokens=3))
