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
from regard.decoding import AveragePenalty, Beam, Limits, Sentence, fast_model
from regard.errors import SettingError
from regard.interop.exporting.huggingface import order_of
from regard.models import Transformer
from regard.models.stepper import UNK

WARM_UPS = 2

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
        # warm up: kernels are compiled, and ours recorded, before anything is timed
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
    ours = _placed(model, case)
    # the search of `predict`, so that the measured speed is that of users
    search = Beam(
        width=case.beam,
        penalty=AveragePenalty(),
        limits=Limits(min_tokens=case.n_target, max_tokens=case.n_target),
    )

    def decode(source: Tensor) -> list[list[int]]:
        sentences = [Sentence(row) for row in source.tolist()]
        return [list(row[0].tokens) for row in search(ours, sentences, device=case.device)]

    return decode


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


def _placed(model: Transformer, case: DecodingCase) -> Transformer:
    if case.device == "cpu" and case.dtype == "float32":
        return fast_model(model, torch.device("cpu"))
    copy = random_model(case)
    copy.load_state_dict(model.state_dict())
    return copy.to(case.device, getattr(torch, case.dtype))


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
