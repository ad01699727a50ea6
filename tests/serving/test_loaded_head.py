"""A head of a run in the worked example: turned until it fits a page, and still the same head."""

import pytest
import torch

from regard.errors import LengthError, SettingError
from regard.runs.trained import load
from regard.serving.loaded_head import loaded_head
from regard.serving.schemas import WorkedExampleRequest, WorkedHead
from regard.serving.worked_steps import worked_steps
from tests.factories import TRANSFORMER, make_run

RELATIVE = TRANSFORMER + '\nrelation = "shaw"'
RECURRENT = 'kind = "recurrent"\nsize = "bahdanau"\nd_embedding = 8\nd_hidden = 8\nn_layers = 1'


@pytest.fixture(scope="module")
def record(registry):
    return registry.run("first").trained.look("a dog", "food")


def _rows(told, name):
    return torch.tensor(told[name], dtype=torch.float64)


@pytest.mark.parametrize(
    ("kind", "layer", "head"), [("encoder", 0, 1), ("decoder", 1, 0), ("cross", 1, 1)]
)
def test_the_numbers_of_a_head_give_its_weights(record, kind, layer, head):
    told = loaded_head(record, kind, layer, head)
    scores = _rows(told, "Q") @ _rows(told, "K").T / told["divisor"]
    assert told["is_causal"] == (kind == "decoder")
    if told["is_causal"]:
        scores = scores.masked_fill(torch.ones(scores.shape).triu(1).bool(), -torch.inf)
    want = record.weights(kind, layer, head).double()
    torch.testing.assert_close(scores.softmax(-1), want, atol=1e-6, rtol=0)
    torch.testing.assert_close(_rows(told, "weights"), want)


def test_turned_keys_have_as_many_numbers_as_there_are_keys_and_the_same_products(record):
    told = loaded_head(record, "cross", 0, 0)
    seen = record.attention["cross"].layers[0]
    n_keys = len(told["keys"])
    assert told["width"] == 8
    assert [len(told[name][0]) for name in "QKV"] == [n_keys] * 3
    assert n_keys < 8
    query, key, value = (one[0, 0].double() for one in (seen.query, seen.key, seen.value))
    torch.testing.assert_close(_rows(told, "Q") @ _rows(told, "K").T, query @ key.T)
    torch.testing.assert_close(_rows(told, "V") @ _rows(told, "V").T, value @ value.T)


def test_a_text_with_more_keys_than_numbers_is_not_turned(registry):
    record = registry.run("first").trained.look("a dog ate the food", "food")
    told = loaded_head(record, "encoder", 0, 1)
    seen = record.attention["encoder"].layers[0]
    assert torch.equal(_rows(told, "K"), seen.key[0, 1].double())


def test_python_follows_the_same_steps_from_keys_and_values_side_by_side(record):
    told = loaded_head(record, "decoder", 0, 0)
    keys, values = len(told["K"][0]), len(told["V"][0])
    both = torch.eye(keys + values).tolist()
    picks = WorkedHead(
        W_Q=torch.eye(keys).tolist(),
        W_K=[row[:keys] for row in both],
        W_V=[row[keys:] for row in both],
    )
    side = [[*key, *value] for key, value in zip(told["K"], told["V"], strict=True)]
    done = worked_steps(
        WorkedExampleRequest(
            queries=told["Q"],
            keys=side,
            heads=[picks],
            W_O=torch.eye(values).tolist(),
            is_causal=True,
            temperature=told["divisor"],
        )
    )
    weights = torch.tensor(done["heads"][0]["weights"], dtype=torch.float64)
    torch.testing.assert_close(weights, _rows(told, "weights"), atol=1e-6, rtol=0)
    torch.testing.assert_close(
        torch.tensor(done["out"], dtype=torch.float64), weights @ _rows(told, "V")
    )


@pytest.mark.parametrize(
    ("model", "says"), [(RECURRENT, "no products"), (RELATIVE, "a part for the distance")]
)
def test_a_head_that_the_steps_cannot_follow_is_refused(tmp_path, model, says):
    record = load(make_run(tmp_path / "run", model=model), device="cpu").look("a b", "b")
    with pytest.raises(SettingError, match=f"cannot follow this head: its scores .*{says}"):
        loaded_head(record, next(iter(record.attention)), 0, 0)


def test_a_long_text_is_refused(registry):
    record = registry.run("first").trained.look("a dog ate the food because", "food")
    with pytest.raises(LengthError, match=r"at most 24\. Take a shorter text"):
        loaded_head(record, "encoder", 0, 0)


def test_the_server_says_the_same(client, registry):
    asked = {"text": "a dog", "target": "food"}
    name = client.post("/api/runs/first/predict", json=asked).json()["answers"][0]["record"]
    said = client.get(f"/api/records/{name}/worked/cross/0/1").json()
    assert said == loaded_head(registry.record(name), "cross", 0, 1)
    assert client.get(f"/api/records/{name}/worked/cross/9/1").status_code == 400
