"""A decoding process: regard, Hugging Face `generate` or CTranslate2, with the same weights.

    python -m regard.bench.decoding_worker NAME CASE

The case is JSON. Model and sources are made of one seed, so that every process has the same. Before
anything is timed, a peer's probabilities are compared with ours. The first line on standard input
requests the state of the process, each further one the decoding of all sentences; a line of JSON on
standard output holds the problem, if there is one, or the seconds and the answers.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.bench.decoding import DecodingCase, random_model, sources, spec_of
from regard.bench.peers import as_ctranslate2, as_huggingface, names_of
from regard.choices import Choice
from regard.data.subword_kinds import WORDS
from regard.data.subwords import Subwords
from regard.decoding import AveragePenalty, Beam, Limits
from regard.errors import SettingError
from regard.hardware.hardware import Hardware
from regard.interop.exporting.huggingface import order_of
from regard.models import Transformer
from regard.models.stepper import UNK
from regard.recipes.recipe import DataRecipe, Recipe, TokensRecipe
from regard.recipes.training_recipe import TrainingRecipe
from regard.runs.trained import Trained
from regard.tasks.loaded_run import Loaded

WARM_UPS = 3

TOLERANCE = 1e-4
"""The largest difference of a peer's log-probabilities from ours, in float32."""

Decoder = Callable[[Tensor], list[list[int]]]
"""Sources of one length → the tokens of the best answers, without begin and end."""


def main(name: str, case: str) -> None:
    """Decode once for each line on standard input, until it ends."""
    # output of the libraries goes to standard error, so that it does not mix with the answers
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    given = DecodingCase(**json.loads(case))
    with tempfile.TemporaryDirectory() as folder:
        try:
            decode = DECODERS[name](random_model(given), given, Path(folder))
        except SettingError as error:
            print(json.dumps({"problem": str(error)}), file=out, flush=True)
            return
        source = sources(given)
        # warm up: kernels are compiled, and searches recorded, before anything is timed
        for _ in range(WARM_UPS):
            decode(source[: given.batch])
        print(json.dumps({"problem": None}), file=out, flush=True)
        sys.stdin.readline()
        while sys.stdin.readline():
            start = time.perf_counter()
            answers = [row for part in source.split(given.batch) for row in decode(part)]
            said = {"seconds": time.perf_counter() - start, "answers": answers}
            print(json.dumps(said), file=out, flush=True)


def _regard(model: Transformer, case: DecodingCase, folder: Path) -> Decoder:
    run = _run_of(model, case, folder)
    pieces = run.loaded.source.pieces
    numbers = {piece: number for number, piece in enumerate(pieces)}
    search = Beam(
        width=case.beam,
        penalty=AveragePenalty(),
        limits=Limits(min_tokens=case.n_target, max_tokens=case.n_target),
    )

    def decode(source: Tensor) -> list[list[int]]:
        # a run puts the end token behind a text by itself
        texts = [" ".join(pieces[token] for token in row[:-1]) for row in source.tolist()]
        found = run.predict(texts, search=search)
        return [[numbers[piece] for piece in one.tokens] for one in found]

    return decode


def _run_of(model: Transformer, case: DecodingCase, folder: Path) -> Trained:
    """A run with the model and a vocabulary in which each token is a word, as users load one."""
    words = (f"w{number:08d}" for number in range(UNK + 1, case.n_tokens))
    subwords = Subwords.train(words, kind=WORDS, size=case.n_tokens)
    recipe = Recipe(
        data=DataRecipe(train=Choice("copy"), valid=Choice("copy")),
        tokens=TokensRecipe(kind=WORDS.name, size=case.n_tokens),
        training=TrainingRecipe(steps=1),
        model=spec_of(case),
    )
    threads = case.threads if case.device == "cpu" else None
    hardware = Hardware.chosen(case.device, case.dtype, compiles=False, threads=threads)
    return Trained(folder, Loaded(recipe, subwords, subwords, model), hardware)


def _huggingface(model: Transformer, case: DecodingCase, folder: Path) -> Decoder:
    theirs = as_huggingface(spec_of(case), model, folder)
    order = torch.tensor(order_of(case.n_tokens))
    # the number of each of our tokens in the peer's vocabulary
    places = torch.empty(case.n_tokens, dtype=torch.long).index_copy(
        0, order, torch.arange(len(order))
    )
    _compare(model, theirs, case, order, places)
    theirs = theirs.to(case.device, getattr(torch, case.dtype))
    length = {"max_new_tokens": case.n_target, "min_new_tokens": case.n_target}

    @torch.inference_mode()
    def decode(source: Tensor) -> list[list[int]]:
        exists = torch.ones_like(source, device=case.device)
        there = places[source].to(case.device)
        got = theirs.generate(there, attention_mask=exists, num_beams=case.beam, **length)
        return order[got[:, 1:].cpu()].tolist()

    return decode


def _ctranslate2(model: Transformer, case: DecodingCase, folder: Path) -> Decoder:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # torch computes nothing from here on, and its threads would compete
    translator = as_ctranslate2(spec_of(case), model, folder, threads=threads)
    length = {"max_decoding_length": case.n_target, "min_decoding_length": case.n_target}

    def decode(source: Tensor) -> list[list[int]]:
        rows = [names_of(row) for row in source.tolist()]
        got = translator.translate_batch(
            rows, beam_size=case.beam, max_batch_size=case.batch, **length
        )
        return [[int(name[1:]) for name in one.hypotheses[0]] for one in got]

    return decode


@torch.inference_mode()
def _compare(
    model: Transformer, theirs: Any, case: DecodingCase, order: Tensor, places: Tensor
) -> None:
    """Check that both give the same probability to every token that can be written."""
    source = torch.randint(UNK + 1, case.n_tokens, (2, case.n_source))
    target = torch.randint(UNK + 1, case.n_tokens, (2, case.n_target))
    got = theirs(input_ids=places[source], decoder_input_ids=places[target]).logits[..., :-1]
    ours = model(source, target)[..., order[:-1]]
    difference = float((got.log_softmax(-1) - ours.log_softmax(-1)).abs().max())
    if difference > TOLERANCE:
        raise SettingError(
            f"bench: Hugging Face's scores differ from ours by {difference:.1e}, so that their "
            "speeds cannot be compared. Try another version of transformers (bench extra)."
        )


DECODERS: Mapping[str, Callable[[Transformer, DecodingCase, Path], Decoder]] = {
    "regard": _regard,
    "huggingface": _huggingface,
    "ctranslate2": _ctranslate2,
}


if __name__ == "__main__":
    main(*sys.argv[1:])
