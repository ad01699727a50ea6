"""Hardware: a compiled model learns what the plain one learns, from one compilation a layer."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

# the type checks of the tests would break the graph, so the case runs in a process without them
SCRIPT = """
import functools, torch
from torch._dynamo.utils import counters
from regard.models import TransformerSpec, build_transformer
from regard.hardware.hardware import Hardware

torch.compile = functools.partial(torch.compile, backend="aot_eager", fullgraph=True)
torch.set_num_threads(1)
spec = TransformerSpec(d_model=8, n_heads=2, d_hidden=12, n_encoder_layers=2, n_decoder_layers=2,
                       dropout=0.0)
models = []
for hardware in (Hardware(), Hardware(compiles=True)):
    torch.manual_seed(5)
    model = build_transformer(spec, n_source_tokens=20, n_target_tokens=20).double()
    models.append(hardware.place(model))
for sizes in ((4, 7, 9), (8, 11, 6), (3, 5, 5), (3, 9, 9), (6, 4, 20)):
    b, s, t = sizes
    source, target = torch.randint(4, 20, (b, s)), torch.randint(4, 20, (b, t))
    source[0, -2:], target[1, -1:] = 0, 0
    for model in models:
        model.zero_grad()
        hidden, gold = model.loss_inputs(source, target)
        hidden.square().sum().backward()
    (_, plain), (_, compiled) = ((m, dict(m.named_parameters())) for m in models)
    for name, parameter in plain.items():
        torch.testing.assert_close(compiled[name].grad, parameter.grad, atol=1e-9, rtol=1e-9)
with hardware.uncompiled(), torch.no_grad():
    model.loss_inputs(source, target)
print("graphs:", counters["stats"]["unique_graphs"])
"""


def test_compiled_layers_have_the_same_gradients_and_share_two_graphs_for_all_that_is_run():
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert ran.stdout == "graphs: 2\n", ran.stderr
