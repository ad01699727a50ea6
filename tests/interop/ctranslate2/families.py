"""Families of models that CTranslate2 can hold, as [model] sections of small runs."""

from pathlib import Path

import torch

import regard
from regard.training.checkpoints import distinct_tensors, write_tensors
from tests.factories import make_run
from tests.interop.importing.published import WORDS

TEXTS = [" ".join(WORDS[i : i + 1 + i % 5]) for i in range(12)]

SIZES = """\
d_model = 24
n_heads = 3
d_hidden = 40
"""
ENCODER_DECODER = f"""\
{SIZES}n_encoder_layers = 2
n_decoder_layers = 2
"""
LANGUAGE_MODEL = f"""\
kind = "language_model"
{SIZES}n_layers = 2
"""
SHAW = '{ name = "shaw", clip = 2, is_shared = true }'

READING = {
    "post-norm": "",
    "pre-norm": 'norm = "pre_norm"',
    "gated": 'norm = "pre_norm"\nfeed_forward = "gated"',
    "gelu": 'feed_forward = "gelu"',
    "without feed-forward": 'feed_forward = "none"',
    "learned positions": 'positions = "learned"',
    "no positions": 'positions = "none"',
    "three tables": 'tied = "none"',
    "a table for each side": 'tied = "output"',
    "temperature": 'select = "soft:temperature=2.0"',
    "dot": 'score = "dot"',
    "general": 'score = "general"',
    "Shaw": f'positions = "none"\nrelation = {SHAW}',
    "ALiBi": 'positions = "none"\nrelation = "linear_bias"\nnorm = "pre_norm"',
}
"""By what is special about them, models that read a source."""
MARIAN = f"""\
kind = "marian"
{SIZES}n_encoder_layers = 2
n_decoder_layers = 2
"""
CONTINUING = {
    "pre-norm": "",
    "post-norm": 'norm = "post_norm"\nfeed_forward = "gelu"',
    "running text": 'rows = "running"',
    "continued": 'rows = "continued"\npositions = "learned"',
    "rotary": 'positions = "rotary"\nfeed_forward = "gelu"',
    "rotary and gated": 'positions = "rotary"\nfeed_forward = "gated"',
    "ALiBi": 'positions = "none"\nrelation = "linear_bias"',
    "Shaw": f'positions = "none"\nrelation = {SHAW}',
    "two tables": 'tied = "none"',
}
"""Language models."""
GPT2 = f"""\
kind = "gpt2"
{SIZES}n_layers = 2
"""

FAMILIES = {
    **{f"reads, {name}": ENCODER_DECODER + own for name, own in READING.items()},
    "reads, Marian": MARIAN,
    **{f"continues, {name}": LANGUAGE_MODEL + own for name, own in CONTINUING.items()},
    "continues, GPT-2": GPT2,
}


def made(folder: Path, model: str, *, kind: str = "words") -> Path:
    """A run whose weights are random, and so large that its words differ in likelihood."""
    run = make_run(folder, *TEXTS, kind=kind, model=model)
    loaded = regard.load(run, device="cpu").loaded
    with torch.no_grad():
        for name, weight in loaded.model.named_parameters():
            if weight.dim() > 1 and "E.weight" not in name:
                weight.mul_(1.5)
    write_tensors(run / "model.safetensors", distinct_tensors(loaded.model))
    return run
