"""Models by their name on a hub: found in its cache on this machine, else fetched.

HF_HUB_CACHE, or HF_HOME/hub, or ~/.cache/huggingface/hub
models--owner--name/
refs/main              the revision that a name means
snapshots/REVISION/    a folder whose files are links to ../../blobs
"""

import os
import re
from pathlib import Path

from regard.errors import CheckpointError
from regard.interop.importing.folder import CACHED, CONFIG, SNAPSHOTS

NAME = re.compile(r"[\w.-]+/[\w.-]+")
"""An owner and a model, as a hub names them."""
REVISION = re.compile(r"[\w.-]+")
FILES = ["*.json", "*.safetensors", "*.txt", "*.spm", "*.model"]
"""What is fetched: data, and no code and no pickle."""


def folder_named(name: str, who: str) -> Path:
    """The folder that a path or a hub's name means; errors begin with `who`."""
    path = Path(name)
    if path.name.startswith(CACHED) and (path / SNAPSHOTS).is_dir():
        return _revision(path) or path
    if path.exists() or not NAME.fullmatch(name) or name.startswith("."):
        return path
    kept = cache() / f"{CACHED}{name.replace('/', '--')}"
    return _revision(kept) or _fetched(name, who, kept)


def cache() -> Path:
    """Where the hub's library keeps what it fetched."""
    if named := os.environ.get("HF_HUB_CACHE"):
        return Path(named).expanduser()
    home = os.environ.get("HF_HOME")
    return (Path(home).expanduser() if home else Path.home() / ".cache" / "huggingface") / "hub"


def _revision(kept: Path) -> Path | None:
    """The folder of a model's main revision, if it is in the cache."""
    main = kept / "refs" / "main"
    said = main.read_text(errors="replace").strip() if main.is_file() else ""
    named = kept / SNAPSHOTS / said
    if REVISION.fullmatch(said) and (named / CONFIG).is_file():
        return named
    others = sorted(kept.glob(f"{SNAPSHOTS}/*/{CONFIG}"))
    return others[0].parent if len(others) == 1 else None


def _fetched(name: str, who: str, kept: Path) -> Path:
    """A model fetched from the hub, or an error that names where it was looked for."""
    missing = f"{who}: there is no folder '{name}', and no model of that name in '{kept}'"
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise CheckpointError(
            f"{missing}. Give a folder, or let the hub's library fetch it: pip install "
            "'regard[transformers]'."
        ) from error
    try:
        return Path(snapshot_download(name, allow_patterns=FILES, cache_dir=cache()))
    except Exception as error:  # the library raises errors of many kinds
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise CheckpointError(
            f"{missing}; fetching it failed: {reason}. Give a folder that is already here, or say "
            "with HF_HOME where the cache is."
        ) from error
