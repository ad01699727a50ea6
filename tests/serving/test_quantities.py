"""What may be shown beside weights is what Python says it is; what a mask hides is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from regard.attention import attend
from regard.attention.patterns.sliding_window import SlidingWindowPattern
from regard.errors import SettingError
from regard.inspecting.record import Attention, Record
from regard.inspecting.record_files import DenseWeights
from regard.inspecting.rollout import answer_rollout, flow, rollout
from regard.inspecting.token_labels import Tokens
from regard.runs.trained import load
from regard.serving import build_app
from regard.serving.quantities import (
    QUANTITIES,
    QuantitySettings,
    numbers_of,
    offered,
    spans_of,
)
from regard.serving.registry import Registry
from tests.factories import make_run

TEXT = "a dog ate"


@pytest.fixture(scope="module")
def record(registry):
    return registry.run("first").trained.look(TEXT, "dog the food")


def _alone(n, mask, layers=1):
    """A text that looks at itself through a mask."""
    x = torch.randn(1, 2, n, 4)
    seen = attend(x, x, x, mask).map
    names = Tokens.numbered("place", n)
    one = Attention(names, names, (seen,) * layers, "query (text)", "key (text)")
    return Record("text", "", {"encoder": one})


def _pairs(spans, n):
    return [[any(a <= key < b for a, b in row) for key in range(n)] for row in spans]


@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_a_temperature_divides_the_scores_before_the_softmax(record, temperature):
    seen = record.attention["decoder"].layers[1]
    scores = seen.query[0] @ seen.key[0].mT / seen.query.shape[-1] ** 0.5 / temperature
    hidden = torch.ones(scores.shape[-2:]).triu(1).bool()
    want = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    made = numbers_of(record, "decoder", "weights", QuantitySettings(temperature=temperature))
    torch.testing.assert_close(made[1], want, atol=1e-6, rtol=1e-5)


def test_what_is_shown_is_python_s(record):
    for layer, head in ((0, 1), (1, 0)):
        for kind in ("decoder", "cross"):
            weights = numbers_of(record, kind, "weights", QuantitySettings())[layer, head]
            torch.testing.assert_close(weights, record.weights(kind, layer, head))
            arriving = numbers_of(record, kind, "arriving", QuantitySettings())[layer, head]
            torch.testing.assert_close(arriving, record.arriving(kind, layer, head))
    settings = QuantitySettings(residual=0.25)
    (followed,) = numbers_of(record, "decoder", "rollout", settings)[0]
    torch.testing.assert_close(followed, rollout(record, "decoder", residual=0.25))
    (flows,) = numbers_of(record, "decoder", "flow", settings)[0]
    torch.testing.assert_close(flows[3], flow(record, "decoder", 3, residual=0.25))
    (source,) = numbers_of(record, "cross", "answer", settings)[0]
    torch.testing.assert_close(source, answer_rollout(record, residual=0.25).source)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_nothing_stands_where_the_spans_let_nothing_through(record, kind):
    keys = len(record.attention[kind].keys)
    for name, told in offered(record, kind).items():
        assert told["why_not"] == ""
        numbers = numbers_of(record, kind, name, QuantitySettings())
        for layer, spans in zip(numbers, spans_of(record, kind, name), strict=True):
            if spans is not None:
                seen = torch.tensor(_pairs(spans, keys))
                assert (layer[:, ~seen] == 0).all()
                assert (layer[:, seen] > 0).all()


def test_the_spans_of_a_decoder_end_at_its_own_place(record):
    n = len(record.attention["decoder"].queries)
    for spans in spans_of(record, "decoder", "weights"):
        assert spans == [[[0, place + 1]] for place in range(n)]


def test_two_layers_of_a_window_reach_twice_as_far():
    record = _alone(9, SlidingWindowPattern(None, size=1), layers=2)
    assert spans_of(record, "encoder", "weights")[0][4] == [[3, 6]]
    assert spans_of(record, "encoder", "rollout")[0][4] == [[2, 7]]


def test_what_cannot_be_shown_says_why(record):
    told = offered(_alone(30, SlidingWindowPattern(None, size=1)), "encoder")
    assert told["flow"]["why_not"] == "30 places; at most 24 here"
    assert told["arriving"]["why_not"] == "the values were not kept"
    assert told["rollout"]["why_not"] == ""
    assert "rollout" not in offered(record, "cross")
    with pytest.raises(SettingError, match=r"has no flow\. Take one of weights"):
        numbers_of(record, "cross", "flow", QuantitySettings())
    with pytest.raises(SettingError, match="temperature must be above 0, got 0"):
        QuantitySettings(temperature=0.0)


def test_weights_without_scores_have_no_temperature_and_no_known_mask(record):
    one = record.attention["encoder"]
    dense = tuple(DenseWeights(layer.dense()) for layer in one.layers)
    bare = Record("", "", {"encoder": replace(one, layers=dense)})
    assert spans_of(bare, "encoder", "weights") == [None]
    torch.testing.assert_close(
        numbers_of(bare, "encoder", "weights", QuantitySettings()),
        numbers_of(record, "encoder", "weights", QuantitySettings()),
    )
    with pytest.raises(SettingError, match="a temperature needs the scores"):
        numbers_of(bare, "encoder", "weights", QuantitySettings(temperature=2.0))


def test_a_recurrent_decoder_has_no_rollout_to_the_source(tmp_path):
    model = 'kind = "recurrent"\nsize = "bahdanau"\nd_embedding = 8\nd_hidden = 8\nn_layers = 1'
    record = load(make_run(tmp_path / "run", model=model), device="cpu").look("a b c", "c b")
    assert "does not attend to what it wrote" in offered(record, "cross")["answer"]["why_not"]
    # an additive score at a temperature
    want = numbers_of(record, "cross", "weights", QuantitySettings()).pow(0.5)
    warm = numbers_of(record, "cross", "weights", QuantitySettings(temperature=2.0))
    torch.testing.assert_close(warm, want / want.sum(-1, keepdim=True), atol=1e-5, rtol=0)


def test_the_server_sends_what_is_asked_for_and_where_it_may_stand(client, registry):
    asked = {"text": TEXT, "target": "dog the food"}
    name = client.post("/api/runs/first/predict", json=asked).json()["answers"][0]["record"]
    told = client.get(f"/api/records/{name}").json()["attention"]["decoder"]["shown"]
    assert list(told) == [each for each in QUANTITIES if each != "answer"]
    wished = {"shown": "rollout", "residual": 0.25}
    answer = client.get(f"/api/records/{name}/weights/decoder", params=wished)
    shape = [int(size) for size in answer.headers["x-shape"].split(",")]
    sent = torch.from_numpy(np.frombuffer(answer.content, "<f4").reshape(shape).copy())
    want = rollout(registry.record(name), "decoder", residual=0.25)
    torch.testing.assert_close(sent, want[None, None])
    seen = client.get(f"/api/records/{name}/visible/decoder").json()["layers"]
    assert seen == spans_of(registry.record(name), "decoder", "weights")
    fault = client.get(f"/api/records/{name}/weights/decoder", params={"shown": "rolout"})
    assert fault.status_code == 404
    assert "rollout" in fault.json()["error"]["message"]
    fault = client.get(f"/api/records/{name}/weights/cross", params={"shown": "rolout"})
    assert fault.status_code == 404
    assert fault.json()["error"]["message"].endswith("Known: weights, arriving, answer.")


def test_a_text_whose_numbers_are_too_many_has_no_spans_either():
    registry = Registry({}, saved={"long": _alone(2100, SlidingWindowPattern(None, size=1))})
    with TestClient(build_app(registry), base_url="http://127.0.0.1") as client:
        for what in ("weights", "visible"):
            answer = client.get(f"/api/records/long/{what}/encoder")
            assert answer.status_code == 413
            assert "the atlas" in answer.json()["error"]["message"]
