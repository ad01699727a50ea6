"""Imported runs are runs: training goes on from their weights."""

import pytest
import tomli_w
import torch

import regard
from regard.interop.importing import import_run
from regard.interop.importing.family import NO_LANGUAGES, Languages
from regard.recipes import read_recipe
from regard.training.checkpoints import read_tensors
from regard.training.run import Finished, run
from tests.interop.importing.families import bart, llama, mbart, roberta, t5
from tests.interop.importing.published import bert, gpt2, marian


@pytest.mark.parametrize("make", [bert, marian, gpt2, bart, mbart, t5, llama, roberta])
def test_training_goes_on_from_imported_weights(tmp_path, make):
    folder, _ = make(tmp_path / "published")
    languages = Languages("en", "de") if make is mbart else NO_LANGUAGES
    import_run(folder, tmp_path / "imported", languages)
    (tmp_path / "pairs.tsv").write_text("the cat sat\ta dog\na mat\tthe dog run home\n" * 4)
    table = read_recipe(tmp_path / "imported" / "recipe.toml").as_table()
    pairs = {"name": "tsv", "path": str(tmp_path / "pairs.tsv")}
    table["data"] |= {"train": pairs, "valid": pairs}
    table["training"] |= {
        "steps": 2, "validate_every": 2, "warmup_steps": 1, "learning_rate": 1e-4,
        "start_from": str(tmp_path / "imported"),
    }  # fmt: skip
    (tmp_path / "recipe.toml").write_text(tomli_w.dumps(table))
    events = list(run(read_recipe(tmp_path / "recipe.toml"), tmp_path / "run"))
    assert isinstance(events[-1], Finished)
    before, after = (
        read_tensors(tmp_path / name / "model.safetensors") for name in ("imported", "run")
    )
    assert before.keys() == after.keys()
    moved = [name for name in before if not torch.equal(before[name], after[name])]
    assert moved
    assert all(torch.allclose(before[name], after[name], atol=1e-3) for name in before)
    assert regard.load(tmp_path / "run", device="cpu").longest > 0


def test_a_loss_knows_the_bias_of_each_logit(tmp_path):
    folder, theirs = marian(tmp_path / "published")
    import_run(folder, tmp_path / "imported")
    loaded = regard.load(tmp_path / "imported", device="cpu").loaded
    source, target = (loaded.source.encode(text) for text in ("the cat sat", "a dog run"))
    read, gold = torch.tensor([[*source, 2]]), torch.tensor([[*target, 2]])
    loss_inputs = loaded.model.loss_inputs(read, gold)
    logs = (loss_inputs.hidden @ loaded.model.output.weight.T).log_softmax(-1)
    mine = -logs.gather(-1, gold.unsqueeze(-1)).squeeze(-1)
    rows = [one.number for one in regard.interop.importing.read_published(folder).rows["target"]]
    want = theirs(
        input_ids=torch.tensor([[rows[i] for i in read[0]]]),
        labels=torch.tensor([[rows[i] for i in gold[0]]]),
    ).loss
    torch.testing.assert_close(mine.mean(), want, atol=1e-4, rtol=0)
