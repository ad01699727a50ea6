"""Figures of a record for papers, as the page offers them."""

import pytest
from starlette.testclient import TestClient

from regard.serving import build_app
from tests.serving.serving import make_registry


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    registry = make_registry(tmp_path_factory.mktemp("figures"))
    with TestClient(build_app(registry), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture(scope="module")
def record(client):
    asked = {"text": "a dog ate", "target": "dog the food"}
    return client.post("/api/runs/first/predict", json=asked).json()["answers"][0]["record"]


@pytest.mark.parametrize(
    ("format_", "begins", "media"),
    [
        ("pdf", b"%PDF-", "application/pdf"),
        ("svg", b"<?xml", "image/svg+xml"),
        ("png", b"\x89PNG", "image/png"),
    ],
)
def test_a_view_is_saved_in_the_formats_of_papers(client, record, format_, begins, media):
    answer = client.get(f"/api/records/{record}/figure/cross.{format_}?layer=0&head=1&map=viridis")
    assert answer.content.startswith(begins)
    assert answer.headers["content-type"] == media
    assert f'filename="attention-cross.{format_}"' in answer.headers["content-disposition"]


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("cross.gif", "ends in pdf, svg, png"),
        ("sideways.pdf", "sideways"),
        ("cross.pdf?layer=9", "layer"),
        ("cross.pdf?map=jet", "jet"),
    ],
)
def test_a_figure_that_cannot_be_drawn_says_why(client, record, file, said):
    answer = client.get(f"/api/records/{record}/figure/{file}")
    assert answer.status_code in (400, 404)
    assert said in answer.json()["error"]["message"]
