"""Captures that record nothing, or not what was meant, say why, and what can be recorded."""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from regard import Chain
from regard.decoding import fast_model
from regard.errors import SettingError
from regard.inspecting import capture
from regard.inspecting.token_labels import check_names
from tests.decoding.writers import other_model, transformer

SOURCE, TARGET = torch.tensor([[5, 6, 7, 4, 2]]), torch.tensor([[1, 9]])

HEARD = (
    "capture hears regard's own attentions (Chain, and the heads and models made of it) and "
    "torch's nn.MultiheadAttention, alone or inside nn.TransformerEncoderLayer; it hears no "
    "subclass of these two and no scripted module"
)


# the type checks of the tests would break the graph, so this runs in a process without them
COMPILED = """
import torch
from regard import Dims, multi_head
from regard.inspecting import capture
from regard.inspecting.token_labels import check_names

heads, x = multi_head(Dims(d_model=12, n_heads=4)).eval(), torch.randn(1, 7, 12)
compiled = torch.compile(heads, backend="eager")
for run in (heads, compiled):
    with torch.no_grad(), capture(heads) as record:
        run(x)
    print(list(record.attention))
"""


def not_called(name):
    """The whole text for a model that was not called."""
    said = (
        f"capture: no call of this {name} was heard inside the block. Call it between 'with "
        "capture(model) as record:' and the end of the block, in the same thread; a copy that "
        f"fast_model made calls past every listener. In what is called, {HEARD}."
    )
    return f"^{re.escape(said)}$"


def not_heard(name):
    """The whole text for a model that was called."""
    said = (
        f"capture: this {name} was called, but none of its attentions was heard: {HEARD}. Take "
        "regard.capture, which hears models of transformers and scaled_dot_product_attention too; "
        "or make a run of published weights (regard import) and look at the run."
    )
    return f"^{re.escape(said)}$"


class Strangers(nn.Module):
    """An attention by hand, which nothing announces."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(12, 36)
        self.spare = nn.MultiheadAttention(12, 3)

    def forward(self, x):
        query, key, value = self.project(x).chunk(3, -1)
        return (query @ key.mT).softmax(-1) @ value


class Subclass(nn.MultiheadAttention):
    """Somebody's attention, which may compute something else."""


class SubclassedLayer(nn.TransformerEncoderLayer):
    """Somebody's layer, which may compute something else."""


UNHEARD = {
    "nothing attends": lambda: nn.Sequential(nn.Linear(12, 12)),
    "its own attention": Strangers,
    "a subclass on torch's fast path": lambda: nn.TransformerEncoder(
        SubclassedLayer(12, 4, 8, batch_first=True), 2
    ),
}


@pytest.mark.parametrize("name", UNHEARD)
def test_a_model_that_was_called_and_not_heard_is_told_whom_capture_hears(name):
    model = UNHEARD[name]().eval()
    with (
        pytest.raises(SettingError, match=not_heard(type(model).__name__)),
        torch.no_grad(),
        capture(model),
    ):
        model(torch.randn(2, 7, 12))


def test_a_subclass_of_torch_s_attention_is_not_taken_for_it():
    model, x = Subclass(12, 3), torch.randn(2, 7, 12)
    with pytest.raises(SettingError, match=not_heard("Subclass")), capture(model):
        model(x, x, x)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_scripted_module_is_not_heard_and_the_text_says_so():
    model = torch.jit.script(nn.Linear(12, 12))
    said = "no call of this RecursiveScriptModule was heard.*and no scripted module"
    with pytest.raises(SettingError, match=said), capture(model):
        model(torch.randn(2, 12))


@pytest.mark.processes
def test_a_compiled_model_is_heard_like_its_first_form():
    ran = subprocess.run(
        [sys.executable, "-c", COMPILED], capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == ["['self']", "['self']"], ran.stderr


@pytest.mark.parametrize("make", [lambda: nn.Linear(3, 3), lambda: transformer("post_norm")])
def test_a_model_that_was_not_called_is_told_to_be(make):
    model = make()
    with pytest.raises(SettingError, match=not_called(type(model).__name__)), capture(model):
        make()


def test_a_call_in_another_thread_is_not_heard():
    model = transformer("post_norm")
    with (
        pytest.raises(SettingError, match="in the same thread"),
        capture(model),
        ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(model, SOURCE, TARGET).result()


def test_a_copy_for_writing_is_not_heard_and_the_text_says_so():
    model = fast_model(transformer("post_norm"), torch.device("cpu"))
    said = r"fast_model made calls past every listener"
    with pytest.raises(SettingError, match=said), capture(model):
        model(SOURCE, TARGET)


def test_a_model_of_ours_without_attention_says_that_it_looks_at_nothing():
    model = other_model("sutskever")
    said = "looks at nothing, since one vector holds its whole"
    with pytest.raises(SettingError, match=said), torch.no_grad(), capture(model):
        model(SOURCE, TARGET)


def test_a_pass_that_fails_ends_in_its_own_error():
    with pytest.raises(IndexError), capture(model := transformer("post_norm")):
        model(torch.tensor([[99]]), TARGET)


@pytest.mark.parametrize("is_first", [False, True])
def test_torch_s_fast_path_is_heard_where_the_layer_is_the_whole_model(is_first, monkeypatch):
    layer = nn.TransformerEncoderLayer(12, 4, 8, batch_first=True, norm_first=is_first).eval()
    calls, real = [], torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(
        torch, "_transformer_encoder_layer_fwd", lambda *args: calls.append(1) or real(*args)
    )
    x = torch.randn(1, 7, 12)
    with torch.no_grad(), capture(layer) as record:
        layer(x)
    assert calls == [1]
    with torch.no_grad():
        read = layer.norm1(x) if is_first else x
        want = layer.self_attn(read, read, read, average_attn_weights=False)[1]
    torch.testing.assert_close(record.weights("self_attn", 0), want[0].mean(0))


def test_nothing_stays_attached_when_nothing_was_heard():
    model = nn.Linear(3, 3)
    with pytest.raises(SettingError), capture(model):
        model(torch.randn(1, 3))
    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    assert not torch.nn.modules.module._global_forward_hooks


@pytest.mark.parametrize("example", [2, -1])
def test_an_example_that_the_batch_lacks_is_refused(example):
    chain, x = Chain(), torch.randn(2, 1, 3, 4)
    said = rf"^capture: there is no example {example} in a batch of 2; they are counted from 0\."
    with pytest.raises(SettingError, match=said), capture(chain, example=example):
        chain(x, x, x)


def test_names_that_fit_no_side_are_refused():
    chain, x = Chain(), torch.randn(1, 1, 3, 4)
    said = "^capture: names of 2 tokens, but there are 3 places. Give each place its name, those"
    with pytest.raises(SettingError, match=said), capture(chain, names=[["a", "b"]]):
        chain(x, x, x)


@pytest.mark.parametrize("names", [["a", "b", "c"], [[1, 2, 3]]])
def test_names_are_lists_of_tokens(names):
    with pytest.raises(SettingError, match=r"^capture: names must be lists of tokens, got \["):
        check_names(names)


def test_a_record_is_read_behind_its_block():
    chain, x = Chain(), torch.randn(1, 1, 3, 4)
    with capture(chain) as record:
        chain(x, x, x)
        with pytest.raises(SettingError, match=r"^record: it is empty until the block .*ends"):
            record.weights("encoder")
    assert record.weights("self").shape == (3, 3)
