"""What the server can say, as pure functions: a run and a wish in, plain data out.

Nothing here knows of HTTP. Numbers are those of `regard.inspecting`; none is made up on the way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import torch

import regard
from regard.choices import find
from regard.decoding import Hypothesis
from regard.decoding.beam import Beam
from regard.errors import LengthError, SettingError
from regard.inspecting.record import MOST_NUMBERS, Record, tokens_as_json
from regard.inspecting.statistics import head_statistics
from regard.inspecting.text_record import reads_answers
from regard.runs.length_limits import limits_of
from regard.runs.trained import Trained
from regard.serving.lru_cache import Once, name_of_answer
from regard.serving.offers import other_examples
from regard.serving.quantities import numbers_of, offered, spans_of
from regard.serving.registry import Registry, Served
from regard.serving.shown_numbers import Wish
from regard.serving.turns import held
from regard.serving.watched_search import WatchedSearch
from regard.tasks.input_format import text_like
from regard.tasks.predictions import Request
from regard.training.metrics_file import rows as read_metrics

MOST_ROWS = 512
"""About how many queries the statistics of a long text are made of."""
MOST_POINTS = 600
"""The most updates that are drawn of a training."""
AS_IT_IS = Wish()
"""The model's own temperature."""
USUAL_MAX_TOKENS = 300
"""The most tokens of an answer that is written freely, unless the request says otherwise; a
document's has room for as many as the document, and people wait for it."""


def runs(registry: Registry) -> dict[str, object]:
    """All runs, in the order they were given."""
    return {
        "version": regard.__version__,
        "runs": [{"name": name, "reads": one.reads} for name, one in registry.runs.items()],
        "has_gold": registry.gold is not None,
        "records": list(registry.saved),
        "captions": list(registry.saved_captions),
    }


def info(served: Served) -> dict[str, object]:
    """What a run is."""
    trained = served.trained
    loaded = trained.loaded
    recipe = loaded.recipe
    return {
        "name": served.name,
        "path": str(trained.path),
        "reads": served.reads,
        "model": type(recipe.model).__name__.removesuffix("Spec").lower(),
        "settings": {
            name: value
            for name, value in vars(recipe.model).items()
            if isinstance(value, bool | int | float | str)
        },
        "parameters": sum(one.numel() for one in loaded.model.parameters()),
        "longest": trained.longest,
        "reads_answers": reads_answers(loaded.model),
        "usual_answer": _usual(trained) if trained.task.has_free_length else None,
        "source_tokens": len(loaded.source),
        "target_tokens": len(loaded.target),
        "device": str(trained.hardware.device),
        "examples": [trained.task.sources.title(one) for one in served.offer.examples],
        "why_no_examples": served.offer.why_not,
        "other_examples": other_examples(trained),
        "has_metrics": (trained.path / "metrics.jsonl").is_file(),
        "versions": {"regard": regard.__version__, "torch": torch.__version__},
    }


def _usual(trained: Trained) -> int:
    """The most tokens of an answer unless the request says otherwise.

    A model that does not read its answers says something of each place of a text: all of it.
    """
    most = trained.default_search().limits.max_tokens
    return min(most, USUAL_MAX_TOKENS) if reads_answers(trained.loaded.model) else most


AnswerWork = Callable[[], dict[str, object]]
"""Computes an answer when it is called."""


def prepare_prediction(
    registry: Registry,
    run: str,
    text: str,
    *,
    target: str | None = None,
    n_best: int = 5,
    max_tokens: int | None = None,
) -> AnswerWork:
    """What answers a text, once it is certain that it can be answered; the model is not asked yet.

    Every answer has a record that can be asked for, unless the text is blank. A model that only
    reads has one record of the text; hidden words are filled in.

    Args:
        registry: where the run is, and where records are kept.
        run: its name.
        text: what to answer; of a JSON object what a run reads that learned from such.
        target: an answer to look at instead of the model's own.
        n_best: how many answers, best first.
        max_tokens: longest answer; 50 tokens beyond the text, 300 at most, unless given. What says
            something of each place of a text says it of all, unless given.
    """
    served = reader(registry, run)
    trained, recipe = served.trained, served.trained.loaded.recipe
    text = text_like(recipe.data.train, text, "the text")
    limits = limits_of(trained, max_tokens, "predict", "max_tokens")
    if max_tokens is None:
        limits = replace(limits, max_tokens=_usual(trained))
    if target is not None:
        _check_is_unlimited(max_tokens)
    # every answer needs a record of the whole text, so that no text is split or skipped
    trained.check_length(Request(text))
    if target is not None:
        trained.check_answer(target)
        return partial(_looked, registry, served, text, target)
    if trained.task.is_blank(trained, text):
        return partial(_unanswered, served, text)
    search = replace(_widened(served, n_best), limits=limits)
    answered = _searched if trained.task.is_searched else _read_off
    return partial(answered, registry, served, text, search)


