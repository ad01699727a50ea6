"""tokens → logits: models made of layers, and what every decoder may rely on."""

from regard.models.bert import Classifier, Encoder, MaskedLanguageModel, Tagger
from regard.models.building import build_language_model, build_transformer
from regard.models.captioner.building import build_captioner
from regard.models.captioner.network import Captioner
from regard.models.captioner.spec import CaptionerSpec
from regard.models.convolutional.building import build_convolutional
from regard.models.convolutional.network import Convolutional
from regard.models.convolutional.spec import ConvolutionalSpec
from regard.models.encoders.building import build_encoder
from regard.models.encoders.reader import Reader
from regard.models.encoders.spec import EncoderSpec
from regard.models.kinds import KINDS, NAMED, Spec, build_model, shapes_of
from regard.models.language.spec import ExpertsSpec, LanguageSpec
from regard.models.language_model import LanguageModel
from regard.models.learner import Learner, Lesson
from regard.models.masking import MASK, Masked, masked
from regard.models.model import Model
from regard.models.published.gpt2 import Gpt2Spec, build_gpt2
from regard.models.published.marian import MarianSpec, build_marian
from regard.models.recurrent.building import build_recurrent
from regard.models.recurrent.network import Recurrent
from regard.models.recurrent.spec import RecurrentSpec
from regard.models.spec import SIZES, TransformerSpec
from regard.models.stepper import Stepper
from regard.models.transformer import Transformer

__all__ = [
    "KINDS",
    "MASK",
    "NAMED",
    "SIZES",
    "Captioner",
    "CaptionerSpec",
    "Classifier",
    "Convolutional",
    "ConvolutionalSpec",
    "Encoder",
    "EncoderSpec",
    "ExpertsSpec",
    "Gpt2Spec",
    "LanguageModel",
    "LanguageSpec",
    "Learner",
    "Lesson",
    "MarianSpec",
    "Masked",
    "MaskedLanguageModel",
    "Model",
    "Reader",
    "Recurrent",
    "RecurrentSpec",
    "Spec",
    "Stepper",
    "Tagger",
    "Transformer",
    "TransformerSpec",
    "build_captioner",
    "build_convolutional",
    "build_encoder",
    "build_gpt2",
    "build_language_model",
    "build_marian",
    "build_model",
    "build_recurrent",
    "build_transformer",
    "masked",
    "shapes_of",
]
