"""Loading a run: it works, and whatever somebody writes into its files, nothing runs or hangs."""

import pickle
import random
import shutil
import struct

import pytest
import torch
from safetensors.torch import load_file

from regard.data.subword_kinds import BOS
from regard.errors import CheckpointError, RegardError, RunError
from regard.recipes import read_recipe
from regard.runs.trained import load_run
from regard.training import run

RECIPE = """\
[data]
train = { name = "copy", count = 40 }
valid = { name = "copy", count = 5 }

[tokens]
kind = "characters"
size = 32

[model]
d_model = 8
n_heads = 2
d_hidden = 8
n_encoder_layers = 1
n_decoder_layers = 1

[training]
steps = 2
target_tokens_per_update = 200
validate_examples = 2
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loading")
    (folder / "recipe.toml").write_text(RECIPE)
    list(run(read_recipe(folder / "recipe.toml"), folder / "run"))
    shutil.rmtree(folder / "run" / "corpus")
    shutil.rmtree(folder / "run" / "checkpoints")
    return folder / "run"


@pytest.fixture
def copy(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def test_a_finished_run_comes_back_whole(finished):
    loaded = load_run(finished)
    source = torch.tensor([loaded.source.encode("a b c")])
    logits = loaded.model(source, torch.tensor([[BOS]]))
    assert logits.shape == (1, 1, len(loaded.target))
    assert torch.isfinite(logits).all()
    assert not loaded.model.training


def test_a_matrix_that_layers_share_is_kept_once_and_shared_again(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE)
    ways = 'model.encoder_attends=["linformer:slots=3,sharing=layerwise"]'
    plan = read_recipe(tmp_path / "recipe.toml", [ways, "model.n_encoder_layers=3"])
    list(run(plan, tmp_path / "run"))
    tensors = load_file(tmp_path / "run" / "model.safetensors")
    (kept,) = [tensor for name, tensor in tensors.items() if "memory" in name]
    encoder = load_run(tmp_path / "run").model.encoder
    assert len({layer.attention.chain.memory.E.data_ptr() for layer in encoder}) == 1
    assert torch.equal(encoder[2].attention.chain.memory.E, kept)


def test_an_unfinished_run_is_refused(copy):
    (copy / "model.safetensors").unlink()
    with pytest.raises(RunError, match=r"there is no model\.safetensors in it"):
        load_run(copy)


def test_a_file_is_no_run_and_told_from_a_missing_one(copy):
    with pytest.raises(RunError, match=r"recipe.toml' is not a finished run but a file\. Give the"):
        load_run(copy / "recipe.toml")


class Hostile:
    """What a pickle may do when it is read."""

    def __reduce__(self):
        return (exec, ("raise SystemExit('code of a file was run')",))


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "recipe.toml"])
def test_a_pickle_under_another_name_is_refused_and_never_run(name, copy):
    (copy / name).write_bytes(pickle.dumps(Hostile()))
    with pytest.raises(RegardError, match=name):
        load_run(copy)


def test_another_size_than_the_recipe_s_is_refused_before_anything_is_made(copy):
    text = (copy / "recipe.toml").read_text()
    (copy / "recipe.toml").write_text(text.replace("d_hidden = 8", "d_hidden = 200000"))
    with pytest.raises(CheckpointError, match=r"must be \(200000, 8\) by the recipe, got \(8, 8\)"):
        load_run(copy)
    (copy / "recipe.toml").write_text(text.replace("n_encoder_layers = 1", "n_encoder_layers = 9"))
    with pytest.raises(CheckpointError, match=r"lacks \['encoder\.1\."):
        load_run(copy)


def test_a_header_that_promises_too_much_is_refused(copy):
    path = copy / "model.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 60) + path.read_bytes()[8:])
    with pytest.raises(CheckpointError, match="cannot be read as safetensors"):
        load_run(copy)


LOADS = "it loads"


def _outcome(folder):
    """What loading says; anything but an error of ours goes through and fails the test."""
    try:
        load_run(folder)
    except RegardError as error:
        return str(error)
    return LOADS


def _mutated(draws, content):
    """Some of what can happen to a file: bits, pieces, numbers and words changed."""
    data = bytearray(content)
    for _ in range(draws.randint(1, 4)):
        place = draws.randrange(len(data)) if data else 0
        kind = draws.randrange(5)
        if kind == 0 and data:
            data[place] ^= 1 << draws.randrange(8)
        elif kind == 1:
            del data[place : place + draws.randint(1, 40)]
        elif kind == 2:
            data[place:place] = draws.randbytes(draws.randint(1, 20))
        elif kind == 3:
            data[place:place] = draws.choice(
                [b"99999999999", b"-1", b"null", b"[[", b'"', b"1e999"]
            )
        else:
            other = draws.randrange(len(data)) if data else 0
            data[place : place + 30] = data[other : other + 30]
    return bytes(data)


@pytest.mark.parametrize("seed", range(6))
def test_a_hundred_mutated_runs_load_or_are_refused_and_nothing_else(seed, copy):
    draws = random.Random(seed)
    names = ["model.safetensors", "tokenizer.json", "recipe.toml"]
    kept = {name: (copy / name).read_bytes() for name in names}
    outcomes = []
    for _ in range(100):
        name = draws.choice(names)
        (copy / name).write_bytes(_mutated(draws, kept[name]))
        outcomes.append(_outcome(copy))
        (copy / name).write_bytes(kept[name])
    refused = [text for text in outcomes if text != LOADS]
    assert len(refused) > 20
    assert all(refused), "a refusal says why"