def reader(registry: Registry, run: str) -> Served:
    """A run by its name, if it reads texts."""
    served = registry.run(run)
    if served.reads != "texts":
        raise SettingError(
            f"predict: '{run}' captions pictures; it does not read texts. Send a picture to "
            f"/api/runs/{run}/caption."
        )
    return served


def _unanswered(served: Served, text: str) -> dict[str, object]:
    """The empty answer to a blank text, which has no record."""
    (said,) = served.trained.predict([text])
    own = {"text": said.text, "score": said.score, "record": None, "words": []}
    return {"run": served.name, "source": text, "answers": [own], "note": said.note}


def _searched(registry: Registry, served: Served, text: str, search: Beam) -> dict[str, object]:
    """The answers that a search finds."""
    watched = WatchedSearch(search, served.busy)
    (said,) = served.trained.predict([text], search=watched)
    read = served.trained.read(text)
    answers = [_answer(registry, served, read, one) for one in watched.found[0]]
    return {"run": served.name, "source": text, "answers": answers, "note": said.note}


def _read_off(registry: Registry, served: Served, text: str, search: Beam) -> dict[str, object]:
    """Answers that one pass over the text gives; where the model looked is the same for all."""
    trained = served.trained
    with held(served.busy):
        found = trained.task.answers_read_off(trained, text, search)
        record = trained.read_over(trained.read(text), [])
    own: Sequence[Mapping[str, object]] = [
        {"text": one.text, "score": one.score, "filled": [*zip(one.tokens, sure, strict=True)]}
        for one, sure in zip(found.answers, found.probabilities, strict=True)
    ] or [{"text": record.target, "score": None}]
    return _with_record(registry, served, text, None, record, own, note=found.note)


def _check_is_unlimited(max_tokens: int | None) -> None:
    """Where an answer is given, none is searched for that could be long."""
    if max_tokens is not None:
        raise SettingError(
            f"predict: target is the answer to look at, so max_tokens {max_tokens} limits none. "
            "Leave one of the two out."
        )


def _looked(registry: Registry, served: Served, text: str, target: str) -> dict[str, object]:
    """The answer that the request gives, with where the model looks as it writes it."""
    with held(served.busy):
        record = served.trained.look(text, target)
    own = [{"text": record.target, "score": None}]
    return _with_record(registry, served, text, target, record, own)


def _with_record(
    registry: Registry,
    served: Served,
    text: str,
    target: str | None,
    record: Record,
    own: Sequence[Mapping[str, object]],
    *,
    note: str | None = None,
) -> dict[str, object]:
    """Answers that share one record, which is kept under its name."""
    name = name_of_answer(served.name, text, target)
    registry.records.put(name, Once(lambda: record))
    answers = [{**one, "record": name, "words": []} for one in own]
    return {"run": served.name, "source": text, "answers": answers, "note": note}


def _widened(served: Served, n_best: int) -> Beam:
    search = served.trained.default_search()
    if not 1 <= n_best <= search.width:
        raise SettingError(f"predict: n_best must be from 1 to {search.width}, got {n_best}.")
    return replace(search, n_best=n_best)


def _answer(registry: Registry, served: Served, read: str, one: Hypothesis) -> dict[str, object]:
    loaded = served.trained.loaded
    # of a text that a language model began itself nothing was read that could be looked at
    name = name_of_answer(served.name, read, one.tokens) if read.strip() else None

    def look() -> Record:
        with held(served.busy):
            return served.trained.read_over(read, one.tokens)

    if name is not None:
        registry.records.put(name, Once(look))
    names = [*(loaded.target.readable(token) for token in one.tokens), "<eos>"]
    chances = np.exp(one.token_log_probabilities).tolist()
    return {
        "text": loaded.target.decode(one.tokens),
        "score": one.score,
        "log_probability": one.log_probability,
        "record": name,
        "words": [list(pair) for pair in zip(names, chances, strict=False)],
        "has_ended": one.has_ended,
    }


