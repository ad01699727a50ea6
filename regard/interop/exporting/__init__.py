"""a finished run → a folder that another library reads."""

from collections.abc import Callable, Mapping
from pathlib import Path

from regard.interop.exporting.huggingface import export_huggingface

TARGETS: Mapping[str, Callable[[Path, Path], tuple[str, ...]]] = {"huggingface": export_huggingface}
"""What `regard export --to` may name; each gives back the names of the files it wrote."""

__all__ = ["TARGETS", "export_huggingface"]
