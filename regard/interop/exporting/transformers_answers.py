"""Answers of transformers: a folder in its layout, asked the run's own examples.

A model that writes must write greedily what the run writes; of one that only reads, the last
numbers must be the run's.
"""

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch

from regard.data.subword_kinds import EOS
from regard.decoding import Greedy, Limits, Sentence
from regard.errors import RunError
from regard.interop.answers import MAX_CHECKED_TOKENS, ClosedStepper, checked_sentences
from regard.models import Stepper
from regard.runs.trained import Trained

NOT_THERE = "transformers is not installed, so that the folder was not asked anything"
ROUNDING = 1e-3
"""How far apart numbers may be in float32."""


def answered_by_transformers(
    trained: Trained, folder: Path, order: Sequence[int]
) -> tuple[str, ...]:
    """A note on what it answers; other answers than the run's are refused."""
    if importlib.util.find_spec("transformers") is None:
        return (NOT_THERE,)
    import transformers

    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    kind = getattr(transformers, config["architectures"][0])
    has_bars = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    model = kind.from_pretrained(folder, dtype=torch.float32).eval()
    if has_bars:
        transformers.utils.logging.enable_progress_bar()
    _, sentences, are_own = checked_sentences(trained)
    whose = "texts of the run's own data" if are_own else "sentences (the run's data are not here)"
    places = {ours: number for number, ours in enumerate(order)}
    writes = bool(config.get("is_encoder_decoder")) or trained.loaded.model.reads_answers
    for sentence in sentences:
        source = list(sentence.source)
        same = _same_answer if writes else _same_states
        if not same(trained, model, source, places):
            text = trained.loaded.source.decode(source)
            raise RunError(
                f"export: to '{text[:40]}' transformers gives another answer than the run. Nothing "
                "was written; please report this model."
            )
    return (f"transformers: the answers to {len(sentences)} {whose} are those of the run",)


@torch.no_grad()
def _same_answer(
    trained: Trained, model: Any, source: Sequence[int], places: dict[int, int]
) -> bool:
    most = min(MAX_CHECKED_TOKENS, trained.default_search().limits.max_tokens)
    search = Greedy(limits=Limits(max_tokens=most))
    model_here = ClosedStepper(cast(Stepper, trained.stepper))
    ((mine,),) = search(model_here, [Sentence(source)], device=trained.hardware.device)
    is_alone = not model.config.is_encoder_decoder
    read = trained.loaded.model.prompt(source) if is_alone else source
    ids = torch.tensor([[places[number] for number in read]])
    found = model.generate(
        input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=1,
        max_length=(len(read) if is_alone else 1) + most, forced_eos_token_id=None,
    )[0].tolist()  # fmt: skip
    written = found[len(read) :] if is_alone else found[1:]
    numbers = {number: ours for ours, number in places.items()}
    theirs = [numbers[number] for number in written]
    return list(mine.tokens) == (theirs[: theirs.index(EOS)] if EOS in theirs else theirs)


@torch.no_grad()
def _same_states(
    trained: Trained, model: Any, source: Sequence[int], places: dict[int, int]
) -> bool:
    ids = torch.tensor([trained.loaded.model.prompt([]) + list(source)])
    theirs = model(input_ids=torch.tensor([[places[number] for number in ids[0].tolist()]]))
    network: Any = trained.loaded.model
    read = torch.tensor([list(source)])
    if "logits" in theirs:
        mine, found = network(read, read), theirs.logits[:, 1:]
    else:
        mine, found = network.encoder(read), theirs.last_hidden_state
    return torch.allclose(mine, found, rtol=0, atol=ROUNDING * max(1.0, float(mine.abs().max())))
