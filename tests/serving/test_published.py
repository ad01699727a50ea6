"""Models of transformers behind the server: looked at as `regard look --model` looks at them."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from regard.errors import CheckpointError, RunError
from regard.interop.transformers_folder import open_folder
from regard.interop.transformers_pictures import look_at_picture
from regard.interop.transformers_texts import TextLook
from regard.serving import build_app
from regard.serving.registry import open_runs
from tests.bridge.folders import folder_of
from tests.factories import make_run
from tests.serving.serving import TEXTS

TEXT = "the quick brown fox"


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    return {name: folder_of(name, place) for name in ("gpt2", "bert", "bart", "vit")}


@pytest.fixture(scope="module")
def client(folders, tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("runs") / "own", *TEXTS, max_len=48)
    registry = open_runs([run], device="cpu", models=[str(path) for path in folders.values()])
    with TestClient(build_app(registry), base_url="http://127.0.0.1:8000") as client:
        yield client


def weights(client, record, kind):
    found = client.get(f"/api/records/{record}/weights/{kind}")
    assert found.status_code == 200, found.text
    return np.frombuffer(found.content, "<f4")


def test_runs_and_models_are_listed_with_what_they_read(client):
    assert client.get("/api/runs").json()["runs"] == [
        {"name": name, "reads": reads, "verb": verb, "version": "", "is_finished": True}
        for name, reads, verb in (
            ("own", "texts", "Translate"),
            ("gpt2", "texts", "Look"),
            ("bert", "texts", "Look"),
            ("bart", "texts", "Look"),
            ("vit", "pictures", "Look"),
        )
    ]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [("gpt2", ["decoder"]), ("bert", ["encoder"]), ("bart", ["encoder", "decoder", "cross"])],
)
def test_the_studio_has_the_record_that_look_has(client, folders, name, kinds):
    answer = client.post(f"/api/runs/{name}/predict", json={"text": TEXT}).json()
    (only,) = answer["answers"]
    shown = client.get(f"/api/records/{only['record']}").json()
    want = TextLook(open_folder(folders[name])).record(TEXT)
    assert list(shown["attention"]) == list(want.attention) == kinds
    assert only["text"] == want.target
    for kind in kinds:
        whole = want.attention[kind]
        flat = np.stack([one.tile(slice(None), slice(None))[0].numpy() for one in whole.layers])
        assert np.allclose(weights(client, only["record"], kind), flat.ravel(), atol=1e-6)


def test_a_language_model_goes_on_when_it_is_asked_to(client):
    asked = {"text": TEXT, "max_tokens": 4}
    answer = client.post("/api/runs/gpt2/predict", json=asked).json()
    record = client.get(f"/api/records/{answer['answers'][0]['record']}").json()
    plain = client.post("/api/runs/gpt2/predict", json={"text": TEXT}).json()
    shorter = client.get(f"/api/records/{plain['answers'][0]['record']}").json()
    counts = [len(one["attention"]["decoder"]["queries"]["pieces"]) for one in (record, shorter)]
    assert counts[0] > counts[1]


def test_an_answer_of_the_reader_s_own_is_looked_at(client):
    asked = {"text": TEXT, "target": "a lazy dog"}
    answer = client.post("/api/runs/bart/predict", json=asked).json()
    assert answer["answers"][0]["text"] == "a lazy dog"


@pytest.mark.parametrize("name", ["gpt2", "bert", "bart"])
def test_everything_that_the_page_asks_of_a_record_is_answered(client, name):
    answer = client.post(f"/api/runs/{name}/predict", json={"text": TEXT}).json()
    record = answer["answers"][0]["record"]
    kinds = client.get(f"/api/records/{record}").json()["attention"]
    for kind in kinds:
        for what in (
            f"visible/{kind}", f"statistics/{kind}", f"mechanisms/{kind}/0/1",
            f"worked/{kind}/0/1", f"atlas/{kind}/0", f"profile/{kind}/0/1",
        ):  # fmt: skip
            found = client.get(f"/api/records/{record}/{what}")
            assert found.status_code < 500, (what, found.text)


def test_a_picture_is_shown_with_what_looked_where(client, folders, tmp_path):
    Image.new("RGB", (20, 16), "red").save(tmp_path / "red.png")
    sent = client.post("/api/runs/vit/caption", content=(tmp_path / "red.png").read_bytes())
    assert sent.status_code == 200, sent.text
    want = look_at_picture(open_folder(folders["vit"]), str(tmp_path / "red.png"))
    assert sent.json()["words"] == want.as_json()["words"]
    drawn = client.get(f"/api/captions/{sent.json()['record']}/picture")
    assert Image.open(BytesIO(drawn.content)).size == (20, 16)


def test_the_facts_of_a_model_have_the_names_that_a_run_s_have(client):
    run, model, vit = (client.get(f"/api/runs/{n}/info").json() for n in ("own", "gpt2", "vit"))
    assert run.keys() == model.keys() == vit.keys()
    assert (model["model"], model["has_metrics"]) == ("gpt2", False)
    assert vit["reads"] == "pictures"


@pytest.mark.parametrize(
    ("method", "where", "sent", "said"),
    [
        ("get", "gpt2/curves", None, "is a model of transformers, which has no data, no training"),
        ("post", "vit/predict", {"text": TEXT}, "'vit' reads pictures, not texts"),
        ("get", "vit/caption/0", None, "is a model of transformers, which has no data"),
        ("post", "gpt2/caption", {}, "'gpt2' reads texts, not pictures"),
        ("post", "bert/predict", {"text": " "}, "the text is empty"),
        (
            "post",
            "bert/predict",
            {"text": TEXT, "max_tokens": 3},
            "BertForMaskedLM writes no words",
        ),
        ("post", "gpt2/predict", {"text": "the " * 400}, "tokens, and the model reads"),
    ],
)
def test_what_a_model_cannot_do_is_refused_in_words(client, method, where, sent, said):
    asked = {} if sent is None else {"json": sent}
    answer = getattr(client, method)(f"/api/runs/{where}", **asked)
    assert 400 <= answer.status_code < 500
    assert said in answer.text


def test_a_folder_that_asks_for_code_is_refused_by_the_server_s_own_name(tmp_path):
    folder = folder_of("bert", tmp_path)
    (folder / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": "own.Own"}}')
    with pytest.raises(CheckpointError, match=r"^serve: --model: .*auto_map: own\.Own"):
        open_runs([], models=[str(folder)])


def test_without_anything_to_serve_the_error_says_what_can_be():
    with pytest.raises(RunError, match=r"Write regard serve RUN, or regard serve --model FOLDER"):
        open_runs([])
