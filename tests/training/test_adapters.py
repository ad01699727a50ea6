"""Adapters: a run stays as it is, small products beside its weights are learned, and merged."""

import sys

import peft
import pytest
import tomli_w
import torch
from safetensors.torch import load_file

import regard
from regard.errors import CheckpointError, MissingExtra, RecipeError, SettingError
from regard.interop.importing import import_run
from regard.recipes import read_recipe
from regard.training.run import Finished, run
from tests.interop.importing.families import llama, t5
from tests.interop.importing.published import gpt2

PAIRS = "the cat sat\ta dog\na mat\tthe dog run home\nparis is\tthe capital\n" * 4
STEPS = 50


def recipe_of(tmp_path, base, **lora):
    """A recipe that adapts a run."""
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    table = read_recipe(base / "recipe.toml").as_table()
    pairs = {"name": "tsv", "path": str(tmp_path / "pairs.tsv")}
    table["data"] |= {"train": pairs, "valid": pairs}
    table["model"] |= {"dropout": 0.0, "attention_dropout": 0.0}
    table["training"] |= {
        "steps": STEPS, "validate_every": STEPS, "checkpoint_every": 25, "warmup_steps": 5,
        "learning_rate": 5e-3, "start_from": str(base), "lora": lora,
    }  # fmt: skip
    (tmp_path / "recipe.toml").write_text(tomli_w.dumps(table))
    return read_recipe(tmp_path / "recipe.toml")


@pytest.fixture(params=[gpt2, llama, t5])
def adapted(request, tmp_path):
    """An imported run, and one that adapts it by 50 updates."""
    folder, _ = request.param(tmp_path / "published")
    import_run(folder, tmp_path / "base")
    recipe = recipe_of(tmp_path, tmp_path / "base", rank=4, modules=["W_Q", "W_O"])
    events = list(run(recipe, tmp_path / "run"))
    assert isinstance(events[-1], Finished)
    return tmp_path / "base", tmp_path / "run"


def logits_of(model, loaded):
    source, target = (loaded.source.encode(text) for text in ("the cat sat", "a dog run"))
    with torch.no_grad():
        return model(torch.tensor([[*source, 2]]), torch.tensor([[1, *target]]))


def test_a_run_adapted_for_50_updates_says_merged_what_it_says_unmerged(adapted):
    base, done = adapted
    before, after = (load_file(path / "model.safetensors") for path in (base, done))
    assert before.keys() == after.keys()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if name.endswith(("W_Q.weight", "W_O.weight"))}
    merged, unmerged = (regard.load(path, device="cpu") for path in (done, base))
    plain = logits_of(unmerged.loaded.model, unmerged.loaded)
    config = peft.LoraConfig.from_pretrained(str(done / "adapter"))
    model = unmerged.loaded.model
    peft.inject_adapter_in_model(config, model)
    left = peft.set_peft_model_state_dict(
        model, load_file(done / "adapter" / "adapter_model.safetensors")
    )
    assert not left.unexpected_keys
    model.eval()
    want = logits_of(model, unmerged.loaded)
    torch.testing.assert_close(
        logits_of(merged.loaded.model, merged.loaded), want, atol=1e-4, rtol=1e-5
    )
    assert (want - plain).abs().max() > 0.05
    learned = sum(one.numel() for one in model.parameters() if one.requires_grad)
    assert learned < sum(one.numel() for one in model.parameters()) / 4
    assert [one.text for one in merged.predict(["the cat sat"])]


def test_a_training_that_goes_on_ends_as_one_without_a_break(tmp_path):
    folder, _ = gpt2(tmp_path / "published")
    import_run(folder, tmp_path / "base")
    recipe = recipe_of(tmp_path, tmp_path / "base")
    list(run(recipe, tmp_path / "whole"))
    events = run(recipe, tmp_path / "broken")
    while not (tmp_path / "broken" / "checkpoints" / "step-000025").exists():
        next(events)
    events.close()
    with pytest.raises(CheckpointError, match=r"holds adapters that are still learned \(training"):
        regard.load(tmp_path / "broken" / "checkpoints" / "step-000025")
    list(run(recipe, tmp_path / "broken", resume=True))
    whole, broken = (
        load_file(tmp_path / name / "model.safetensors") for name in ("whole", "broken")
    )
    assert all(torch.equal(whole[name], broken[name]) for name in whole)


def test_a_module_that_the_model_lacks_is_named(tmp_path):
    folder, _ = gpt2(tmp_path / "published")
    import_run(folder, tmp_path / "base")
    recipe = recipe_of(tmp_path, tmp_path / "base", modules=["q_proj"])
    with pytest.raises(SettingError, match=r"has no 'q_proj'\. Take some of W_K, W_O, W_Q, W_V, "):
        list(run(recipe, tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"start_from": None}, "training.lora adapts a finished run. Give it as training.start"),
        ({"ema_decay": 0.9}, "training.lora learns adapters, of which there is no mean"),
        ({"average_last": 2}, "training.lora learns adapters, of which there is no mean"),
        ({"lora": {"rank": 0}}, r"training.lora.rank must be at least 1, got 0"),
        ({"lora": {"alpha": 0.0}}, r"training.lora.alpha must be above 0, got 0.0"),
        ({"lora": {"modules": []}}, r"training.lora.modules must name at least one"),
    ],
)
def test_settings_without_meaning_are_refused(tmp_path, change, said):
    folder, _ = gpt2(tmp_path / "published")
    import_run(folder, tmp_path / "base")
    table = recipe_of(tmp_path, tmp_path / "base").as_table()
    table["training"] |= change
    table["training"] = {key: one for key, one in table["training"].items() if one is not None}
    (tmp_path / "recipe.toml").write_text(tomli_w.dumps(table))
    with pytest.raises(RecipeError, match=said):
        read_recipe(tmp_path / "recipe.toml")


def test_without_peft_an_error_says_how_to_get_it(tmp_path, monkeypatch):
    folder, _ = gpt2(tmp_path / "published")
    import_run(folder, tmp_path / "base")
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(MissingExtra, match=r"pip install 'regard\[peft\]'"):
        list(run(recipe_of(tmp_path, tmp_path / "base"), tmp_path / "run"))
