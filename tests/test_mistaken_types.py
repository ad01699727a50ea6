"""What a notebook may give in place of what is meant: each is told by name, and how to write it."""

import json
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys
import torch
from torch import nn
import regard
from regard import *
from regard import attach, attend, capture, load, multi_head, train
from regard.inspecting import save_record
from regard.inspecting.panels import View, check_is_view
from regard.parts import *
from regard.plots import *

x, y = torch.randn(1, 1, 3, 4), torch.randn(2, 5, 12)
dims = Dims(d_model=12, n_heads=3)
heads, drop_in = multi_head(dims), MultiheadAttention(12, 3, batch_first=True)
for code in json.loads(sys.argv[1]):
    try:
        eval(code)
    except Exception as error:
        print(json.dumps([type(error).__name__, str(error)]))
    else:
        print(json.dumps(["nothing", ""]))
"""

MASKS = (
    "mask: expected a pattern, a boolean matrix (True = may attend) or a matrix of floats, got {}. "
    "Write CausalPattern() or another object of regard.parts, or torch.tensor(mask)."
)
RECORDS = (
    "{}: expected a record, got an object of str. A run's look(text) gives one, and so do "
    "regard.capture(model) and load_record(path)."
)
SAID = {
    "attend(x, x, x, 'causal')": MASKS.format("'causal'"),
    "attend(x, x, x, CausalPattern)": MASKS.format("the class CausalPattern"),
    "Chain()(x, x, x, [[True]])": MASKS.format("[[True]]"),
    "Chain()(x, x, x, None)": MASKS.format("None"),
    "all_of([CausalPattern()])": "all_of: expected a pattern, got [CausalPattern()]. Write "
    "CausalPattern() or another object of regard.parts, or all_of(one, other) with two of them.",
    "any_of('causal', 'full')": "any_of: expected a pattern, got 'causal'. Write "
    "CausalPattern() or another object of regard.parts, or any_of(one, other) with two of them.",
    "attend(x.long(), x.long(), x.long())": "attend: expected query, key and value of floats, got "
    "torch.int64, torch.int64, torch.int64. Write x.float(); ids of words become vectors by "
    "nn.Embedding.",
    "heads(y.long())": "heads: expected query as a tensor of floats, got torch.int64. Lists become "
    "tensors by torch.tensor, and ids of words vectors by nn.Embedding.",
    "heads(y.tolist())": "heads: expected query as a tensor of floats, got an object of list. "
    "Lists become tensors by torch.tensor, and ids of words vectors by nn.Embedding.",
    "Chain().explain('many')": "explain: n_queries must be a whole number from 1, got 'many'.",
    "Dims(d_model=64.0)": "dims: d_model must be a whole number, got 64.0.",
    "multi_head(dims, chain='sparsemax')": "heads: chain must be a Chain, got 'sparsemax'. Write "
    "chain=Chain(select='sparsemax').",
    "MultiheadAttention(12, 3, chain=SparsemaxSelection())": "MultiheadAttention: chain must be a "
    "Chain, got SparsemaxSelection(). Write chain=Chain(select=…).",
    "MultiheadAttention(12, 3, chain=Chain)": "MultiheadAttention: chain must be a Chain, got the "
    "class Chain. Write chain=Chain().",
    "drop_in(y[0, 0], y[0, 0], y[0, 0])": "MultiheadAttention: expected query, key and value of "
    "shape (b, n, width) or (n, width), with widths of 12, 12 and 12; got, batch first, (12,), "
    "(12,) and (12,). batch_first=True puts sentences first.",
    "drop_in(y.tolist(), y, y)": "MultiheadAttention: query must be a tensor, got an object of "
    "list. Write torch.tensor(query).",
    "drop_in(y, y.double(), y)": "MultiheadAttention: expected key of torch.float32, as the "
    "weights are, got torch.float64. Write key.to(torch.float32), or make the module with "
    "dtype=torch.float64.",
    "drop_in(y, y, y, attn_mask=[[True]])": "MultiheadAttention: attn_mask must be a tensor, got "
    "an object of list. Write torch.tensor(attn_mask); patterns stand in the chain: "
    "chain=Chain(pattern=…).",
    "attend(x, x, x).map.tile(0, 1)": "map: rows must be a slice, got 0. Row 3 alone is "
    "slice(3, 4).",
    "heatmap(attend(x, x, x).map)": "heatmap: expected a matrix (queries, keys) as a tensor, got "
    "an object of AttentionMap. Of an attention write attended.map.dense().",
    "heatmap(torch.rand(1, 2, 3, 3))": "heatmap: expected a matrix (queries, keys) as a tensor, "
    "got shape (1, 2, 3, 3). Take one head of one sentence: weights[0, 0].",
    "look_page('runs/copy')": RECORDS.format("look_page"),
    "record_map('runs/copy')": RECORDS.format("record_map"),
    "links_plot('runs/copy')": RECORDS.format("links_plot"),
    "save_record('runs/copy', 'look.safetensors')": RECORDS.format("save_record"),
    "check_is_view('cross')": "look: expected a view, got 'cross'. Write View('cross', layer, "
    "head) of regard.inspecting.panels.",
    "View('cross', '0').chosen(2, 2)": "look: layer must be a whole number, got '0'.",
    "attach('gpt2')": "attach: expected a model (a torch module), got the text 'gpt2'. Write "
    "AutoModel.from_pretrained('gpt2').",
    "attach(nn.Linear)": "attach: expected a model (a torch module), got the class Linear. Make "
    "one of it.",
    "capture(3).__enter__()": "capture: expected a model (a torch module), got an object of int. A "
    "run of ours has it as run.model.",
    "train(['copy'], 'runs/none')": "train: expected the file of a recipe, its sections as "
    'dictionaries or a Recipe, got an object of list. Give one, such as train("copy", …).',
    "load(3)": "load: expected the folder of a run, got 3. Give its path.",
}


@pytest.fixture(scope="module")
def answers():
    # types are checked in tests before our own checks are reached, and not in a process of its own
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(list(SAID))],
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(SAID, map(json.loads, ran.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("code", SAID)
def test_a_mistaken_type_is_told_by_name(answers, code):
    from regard import errors

    kind, said = answers[code]
    assert said == SAID[code]
    assert issubclass(getattr(errors, kind), errors.RegardError)
