"""ONNX: a run's model as two graphs, and a stepper that runs them by onnxruntime."""

from regard.interop.onnx.graphs import write_graphs
from regard.interop.onnx.stepper import OnnxStepper

__all__ = ["OnnxStepper", "write_graphs"]