def record(registry: Registry, name: str) -> dict[str, object]:
    """Texts and tokens of an answer, and which weights there are."""
    kept = registry.record(name)
    return {
        "record": name,
        "source": kept.source,
        "target": kept.target,
        "attention": {kind: _attention(kept, kind) for kind in kept.attention},
    }


def _attention(kept: Record, kind: str) -> dict[str, object]:
    one = kept.attention[kind]
    return {
        "mechanism": one.mechanism,
        "mask": one.mask,
        "query_title": one.query_title,
        "key_title": one.key_title,
        "queries": tokens_as_json(one.queries),
        "keys": tokens_as_json(one.keys),
        "n_layers": len(one.layers),
        "n_heads": one.n_heads,
        "shown": offered(kept, kind),
    }


def weights(
    registry: Registry, name: str, kind: str, shown: str = "weights", wish: Wish = AS_IT_IS
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Every number of one kind, `layers heads queries keys`, where there are not too many.

    Args:
        registry: where the record is kept.
        name: of the record.
        kind: such as "encoder" or "cross".
        shown: what of it, a name of `regard.serving.quantities.QUANTITIES`.
        wish: temperature and residual, for those that heed them.
    """
    kept = _short(registry, name, kind)
    key = name_of_answer(name, kind, shown, wish)

    def compute() -> np.ndarray[Any, np.dtype[np.float32]]:
        return numbers_of(kept, kind, shown, wish).numpy().astype("<f4")

    return registry.matrices.put(key, Once(compute))()


def visible(registry: Registry, name: str, kind: str, shown: str = "weights") -> dict[str, object]:
    """For each layer and query the spans of keys that it may see; null where it is not known.

    Args:
        registry: where the record is kept.
        name: of the record.
        kind: such as "encoder" or "cross".
        shown: of what, as for `weights`.
    """
    return {"layers": spans_of(_short(registry, name, kind), kind, shown)}


def _short(registry: Registry, name: str, kind: str) -> Record:
    """A record whose numbers of a kind can be sent at once."""
    kept = registry.record(name)
    one = find(kind, kept.attention)
    n_numbers = len(one.layers) * one.n_heads * len(one.queries) * len(one.keys)
    if n_numbers > MOST_NUMBERS:
        raise LengthError(
            f"weights: {n_numbers:,} numbers are too many to send at once; at most "
            f"{MOST_NUMBERS:,}. Look at the text in the atlas, which asks for tiles."
        )
    return kept


def statistics(registry: Registry, name: str, kind: str) -> dict[str, object]:
    """What each head of a kind does; of a long text some queries are used, and it says so."""
    kept = registry.record(name)
    every = max(1, len(find(kind, kept.attention).queries) // MOST_ROWS)
    heads = [asdict(one) for one in head_statistics(kept, kind, every=every)]
    return {"every": every, "heads": heads}


def curves(served: Served) -> dict[str, object]:
    """How a run learned, as `metrics.jsonl` has it; long trainings are thinned, and it says so."""
    rows = read_metrics(served.trained.path / "metrics.jsonl")
    learned = [row for row in rows if "train_loss" in row]
    checked = [row for row in rows if "valid_loss" in row]
    every = max(1, -(-len(learned) // MOST_POINTS))
    return {
        "updates": len(learned),
        "every": every,
        "charts": [
            _chart("Loss, nats per target token", {
                "training": _line(learned[::every], "train_loss"),
                "validation": _line(checked, "valid_loss"),
            }),
            _chart("Exact match, greedy", {"validation": _line(checked, "exact_match")}),
            _chart("BLEU, greedy", {"validation": _line(checked, "bleu")}),
            _chart("Learning rate", {"rate": _line(learned[::every], "learning_rate")}),
            _chart("Gradient norm", {"norm": _line(learned[::every], "gradient_norm")}),
        ],
    }  # fmt: skip


def _chart(title: str, series: Mapping[str, list[list[float]]]) -> dict[str, object]:
    return {"title": title, "series": {name: line for name, line in series.items() if line}}


def _line(rows: Sequence[Mapping[str, Any]], key: str) -> list[list[float]]:
    # a loss that was no number stands there as null
    return [[float(row["step"]), float(row[key])] for row in rows if row.get(key) is not None]
