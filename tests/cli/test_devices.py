"""--device: what is not on this machine is told by every verb, before anything is made."""

import pytest
import torch

import regard
from regard.cli import main
from regard.cli.verbs import VERBS as cli_verbs
from regard.cli.verbs import load_verb
from regard.errors import SettingError
from regard.hardware.devices import device_named
from regard.hardware.hardware import Hardware
from tests.factories import make_run
from tests.small_recipe import RECIPE

VERBS = {
    "new": ["new", "{data}", "--out", "{out}"],
    "train": ["train", "{recipe}", "--out", "{out}"],
    "plan": ["plan", "{recipe}"],
    "predict": ["predict", "{run}", "--text", "a"],
    "evaluate": ["evaluate", "{run}"],
    "compare": ["compare", "{run}", "{run}"],
    "verify": ["verify", "{run}"],
    "serve": ["serve", "{run}", "--port", "0"],
    "bench attention": ["bench", "attention"],
    "bench train": ["bench", "train"],
    "bench decode": ["bench", "decode"],
}
ABSENT = ["mps", "cuda", "cuda:7", "cuda:300", "xpu", "hpu", "meta", "cpu:1", "cdua", "CPU", ""]


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("devices")
    (folder / "recipe.toml").write_text(RECIPE)
    make_run(folder / "run")
    (folder / "data.tsv").write_text("a\tb\n")
    return {
        "data": folder / "data.tsv",
        "recipe": folder / "recipe.toml",
        "run": folder / "run",
        "out": folder / "out",
    }


@pytest.fixture(autouse=True)
def _a_machine_without_a_gpu(monkeypatch):
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: None)


def _several_gpus(monkeypatch, count):
    gpu = torch.device("cuda")
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda check_available: gpu)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)


def test_the_table_holds_every_verb_that_takes_a_device():
    commands = {}
    for name in cli_verbs:
        found = load_verb(name)
        parts = getattr(found, "commands", None)
        commands |= {f"{name} {part}": parts[part] for part in parts} if parts else {name: found}
    taking = {
        name for name, one in commands.items() if "device" in {each.name for each in one.params}
    }
    assert taking == VERBS.keys()


@pytest.mark.parametrize("device", ABSENT)
@pytest.mark.parametrize("verb", VERBS)
def test_an_absent_device_is_told_and_nothing_is_made(verb, device, places, capsys):
    words = [word.format(**places) for word in VERBS[verb]]
    assert main([*words, "--device", device]) == 2
    said = capsys.readouterr()
    assert said.err == (
        f"regard: --device: '{device}' is not on this machine: torch sees only cpu. Give one of "
        "these, or leave it out.\n"
    )
    assert said.out == ""
    assert not places["out"].exists()


@pytest.mark.parametrize("device", ["mps", "cuda:1"])
def test_python_is_told_the_same_before_a_run_is_read(device, tmp_path):
    with pytest.raises(SettingError, match=f"--device: '{device}' is not on this machine"):
        regard.load(tmp_path / "nothing", device=device)


def test_a_gpu_beyond_the_last_is_told_with_those_that_there_are(monkeypatch):
    _several_gpus(monkeypatch, 2)
    with pytest.raises(SettingError, match=r"'cuda:7'.*only cpu, cuda:0, cuda:1\."):
        device_named("cuda:7")
    assert device_named("cuda:1") == torch.device("cuda:1")


def test_a_gpu_is_taken_where_there_is_one_and_the_cpu_where_there_is_none(monkeypatch):
    assert device_named(None) == torch.device("cpu")
    _several_gpus(monkeypatch, 1)
    assert device_named(None) == torch.device("cuda")
    assert Hardware.chosen("cpu", None).precision is torch.float32
