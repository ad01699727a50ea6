"""tokens → logits: models made of layers, and the interface that every decoder relies on."""

from regard.models.attention_spec import AttentionSpec
from regard.models.bert import Classifier, Encoder, MaskedLanguageModel, Tagger
from regard.models.captioner.network import Captioner, build_captioner
from regard.models.captioner.spec import CaptionerSpec
from regard.models.convolutional.network import Convolutional, build_convolutional
from regard.models.convolutional.spec import ConvolutionalSpec
from regard.models.encoders.reader import Reader, build_encoder
from regard.models.encoders.spec import EncoderSpec
from regard.models.experts_spec import ExpertsSpec
from regard.models.kinds import KINDS, NAMED_SIZES, Spec, build_model, shapes_of
from regard.models.language.spec import LanguageSpec
from regard.models.language_model import LanguageModel, build_language_model
from regard.models.masking import MASK, Masked, masked
from regard.models.model import Model
from regard.models.published.bart import BartSpec, build_bart
from regard.models.published.gpt2 import Gpt2Spec, build_gpt2
from regard.models.published.llama import LlamaSpec, build_llama
from regard.models.published.marian import MarianSpec, build_marian
from regard.models.published.t5 import T5Spec, build_t5
from regard.models.recurrent.network import Recurrent, build_recurrent
from regard.models.recurrent.spec import RecurrentSpec
from regard.models.spec import SIZES, TransformerSpec
from regard.models.stepper import Stepper
from regard.models.trainable import LossInputs, Trainable
from regard.models.transformer import Transformer, build_transformer

__all__ = [
    "KINDS",
    "MASK",
    "NAMED_SIZES",
    "SIZES",
    "AttentionSpec",
    "BartSpec",
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
    "LlamaSpec",
    "LossInputs",
    "MarianSpec",
    "Masked",
    "MaskedLanguageModel",
    "Model",
    "Reader",
    "Recurrent",
    "RecurrentSpec",
    "Spec",
    "Stepper",
    "T5Spec",
    "Tagger",
    "Trainable",
    "Transformer",
    "TransformerSpec",
    "build_bart",
    "build_captioner",
    "build_convolutional",
    "build_encoder",
    "build_gpt2",
    "build_language_model",
    "build_llama",
    "build_marian",
    "build_model",
    "build_recurrent",
    "build_t5",
    "build_transformer",
    "masked",
    "shapes_of",
]
