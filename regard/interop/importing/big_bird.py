"""BigBird's layout: BERT's tensors, and a pattern.

Paper: Zaheer et al. 2020.
"""

from dataclasses import replace

from regard.choices import Choice
from regard.interop.importing import bert
from regard.interop.importing.family import READS, Family, Roles, always
from regard.interop.importing.folder import Folder
from regard.models import EncoderSpec

ATTENTION_TYPES = ("block_sparse", "original_full")


def spec_of(folder: Folder) -> EncoderSpec:
    """config.json → [model]."""
    folder.check_switches({"attention_type": ATTENTION_TYPES, "rescale_embeddings": (False, True)})
    spec = replace(bert.spec_of(folder), is_scaled=folder.config.get("rescale_embeddings") is True)
    if folder.config.get("attention_type", ATTENTION_TYPES[0]) == "original_full":
        return spec
    settings = {
        "block": folder.setting(int, "block_size"),
        "n_random": folder.setting(int, "num_random_blocks"),
        "has_random_links": False,
        "is_full_when_short": True,
    }
    return replace(spec, pattern=Choice("published_big_bird", settings))


def notes_on(folder: Folder) -> tuple[str, ...]:
    """Notes on tensors that are left out, and on faults of the original that are kept."""
    faults = (
        "as the library that it comes from evaluates it: no random blocks (the first block counts "
        "several times instead), and full attention in short texts; model.pattern says so, and "
        "has_random_links = true or is_full_when_short = false change it"
    )
    is_full = folder.config.get("attention_type") == "original_full"
    return (*bert.notes_on(folder), *(() if is_full else (faults,)))


BIG_BIRD = Family(
    "big_bird",
    bert.PREFIX,
    always(Roles(padding="<pad>", begin="[CLS]", end="[SEP]", unknown="<unk>", mask="[MASK]")),
    spec_of,
    bert.layout_of,
    READS,
    notes_on,
)
