"""Labelling: a label for each word of a text, or one label for all of it.

    p[label] = softmax over the labels of the training data, and nothing else

Every label has a probability, and those of a place sum to 1. Labels are independent given the text,
so that the likeliest labels of a text are the likeliest at each of its words.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.data import Corpus, Example
from regard.data.subword_kinds import EOS, SPECIALS
from regard.data.subwords import Subwords
from regard.decoding import Beam, Search
from regard.decoding.batching import BATCH_TOKENS, batches
from regard.decoding.sentences import Sentence, padded_tokens
from regard.errors import SettingError
from regard.evaluating.metrics import OF_LABELS, OF_TAGS, Measures
from regard.inspecting.record import Record
from regard.models import Reader
from regard.recipes.recipe import Recipe
from regard.tasks.input_format import normalised_text
from regard.tasks.labelled_texts import (
    LabelledTexts,
    check_counts,
    check_some_known,
    single_spaced,
    unknown_notes,
)
from regard.tasks.likeliest import likeliest_together
from regard.tasks.loaded_run import LoadedRun
from regard.tasks.predictions import (
    Answer,
    AnswerOptions,
    Prediction,
    ReadOnlyAnswers,
    Request,
    WordCandidate,
    answer_line,
    check_no_search,
    joined,
    left_out,
    one_line,
)
from regard.tasks.samples import WordLooks, strongest_links
from regard.tasks.searched_texts import pieces_of
from regard.tasks.task import NO_CACHE, NO_POINTING, Task
from regard.tasks.word_links import check_links

NO_PARTS_OF_LABELS = "it counts equal parts of texts, but a label is right or wrong as a whole"


@final
class Labelling(Task):
    """A model gives labels, one for each word or one for the whole text."""

    does = "gives labels"
    needs_kind = "encoder"
    sources = LabelledTexts()
    is_searched = False
    has_free_length = False
    how_answered = "the likeliest labels"
    why_no_search = "labels are read off the text and not searched for"
    loss_unit = "label"
    meaningless: Mapping[str, str] = {
        **dict.fromkeys(("bleu", "chrf", "ter", "rouge", "captions"), NO_PARTS_OF_LABELS),
        "cache": NO_CACHE,
        "pointing": NO_POINTING,
    }
    has_probabilities = True

    def __init__(self, *, is_per_token: bool) -> None:
        self.is_per_token = self.labels_words = is_per_token
        self.answers_whole = not is_per_token

    def verb(self, recipe: Recipe) -> str:
        """Tags for tokens, or the class of a text."""
        return "Tag" if self.is_per_token else "Classify"

    def as_trained(self, recipe: Recipe, examples: Iterable[Example]) -> list[Example]:
        """Normalised examples, without spaces around their labels."""
        return [
            replace(one, targets=tuple(label.strip() for label in one.targets))
            for one in super().as_trained(recipe, examples)
        ]

    def read_text(self, recipe: Recipe, text: str) -> str:
        """A text normalised as the training data are, with single spaces between labelled words."""
        read = normalised_text(recipe, text)
        return single_spaced(read) if self.is_per_token else read

    def default_metrics(self, recipe: Recipe) -> Sequence[str]:
        """How many labels and whole texts are right, the scores of each label, and the loss."""
        return ("accuracy", "labels", "exact", "loss")

    def measures(self, recipe: Recipe) -> Measures:
        """The share of right labels, and of texts of which all are right."""
        return OF_TAGS if self.is_per_token else OF_LABELS

    def stays_whole(self, recipe: Recipe) -> bool:
        """True for one label per text, which needs the whole text."""
        return not self.is_per_token or super().stays_whole(recipe)

    def check_corpus(self, recipe: Recipe, corpus: Corpus, rows: np.ndarray, name: str) -> None:
        """Refuse rows with a wrong number of labels for their text."""
        check_counts(recipe, corpus, rows, name)

    def check_references(self, run: LoadedRun, examples: Sequence[Example], who: str) -> None:
        """Refuse references without any label that training had."""
        check_some_known(who, examples, run.loaded.target, run.loaded.recipe)

    def notes_on(self, run: LoadedRun, examples: Sequence[Example]) -> Iterator[str]:
        """Labels that training never had."""
        return unknown_notes("references", examples, run.loaded.target, run.loaded.recipe)

    def answer_each(
        self, run: LoadedRun, requests: Sequence[Request], options: AnswerOptions
    ) -> Iterator[tuple[int, Prediction]]:
        """The labels of each text, with their probabilities."""
        if options.has_alignments or options.dictionary is not None:
            check_links(run.loaded)
        check_no_search("gives labels", [*requests], options)
        whole = self.stays_whole(run.loaded.recipe)
        pieces = pieces_of(run, requests, options.on_long, stays_whole=whole)
        yield from left_out(requests, pieces, run.longest)
        counts = Counter(place for place, _ in pieces)
        answered: dict[int, dict[int, Prediction]] = defaultdict(dict)
        for number, found in self._labelled(run, [one for _, one in pieces], options):
            place = pieces[number][0]
            parts = answered[place]
            parts[number] = found.prediction
            if len(parts) == counts[place]:
                yield place, joined(requests[place], [parts[key] for key in sorted(parts)])

    def stream(self, run: LoadedRun, request: Request, search: Search) -> Iterator[str]:
        """The answer, which is known at once."""
        run.check_length(request)
        yield self.sample_answer(run, request.text, search)

    def answers_read_off(self, run: LoadedRun, text: str, search: Search) -> ReadOnlyAnswers:
        """The likeliest labels of a text."""
        ((_, found),) = self._labelled(run, [Request(text)], AnswerOptions(search))
        return found

    def look_at_own(self, run: LoadedRun, text: str, search: Search | None) -> Record:
        """Where the model looked as it read, which does not depend on the labels."""
        found = self.answers_read_off(run, text, search or run.default_search())
        return replace(run.read_over(run.read(text), []), target=found.prediction.text)

    def sample_links(
        self, run: LoadedRun, text: str, answer: str, search: Search
    ) -> tuple[WordLooks, ...]:
        """What each word looked at, or the begin token, from which a text's label is read off."""
        record = run.read_over(run.read(text), [])
        if self.is_per_token:
            return strongest_links(record)
        return tuple(replace(one, word=answer) for one in strongest_links(record, rows=[0]))

    def answer_line(self, answer: Prediction) -> str:
        """The label of a text with its probability, or the tags of its words."""
        if self.is_per_token or any(len(one) > 1 for one in answer.candidates):
            return answer_line(answer)
        sure = [f"{one.probability:.4f}" for (one,) in answer.candidates]
        return "\t".join([one_line(answer.text), *sure])

    def _labelled(
        self, run: LoadedRun, requests: Sequence[Request], options: AnswerOptions
    ) -> Iterator[tuple[int, ReadOnlyAnswers]]:
        """The number of each text and its labels, batch by batch."""
        source, n_best = run.loaded.source, 1
        if isinstance(options.search, Beam):
            n_best = options.search.n_best
        rows = [[*source.encode(run.read(one.text)), EOS] for one in requests]
        for batch in batches([Sentence(row) for row in rows], BATCH_TOKENS):
            logs = _log_probabilities(run, [rows[number] for number in batch])
            for number, each in zip(batch, logs, strict=True):
                places = each[: _n_words(source, rows[number]) if self.is_per_token else 1]
                n_shown = places.shape[-1] if options.has_probabilities else 1
                yield number, self._answers(run, requests[number], places, n_best, n_shown)

    def _answers(
        self,
        run: LoadedRun,
        request: Request,
        logs: Float[Tensor, "n l"],
        n_best: int,
        n_shown: int,
    ) -> ReadOnlyAnswers:
        """The `n_best` likeliest labels together, and `n_shown` of those of each place."""
        best = logs.topk(min(max(n_best, n_shown), logs.shape[-1]))
        places = [
            [
                (run.loaded.target.readable(number + len(SPECIALS)), score)
                for number, score in zip(numbers, scores, strict=True)
            ]
            for numbers, scores in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
        ways = likeliest_together(places, n_best)
        answers = [
            Answer(" ".join(label for label, _ in way), score, tuple(label for label, _ in way))
            for way, score in ways
        ]
        candidates = tuple(
            tuple(WordCandidate(label, math.exp(score)) for label, score in place[:n_shown])
            for place in places
        )
        found = Prediction.of(request.text, answers, note=None)
        sure = tuple(tuple(math.exp(score) for _, score in way) for way, _ in ways)
        return ReadOnlyAnswers(replace(found, candidates=candidates), sure)


def _n_words(source: Subwords, row: Sequence[int]) -> int:
    """How many words a row has before its end token; the later pieces of a word are marked."""
    begins = row if source.kind.words_are_pieces else [i for i in row if i < len(source)]
    return len(begins) - 1


@torch.inference_mode()
def _log_probabilities(run: LoadedRun, rows: Sequence[Sequence[int]]) -> Float[Tensor, "b n l"]:
    """The logarithm of the probability of every label at each place; of several runs the mean."""
    tokens, each = padded_tokens(rows, run.hardware.device), []
    for model in (run.loaded.model, *(one.model for one in run.others)):
        if not isinstance(model, Reader):
            raise SettingError("predict: labels are given together by runs of labels alone.")
        with run.hardware.products():
            # double, so that the probabilities of many labels sum to 1
            each.append(model.logits(tokens).double().log_softmax(-1))
    return (torch.stack(each).logsumexp(0) - math.log(len(each))).cpu()
