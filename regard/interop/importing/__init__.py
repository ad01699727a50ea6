"""a folder that another library wrote → a run directory; one file for each family of models."""

from regard.interop.importing.family import Family
from regard.interop.importing.folder import Folder
from regard.interop.importing.hub_cache import folder_named
from regard.interop.importing.published import FAMILIES, Imported, import_run, read_published

__all__ = [
    "FAMILIES",
    "Family",
    "Folder",
    "Imported",
    "folder_named",
    "import_run",
    "read_published",
]
