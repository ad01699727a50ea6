"""GPT-2 as published equals GPT-2 here: logits after any prompt, all at once or step by step."""

import pytest
import torch

from regard.data.subword_kinds import BOS, EOS, PAD
from regard.decoding import greedy
from regard.errors import CheckpointError, SettingError
from regard.interop.importing import read_published
from regard.models import Gpt2Spec, build_gpt2
from tests.interop.importing.published import (
    GPT2_PIECES,
    gpt2,
    imported_model,
    ours,
    rewrite,
    their_columns,
)

END = len(GPT2_PIECES) - 1


def pieces(*shape):
    return torch.randint(0, END, shape).tolist()


def prompts(imported, rows):
    """Rows with an end token behind each and padding behind that, as a run reads them."""
    longest = max(map(len, rows)) + 1
    read = torch.full((len(rows), longest), PAD)
    for i, ids in enumerate(rows):
        read[i, : len(ids) + 1] = torch.tensor([*(ours(imported, [ids])[0] if ids else []), EOS])
    return read


def test_logits_are_those_of_the_published_model_after_prompts_of_any_length(tmp_path):
    folder, theirs = gpt2(tmp_path / "gpt2")
    imported, model = imported_model(folder, tmp_path)
    begun, written = [pieces(7), pieces(2), []], pieces(3, 4)
    source = prompts(imported, begun)
    target = torch.cat([torch.full((3, 1), BOS), ours(imported, written)], 1)
    here, there = their_columns(imported)
    with torch.no_grad():
        at_once = model(source, target).log_softmax(-1)
        state, steps = model.start(source), []
        for t in range(target.shape[1]):
            logits, state = model.step(state, target[:, t : t + 1])
            steps.append(logits.log_softmax(-1))
    for i in range(3):
        row = torch.tensor([[*(begun[i] or [END]), *written[i]]])
        want = theirs(row, output_hidden_states=True)
        said = want.logits[0, -5:].log_softmax(-1)
        torch.testing.assert_close(at_once[i][:, here], said[:, there], atol=1e-4, rtol=0)
        torch.testing.assert_close(
            torch.cat(steps, 1)[i][:, here], said[:, there], atol=1e-4, rtol=0
        )
        states = model.hidden(source[i : i + 1], target[i : i + 1])[0, :, :-1]
        torch.testing.assert_close(states, want.hidden_states[-1][0, -5:], atol=1e-4, rtol=0)


@pytest.mark.parametrize("n_positions", [13, 14, 15])
def test_any_number_of_positions_is_read(tmp_path, n_positions):
    folder, theirs = gpt2(tmp_path / "gpt2", n_positions=n_positions)
    imported, model = imported_model(folder, tmp_path)
    assert imported.recipe.model.max_len == n_positions // 2
    # as long as a prompt and a continuation may be, end and begin token counted
    begun, written = pieces(n_positions // 2 - 1), pieces(1, n_positions // 2 - 1)
    source = prompts(imported, [begun])
    target = torch.cat([torch.full((1, 1), BOS), ours(imported, written)], 1)
    with torch.no_grad():
        logits = model(source, target)[0]
        want = theirs(torch.tensor([[*begun, *written[0]]])).logits[0, -len(target[0]) :]
    here, there = their_columns(imported)
    torch.testing.assert_close(
        logits[:, here].log_softmax(-1), want[:, there].log_softmax(-1), atol=1e-4, rtol=0
    )
    is_left_out = f"the last of its {n_positions} positions is left out" in imported.notes
    assert is_left_out == bool(n_positions % 2)


def test_positions_that_are_not_those_of_the_configuration_are_refused(tmp_path):
    folder, _ = gpt2(tmp_path / "gpt2", n_positions=15)
    rewrite(folder / "config.json", n_positions=13)
    with pytest.raises(CheckpointError, match=r"'wpe.weight' \(15, 24\) does not fit config.json"):
        read_published(folder)


def test_a_continuation_is_the_published_models_own(tmp_path):
    folder, theirs = gpt2(tmp_path / "gpt2")
    imported, model = imported_model(folder, tmp_path)
    begun = pieces(2, 6)
    want = theirs.generate(
        torch.tensor(begun), do_sample=False, max_new_tokens=8, pad_token_id=END,
        attention_mask=torch.ones(2, 6, dtype=torch.long),
    )  # fmt: skip
    got = greedy(model, prompts(imported, begun), max_tokens=8)
    places = [row.number for row in imported.rows["target"]]
    for mine, their in zip(got, want[:, 6:].tolist(), strict=True):
        written = their[: their.index(END)] if END in their else their
        assert [places[i] for i in mine] == written


def test_the_vocabulary_is_ordinary_byte_pairs_of_ours(tmp_path):
    folder, _ = gpt2(tmp_path / "gpt2")
    imported, _ = imported_model(folder, tmp_path)
    text = "the cat, the 猫"
    assert imported.source.kind.name == "bpe"
    assert imported.source.decode(imported.source.encode(text)) == text
    assert imported.source.tokens("the the")[0:2] == ["the", " the"]


def test_prompt_and_continuation_have_one_vocabulary():
    with pytest.raises(SettingError, match=r"gpt2: what is read .* got 30 source and 20 target"):
        build_gpt2(Gpt2Spec(), n_source_tokens=30, n_target_tokens=20)
