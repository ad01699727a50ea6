"""Devices: what each kind of GPU offers is asked of torch, and nothing is taken for cuda."""

import numpy as np
import pytest
import torch

from regard.errors import SettingError
from regard.hardware.devices import GPUS, device_named, gpu_of
from regard.hardware.hardware import Hardware, random_states, restore
from regard.hardware.memory import lacks_gpu_memory, lacks_memory
from regard.recipes import read_recipe
from regard.runs import plan_trial
from regard.training.preparation import prepare
from regard.training.workers import SINGLE_PROCESS

MPS, XPU, CUDA = (torch.device(kind) for kind in ("mps", "xpu", "cuda"))


@pytest.fixture
def machine(monkeypatch):
    """Makes torch see one GPU of a kind."""

    def has(device, count=1):
        monkeypatch.setattr(
            torch.accelerator, "current_accelerator", lambda check_available: device
        )
        monkeypatch.setattr(torch.accelerator, "device_count", lambda: count)

    return has


def _set(monkeypatch, module, **functions):
    for name, function in functions.items():
        monkeypatch.setattr(module, name, function, raising=False)


def test_a_mac_has_mps_by_name_and_the_cpu_without_one(machine):
    machine(MPS)
    assert device_named("mps") == MPS
    assert device_named("mps:0") == torch.device("mps:0")
    assert device_named(None) == torch.device("cpu")
    with pytest.raises(SettingError, match=r"'cuda' is not on this machine: .* only cpu, mps:0\."):
        device_named("cuda")


def test_a_device_that_no_run_can_compute_on_is_not_offered(machine):
    machine(torch.device("meta"))
    with pytest.raises(SettingError, match="torch sees only cpu"):
        device_named("meta")


@pytest.mark.parametrize("device", [MPS, XPU])
def test_off_cuda_a_run_is_in_float32_and_not_compiled_unless_it_is_asked_for(machine, device):
    machine(device)
    hardware = Hardware.chosen(device.type, None)
    assert (hardware.device, hardware.precision) == (device, torch.float32)
    assert not hardware.compiles
    assert not hardware.replays
    assert hardware.threads is None
    assert Hardware.chosen(device.type, "float16").precision is torch.float16


def test_a_card_without_bfloat16_says_what_to_take_and_takes_float32_by_itself(
    machine, monkeypatch
):
    machine(CUDA)
    gpu = GPUS["cuda"](CUDA)
    monkeypatch.setattr(type(gpu), "has_bfloat16", lambda self: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    with pytest.raises(SettingError) as caught:
        Hardware.chosen("cuda", "bfloat16")
    assert str(caught.value) == (
        "--precision: Tesla T4 (cuda) does not compute in bfloat16. Take --precision float16, with "
        "which a training scales its loss, or float32."
    )
    assert Hardware.chosen("cuda", None).precision is torch.float32
    assert Hardware.chosen("cuda", "float16").scales_loss
    monkeypatch.setattr(type(gpu), "has_bfloat16", lambda self: True)
    assert Hardware.chosen("cuda", None).precision is torch.bfloat16


def _noted(asked):
    return lambda including_emulation: asked.append(including_emulation)


def test_imitated_bfloat16_does_not_count(monkeypatch):
    asked = []
    monkeypatch.setattr(torch.cuda, "device", lambda device: torch.no_grad())
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", _noted(asked))
    assert not gpu_of(CUDA).has_bfloat16()
    assert asked == [False]
    monkeypatch.setattr(torch.backends.mps, "is_macos_or_newer", lambda major, minor: major <= 13)
    assert not gpu_of(MPS).has_bfloat16()


def test_a_precision_that_torch_has_no_products_in_is_told(machine, monkeypatch):
    machine(XPU)
    monkeypatch.setattr(torch.amp, "is_autocast_available", lambda kind: False)
    with pytest.raises(SettingError) as caught:
        Hardware.chosen("xpu", "float16")
    assert str(caught.value) == (
        "--precision: this torch makes no products in float16 on xpu. Take --precision float32."
    )


@pytest.mark.parametrize(
    ("device", "is_pinned", "dtype"),
    [(CUDA, True, torch.float64), (XPU, True, torch.float32), (MPS, False, torch.float32)],
)
def test_tensors_go_to_a_device_as_it_takes_them(device, is_pinned, dtype, monkeypatch):
    done = []

    def moved(tensor, device, *, non_blocking):
        done.append((str(device), non_blocking))
        return tensor

    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: done.append("pinned") or tensor)
    monkeypatch.setattr(torch.Tensor, "to", moved)
    number = Hardware(device).number(0.5)
    assert number.dtype is dtype
    assert done == [*(["pinned"] if is_pinned else []), (device.type, is_pinned)]


def test_every_kind_keeps_and_restores_its_own_random_numbers(monkeypatch):
    state, put = torch.tensor([3, 4]).byte(), []
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: state)
    monkeypatch.setattr(torch.mps, "set_rng_state", put.append)
    states = random_states(MPS)
    assert list(states) == ["random.cpu", "random.mps"]
    restore(states, MPS)
    assert put == [state]
    restore({"random.cuda": state}, MPS)
    assert len(put) == 1, "the state of another kind is left alone"


def test_the_memory_of_each_kind_is_counted_by_its_own_module(monkeypatch):
    _set(monkeypatch, torch.xpu, mem_get_info=lambda device: (5, 9), empty_cache=lambda: None,
         reset_peak_memory_stats=lambda device: None, memory_allocated=lambda device: 2,
         max_memory_allocated=lambda device: 4)  # fmt: skip
    xpu = gpu_of(XPU)
    assert (xpu.free_bytes(), xpu.held_bytes(), xpu.peak_bytes()) == (5, 2, 4)
    _set(monkeypatch, torch.mps, recommended_max_memory=lambda: 100, empty_cache=lambda: None,
         driver_allocated_memory=lambda: 30)  # fmt: skip
    mps = gpu_of(MPS)
    assert (mps.free_bytes(), mps.held_bytes(), mps.peak_bytes()) == (70, 30, 30)


def _outcome(generator):
    """What a generator yields, and then what it returns."""
    yield (yield from generator)


def test_a_plan_on_a_mac_measures_in_this_process(monkeypatch, recipe, tmp_path):
    prepared = prepare(read_recipe(recipe), tmp_path, SINGLE_PROCESS)
    held = iter([30, 80])
    _set(monkeypatch, torch.mps, empty_cache=lambda: None,
         driver_allocated_memory=lambda: next(held))  # fmt: skip
    monkeypatch.setattr(plan_trial, "timed_trial", lambda *_: plan_trial.Trial(updates=3))
    measuring = plan_trial.run_trial(prepared, Hardware(MPS), np.arange(3))
    assert list(_outcome(measuring))[-1] == plan_trial.Trial(updates=3, peak_bytes=50)


def test_a_full_mac_is_out_of_memory_too():
    full = RuntimeError("MPS backend out of memory (MPS allocated: 17.9 GB).")
    assert lacks_memory(full)
    assert lacks_gpu_memory(full)
    assert lacks_gpu_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not lacks_gpu_memory(RuntimeError("can't allocate memory"))
