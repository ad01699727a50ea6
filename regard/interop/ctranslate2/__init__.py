"""CTranslate2: a portable model as its specification, a folder that it reads, and its searches."""

from regard.interop.ctranslate2.engine import CTranslate2
from regard.interop.ctranslate2.folder import write_model
from regard.interop.ctranslate2.model_specs import model_spec

__all__ = ["CTranslate2", "model_spec", "write_model"]
