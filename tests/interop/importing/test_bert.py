"""BERT as published equals BERT here: states, logits, and every way that rows may differ."""

import json

import pytest
import torch

from regard.data.subword_kinds import EOS, MASK_NUMBER, PAD
from regard.training.checkpoints import read_tensors, write_tensors
from tests.interop.importing.published import (
    BERT_PIECES,
    bert,
    imported_model,
    ours,
    their_columns,
)

CLS, SEP, MASK = (BERT_PIECES.index(f"[{name}]") for name in ("CLS", "SEP", "MASK"))


def row(*lengths):
    """A text of one or two parts, as BERT reads it."""
    ids, segments = [CLS], [0]
    for part, length in enumerate(lengths):
        ids += [*torch.randint(10, len(BERT_PIECES), (length,)).tolist(), SEP]
        segments += [part] * (length + 1)
    return ids, segments


def padded(rows):
    longest = max(map(len, rows))
    return torch.tensor([[*r, *[0] * (longest - len(r))] for r in rows])


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_states_and_logits_are_those_of_the_published_model(tmp_path, activation):
    folder, theirs = bert(tmp_path / "bert", activation=activation)
    imported, model = imported_model(folder, tmp_path)
    texts = [row(7), row(4, 6), row(1)]
    ids, segments = (padded([text[i] for text in texts]) for i in (0, 1))
    valid = padded([[1] * len(text[0]) for text in texts])
    want = theirs(ids, token_type_ids=segments, attention_mask=valid, output_hidden_states=True)
    tokens = ours(imported, ids[:, 1:].tolist())
    with torch.no_grad():
        states = model.encoder(tokens)
        logits = model.network(tokens)
    here, there = their_columns(imported)
    is_real = valid.bool()
    torch.testing.assert_close(states[is_real], want.hidden_states[-1][is_real], atol=1e-4, rtol=0)
    torch.testing.assert_close(
        logits[is_real[:, 1:]][:, here], want.logits[:, 1:][is_real[:, 1:]][:, there],
        atol=1e-4, rtol=0,
    )  # fmt: skip


def test_a_configuration_without_segments_and_activation_has_the_usual_ones(tmp_path):
    folder, theirs = bert(tmp_path / "bert", activation="gelu")
    config = json.loads((folder / "config.json").read_text())
    del config["hidden_act"]
    config["type_vocab_size"] = 0
    (folder / "config.json").write_text(json.dumps(config))
    weights = read_tensors(folder / "model.safetensors")
    (segments,) = (name for name in weights if name.endswith("token_type_embeddings.weight"))
    del weights[segments]
    write_tensors(folder / "model.safetensors", weights)
    imported, model = imported_model(folder, tmp_path)
    assert (imported.recipe.model.n_segments, imported.recipe.model.feed_forward) == (0, "gelu")
    theirs.bert.embeddings.token_type_embeddings.weight.data.zero_()
    ids, _ = row(5)
    want = theirs(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1]
    with torch.no_grad():
        got = model.encoder(ours(imported, [ids[1:]]))
    torch.testing.assert_close(got, want, atol=1e-4, rtol=0)


def test_special_pieces_take_our_places(tmp_path):
    folder, _ = bert(tmp_path / "bert")
    imported, _ = imported_model(folder, tmp_path)
    text = "Paris is the [MASK] of France."
    numbers = imported.source.encode(text)
    assert numbers[3] == MASK_NUMBER
    assert imported.source.tokens(text)[:3] == ["paris", "is", "the"]
    assert ours(imported, [[0, SEP, MASK]]).tolist() == [[PAD, EOS, MASK_NUMBER]]


def test_a_model_without_a_head_gives_vectors_and_says_nothing(tmp_path):
    folder, theirs = bert(tmp_path / "bert", has_head=False)
    imported, model = imported_model(folder, tmp_path)
    ids, _ = row(5)
    want = theirs(torch.tensor([ids])).last_hidden_state.mean(1)
    got = model.vectors(ours(imported, [ids[1:]]))
    torch.testing.assert_close(got, want / want.norm(dim=-1, keepdim=True), atol=1e-5, rtol=0)
    assert imported.recipe.model.task == "vectors"
    with pytest.raises(ValueError, match="this model has no head"):
        model.start(ours(imported, [ids[1:]]))


def test_rows_that_no_piece_has_are_left_out_and_told(tmp_path):
    folder, theirs = bert(tmp_path / "bert")
    assert imported_model(folder, tmp_path)[0].notes == ()
    theirs.resize_token_embeddings(len(BERT_PIECES) + 6)
    theirs.save_pretrained(folder)
    imported, model = imported_model(folder, tmp_path)
    size = len(BERT_PIECES) + 6
    assert imported.notes == (
        f"6 of the {size} rows of 'embeddings.word_embeddings.weight' belong to no piece of the "
        "vocabulary, and are left out.",
    )
    ids, _ = row(5)
    want = theirs(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1]
    with torch.no_grad():
        got = model.encoder(ours(imported, [ids[1:]]))
    torch.testing.assert_close(got, want, atol=1e-4, rtol=0)
