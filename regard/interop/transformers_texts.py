"""What a text model of transformers looks at, as a record in the words of its own tokenizer.

TextLook(open_folder("folder")).record("to be or not to be")
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor

from regard.bridge import capture
from regard.errors import CheckpointError, DataError, LengthError, SettingError
from regard.inspecting.capture import versions
from regard.inspecting.record import Attention, Record
from regard.inspecting.token_labels import Span, Tokens
from regard.interop.transformers_folder import WHO, PublishedModel, quiet

EMPTY = "look: the text is empty; there is nothing to look at. Give a sentence."
MORE_TOKENS = 50
"""How many tokens an answer may be longer than its text, unless the caller says."""


@final
@dataclass(frozen=True)
class TextLook:
    """A model that reads texts: an encoder, a language model, or one that answers."""

    published: PublishedModel

    def record(
        self, text: str, target: str | None = None, *, max_tokens: int | None = None
    ) -> Record:
        """Where it looks in a text, and in its answer if it writes one; `target` is one to look at.

        A model that only continues texts reads the text, and writes `max_tokens` more.
        """
        if not text.strip():
            raise DataError(
                "look: the text is empty; there is nothing to look at. Give a sentence."
            )
        ids = self._ids(text)
        read = self._tokens(ids, text)
        if self.published.model.config.is_encoder_decoder:
            return self._look_at_answer(text, ids, read, target, max_tokens)
        if target is not None:
            raise SettingError(
                f"look: {self._name} reads a text at once, so --target would change nothing. Leave "
                "it out."
            )
        if max_tokens is not None:
            ids = self._continued(ids, max_tokens)
            text = self._text(ids)
            read = self._tokens(ids, None)
        with torch.no_grad(), capture(self.published.model) as record:
            self.published.model(input_ids=torch.tensor([ids]), **self._without_cache())
        return self._record(record, text, "", dict.fromkeys(record.attention, (read, read)))

    def _look_at_answer(
        self, text: str, ids: list[int], read: Tokens, target: str | None, max_tokens: int | None
    ) -> Record:
        source = torch.tensor([ids])
        if target is None:
            written = self._written(source, max_tokens)
        else:
            written = list(self.published.reader(text_target=target)["input_ids"])
            self._check(written, "the target")
        begin = self.published.model.config.decoder_start_token_id
        given = torch.tensor([[begin, *written[:-1]]])
        with torch.no_grad(), capture(self.published.model) as record:
            self.published.model(input_ids=source, decoder_input_ids=given, **self._without_cache())
        predicted = self._tokens(written, None)
        before = self._tokens(given[0].tolist(), None)
        tokens = {
            "encoder": (read, read),
            "decoder": (predicted, before),
            "cross": (predicted, read),
        }
        return self._record(record, text, self._text(written), tokens)

    def _written(self, source: Tensor, max_tokens: int | None) -> list[int]:
        wished = source.shape[-1] + MORE_TOKENS if max_tokens is None else max_tokens
        # the begin takes a place
        return self._generated(source, min(wished, self.longest - 1))[1:]

    def _continued(self, ids: list[int], max_tokens: int) -> list[int]:
        if not self.published.model.can_generate():
            raise SettingError(
                f"look: {self._name} writes no words, so --max-tokens {max_tokens} would change "
                "nothing. Leave it out."
            )
        return self._generated(torch.tensor([ids]), min(max_tokens, self.longest - len(ids)))

    def _generated(self, ids: Tensor, max_tokens: int) -> list[int]:
        with torch.no_grad(), quiet():
            found = self.published.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=max(1, max_tokens),
                do_sample=False,
            )
        return [int(i) for i in found[0]]

    def _record(
        self,
        found: Record,
        text: str,
        answer: str,
        tokens: dict[str, tuple[Tokens, Tokens]],
    ) -> Record:
        """The record with the words of each side."""
        kinds: dict[str, Attention] = {}
        for kind, one in found.attention.items():
            queries, keys = tokens.get(kind, (one.queries, one.keys))
            fits = (len(queries), len(keys)) == (len(one.queries), len(one.keys))
            kinds[kind] = replace(one, queries=queries, keys=keys) if fits else one
        return Record(text, answer, kinds, versions=versions(), note=found.note)

    def _without_cache(self) -> dict[str, bool]:
        return {"use_cache": False} if hasattr(self.published.model.config, "use_cache") else {}

    def _ids(self, text: str) -> list[int]:
        ids = list(self.published.reader(text)["input_ids"])
        self._check(ids, "the text")
        return ids

    def _check(self, ids: Sequence[int], what: str) -> None:
        known = self.published.model.get_input_embeddings().num_embeddings
        if not ids:
            raise DataError(f"look: {what} has no tokens for this model. Give a sentence.")
        if max(ids) >= known:
            raise CheckpointError(
                f"{WHO}: '{self.published.folder.path}' has a tokenizer with a token {max(ids)}, "
                f"and {self._name} knows {known:,}: they are of different models. Fetch both from "
                "one place."
            )
        if len(ids) > self.longest:
            raise LengthError(
                f"look: {what} has {len(ids):,} tokens, and the model reads {self.longest:,}. Give "
                "a shorter one."
            )

    @property
    def _name(self) -> str:
        return type(self.published.model).__name__

    @property
    def longest(self) -> int:
        """The most tokens that the model reads."""
        config, ours = (
            self.published.model.config.get_text_config(),
            self.published.reader.model_max_length,
        )
        return int(min(getattr(config, "max_position_embeddings", None) or ours, ours))

    def _text(self, ids: Sequence[int]) -> str:
        return str(self.published.reader.decode(ids, skip_special_tokens=True)).strip()

    def _tokens(self, ids: Sequence[int], text: str | None) -> Tokens:
        """Tokens with the words that they make; a special one is a word of its own."""
        special = set(self.published.reader.all_special_ids)
        if text is not None and self.published.reader.is_fast:
            spans = self.published.reader(text, return_offsets_mapping=True)["offset_mapping"]
        else:
            text, spans = self._decoded(ids, special)
        pieces: list[tuple[str, Span | None]] = []
        for i, (first, last) in zip(ids, spans, strict=True):
            # a token without characters, such as a begin, stands for no part of the text
            is_special = i in special or first == last
            name = (
                str(self.published.reader.convert_ids_to_tokens(i))
                if is_special
                else text[first:last]
            )
            before = " " if not is_special and text[:first][-1:].isspace() else ""
            pieces.append((before + name, None if is_special else (first, last)))
        return Tokens.of(text, pieces)

    def _decoded(self, ids: Sequence[int], special: set[int]) -> tuple[str, list[Span]]:
        """The text of the tokens, and the characters of each."""
        kept: list[int] = []
        ends = []
        for i in ids:
            kept += [] if i in special else [i]
            ends.append(len(self.published.reader.decode(kept)) if kept else 0)
        whole = str(self.published.reader.decode(kept)) if kept else ""
        starts = [0, *ends[:-1]]
        spans = [(min(a, b), b) for a, b in zip(starts, ends, strict=True)]
        return whole, spans
