"""Factories: small models, runs and corpora that many tests need."""

from pathlib import Path

import torch

from regard.data.labels import LABELS_FILE
from regard.data.subwords import Subwords
from regard.data.vocabulary_files import ALL_KINDS
from regard.models import build_model
from regard.recipes import read_recipe
from regard.tasks import task_of
from regard.training.checkpoints import distinct_tensors, write_tensors

TRANSFORMER = """\
d_model = 16
n_heads = 2
d_hidden = 16
n_encoder_layers = 1
n_decoder_layers = 2"""

ENCODER = """\
kind = "encoder"
task = "{task}"
d_model = 16
n_heads = 2
d_hidden = 16
n_layers = 2"""

RECIPE = """\
[data]
train = {{ name = "copy", count = 40 }}
valid = {{ name = "copy", count = 5 }}

[tokens]
kind = "{kind}"
size = 300

[model]
{model}
max_len = {max_len}

[training]
steps = 1
"""


def make_run(
    folder: Path,
    *texts: str,
    kind: str = "characters",
    max_len: int = 64,
    model: str = TRANSFORMER,
) -> Path:
    """A run that nobody trained: a recipe, a vocabulary of these texts, and random weights."""
    folder.mkdir(parents=True, exist_ok=True)
    written = RECIPE.format(kind=kind, max_len=max_len, model=model)
    (folder / "recipe.toml").write_text(written)
    recipe = read_recipe(folder / "recipe.toml")
    learned = Subwords.train(texts or ["a b c d e"], kind=ALL_KINDS[kind], size=300)
    subwords = task_of(recipe).with_special_pieces(learned)
    subwords.save(folder / "tokenizer.json")
    if recipe.model.gives_labels:
        subwords.save(folder / LABELS_FILE)
    size = len(subwords)
    torch.manual_seed(1)
    made = build_model(recipe.model, n_source_tokens=size, n_target_tokens=size)
    write_tensors(folder / "model.safetensors", distinct_tensors(made))
    return folder
