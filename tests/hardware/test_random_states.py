"""Random states: both kinds are taken, kept in a checkpoint, and put back."""

import torch
from safetensors.torch import load_file
from torch import nn

from regard.hardware.hardware import random_states, restore
from regard.training.checkpoints import Progress, load_checkpoint, save_checkpoint

GPU = torch.device("cuda", 0)


def test_what_is_drawn_after_a_restore_is_what_was_drawn_before():
    states = random_states(torch.device("cpu"))
    first = torch.rand(5)
    restore(states, torch.device("cpu"))
    assert torch.equal(torch.rand(5), first)
    assert list(states) == ["random.cpu"]


def test_a_gpu_has_a_state_of_its_own(monkeypatch):
    put = []
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda device: torch.tensor([1, 2]).byte())
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state, device: put.append((state, device))
    )
    states = random_states(GPU)
    assert states["random.cuda"].tolist() == [1, 2]
    restore(states, GPU)
    assert [(state.tolist(), device) for state, device in put] == [([1, 2], GPU)]
    restore(states, torch.device("cpu"))
    assert len(put) == 1, "on the CPU a GPU's state is left alone"


def test_a_checkpoint_keeps_every_worker_s_state_and_gives_each_its_own(tmp_path):
    model = nn.Linear(2, 2)
    optimiser = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    torch.manual_seed(1)
    mine = torch.get_rng_state()
    torch.manual_seed(2)
    other = torch.get_rng_state()
    states = {"random.cpu": mine, "random.cpu.1": other, "random.cuda": torch.zeros(3).byte()}
    path = save_checkpoint(tmp_path, model, optimiser, Progress(step=4), random=states)
    assert states.keys() <= load_file(path / "optimiser.safetensors").keys()
    for suffix, state in (("", mine), (".1", other)):
        load_checkpoint(path, model, optimiser, suffix=suffix)
        assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(9)
    seeded = torch.get_rng_state()
    load_checkpoint(path, model, optimiser, suffix=".2")
    assert torch.equal(torch.get_rng_state(), seeded), "a worker that is new keeps its own seed"
