"""Making small captioners for tests of whole runs."""

from pathlib import Path

from regard.data.pictures import pillow
from regard.data.scenes import scene
from regard.recipes import read_recipe
from regard.training import run

RECIPE = """\
[data]
train = { name = "scenes", count = 24 }
valid = { name = "scenes", count = 6 }
test = { name = "scenes", count = 4 }

[tokens]
kind = "words"
size = 40

[pictures]
margin = 2

[model]
kind = "captioner"
encoder = { name = "residual", width = 8, n_stages = 1 }
picture_size = 16
select = "hard"
d_embedding = 8
d_hidden = 8
dropout = 0.1
max_len = 30

[training]
steps = 8
target_tokens_per_update = 100
target_tokens_per_batch = 60
warmup_steps = 2
checkpoint_every = 4
validate_every = 4
validate_examples = 6
"""


def trained_captioner(folder: Path, text: str = RECIPE) -> Path:
    """A run of a few updates."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "recipe.toml").write_text(text)
    list(run(read_recipe(folder / "recipe.toml"), folder / "run"))
    return folder / "run"


def draw(path: Path, number: int, size: int = 24) -> str:
    """Save a scene as a file; its caption comes back."""
    drawn = scene(3, number)
    pillow().fromarray(drawn.draw(size)).save(path)
    return drawn.caption
