"""Families of published models: what each calls things, and what becomes of it here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import final

from regard.interop.importing import bert, big_bird, gpt2, marian
from regard.interop.importing.folder import Folder
from regard.interop.importing.layouts import Layout
from regard.interop.importing.roles import Roles
from regard.models import Spec


@final
@dataclass(frozen=True)
class Family:
    """One family."""

    model_type: str
    """What config.json calls it."""
    prefix: str
    """What some files put before the names of all tensors but a head's."""
    roles: Roles
    """Which of its pieces are padding, begin, end, unknown and the mask."""
    spec: Callable[[Folder], Spec]
    """config.json → the [model] section of a recipe."""
    layout: Callable[[Spec], Layout]
    """Which tensor is which."""
    notes: Callable[[Folder], tuple[str, ...]]
    """What a reader of the card should know."""


FAMILIES: Mapping[str, Family] = {
    one.model_type: one
    for one in (
        Family("bert", bert.PREFIX, bert.ROLES, bert.spec_of, bert.layout_of, bert.notes_on),
        Family(
            "big_bird",
            bert.PREFIX,
            big_bird.ROLES,
            big_bird.spec_of,
            bert.layout_of,
            big_bird.notes_on,
        ),
        Family(
            "marian", marian.PREFIX, marian.ROLES, marian.spec_of, marian.layout_of, marian.notes_on
        ),
        Family("gpt2", gpt2.PREFIX, gpt2.ROLES, gpt2.spec_of, gpt2.layout_of, gpt2.notes_on),
    )
}
"""By config.json's `model_type`."""
