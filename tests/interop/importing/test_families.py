"""Every family as published equals its run here: logits, and answers by greedy and beam search."""

import pytest
import torch
from tokenizers import Tokenizer

from regard.data.subword_kinds import BOS, EOS, PAD
from regard.decoding import Beam, Greedy, Limits, Sentence
from regard.decoding.length_penalties import NoPenalty
from regard.decoding.rules import Forbidden
from tests.interop.importing.families import (
    ENCODER_DECODERS,
    ENCODERS,
    LANGUAGE_MODELS,
    roberta,
)
from tests.interop.importing.published import imported_model, their_columns

TEXTS = ["the cat sat on a mat", "dog run home", "paris is the capital"]
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
LENGTH = 7


def theirs_of(imported, side, tokens):
    """The published numbers of some tokens of ours."""
    return [imported.rows[side][token].number for token in tokens]


def side_by_side(rows, filler):
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[filler] * (longest - len(row))] for row in rows])


def assert_logits_agree(imported, got, want):
    here, there = their_columns(imported)
    assert len(here) > 20
    want = want[..., there].log_softmax(-1)
    torch.testing.assert_close(got[..., here].log_softmax(-1), want, **CLOSE)


def assert_texts_are_cut_alike(folder, imported):
    cut = Tokenizer.from_file(str(folder / "tokenizer.json"))
    for text in (*TEXTS, "the cat's 3 mats, and a dog"):
        own = [i for i in imported.source.encode(text) if i not in imported.source.framing]
        want = cut.encode(text, add_special_tokens=False).ids
        assert theirs_of(imported, "source", own) == want


@pytest.fixture(params=ENCODER_DECODERS)
def encoder_decoder(request, tmp_path):
    make, sizes, languages = ENCODER_DECODERS[request.param]
    folder, theirs = make(tmp_path / "published", **sizes)
    return folder, theirs, *imported_model(folder, tmp_path, languages)


def test_an_encoder_decoder_and_its_answers_are_the_published_ones(encoder_decoder):
    folder, theirs, imported, model = encoder_decoder
    assert_texts_are_cut_alike(folder, imported)
    config = theirs.config
    sources = [[*imported.source.encode(text), EOS] for text in TEXTS]
    targets = [imported.target.encode(text) for text in TEXTS[::-1]]
    read = side_by_side(sources, PAD)
    given = side_by_side([[BOS, *target] for target in targets], PAD)
    their_read = side_by_side(
        [theirs_of(imported, "source", row) for row in sources], config.pad_token_id
    )
    begin = imported.rows["target"][BOS].number
    their_given = side_by_side(
        [[begin, *theirs_of(imported, "target", row)] for row in targets], config.pad_token_id
    )
    mask = side_by_side([[1] * len(row) for row in sources], 0)
    with torch.no_grad():
        want = theirs(input_ids=their_read, attention_mask=mask, decoder_input_ids=their_given)
        got = model(read, given)
    is_real = given != PAD
    assert_logits_agree(imported, got[is_real], want.logits[is_real])

    # both search the same space: neither writes what only one of them has
    before = list(imported.target.before)
    closed = {PAD, BOS, *(i for i, row in enumerate(imported.rows["target"]) if row.number is None)}
    said = {
        imported.rows["target"][i].number for i in closed if imported.rows["target"][i].is_writable
    }
    said = sorted({*said, config.pad_token_id} - {None})
    sentences = [Sentence(row, prefix=before) for row in sources]
    limits = Limits(max_tokens=LENGTH, min_tokens=LENGTH)
    searches = {
        1: Greedy(limits=limits, rules=[Forbidden(tuple(closed))]),
        3: Beam(width=3, penalty=NoPenalty(), limits=limits, rules=[Forbidden(tuple(closed))]),
    }
    for width, search in searches.items():
        answers = theirs.generate(
            their_read, attention_mask=mask, num_beams=width, do_sample=False, length_penalty=0.0,
            max_new_tokens=LENGTH, min_new_tokens=LENGTH, suppress_tokens=said,
            decoder_start_token_id=begin, forced_eos_token_id=None,
            forced_bos_token_id=theirs_of(imported, "target", before)[0] if before else None,
        )  # fmt: skip
        found = search(model, sentences)
        for (mine, *_), their in zip(found, answers.tolist(), strict=True):
            assert theirs_of(imported, "target", mine.tokens) == their[1 : LENGTH + 1]


