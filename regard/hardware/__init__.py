"""where a model computes: device and precision, threads, memory, CUDA graphs."""

from regard.hardware.hardware import Hardware

__all__ = ["Hardware"]
