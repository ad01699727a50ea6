"""Picture store: every picture of a task decoded once, as squares of one size, mapped from disk.

    pictures.bin     n × 3 × size × size bytes
    framings.npy     for each the original's width and height, and the box of it that is shown
    pictures.json    how many, their size, their addresses; which were refused, and why

What cannot be read is never a crash, and never left out in silence: `refused` names it with the
reason, and asking for its row is an error.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float64, Int64, UInt8
from numpy.lib import format as npy
from torch import Tensor

from regard.choices import find
from regard.data.boxes import Box
from regard.data.framings import FRAMINGS, Framing
from regard.data.mapped_arrays import damaged, new_folder, open_array, read_facts, write_facts
from regard.data.pictures import read_picture
from regard.data.processes import Died, in_processes
from regard.data.regular_files import Unreadable, check_is_regular
from regard.errors import DataError, SettingError

WHO = "pictures"
CHUNK = 32
"""How many pictures a process decodes before it hands them over."""
FACTS = {"count": int, "size": int, "framing": str, "addresses": list, "refused": list,
         "notes": list}  # fmt: skip


@final
@dataclass(frozen=True)
class Said:
    """Something about one picture: why it was refused, or what a person should know."""

    address: str
    text: str


@final
@dataclass(frozen=True)
class PictureStore:
    """Squares of pixels, read from disk as they are asked for."""

    path: Path
    pixels: UInt8[np.ndarray, "n 3 size size"]
    framings: Float64[np.ndarray, "n 6"]
    rows: dict[str, int]
    """The row of each address, in the order in which they were given."""
    framing_name: str
    refused: tuple[Said, ...]
    notes: tuple[Said, ...]

    @classmethod
    def open(cls, path: Path) -> "PictureStore":
        """Map a store that `write_pictures` wrote; one that is damaged is refused."""
        facts = read_facts(path / "pictures.json", WHO, FACTS)
        count, size = facts["count"], facts["size"]
        addresses, refused, notes = facts["addresses"], facts["refused"], facts["notes"]
        are_texts = all(isinstance(one, str) for one in addresses)
        if not are_texts or len(set(addresses)) != count or not _are_pairs([*refused, *notes]):
            raise damaged(path, WHO, "pictures.json does not say what it should")
        return cls(
            path,
            open_array(path / "pictures.bin", WHO, "u1", (count, 3, size, size)),
            _framings(path, count),
            {address: row for row, address in enumerate(addresses)},
            facts["framing"],
            tuple(Said(*pair) for pair in refused),
            tuple(Said(*pair) for pair in notes),
        )

    def __len__(self) -> int:
        return len(self.pixels)

    @property
    def size(self) -> int:
        """Pixels along the side of a square."""
        return self.pixels.shape[-1]

    def row(self, address: str) -> int:
        """Where the picture of an address stands."""
        if address in self.rows:
            return self.rows[address]
        why = next((one.text for one in self.refused if one.address == address), None)
        reason = f"it was refused: {why}" if why else "it was never asked for."
        raise DataError(f"{WHO}: '{self.path}' holds no '{address}'; {reason}")

    def pictures(self, rows: Int64[np.ndarray, " b"]) -> UInt8[Tensor, "b 3 size size"]:
        """A copy of these rows."""
        return torch.from_numpy(np.asarray(self.pixels[rows]))

    def framing(self, row: int) -> Framing:
        """Which part of its original a row shows."""
        width, height, *box = self.framings[row].tolist()
        return Framing(int(width), int(height), self.size, Box(*box))


def write_pictures(
    path: Path,
    addresses: Iterable[str],
    *,
    size: int,
    framing: str = "crop",
    n_processes: int = 0,
    tell: Callable[[int], None] = lambda done: None,
) -> PictureStore:
    """Decode pictures into a new folder and open it.

    Args:
        path: the folder, which must not be there yet.
        addresses: of the pictures; one that comes twice is decoded once.
        size: pixels along the side of a square.
        framing: "crop" or "squeeze" (framing.py).
        n_processes: that decode beside this one; 0 decodes here.
        tell: called with the number of pictures done so far, for a progress bar.
    """
    find(framing, FRAMINGS, key="framing")
    if size < 1:
        raise SettingError(f"{WHO}: size must be at least 1, got {size}.")
    wanted = list(dict.fromkeys(addresses))
    chunks = [wanted[i : i + CHUNK] for i in range(0, len(wanted), CHUNK)]
    job = partial(_squares, size=size, framing=framing)
    with new_folder(path, WHO) as folder:
        work = closing(in_processes(job, chunks, n_processes))
        with (folder / "pictures.bin").open("wb") as file, work as answers:
            written = _Written(file)
            for done, (chunk, answer) in enumerate(zip(chunks, answers, strict=True), 1):
                written.add(chunk, _each_alone(job, chunk) if isinstance(answer, Died) else answer)
                tell(min(done * CHUNK, len(wanted)))
        if not written.addresses:
            first = f" The first: {written.refused[0].text}" if written.refused else ""
            raise DataError(
                f"{WHO}: none of {len(wanted)} pictures could be written to '{path}'.{first}"
            )
        np.save(folder / "framings.npy", np.array(written.framings))
        write_facts(folder / "pictures.json", {"size": size, "framing": framing, **written.facts()})
    return PictureStore.open(path)


class _Square(NamedTuple):
    """One picture, ready to be kept."""

    pixels: np.ndarray
    framing: Framing
    notes: tuple[str, ...]


class _Written:
    """What stands in the folder so far, and what does not."""

    def __init__(self, file: BufferedIOBase) -> None:
        self.file = file
        self.addresses: list[str] = []
        self.framings: list[tuple[float, ...]] = []
        self.refused: list[Said] = []
        self.notes: list[Said] = []

    def add(self, addresses: Sequence[str], squares: Sequence[_Square | str]) -> None:
        for address, square in zip(addresses, squares, strict=True):
            if isinstance(square, str):
                self.refused.append(Said(address, square))
                continue
            framing = square.framing
            self.file.write(square.pixels.tobytes())
            self.framings.append((framing.width, framing.height, *framing.box))
            self.notes += [Said(address, note) for note in square.notes]
            self.addresses.append(address)

    def facts(self) -> dict[str, Any]:
        return {
            "count": len(self.addresses),
            "refused": [[one.address, one.text] for one in self.refused],
            "notes": [[one.address, one.text] for one in self.notes],
            "addresses": self.addresses,
        }


def _squares(addresses: Sequence[str], *, size: int, framing: str) -> list[_Square | str]:
    """Each picture as a square, or the reason why there is none."""
    return [_square(address, size, framing) for address in addresses]


def _square(address: str, size: int, framing: str) -> _Square | str:
    try:
        picture = read_picture(address, enough=size)
    except DataError as error:
        return str(error)
    shown = FRAMINGS[framing](picture.width, picture.height, size)
    return _Square(shown.square(picture), shown, picture.notes)


def _each_alone(
    job: Callable[[Sequence[str]], list[_Square | str]], addresses: Sequence[str]
) -> list[_Square | str]:
    """The answers for a chunk whose process died: the picture that killed it is found out."""
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


def _framings(path: Path, count: int) -> np.ndarray:
    try:
        check_is_regular(path / "framings.npy")
        framings = np.array(npy.open_memmap(path / "framings.npy", mode="r"))
    except Unreadable as error:
        raise damaged(path, WHO, f"framings.npy {error}") from error
    except (OSError, ValueError, OverflowError) as error:
        raise damaged(path, WHO, f"framings.npy cannot be read ({error})") from error
    if framings.shape != (count, 6) or framings.dtype != np.float64:
        raise damaged(path, WHO, f"framings.npy does not hold six numbers for {count} pictures")
    if not np.isfinite(framings).all() or (framings[:, :2] < 1).any():
        raise damaged(path, WHO, "framings.npy holds pictures of no size")
    return framings
