"""tokens → logits: models made of layers, and what every decoder may rely on."""

from regard.models.bert import Classifier, Encoder, MaskedLanguageModel, Tagger
from regard.models.building import (
    MODELS,
    build_classifier,
    build_language_model,
    build_masked_language_model,
    build_tagger,
    build_transformer,
    model_shapes,
    transformer_shapes,
)
from regard.models.language_model import LanguageModel
from regard.models.learning import Learner, Lesson
from regard.models.masking import MASK, Masked, masked
from regard.models.spec import SIZES, TransformerSpec
from regard.models.stepping import Stepper
from regard.models.transformer import Transformer

__all__ = [
    "MASK",
    "MODELS",
    "SIZES",
    "Classifier",
    "Encoder",
    "LanguageModel",
    "Learner",
    "Lesson",
    "Masked",
    "MaskedLanguageModel",
    "Stepper",
    "Tagger",
    "Transformer",
    "TransformerSpec",
    "build_classifier",
    "build_language_model",
    "build_masked_language_model",
    "build_tagger",
    "build_transformer",
    "masked",
    "model_shapes",
    "transformer_shapes",
]
