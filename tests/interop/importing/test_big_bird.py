"""BigBird as published equals BigBird here, faults included; and each fault has its switch."""

from dataclasses import replace

import pytest
import torch

from regard.choices import Choice
from regard.models import build_model
from regard.models.encoders.big_bird import PublishedBigBirdPattern
from regard.places import Places
from tests.interop.importing.published import (
    BIRD_PIECES,
    big_bird,
    imported_model,
    ours,
    their_columns,
)

CLS, SEP = BIRD_PIECES.index("[CLS]"), BIRD_PIECES.index("[SEP]")
BLOCK, N_RANDOM = 4, 2
SHORT = (5 + 2 * N_RANDOM) * BLOCK


def row(length):
    return [CLS, *torch.randint(4, len(BIRD_PIECES) - 3, (length - 2,)).tolist(), SEP]


def check(imported, model, theirs, rows):
    """Each text alone there, all of them in one batch here."""
    longest = max(map(len, rows))
    tokens = torch.zeros(len(rows), longest - 1, dtype=torch.long)
    for i, ids in enumerate(rows):
        tokens[i, : len(ids) - 1] = ours(imported, [ids[1:]])[0]
    with torch.no_grad():
        states, logits = model.encoder(tokens), model.network(tokens)
    here, there = their_columns(imported)
    for i, ids in enumerate(rows):
        want = theirs(torch.tensor([ids]), output_hidden_states=True)
        n = len(ids)
        torch.testing.assert_close(states[i, :n], want.hidden_states[-1][0, :n], atol=1e-4, rtol=0)
        torch.testing.assert_close(
            logits[i, : n - 1][:, here], want.logits[0, 1:n][:, there], atol=1e-4, rtol=0
        )


def test_sparse_attention_is_that_of_the_published_model_at_any_length(tmp_path):
    folder, theirs = big_bird(tmp_path / "bird")
    imported, model = imported_model(folder, tmp_path)
    check(imported, model, theirs, [row(41), row(48), row(59)])


def test_a_short_text_is_read_with_full_attention_and_the_next_one_is_not(tmp_path):
    folder, theirs = big_bird(tmp_path / "bird")
    imported, model = imported_model(folder, tmp_path)
    # there a short text changes the model for good, so the long one is read first
    check(imported, model, theirs, [row(45), row(SHORT), row(9)])


def test_full_attention_is_that_of_the_published_model(tmp_path):
    folder, theirs = big_bird(tmp_path / "bird", "original_full")
    imported, model = imported_model(folder, tmp_path)
    assert imported.recipe.model.pattern is None
    check(imported, model, theirs, [row(45), row(11)])


def test_the_pattern_is_neighbours_and_both_ends(tmp_path):
    pattern = PublishedBigBirdPattern(block=3, n_random=0, is_full_when_short=False)
    n = 25
    seen = pattern.visible(Places.between(n, n))
    last = (n - 1) // 3
    for i in range(n):
        for j in range(n):
            a, b = i // 3, j // 3
            assert bool(seen[i, j]) == (abs(a - b) <= 1 or {0, last} & {a, b} != set())


@pytest.mark.parametrize(
    "switch",
    [{"has_random_links": True}, {"is_full_when_short": False}],
    ids=lambda s: next(iter(s)),
)
def test_each_fault_can_be_switched_off(tmp_path, switch):
    folder, _ = big_bird(tmp_path / "bird")
    imported, model = imported_model(folder, tmp_path)
    spec = imported.recipe.model
    chosen = Choice(spec.pattern.name, {**spec.pattern.settings, **switch})
    other = build_model(
        replace(spec, pattern=chosen),
        n_source_tokens=len(imported.source),
        n_target_tokens=len(imported.target),
    )
    other.load_state_dict(model.state_dict())
    length = SHORT if "is_full_when_short" in switch else SHORT + 9
    tokens = ours(imported, [row(length)[1:]])
    with torch.no_grad():
        assert not torch.allclose(other.eval().encoder(tokens), model.encoder(tokens), atol=1e-3)
