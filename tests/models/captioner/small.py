"""Small captioners, and what they are shown and asked for."""

from dataclasses import replace

import torch
from torch import nn

from regard.attention.selections.hard import HardRows
from regard.choices import Choice
from regard.models.captioner.network import build_captioner
from regard.models.captioner.spec import CaptionerSpec
from regard.models.stepper import BOS, EOS, PAD

V, D, L = 11, 16, 6
ENCODER = Choice("residual", {"width": 8, "n_stages": 1})
"""16 numbers for every 4 x 4 pixels."""
SOFT = CaptionerSpec(
    encoder=ENCODER, picture_size=8, d_embedding=5, d_hidden=7, d_attention=4, dropout=0.0
)
HARD = replace(SOFT, select="hard")
DRAWN = replace(HARD, expected_share=0.0)
"""Every caption is drawn for."""
TRANSFORMER = CaptionerSpec(
    encoder=ENCODER, picture_size=8, decoder="transformer", d_embedding=12, d_hidden=10,
    n_layers=2, n_heads=2, dropout=0.0,
)  # fmt: skip
SPECS = {
    "soft": replace(SOFT, penalty=1.0),
    "hard": HARD,
    "hard, argmax": replace(HARD, at_test="argmax"),
    "look after": replace(SOFT, look="after"),
    "seen alone": replace(SOFT, readout="seen"),
    "transformer": TRANSFORMER,
}


def build(spec, scale=0.5, n=V):
    """A model in evaluation whose numbers are large enough for a mistake to show."""
    model = build_captioner(spec, n_source_tokens=1, n_target_tokens=n).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=scale)
    return model


def annotations(n_pictures=3, n_cells=L):
    return torch.randn(n_pictures, n_cells, D, dtype=torch.float64)


def captions(lengths=(5, 2, 4), n=V):
    """What should be said: each caption ends with the end token, then padding."""
    target = torch.randint(4, n, (len(lengths), max(lengths)))
    for row, length in zip(target, lengths, strict=True):
        row[length - 1], row[length:] = EOS, PAD
    return target


def read(n_rows=3, n_tokens=5):
    """What a decoder reads: the begin token first."""
    tokens = torch.randint(4, V, (n_rows, n_tokens))
    tokens[:, 0] = BOS
    return tokens


class Forced(nn.Module):
    """A hard selection whose draws are known beforehand, one cell a step for every row."""

    def __init__(self, path):
        super().__init__()
        self.path = list(path)

    def summarise(self, scores, mask, query, places):
        cell = self.path.pop(0)
        log_weights = scores.log_softmax(-1)
        entropy = -(log_weights.exp() * log_weights).sum(-1, keepdim=True)
        chosen = torch.full((*scores.shape[:-1], 1), cell)
        return HardRows(
            scores.logsumexp(-1, keepdim=True), chosen, log_weights.gather(-1, chosen), entropy
        )

    def weigh(self, scores, mask, rows, places):
        return (places.key == rows.chosen).to(scores.dtype).expand(scores.shape)
