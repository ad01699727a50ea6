"""Small recipes of encoders, and runs of them."""

import regard
from regard.recipes import read_recipe
from regard.training.run import Finished, run

WORDS = """\
[data]
train = {{ name = "running_text", path = "{text}", words = 12 }}
valid = {{ name = "running_text", path = "{text}", words = 12 }}

[tokens]
kind = "{kind}"
size = 300

[model]
kind = "encoder"
size = "tiny"
max_len = 63

[training]
steps = 3
target_tokens_per_update = 64
warmup_steps = 2
validate_every = 3
label_smoothing = 0.0
"""

TAGS = """\
[data]
train = {{ name = "tsv", path = "{pairs}" }}
valid = {{ name = "tsv", path = "{pairs}" }}

[tokens]
kind = "words"
size = 60
is_joint = false

[model]
kind = "encoder"
task = "{task}"
d_model = 32
n_heads = 2
d_hidden = 32
n_layers = 1
max_len = 31
dropout = 0.0

[training]
steps = {steps}
learning_rate = 5e-3
target_tokens_per_update = 128
warmup_steps = 5
validate_every = {steps}
label_smoothing = 0.0
"""


def trained(tmp_path, text):
    (tmp_path / "recipe.toml").write_text(text)
    events = list(run(read_recipe(tmp_path / "recipe.toml"), tmp_path / "run"))
    assert isinstance(events[-1], Finished)
    return regard.load(tmp_path / "run", device="cpu")
