"""a finished run → a folder that another library reads."""

from collections.abc import Mapping
from pathlib import Path

from regard.errors import SettingError
from regard.interop.exporting.ctranslate2 import export_ctranslate2
from regard.interop.exporting.exported import Export, Exported
from regard.interop.exporting.huggingface import export_huggingface
from regard.interop.exporting.onnx import export_onnx


def _huggingface(run: Path, out: Path, quantization: str | None) -> Exported:
    if quantization is not None:
        raise SettingError(
            "export: --quantization is for CTranslate2; Hugging Face's layout holds float32. Leave "
            "it out, or take --to ctranslate2."
        )
    return export_huggingface(run, out)


TARGETS: Mapping[str, Export] = {
    "ctranslate2": export_ctranslate2,
    "huggingface": _huggingface,
    "onnx": export_onnx,
}
"""What `regard export --to` may name."""

__all__ = ["TARGETS", "Exported", "export_ctranslate2", "export_huggingface", "export_onnx"]
