"""where a model computes: device and precision, threads, memory, recorded kernels."""

from regard.hardware.hardware import Hardware

__all__ = ["Hardware"]
