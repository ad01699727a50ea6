"""Hostile folders are refused by whatever opens one: nothing of them is run or made large."""

import json
import pickle
import resource
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from regard.errors import CheckpointError
from regard.interop.importing import read_published
from regard.interop.transformers_folder import open_folder
from regard.serving.registry import open_runs
from tests.bridge.folders import folder_of
from tests.interop.importing.published import gpt2, rewrite

MAX_GROWTH = 1 << 30
"""How many bytes the largest memory of the process may grow by while a folder is refused."""


class Marking:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def _import(path):
    return gpt2(path / "gpt2")[0], read_published


def _look(path):
    return folder_of("gpt2", path), open_folder


def _serve(path):
    return folder_of("gpt2", path), lambda folder: open_runs([], models=[str(folder)])


@pytest.fixture(params=[_import, _look, _serve], ids=["import", "look --model", "serve --model"])
def opened(request, tmp_path):
    """A folder, and what opens it."""
    return request.param(tmp_path)


def refused(opened, said):
    """Open the folder, which must be refused without much memory."""
    folder, opening = opened
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CheckpointError, match=said):
        opening(folder)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < MAX_GROWTH


def sparse(folder, header, n_bytes):
    """Weights of a length that no disk has to hold."""
    text = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + n_bytes)


def test_a_pickle_is_not_opened(opened, tmp_path):
    folder, _ = opened
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Marking(tmp_path / "marker")))
    refused(opened, "is a pickle, which could run code and is never opened")
    assert not (tmp_path / "marker").exists()


def test_a_pickle_under_the_name_of_weights_is_not_opened(opened, tmp_path):
    folder, _ = opened
    (folder / "model.safetensors").write_bytes(pickle.dumps(Marking(tmp_path / "marker")))
    refused(opened, "cannot be read as safetensors")
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_code_is_not_run(opened, tmp_path, name):
    folder, _ = opened
    (folder / "own.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')\n")
    held = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
    (folder / name).write_text(json.dumps({**held, "auto_map": {"AutoModel": "own.Model"}}))
    refused(opened, r"wants code of its own to be run \(auto_map: own.Model\), and it is never run")
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_link_out_of_the_folder_is_not_followed(opened, tmp_path, name):
    folder, _ = opened
    (folder / name).rename(tmp_path / "secret")
    (folder / name).symlink_to(tmp_path / "secret")
    refused(opened, rf"{name}' is a link out of the folder, to '.*secret', and such are not foll")


def test_a_link_inside_the_folder_is_followed(opened):
    folder, opening = opened
    (folder / "config.json").rename(folder / "kept.json")
    (folder / "config.json").symlink_to("kept.json")
    assert opening(folder)


def test_a_header_of_giant_shapes_is_refused(opened):
    folder, _ = opened
    form = {"dtype": "F32", "shape": [1 << 20, 1 << 20], "data_offsets": [0, 4 << 40]}
    sparse(folder, {"transformer.wte.weight": form}, 1 << 20)
    refused(opened, "cannot be read as safetensors")


def test_a_header_longer_than_its_file_is_refused(opened):
    folder, _ = opened
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 1 << 60) + b"{}")
    refused(opened, "cannot be read as safetensors")


def test_a_giant_file_with_holes_is_not_read(opened):
    folder, _ = opened
    tensors = load_file(folder / "model.safetensors")
    header, at = {}, 0
    for name, tensor in tensors.items():
        shape = [1 << 36] if name.endswith("ln_f.weight") else [*tensor.shape]
        size = 4 * int(torch.tensor(shape).prod())
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    sparse(folder, header, at)
    refused(
        opened, "does not fit config.json|this machine has .* free|cannot be read as safetensors"
    )


def test_a_giant_configuration_is_not_made(opened):
    folder, _ = opened
    rewrite(folder / "config.json", n_embd=1 << 16, n_head=4, n_positions=1 << 23)
    refused(opened, "this machine has .* free|are of different models")


def test_weights_of_another_shape_are_refused(opened):
    folder, _ = opened
    rewrite(folder / "config.json", n_inner=7)
    refused(opened, "config.json.*is expected|config.json says")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_an_enormous_text_is_not_read(opened, name):
    folder, _ = opened
    with (folder / name).open("r+b") as file:
        file.truncate(10 << 30)
    refused(opened, rf"{name}' is larger than \d+ MiB")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_text_nested_without_end_is_refused(opened, name):
    folder, _ = opened
    (folder / name).write_text("[" * 100_000 + "]" * 100_000)
    refused(opened, "nested too deeply")


@pytest.mark.slow
def test_a_text_that_swells_when_it_is_read_stays_small(opened):
    folder, _ = opened
    (folder / "config.json").write_text('{"a": [' + "[]," * 4_000_000 + "[]]}")
    refused(opened, "'model_type' must be|'architectures' names None")


def test_a_packed_tokenizer_is_not_unpacked(opened):
    folder, _ = opened
    (folder / "tokenizer.json").write_bytes(b"\x1f\x8b\x08\x00" + bytes(100))
    refused(opened, "tokenizer.json' is not UTF-8|tokenizer.json' is not JSON")


def test_an_index_that_leads_out_of_the_folder_is_refused(opened, tmp_path):
    folder, _ = opened
    (folder / "model.safetensors").rename(tmp_path / "other.safetensors")
    names = load_file(tmp_path / "other.safetensors")
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict.fromkeys(names, "../other.safetensors")})
    )
    refused(opened, r"has no \.\./other\.safetensors")


def test_an_index_that_names_what_a_file_lacks_is_refused(opened):
    folder, _ = opened
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors, folder / "a.safetensors")
    (folder / "model.safetensors").unlink()
    places = dict.fromkeys([*tensors, "transformer.more"], "a.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    refused(opened, r"lacks 'transformer\.more', which model\.safetensors\.index\.json says")
