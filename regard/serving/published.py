"""Models of transformers in the studio: looked at as `regard look --model` looks at them.

They are no runs: they have no recipe, no training and no gold links. They answer a text or a
picture with a record, and what the page shows of a record is the same for all.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import ClassVar, final

import torch

import regard
from regard.errors import SettingError
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.record import Record
from regard.interop.transformers_folder import PublishedModel
from regard.interop.transformers_pictures import look_at_picture
from regard.interop.transformers_texts import TextLook
from regard.serving.lru_cache import LruCache, name_of_answer
from regard.serving.request_limits import held

WHO = "serve: --model"
WHY_NO_EXAMPLES = "a model of transformers comes without the texts or pictures it learned from"


@final
@dataclass(frozen=True)
class ServedModel:
    """One model of transformers, and its lock."""

    name: str
    published: PublishedModel
    busy: RLock = field(default_factory=RLock)
    """Held while the model computes."""

    version: ClassVar[str] = ""
    """Its weights stay as they are."""
    verb: ClassVar[str] = "Look"
    """What the page calls the view of its answers."""

    @property
    def key(self) -> str:
        """A part of the names of its answers."""
        return self.name

    @property
    def reads(self) -> str:
        """The kind of its sources: "texts" or "pictures"."""
        return "pictures" if self.published.reads_pictures else "texts"

    def info(self) -> dict[str, object]:
        """The facts about it that the page shows, under the names that those of a run have."""
        model, is_text = self.published.model, self.reads == "texts"
        tokens = len(self.published.reader) if is_text else 0
        return {
            "name": self.name,
            "is_ready": True,
            "version": self.version,
            "step": None,
            "verb": self.verb,
            "labels_words": False,
            "may_sample": False,
            "reads": self.reads,
            "model": model.config.model_type,
            "settings": {
                name: value
                for name, value in model.config.to_dict().items()
                if isinstance(value, bool | int | float | str)
            },
            "parameters": sum(one.numel() for one in model.parameters()),
            "longest": TextLook(self.published).longest if is_text else 1,
            "reads_answers": bool(model.config.is_encoder_decoder),
            "usual_answer": None,
            "source_tokens": tokens,
            "target_tokens": tokens,
            "device": str(model.device),
            "engine": "torch",
            "examples": [],
            "why_no_examples": WHY_NO_EXAMPLES,
            "has_metrics": False,
            "versions": {"regard": regard.__version__, "torch": torch.__version__},
        }

    def prepared(
        self, records: LruCache[Record], text: str, target: str | None, max_tokens: int | None
    ) -> Callable[[], dict[str, object]]:
        """The function that answers a text; the model does not run yet."""
        if self.reads != "texts":
            raise SettingError(f"predict: '{self.name}' reads pictures, not texts. Send it one.")
        return partial(self._answered, records, text, target, max_tokens)

    def look_at_picture(self, address: str) -> CaptionRecord:
        """Where the model's own tokens look in a picture."""
        with held(self.busy):
            return look_at_picture(self.published, address)

    def _answered(
        self, records: LruCache[Record], text: str, target: str | None, max_tokens: int | None
    ) -> dict[str, object]:
        with held(self.busy):
            found = TextLook(self.published).record(text, target, max_tokens=max_tokens)
        name = name_of_answer(self.name, text, target, max_tokens)
        records.put(name, lambda: found)
        answer: dict[str, object] = {
            "text": found.target,
            "score": None,
            "record": name,
            "words": [],
        }
        return {"run": self.name, "source": found.source, "answers": [answer], "note": found.note}
