"""Caption records in one file: what a record keeps, and the picture with the way back to it."""

from dataclasses import asdict
from pathlib import Path

import torch

from regard.data.boxes import Box
from regard.data.framings import Framing
from regard.data.pictures import Picture
from regard.inspecting.caption_record import CaptionRecord
from regard.inspecting.plain_data import Tensors, read, written
from regard.inspecting.record_files import as_plain, from_plain, made_from, read_file, write_file
from regard.layers.vision.image_encoder import GridSize

FORM = "regard caption record 1"
"""What the header of a file says it is."""


def save_caption(record: CaptionRecord, path: Path | str) -> None:
    """Write a caption's record to one file, its picture's pixels with it.

    Args:
        record: what `look_at_picture` gave.
        path: such as `dog.safetensors`.
    """
    tensors, picture = Tensors(), record.picture
    told = {
        "form": FORM,
        "picture": {
            "name": picture.name,
            "width": picture.width,
            "height": picture.height,
            "notes": list(picture.notes),
            "pixels": written(torch.tensor(picture.pixels), tensors),
        },
        "framing": asdict(record.framing),
        "grid": list(record.grid),
        "covered": list(record.covered),
        "gates": None if record.piece_gates is None else list(record.piece_gates),
        "versions": dict(record.versions),
        "read": as_plain(record.read, tensors),
    }
    write_file(told, tensors, Path(path))


def load_caption(path: Path | str) -> CaptionRecord:
    """Read a caption's record."""
    told, tensor = read_file(path, FORM)
    with made_from(path):
        picture, framing = told["picture"], told["framing"]
        return CaptionRecord(
            Picture(
                picture["name"],
                read(picture["pixels"], tensor).numpy(),
                picture["width"],
                picture["height"],
                tuple(picture["notes"]),
            ),
            Framing(framing["width"], framing["height"], framing["size"], Box(*framing["box"])),
            GridSize(*told["grid"]),
            Box(*told["covered"]),
            from_plain(told["read"], tensor),
            None if told["gates"] is None else tuple(told["gates"]),
            told["versions"],
        )
