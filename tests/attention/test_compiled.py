"""Compiled: torch.compile gives the same numbers, forward and backward."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

# the type checks of the tests would break the graph, so the cases run in a process without them
SCRIPT = """
import torch
from regard import Dims, multi_head
from regard.attention import Chain, padding
from regard.attention.patterns.causal import CausalPattern
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.attention.selections.sparsemax import SparsemaxSelection
from regard.attention.selections.top_k import TopKSelection
from regard.positions import RotaryPositions

torch.manual_seed(3)
torch.set_num_threads(1)
dims = Dims(d_model=12, n_heads=3)
sparsemax = Chain(select=SparsemaxSelection(), path="thresholded")
top_k = Chain(select=TopKSelection(count=3), path="thresholded")
window = Chain(pattern=SlidingWindowPattern(size=2))
cases = {
    "padding": (multi_head(dims, rotary=RotaryPositions(dims)), padding(torch.tensor([5, 7]), 7)),
    "sparsemax": (multi_head(dims, chain=sparsemax), CausalPattern()),
    "top_k": (multi_head(dims, chain=top_k), CausalPattern()),
    "window": (multi_head(dims, chain=window), CausalPattern()),
}
for case, (heads, mask) in cases.items():
    heads.double()
    x = torch.randn(2, 7, 12, dtype=torch.float64, requires_grad=True)
    run = lambda x: heads(x, mask=mask).context
    eager, compiled = run(x), torch.compile(run, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(compiled, eager, atol=1e-12, rtol=1e-12)
    names, inputs = zip(*[("x", x), *heads.named_parameters()])
    want = torch.autograd.grad(eager.square().sum(), inputs)
    got = torch.autograd.grad(compiled.square().sum(), inputs)
    for name, ours, theirs in zip(names, got, want):
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10, msg=name)
    print(case, "is the same")
"""


def test_a_compiled_attention_is_the_eager_one():
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == [
        f"{case} is the same" for case in ("padding", "sparsemax", "top_k", "window")
    ], ran.stderr


def test_torch_s_compiler_is_not_loaded_with_the_package():
    code = "import sys, regard.attention; print('torch._dynamo' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
