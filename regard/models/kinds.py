"""Kinds of models, by the name that a recipe gives them: what builds each, and its named sizes.

Most read a source and write a text; language models and encoders are in the table too.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from regard.choices import find
from regard.models.captioner.network import build_captioner
from regard.models.captioner.spec import PAPERS as CAPTIONERS
from regard.models.captioner.spec import CaptionerSpec
from regard.models.convolutional.network import build_convolutional
from regard.models.convolutional.spec import ConvolutionalSpec
from regard.models.encoders.reader import build_encoder
from regard.models.encoders.spec import ENCODER_SIZES, EncoderSpec
from regard.models.language.spec import LanguageSpec
from regard.models.language_model import build_writer
from regard.models.model import Model
from regard.models.published.bart import BartSpec, build_bart
from regard.models.published.gpt2 import Gpt2Spec, build_gpt2
from regard.models.published.llama import LlamaSpec, build_llama
from regard.models.published.marian import MarianSpec, build_marian
from regard.models.published.t5 import T5Spec, build_t5
from regard.models.recurrent.network import build_recurrent
from regard.models.recurrent.spec import PAPERS, RecurrentSpec
from regard.models.spec import SIZES, TransformerSpec
from regard.models.transformer import build_transformer

Spec = (
    TransformerSpec
    | RecurrentSpec
    | ConvolutionalSpec
    | CaptionerSpec
    | LanguageSpec
    | EncoderSpec
    | MarianSpec
    | BartSpec
    | T5Spec
    | Gpt2Spec
    | LlamaSpec
)
"""The [model] section of a recipe; `model.kind` chooses one."""

KINDS: Mapping[str, Callable[..., Model]] = {
    "transformer": build_transformer,
    "recurrent": build_recurrent,
    "convolutional": build_convolutional,
    "captioner": build_captioner,
    "language_model": build_writer,
    "encoder": build_encoder,
    "marian": build_marian,
    "bart": build_bart,
    "t5": build_t5,
    "gpt2": build_gpt2,
    "llama": build_llama,
}
"""The function that builds the model of a spec."""

NAMED_SIZES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "transformer": SIZES,
    "recurrent": PAPERS,
    "captioner": CAPTIONERS,
    "encoder": ENCODER_SIZES,
}
"""The names that `model.size` may have, by kind."""


def build_model(spec: Spec, *, n_source_tokens: int, n_target_tokens: int) -> Model:
    """Make the model of a recipe for the vocabularies of its two sides."""
    build = find(spec.kind, KINDS)
    return build(spec, n_source_tokens=n_source_tokens, n_target_tokens=n_target_tokens)


def shapes_of(
    spec: Spec, *, n_source_tokens: int, n_target_tokens: int
) -> dict[str, tuple[int, ...]]:
    """The shapes of its weights; no numbers are made."""
    with torch.device("meta"):
        model = build_model(spec, n_source_tokens=n_source_tokens, n_target_tokens=n_target_tokens)
    return {name: tuple(weight.shape) for name, weight in model.named_parameters()}
