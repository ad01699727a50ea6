"""The environment of a measurement, for readers who want to repeat it."""

import datetime
import os
import platform
from importlib import metadata
from pathlib import Path

import torch

import regard


def environment(device: torch.device) -> dict[str, object]:
    """Date, versions, processor and device."""
    return {
        "date": datetime.date.today().isoformat(),
        "regard": regard.__version__,
        "torch": torch.__version__,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
    }


def versions(names: list[str]) -> dict[str, str | None]:
    """Versions of installed packages; None for those that are not installed."""
    return {name: _version(name) for name in names}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = [x for x in info.read_text().splitlines() if x.startswith("model name")]
        if named:
            return named[0].partition(":")[2].strip()
    return platform.processor() or platform.machine()
