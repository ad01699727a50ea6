"""Folders of small random models and tokenizers of a few words, as save_pretrained writes them."""

from functools import cache
from pathlib import Path
from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from tests.bridge.small_models import VOCABULARY, model_of

WORDS = "the quick brown fox jumps over a lazy dog while it reads every word of this sentence"
SPECIALS = ["<pad>", "<s>", "</s>", "<unk>", "<mask>"]


@cache
def tokenizer(*, begins: bool, ends: bool) -> Any:
    """Byte pairs of the sentence, with special tokens around a text."""
    cut = Tokenizer(models.BPE(unk_token="<unk>"))
    cut.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    cut.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIALS, show_progress=False
    )
    cut.train_from_iterator([WORDS] * 3, trainer)
    around = " ".join([*["<s>"] * begins, "$A", *["</s>"] * ends])
    cut.post_processor = processors.TemplateProcessing(
        single=around, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=cut, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", mask_token="<mask>",
    )  # fmt: skip


AROUND = {"llama": (True, False), "gpt2": (False, False), "bert": (True, True)}
"""Whether a text of a model begins and ends with a special token."""


def folder_of(name: str, path: Path, **more: Any) -> Path:
    """Write the folder of a model."""
    folder = path / name
    model_of(name, **more).save_pretrained(folder)
    if name == "vit":
        size = more.get("image_size", 12)
        transformers.ViTImageProcessorPil(size={"height": size, "width": size}).save_pretrained(
            folder
        )
    else:
        begins, ends = AROUND.get(name, (False, True))
        tokenizer(begins=begins, ends=ends).save_pretrained(folder)
    return folder
