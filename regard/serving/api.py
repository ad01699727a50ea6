"""The server's answers without HTTP: functions from a run and a request to plain data.

app.py maps routes to them, server.py runs the process, `regard.inspecting` computes the numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import torch

import regard
from regard.choices import find
from regard.data.subword_kinds import EOS
from regard.decoding import Hypothesis, Sampling, Search
from regard.decoding.beam import DEFAULT_BEAM_WIDTH, Beam
from regard.errors import LengthError, SettingError
from regard.inspecting.record import MAX_JSON_WEIGHTS, Record
from regard.inspecting.statistics import head_statistics
from regard.runs.trained import Trained
from regard.runs.unlike_texts import unlike_note
from regard.serving.lru_cache import name_of_answer
from regard.serving.quantities import QuantitySettings, numbers_of, offered, spans_of
from regard.serving.registry import Matrices, Registry, Served
from regard.serving.request_limits import WatchedSearch, held
from regard.serving.schemas import SampleRequest
from regard.tasks.input_format import text_of_line
from regard.tasks.predictions import Request

STATISTICS_ROWS = 512
"""About how many queries the statistics of a long text are made of."""
USUAL_MAX_TOKENS = 300
"""The default limit of a generated answer, in tokens; without it the limit grows with the text,
and a reader would wait long for the answer to a document."""


def runs(registry: Registry) -> dict[str, object]:
    """All runs, in the order they were given; one that is being trained may have no model yet."""
    registry.refresh()
    return {
        "version": regard.__version__,
        "runs": [_in_list(registry, name) for name in registry.names],
        "has_gold": registry.gold is not None,
        "records": list(registry.saved),
        "captions": list(registry.saved_captions),
    }


def _in_list(registry: Registry, name: str) -> dict[str, object]:
    served = registry.answering.get(name)
    return {
        "name": name,
        "reads": None if served is None else served.reads,
        "verb": None if served is None else served.verb,
        "version": None if served is None else served.version,
        "is_finished": registry.is_finished(name),
    }


def info(registry: Registry, name: str) -> dict[str, object]:
    """The facts about a run that the page shows; few of one that has no weights yet."""
    home = registry.home(name)
    if name in registry.learning and name not in registry.runs:
        why = registry.problems.get(name)
        return {
            "name": name,
            "is_ready": False,
            "why_not": why,
            "has_metrics": True,
        }
    served = registry.run(name)
    trained, loaded, recipe = served.trained, served.trained.loaded, served.trained.loaded.recipe
    return {
        "name": served.name,
        "is_ready": True,
        "version": served.version,
        "step": served.step,
        "reads": served.reads,
        "verb": served.verb,
        "model": type(recipe.model).__name__.removesuffix("Spec").lower(),
        "settings": {
            name: value
            for name, value in vars(recipe.model).items()
            if isinstance(value, bool | int | float | str)
        },
        "parameters": sum(one.numel() for one in loaded.model.parameters()),
        "longest": trained.longest,
        "reads_answers": loaded.model.reads_answers,
        "usual_answer": _usual(trained) if trained.task.has_free_length else None,
        "labels_words": trained.task.labels_words,
        "may_sample": trained.task.is_searched and trained.engine is None,
        "source_tokens": len(loaded.source),
        "target_tokens": len(loaded.target),
        "device": str(trained.hardware.device),
        "engine": trained.engine_name,
        "examples": [trained.task.sources.title(one) for one in served.example_inputs().inputs],
        "why_no_examples": served.example_inputs().why_none,
        "has_metrics": name in registry.learning or (home / "metrics.jsonl").is_file(),
        "versions": {"regard": regard.__version__, "torch": torch.__version__},
    }


def _usual(trained: Trained) -> int:
    """The default of `max_tokens`, the most tokens of an answer.

    A model that does not read its answers gives an output for each place of a text, so all count.
    """
    most = trained.default_search().limits.max_tokens
    usual = trained.task.usual_max_tokens(trained.loaded.recipe)
    return min(most, usual) if trained.loaded.model.reads_answers else most


def prepare_prediction(
    registry: Registry,
    run: str,
    text: str,
    *,
    target: str | None = None,
    n_best: int = DEFAULT_BEAM_WIDTH,
    max_tokens: int | None = None,
    sampling: SampleRequest | None = None,
) -> Callable[[], dict[str, object]]:
    """Check a request, and give back the function that answers it; the model does not run yet.

    Every answer has a record that can be requested, unless the text is blank. A model that only
    reads has one record of the text. A target is an answer to look at instead of the model's own.
    """
    if run in registry.models:
        return registry.models[run].prepared(registry.records, text, target, max_tokens)
    served = reader(registry, run)
    trained, recipe = served.trained, served.trained.loaded.recipe
    text = text_of_line(recipe.data.train, text, "the text")
    limits = trained.limits(max_tokens, "predict", "max_tokens")
    if max_tokens is None:
        limits = replace(limits, max_tokens=_usual(trained))
    if target is not None and max_tokens is not None:
        raise SettingError(
            f"predict: target is the answer to look at, so max_tokens {max_tokens} limits none. "
            "Leave one of the two out."
        )
    # every answer needs a record of the whole text, so that no text is split or skipped
    trained.check_length(Request(text))
    if target is not None:
        trained.answer_tokens(target)
        return partial(_looked, registry, served, text, target)
    if trained.task.is_blank(trained, text):
        return partial(_unanswered, served, text)
    search = trained.default_search()
    if not 1 <= n_best <= search.width:
        raise SettingError(f"predict: n_best must be from 1 to {search.width}, got {n_best}.")
    if sampling is not None:
        _check_may_sample(trained)
        drawn = Sampling(n_samples=n_best, limits=limits, rules=search.rules, **dict(sampling))
        return partial(_searched, registry, served, text, drawn)
    search = replace(search, n_best=n_best, limits=limits)
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
    (answer,) = served.trained.predict([text])
    return _answered(
        served, text, [{"text": answer.text, "score": answer.score}], None, answer.note
    )


def _check_may_sample(trained: Trained) -> None:
    """Refuse to draw answers that are read off, or that another program searches for."""
    if not trained.task.is_searched or trained.engine is not None:
        raise SettingError(
            "predict: sampling draws an answer token by token with torch, which this run does not. "
            "Leave sampling out."
        )


def _searched(registry: Registry, served: Served, text: str, search: Search) -> dict[str, object]:
    """The answers that a search finds, each with a record of its own."""
    watched = WatchedSearch(search, served.busy)
    (answer,) = served.trained.predict([text], search=watched)
    read = served.trained.read(text)
    answers = [_with_words(registry, served, read, one) for one in watched.found[0]]
    return {"run": served.name, "source": text, "answers": answers, "note": answer.note}


def _read_off(registry: Registry, served: Served, text: str, search: Beam) -> dict[str, object]:
    """Answers that one pass over the text gives; they share one record."""
    trained = served.trained
    with held(served.busy):
        found = trained.task.answers_read_off(trained, text, search)
        record = trained.read_over(trained.read(text), [])
    answers: Sequence[Mapping[str, object]] = [
        {"text": one.text, "score": one.score, "filled": [*zip(one.tokens, shares, strict=True)]}
        for one, shares in zip(found.prediction.n_best, found.probabilities, strict=True)
    ] or [{"text": record.target, "score": None}]
    name = name_of_answer(served.key, text, None)
    registry.records.put(name, lambda: record)
    return _answered(served, text, answers, name, found.prediction.note)


def _looked(registry: Registry, served: Served, text: str, target: str) -> dict[str, object]:
    """The target of the request as an answer, with the record of a teacher-forced pass over it."""
    with held(served.busy):
        record = served.trained.look(text, target)
    name = name_of_answer(served.key, text, target)
    registry.records.put(name, lambda: record)
    return _answered(served, text, [{"text": record.target, "score": None}], name)


def _answered(
    served: Served,
    text: str,
    found: Sequence[Mapping[str, object]],
    record: str | None,
    note: str | None = None,
) -> dict[str, object]:
    """Answers that share one record."""
    answers = [{**one, "record": record, "words": []} for one in found]
    return {"run": served.name, "source": text, "answers": answers, "note": note}


def _with_words(
    registry: Registry, served: Served, read: str, one: Hypothesis
) -> dict[str, object]:
    loaded = served.trained.loaded
    # a language model that began a text itself read no source, so that there is no record
    name = name_of_answer(served.key, read, one.tokens) if read.strip() else None

    def look() -> Record:
        with held(served.busy):
            return served.trained.read_over(read, one.tokens)

    if name is not None:
        registry.records.put(name, look)
    names = [*map(loaded.target.readable, one.tokens), loaded.target.kind.special_names[EOS]]
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
        "attention": {
            kind: {
                **one.as_json(),
                "n_layers": len(one.layers),
                "n_heads": one.n_heads,
                "shown": offered(kept, kind),
            }
            for kind, one in kept.attention.items()
        },
    }


def weights(
    registry: Registry, name: str, kind: str, quantity: str, settings: QuantitySettings
) -> Matrices:
    """Every number of one kind and quantity, `layers heads queries keys`, if not too many."""
    kept = _short(registry, name, kind)
    return registry.matrices.computed(
        name_of_answer(name, kind, quantity, settings),
        lambda: numbers_of(kept, kind, quantity, settings).numpy().astype("<f4"),
    )


def visible(registry: Registry, name: str, kind: str, quantity: str) -> dict[str, object]:
    """For each layer and query the spans of keys that it may see; null where it is not known."""
    return {"layers": spans_of(_short(registry, name, kind), kind, quantity)}


def _short(registry: Registry, name: str, kind: str) -> Record:
    """A record whose numbers of a kind can be sent at once."""
    kept = registry.record(name)
    one = find(kind, kept.attention)
    if one.n_weights > MAX_JSON_WEIGHTS:
        raise LengthError(
            f"weights: {one.n_weights:,} numbers are too many to send at once; at most "
            f"{MAX_JSON_WEIGHTS:,}. Look at the text in the atlas, which asks for tiles."
        )
    return kept


def statistics(registry: Registry, name: str, kind: str) -> dict[str, object]:
    """Statistics of each head of a kind, from one in `every` queries of a long text."""
    kept = registry.record(name)
    every = max(1, len(find(kind, kept.attention).queries) // STATISTICS_ROWS)
    heads = [asdict(one) for one in head_statistics(kept, kind, every=every)]
    return {"every": every, "heads": heads}


def familiarity(served: Served, text: str) -> dict[str, object]:
    """Whether a text is unlike all that a run learned from; null if it is not."""
    trained = served.trained
    if not text.strip():
        return {"unlike": None}
    read = text_of_line(trained.loaded.recipe.data.train, text, "the text")
    return {"unlike": unlike_note(trained, served.familiar(), read)}
