"""Held-out examples: a share of the training data that validation takes, and training leaves out.

    held out   if hash(source) / 2^64 < share

The side of an example depends on its source alone. So equal sources are never on both sides, and
examples that are added to the data, or moved within it, change the side of no other.
"""

import hashlib
from collections.abc import Iterable, Iterator

from regard.data.examples import Example, ExampleReader

N_BYTES = 8


def is_held_out(example: Example, share: float) -> bool:
    """Whether validation takes this example; a row of running text counts by the text itself."""
    text = example.source or example.targets[0]
    # the folder of a picture says nothing of the picture
    digest = hashlib.blake2b(text.rpartition("/")[2].encode(), digest_size=N_BYTES).digest()
    return int.from_bytes(digest, "big") < share * 256**N_BYTES


def examples_of_split(reader: ExampleReader, split: str) -> Iterator[Example]:
    """The reader's examples: for training those not held out, for any other split the held out."""
    if not reader.held_out:
        return reader.examples()
    return _of_side(reader.examples(), reader.held_out, is_held=split != "train")


def _of_side(examples: Iterable[Example], share: float, *, is_held: bool) -> Iterator[Example]:
    return (one for one in examples if is_held_out(one, share) == is_held)
