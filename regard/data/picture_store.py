"""Picture store: every picture of a task decoded once, as squares of one size, mapped from disk.

    pictures.bin     n × 3 × size × size bytes
    framings.npy     for each the original's width and height, and the box of it that is shown
    pictures.json    how many, their size, their addresses; which were refused, and why

A picture that cannot be read is no crash, and is not skipped silently: `refused` names it with the
reason, and `row` raises an error for it.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Tensor

from regard.choices import find
from regard.data.boxes import Box
from regard.data.framings import FRAMINGS, Framing
from regard.data.mapped_arrays import UNCLEAR, ArrayFolder, new_folder, write_facts
from regard.data.pictures import read_picture
from regard.data.processes import Died, in_processes
from regard.errors import DataError, SettingError

STORE = "pictures"
CHUNK = 32
"""How many pictures a process decodes before it hands them over."""
FACTS = {"count": int, "size": int, "framing": str, "addresses": list, "refused": list,
         "notes": list}  # fmt: skip


@final
@dataclass(frozen=True)
class PictureNote:
    """A note on one picture: why it was refused, or what the user should know."""

    address: str
    text: str


@final
@dataclass(frozen=True)
class PictureStore:
    """Squares of pixels, read from disk when they are accessed."""

    path: Path
    pixels: UInt8[np.ndarray, "n 3 size size"]
    framings: Float64[np.ndarray, "n 6"]
    rows: dict[str, int]
    """The row of each address, in the order in which they were given."""
    framing_name: str
    refused: tuple[PictureNote, ...]
    notes: tuple[PictureNote, ...]

    @classmethod
    def open(cls, path: Path) -> "PictureStore":
        """Map a store that `write_pictures` wrote; one that is damaged is refused."""
        folder = ArrayFolder(path, STORE)
        facts = folder.facts("pictures.json", FACTS)
        count, size = facts["count"], facts["size"]
        addresses, refused, notes = facts["addresses"], facts["refused"], facts["notes"]
        are_texts = all(isinstance(one, str) for one in addresses)
        if not are_texts or len(set(addresses)) != count or not _are_pairs([*refused, *notes]):
            raise folder.damaged(f"pictures.json {UNCLEAR}")
        return cls(
            path,
            folder.numbers("pictures.bin", "u1", (count, 3, size, size)),
            _framings(folder, count),
            {address: row for row, address in enumerate(addresses)},
            facts["framing"],
            tuple(PictureNote(*pair) for pair in refused),
            tuple(PictureNote(*pair) for pair in notes),
        )

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def size(self) -> int:
        """Pixels along the side of a square."""
        return self.pixels.shape[-1]

    def row(self, address: str) -> int:
        """The row of the picture with this address."""
        if address in self.rows:
            return self.rows[address]
        why = next((one.text for one in self.refused if one.address == address), None)
        reason = f"it was refused: {why}" if why else "it was never asked for."
        raise DataError(f"{STORE}: '{self.path}' holds no '{address}'; {reason}")

    @property
    def n_ids(self) -> int:
        """As many as there are pictures."""
        return len(self)

    @property
    def fingerprint(self) -> str:
        """The framing, size and number of the pictures whose rows a corpus holds."""
        return f"pictures/{self.framing_name}/{self.size}/{len(self)}"

    def encode_all(self, addresses: Sequence[str]) -> list[list[int]]:
        """The row of each address."""
        return [[self.row(address)] for address in addresses]

    def pictures(self, rows: Int64[np.ndarray, " b"]) -> UInt8[Tensor, "b 3 size size"]:
        """A copy of these rows."""
        return torch.from_numpy(np.asarray(self.pixels[rows]))

    def framing(self, row: int) -> Framing:
        """The part of the original picture that a row shows."""
        width, height, *box = self.framings[row].tolist()
        return Framing(int(width), int(height), self.size, Box(*box))


def write_pictures(
    path: Path,
    addresses: Iterable[str],
    *,
    size: int,
    framing: str = "crop",
    n_processes: int = 0,
) -> PictureStore:
    """Decode pictures into a new folder, which must not be there yet, and open it.

    An address that comes twice is decoded once. `size` is in pixels, `framing` is "crop" or
    "squeeze" (framings.py). `n_processes` decode beside this one; 0 decodes here.
    """
    find(framing, FRAMINGS, key="framing")
    if size < 1:
        raise SettingError(f"{STORE}: size must be at least 1, got {size}.")
    wanted = list(dict.fromkeys(addresses))
    chunks = [wanted[i : i + CHUNK] for i in range(0, len(wanted), CHUNK)]
    job = partial(_squares, size=size, framing=framing)
    framings: list[tuple[float, ...]] = []
    facts: dict[str, list[Any]] = {"refused": [], "notes": [], "addresses": []}
    with new_folder(path, STORE) as folder:
        work = closing(in_processes(job, chunks, n_processes))
        with (folder / "pictures.bin").open("wb") as file, work as answers:
            for chunk, answer in zip(chunks, answers, strict=True):
                squares = _each_alone(job, chunk) if isinstance(answer, Died) else answer
                for address, square in zip(chunk, squares, strict=True):
                    if isinstance(square, str):
                        facts["refused"].append([address, square])
                        continue
                    file.write(square.pixels.tobytes())
                    shown = square.framing
                    framings.append((shown.width, shown.height, *shown.box))
                    facts["notes"] += [[address, note] for note in square.notes]
                    facts["addresses"].append(address)
        if not framings:
            first = f" The first: {facts['refused'][0][1]}" if facts["refused"] else ""
            raise DataError(
                f"{STORE}: none of {len(wanted)} pictures could be written to '{path}'.{first}"
            )
        np.save(folder / "framings.npy", np.array(framings))
        known = {"size": size, "framing": framing, "count": len(framings)}
        write_facts(folder / "pictures.json", {**known, **facts})
    return PictureStore.open(path)


class _Square(NamedTuple):
    """One picture, ready to be kept."""

    pixels: np.ndarray
    framing: Framing
    notes: tuple[str, ...]


def _squares(addresses: Sequence[str], *, size: int, framing: str) -> list[_Square | str]:
    """Each picture as a square, or the reason why there is none."""
    squares: list[_Square | str] = []
    for address in addresses:
        try:
            picture = read_picture(address, enough=size)
        except DataError as error:
            squares.append(str(error))
        else:
            shown = FRAMINGS[framing](picture.width, picture.height, size)
            squares.append(_Square(shown.square(picture), shown, picture.notes))
    return squares


def _each_alone(
    job: Callable[[Sequence[str]], list[_Square | str]], addresses: Sequence[str]
) -> list[_Square | str]:
    """The squares of a chunk whose process died, decoded one by one to find the culprit."""
    answers = in_processes(job, [[address] for address in addresses], 1)
    return [
        f"picture: '{address}' ended its decoder (exit code {answer.exit_code}). Leave it out."
        if isinstance(answer, Died)
        else answer[0]
        for address, answer in zip(addresses, answers, strict=True)
    ]


def _are_pairs(pairs: Sequence[Any]) -> bool:
    """Whether each is an address and a text."""
    return all(isinstance(pair, list) and [*map(type, pair)] == [str, str] for pair in pairs)


def _framings(folder: ArrayFolder, count: int) -> np.ndarray:
    framings = np.array(folder.npy("framings.npy"))
    if framings.shape != (count, 6) or framings.dtype != np.float64:
        raise folder.damaged(f"framings.npy does not hold six numbers for {count} pictures")
    if not np.isfinite(framings).all() or (framings[:, :2] < 1).any():
        raise folder.damaged("framings.npy holds pictures of no size")
    return framings
