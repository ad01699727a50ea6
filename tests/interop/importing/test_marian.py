"""Marian as published equals Marian here: states, logits and translations."""

import pytest
import torch

from regard.data.subword_kinds import BOS, EOS, PAD
from regard.decoding import greedy
from tests.interop.importing.published import (
    MARIAN_PIECES,
    imported_model,
    marian,
    ours,
    their_columns,
)

START = len(MARIAN_PIECES) - 1


def words(*shape):
    return torch.randint(2, START, shape).tolist()


@pytest.mark.parametrize(
    ("is_scaled", "activation"), [(True, "swish"), (False, "gelu")], ids=["opus", "plain"]
)
def test_states_and_logits_are_those_of_the_published_model(tmp_path, is_scaled, activation):
    folder, theirs = marian(tmp_path / "marian", is_scaled=is_scaled, activation=activation)
    imported, model = imported_model(folder, tmp_path)
    sources = [[*words(7), 0], [*words(4), 0]]
    targets = words(2, 5)
    source = torch.full((2, 8), START)
    for i, ids in enumerate(sources):
        source[i, : len(ids)] = torch.tensor(ids)
    begun = torch.tensor([[START, *ids] for ids in targets])
    want = theirs(
        input_ids=source, attention_mask=(source != START).long(), decoder_input_ids=begun,
        output_hidden_states=True,
    )  # fmt: skip
    read = torch.full((2, 8), PAD)
    for i, ids in enumerate(sources):
        read[i, : len(ids)] = ours(imported, [ids])[0]
    given = torch.cat([torch.full((2, 1), BOS), ours(imported, targets)], 1)
    with torch.no_grad():
        encoded, logits = model.encode(read), model(read, given)
        hidden = model.hidden(read, given)[..., :-1]
    here, there = their_columns(imported)
    is_real = read != PAD
    torch.testing.assert_close(
        encoded[is_real], want.encoder_last_hidden_state[is_real], atol=1e-4, rtol=0
    )
    torch.testing.assert_close(hidden, want.decoder_hidden_states[-1], atol=1e-4, rtol=0)
    torch.testing.assert_close(logits[..., here], want.logits[..., there], atol=1e-4, rtol=0)


def test_a_translation_is_the_published_models_own(tmp_path):
    folder, theirs = marian(tmp_path / "marian")
    imported, model = imported_model(folder, tmp_path)
    sources = words(3, 6)
    want = theirs.generate(
        torch.tensor([[*ids, 0] for ids in sources]), num_beams=1, do_sample=False,
        max_new_tokens=12, bad_words_ids=[[START]], forced_eos_token_id=None,
    )  # fmt: skip
    read = torch.cat([ours(imported, sources), torch.full((3, 1), EOS)], 1)
    got = greedy(model, read, max_tokens=12)
    places = [row.number for row in imported.rows["target"]]
    for mine, their in zip(got, want.tolist(), strict=True):
        written = [place for place in their[1:] if place != START]
        written = written[: written.index(0)] if 0 in written else written
        assert [places[i] for i in mine] == written


def test_the_begin_token_is_read_as_padding_is_there_and_never_said(tmp_path):
    folder, _ = marian(tmp_path / "marian")
    _, model = imported_model(folder, tmp_path)
    table = model.target.E.weight
    assert torch.equal(table[BOS, :-1], table[PAD, :-1])
    assert table[BOS, -1] < -1e8
