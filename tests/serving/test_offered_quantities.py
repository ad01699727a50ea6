"""Whatever a model is, what may be shown of its attention is offered, and nothing else is."""

import pytest
from starlette.testclient import TestClient

from regard.serving import build_app
from regard.serving.quantities import QUANTITIES
from regard.serving.registry import open_runs
from tests.cli.test_kinds_of_models import SECTIONS
from tests.factories import ENCODER, TRANSFORMER, make_run

TEXT, N_PIECES = "a b c", 6
TWO_LAYERS = TRANSFORMER.replace("n_encoder_layers = 1", "n_encoder_layers = 2")
LINFORMER = f'encoder_attends = ["linformer:slots={N_PIECES}"]'

OWN = ("weights", "arriving", "rollout", "flow")
WHOLE = {"encoder": OWN, "decoder": OWN, "cross": ("weights", "arriving", "answer")}
ACROSS = {"cross": ("weights", "arriving")}
"""Of a decoder that does not attend to what it wrote."""
READ = {"encoder": OWN}
SHARED = ("weights", "rollout", "flow")
"""Of tokens that share the weights of a slot, whose values are no token's."""
SLOTS = {"encoder": ("weights", "arriving"), "decoder": OWN, "cross": ("weights", "arriving")}
"""The slots of a shortened memory are no words, so that no way leads down through them."""
UNLIKE = {"encoder": (), "decoder": OWN, "cross": ("weights", "arriving")}
"""Of layers whose keys are not the same, numbers cannot be sent as one."""

SHARED_IN_ROWS = {"encoder": SHARED, "decoder": SHARED, "cross": ("weights", "answer")}

EXPECTED = {
    **dict.fromkeys(SECTIONS, WHOLE),
    **dict.fromkeys(["luong", "luong, local", "bahdanau", "convolutional"], ACROSS),
    "coverage": {"cross": ("weights",)},
    **{key: {**WHOLE, "sequence": OWN} for key in ["language model", "running text", "gpt2"]},
    "T-DMCA": {**SHARED_IN_ROWS, "sequence": SHARED},
    **dict.fromkeys(["tags", "label", "vectors"], READ),
    "window": WHOLE,
    "branches": WHOLE,
    "compressed": SLOTS,
    "linformer": SLOTS,
    "linformer, as many slots as pieces": SLOTS,
    "linformer, one layer": SLOTS,
    "linformer in one of two layers": UNLIKE,
    "linformer in one of two layers, as many slots as pieces": UNLIKE,
}
MODELS = {
    **SECTIONS,
    "coverage": f"{SECTIONS['bahdanau']}\nhas_coverage = true",
    **{task: ENCODER.format(task=task) for task in ("tags", "label", "vectors")},
    "window": f'{TWO_LAYERS}\nencoder_attends = ["sliding_window"]',
    "branches": f'{TWO_LAYERS}\nlayer = "weighted_branches"',
    "compressed": f'{TWO_LAYERS}\nencoder_attends = ["memory_compressed"]',
    "linformer": f'{TWO_LAYERS}\nencoder_attends = ["linformer:slots=4"]',
    "linformer, as many slots as pieces": f"{TWO_LAYERS}\n{LINFORMER}",
    "linformer, one layer": f'{TRANSFORMER}\nencoder_attends = ["linformer:slots=4"]',
    "linformer in one of two layers":
        f'{TWO_LAYERS}\nencoder_attends = ["full", "linformer:slots=4"]',
    "linformer in one of two layers, as many slots as pieces":
        f'{TWO_LAYERS}\nencoder_attends = ["full", "linformer:slots={N_PIECES}"]',
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_what_is_offered_or_recommended_is_answered_and_nothing_else_is(name, tmp_path):
    registry = open_runs([make_run(tmp_path / "run", model=MODELS[name])], device="cpu")
    answer = {"target": "c b"} if registry.run("run").trained.loaded.model.reads_answers else {}
    with TestClient(build_app(registry), base_url="http://127.0.0.1") as client:
        said = client.post("/api/runs/run/predict", json={"text": TEXT, **answer}).json()
        address = f"/api/records/{said['answers'][0]['record']}"
        told = client.get(address).json()["attention"]
        assert {kind: _offered(one) for kind, one in told.items()} == EXPECTED[name]
        for kind, able in EXPECTED[name].items():
            instead = _recommended(able)
            for shown in QUANTITIES:
                for what in ("weights", "visible"):
                    got = client.get(f"{address}/{what}/{kind}", params={"shown": shown})
                    assert got.status_code == (200 if shown in able else 400), (kind, shown)
                    assert shown in able or got.json()["error"]["message"].endswith(instead)


def _offered(one):
    return tuple(name for name, each in one["shown"].items() if not each["why_not"])


def _recommended(able):
    if not able:
        return ". Take another attention: decoder, cross."
    return f". Take {'one of ' if len(able) > 1 else ''}{', '.join(able)}."
