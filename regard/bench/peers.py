"""Our Transformer in two other libraries, from the files that `regard export` writes.

Their vocabulary is Marian's: pieces stand in another order (`order_of`), and there is no padding.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from regard.interop.exporting.as_marian import as_marian
from regard.interop.exporting.huggingface import order_of, write_marian
from regard.models import Transformer, TransformerSpec
from regard.models.stepper import EOS, UNK
from regard.training.checkpoints import distinct_tensors


def as_huggingface(spec: TransformerSpec, model: Transformer, folder: Path) -> Any:
    """The same function as a `MarianMTModel`; its files go to the folder."""
    from transformers import MarianMTModel

    write_marian(folder, *as_marian(spec, distinct_tensors(model)))
    theirs: Any = MarianMTModel.from_pretrained(folder)
    # all answers have equal length, so the last token does not matter; begin is never likely
    theirs.generation_config.forced_eos_token_id = theirs.generation_config.bad_words_ids = None
    return theirs.eval()


@torch.no_grad()
def as_ctranslate2(spec: TransformerSpec, model: Transformer, folder: Path, *, threads: int) -> Any:
    """The same function as a CTranslate2 `Translator` in float32; its files go to the folder."""
    import ctranslate2
    from ctranslate2.converters.transformers import MarianMTLoader

    converted = MarianMTLoader().get_model_spec(as_huggingface(spec, model, folder))
    # CTranslate2 begins from a vector of zeros, without a piece for it
    words = names_of(order_of(model.output.out_features)[:-1])
    converted.register_source_vocabulary(words)
    converted.register_target_vocabulary(words)
    converted.config.eos_token, converted.config.unk_token = names_of([EOS, UNK])
    converted.config.decoder_start_token = converted.config.eos_token
    converted.validate()
    converted.save(str(folder))
    return ctranslate2.Translator(
        str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=threads
    )


def names_of(tokens: Iterable[int]) -> list[str]:
    """The names of our tokens in a vocabulary of strings."""
    return [f"t{token}" for token in tokens]