@pytest.fixture(params=LANGUAGE_MODELS)
def language_model(request, tmp_path):
    make, sizes = LANGUAGE_MODELS[request.param]
    folder, theirs = make(tmp_path / "published", **sizes)
    return folder, theirs, *imported_model(folder, tmp_path)


def test_a_language_model_and_its_continuations_are_the_published_ones(language_model):
    folder, theirs, imported, model = language_model
    assert_texts_are_cut_alike(folder, imported)
    sources = [[*imported.source.encode(text), EOS] for text in TEXTS]
    targets = [[BOS, *imported.target.encode(text)] for text in TEXTS[::-1]]
    begins = imported.recipe.model.rows == "begun"
    begin = [imported.rows["target"][BOS].number] * begins
    for source, target in zip(sources, targets, strict=True):
        prompt = [*begin, *theirs_of(imported, "source", source[:-1])]
        row = [*prompt, *theirs_of(imported, "target", target[1:])]
        with torch.no_grad():
            want = theirs(torch.tensor([row])).logits[:, len(prompt) - 1 :]
            at_once = model(torch.tensor([source]), torch.tensor([target]))
            state, steps = model.start(torch.tensor([source])), []
            for token in target:
                logits, state = model.step(state, torch.tensor([[token]]))
                steps.append(logits)
        assert_logits_agree(imported, at_once, want)
        assert_logits_agree(imported, torch.cat(steps, 1), want)
        closed = [
            i for i, row in enumerate(imported.rows["target"]) if not row.is_writable or i < EOS
        ]
        limits = Limits(max_tokens=LENGTH, min_tokens=LENGTH)
        rules = [Forbidden(tuple(closed))]
        said = [imported.rows["target"][i].number for i in closed]
        said = sorted({i for i in said if i is not None} - {imported.rows["target"][EOS].number})
        for width, search in (
            (1, Greedy(limits=limits, rules=rules)),
            (3, Beam(width=3, penalty=NoPenalty(), limits=limits, rules=rules)),
        ):
            ((mine, *_),) = search(model, [Sentence(source)])
            (their,) = theirs.generate(
                torch.tensor([prompt]), num_beams=width, do_sample=False, length_penalty=0.0,
                max_new_tokens=LENGTH, min_new_tokens=LENGTH, suppress_tokens=said or None,
                attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                pad_token_id=imported.rows["target"][EOS].number,
            ).tolist()  # fmt: skip
            assert theirs_of(imported, "target", mine.tokens) == their[len(prompt) :]


@pytest.mark.parametrize("name", ENCODERS)
def test_an_encoder_guesses_as_the_published_one(tmp_path, name):
    make, sizes = ENCODERS[name]
    folder, theirs = make(tmp_path / "published", **sizes)
    imported, model = imported_model(folder, tmp_path)
    assert_texts_are_cut_alike(folder, imported)
    rows = [[*imported.source.encode(text), EOS] for text in (*TEXTS, "the [MASK] sat")]
    read = side_by_side(rows, PAD)
    begin = imported.rows["source"][BOS].number
    their_rows = [[begin, *theirs_of(imported, "source", row)] for row in rows]
    mask = side_by_side([[1] * len(row) for row in their_rows], 0)
    filler = imported.rows["source"][PAD].number
    with torch.no_grad():
        want = theirs(side_by_side(their_rows, filler), attention_mask=mask).logits[:, 1:]
        got = model.network(read)
    assert_logits_agree(imported, got[read != PAD], want[read != PAD])


def test_an_encoder_without_a_head_gives_vectors(tmp_path):
    folder, theirs = roberta(tmp_path / "published", has_head=False)
    imported, model = imported_model(folder, tmp_path)
    assert imported.recipe.model.task == "vectors"
    row = [*imported.source.encode(TEXTS[0]), EOS]
    begin = imported.rows["source"][BOS].number
    with torch.no_grad():
        want = theirs(torch.tensor([[begin, *theirs_of(imported, "source", row)]]))
        got = model.encoder(torch.tensor([row]))
    torch.testing.assert_close(got, want.last_hidden_state, **CLOSE)
