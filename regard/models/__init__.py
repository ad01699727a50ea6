"""tokens → logits: models made of layers, and what every decoder may rely on."""

from regard.models.building import (
    build_language_model,
    build_transformer,
    transformer_shapes,
)
from regard.models.language_model import LanguageModel
from regard.models.learning import Learner, Lesson
from regard.models.spec import SIZES, TransformerSpec
from regard.models.stepping import Stepper
from regard.models.transformer import Transformer

__all__ = [
    "SIZES",
    "LanguageModel",
    "Learner",
    "Lesson",
    "Stepper",
    "Transformer",
    "TransformerSpec",
    "build_language_model",
    "build_transformer",
    "transformer_shapes",
]
