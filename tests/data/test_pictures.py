"""Pictures: files of every make become the same upright RGB pixels, or an error with their name."""

import io
import os
import struct
import sys
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.data.pictures import FORMATS, MAX_PIXELS, MIN_SIDE, read_picture
from regard.data.scenes import scene
from regard.errors import DataError, MissingExtra

RED, BLUE = (255, 0, 0), (0, 0, 255)


def _halves(width=24, height=16):
    """Red on the left, blue on the right."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    pixels[:, : width // 2], pixels[:, width // 2 :] = RED, BLUE
    return pixels


def _bytes(image, kind, **settings):
    file = io.BytesIO()
    image.save(file, kind, **settings)
    return file.getvalue()


def _png(pixels):
    return _bytes(Image.fromarray(pixels), "PNG")


IMAGE = Image.fromarray(_halves())
MAKES = {
    "png": _bytes(IMAGE, "PNG"),
    "palette png": _bytes(IMAGE.convert("P"), "PNG"),
    "interlaced gif": _bytes(IMAGE, "GIF", interlace=1),
    "jpeg": _bytes(IMAGE, "JPEG", quality=95, subsampling=0),
    "progressive jpeg": _bytes(IMAGE, "JPEG", quality=95, subsampling=0, progressive=True),
    "cmyk jpeg": _bytes(IMAGE.convert("CMYK"), "JPEG", quality=95),
    "cmyk tiff": _bytes(IMAGE.convert("CMYK"), "TIFF"),
    "tiff": _bytes(IMAGE, "TIFF"),
    "bmp": _bytes(IMAGE, "BMP"),
    "webp": _bytes(IMAGE, "WEBP", lossless=True),
    "ppm": _bytes(IMAGE, "PPM"),
}


@pytest.mark.parametrize("make", MAKES)
def test_files_of_every_make_hold_the_same_pixels(make):
    picture = read_picture(MAKES[make])
    assert (picture.width, picture.height) == (24, 16)
    assert picture.notes == ()
    assert np.abs(picture.pixels.astype(int) - _halves()).max() <= 6


def test_sixteen_bits_of_grey_become_eight():
    grey = np.repeat(np.array([[0, 255, 257, 32_767, 65_535]], dtype=np.uint16), 8, axis=0)
    wide = np.repeat(grey, 2, axis=1)
    for kind in ("PNG", "TIFF"):
        pixels = read_picture(_bytes(Image.fromarray(wide), kind)).pixels
        assert pixels[0, ::2].tolist() == [[value] * 3 for value in (0, 1, 1, 127, 255)]


def test_black_and_white_are_rgb_too():
    pixels = read_picture(_bytes(IMAGE.convert("L").point(lambda v: v * 9).convert("1"), "PNG"))
    assert set(pixels.pixels.flatten().tolist()) <= {0, 255}


def test_what_is_transparent_shows_white():
    pixels = np.zeros((9, 9, 4), dtype=np.uint8)
    pixels[..., 0], pixels[0, :, 3], pixels[1, :, 3] = 255, 255, 128
    read = read_picture(_png(pixels)).pixels
    assert read[0, 0].tolist() == [255, 0, 0]
    assert np.abs(read[1, 0].astype(int) - [255, 127, 127]).max() <= 1
    assert read[2, 0].tolist() == [255, 255, 255]
    grey = read_picture(_bytes(Image.fromarray(pixels).convert("LA"), "PNG")).pixels
    assert grey[2, 0].tolist() == [255, 255, 255]


def test_a_transparent_colour_of_a_palette_shows_white():
    image = IMAGE.convert("P")
    pixels = read_picture(_bytes(image, "PNG", transparency=image.getpixel((0, 0)))).pixels
    assert pixels[0, 0].tolist() == [255, 255, 255]
    assert pixels[0, -1].tolist() == list(BLUE)


# what a camera stores when it is held so: its row 0 and column 0 are these edges of what one sees
HELD = {
    1: lambda u: u,  # top, left
    2: lambda u: u[:, ::-1],  # top, right
    3: lambda u: u[::-1, ::-1],  # bottom, right
    4: lambda u: u[::-1],  # bottom, left
    5: lambda u: u.transpose(1, 0, 2),  # left, top
    6: lambda u: u[:, ::-1].transpose(1, 0, 2),  # right, top
    7: lambda u: u[::-1, ::-1].transpose(1, 0, 2),  # right, bottom
    8: lambda u: u[::-1].transpose(1, 0, 2),  # left, bottom
}


@pytest.mark.parametrize("orientation", HELD)
def test_a_turned_photograph_is_upright(orientation):
    upright = np.random.default_rng(0).integers(0, 256, (11, 17, 3), dtype=np.uint8)
    stored = Image.fromarray(np.ascontiguousarray(HELD[orientation](upright)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = read_picture(_bytes(stored, "PNG", exif=exif))
    assert np.array_equal(picture.pixels, upright)
    assert (picture.width, picture.height) == (17, 11)


def test_of_an_animation_the_first_frame_is_taken_with_a_note():
    frames = [Image.new("RGB", (16, 16), colour) for colour in ("red", "blue", "green")]
    moving = _bytes(frames[0], "GIF", save_all=True, append_images=frames[1:])
    picture = read_picture(moving)
    assert picture.pixels[5, 5].tolist() == list(RED)
    assert picture.notes == ("it holds more than one picture; the first is taken",)


NOISE = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
PHOTO = _bytes(Image.fromarray(NOISE), "JPEG")


def _header(width, height):
    """A PNG that says it is so large, and ends there."""
    facts = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", facts) + _chunk(b"IDAT", b"no data")


def _chunk(kind, content):
    crc = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + crc


NO_PICTURE = f"is no picture that can be read; expected {', '.join(FORMATS)}"
REFUSED = {
    "truncated.jpg": (PHOTO[: len(PHOTO) // 2], "is damaged: .*truncated.* Fetch it again"),
    "truncated.png": (_png(NOISE)[:500], "is damaged: .*Fetch it again, or leave it out"),
    "garbled.png": (_header(64, 64), "is damaged: "),
    "empty.jpg": (b"", NO_PICTURE),
    "text.jpg": (b"this is no picture", NO_PICTURE),
    "program.eps": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n", NO_PICTURE),
    "dot.png": (_png(NOISE[:1, :1]), r"has 1 by 1 pixels; the least is 8 by 8\. Leave it out"),
    "line.png": (_png(NOISE[:7]), "has 64 by 7 pixels; the least is 8 by 8"),
    "large.png": (_header(10_000, 10_000), "has 10,000 by 10,000 pixels; the most is 80,000,000"),
    "bomb.png": (_header(30_000, 30_000), "has far more pixels; the most is 80,000,000 in all"),
    "real.tif": (
        _bytes(Image.fromarray(NOISE[..., 0].astype(np.float32)), "TIFF"),
        "holds real numbers, in which white may be any number",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_good_picture_is_refused_by_name(tmp_path, name):
    content, said = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"picture: '.*{name}' {said}"):
        read_picture(tmp_path / name)
    with pytest.raises(DataError, match=rf"picture: 'sent {name}' {said}"):
        read_picture(content, name=f"sent {name}")


def test_the_least_and_the_most_pixels_are_taken():
    least = np.zeros((MIN_SIDE, MIN_SIDE, 3), dtype=np.uint8)
    assert read_picture(_png(least)).pixels.shape == (8, 8, 3)
    assert MAX_PIXELS < Image.MAX_IMAGE_PIXELS
    with pytest.raises(DataError, match="is damaged"):
        read_picture(_header(8_000, 10_000))


def test_a_very_wide_photograph_is_decoded_no_larger_than_is_needed():
    wide = Image.new("RGB", (20_000, 600), "white")
    wide.paste("black", (10_000, 0, 20_000, 600))
    wide_file = _bytes(wide, "JPEG")
    whole = read_picture(wide_file)
    assert whole.pixels.shape == (600, 20_000, 3)
    small = read_picture(wide_file, enough=64)
    assert (small.width, small.height) == (20_000, 600)
    assert small.pixels.shape == (150, 5_000, 3)
    assert small.pixels[0, 2_400].tolist() == [255, 255, 255]
    assert small.pixels[0, 2_600].tolist() == [0, 0, 0]
    assert read_picture(_png(_halves(600, 300)), enough=64).pixels.shape == (300, 600, 3)


def test_a_small_turned_photograph_keeps_the_size_of_the_whole():
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = _bytes(Image.new("RGB", (900, 600), "white"), "JPEG", exif=exif)
    picture = read_picture(stored, enough=32)
    assert (picture.width, picture.height) == (600, 900)
    assert picture.pixels.shape == (113, 75, 3)


def test_unreadable_exif_is_a_note_and_no_refusal():
    image = Image.new("RGB", (16, 16), RED)
    exif = b"Exif\x00\x00MM\x00*\x00\x00\x00\x08" + struct.pack(">HHHII", 9, 0x10E, 2, 900, 4000)
    picture = read_picture(_bytes(image, "JPEG", exif=exif))
    assert picture.pixels.shape == (16, 16, 3)
    assert any("Pillow says: Corrupt EXIF data" in note for note in picture.notes)


def test_a_picture_is_read_from_a_file_and_from_a_zip(tmp_path):
    (tmp_path / "a.png").write_bytes(MAKES["png"])
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        packed.writestr("inside/b.png", MAKES["png"])
    for address in (tmp_path / "a.png", f"{tmp_path}/all.zip/inside/b.png"):
        picture = read_picture(address)
        assert picture.name == str(address)
        assert np.array_equal(picture.pixels, _halves())


def test_a_zip_that_was_written_anew_is_opened_anew(tmp_path):
    path = tmp_path / "all.zip"
    for time, value in enumerate((10, 200), 1):
        with zipfile.ZipFile(path, "w") as packed:
            packed.writestr("a.png", _png(np.full((9, 9, 3), value, dtype=np.uint8)))
        os.utime(path, (time, time))
        assert read_picture(f"{path}/a.png").pixels[0, 0, 0] == value


def test_a_picture_that_is_not_there_is_refused_by_name(tmp_path):
    (tmp_path / "dog.png").write_bytes(MAKES["png"])
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        packed.writestr("inside/b.png", MAKES["png"])
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    for address, said in {
        "dig.png": r"there is no file '.*dig\.png'\. '.*' holds dog\.png",
        "none.zip/a.png": r"there is no file '.*none\.zip/a\.png'\. Its folder '.*none\.zip' does",
        "all.zip/c.png": r"'.*all\.zip' holds no 'c\.png'\. It holds 1 files, the first 'inside/b",
        "all.zip/b.png": r"'.*all\.zip' holds no 'b\.png'\. It holds 'inside/b\.png'; give that",
        "empty.zip/a.png": r"'.*empty\.zip' holds no 'a\.png'\. It holds nothing",
        "dog.png/a.png": r"'.*dog\.png' is a file, but no zip that could hold pictures",
        "": "is a folder; a file was expected",
        "x" * 5000: "is damaged: .*name too long",
    }.items():
        with pytest.raises(DataError, match=said):
            read_picture(f"{tmp_path}/{address}")


def test_a_damaged_member_of_a_zip_is_refused_by_name(tmp_path):
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("a.png", MAKES["png"])
    content = bytearray(path.read_bytes())
    content[content.index(b"IDAT") + 5] ^= 255
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"picture: '.*all\.zip/a\.png' is damaged: Bad CRC-32"):
        read_picture(f"{path}/a.png")


def test_a_huge_member_of_a_zip_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.pictures.MAX_UNPACKED", 1000)
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a.png", bytes(2000))
    with pytest.raises(DataError, match=r"a\.png' unpacks to 2,000 bytes; 1,000 is the most"):
        read_picture(f"{tmp_path}/all.zip/a.png")


def test_a_scene_is_a_picture_at_the_size_that_is_asked_for():
    picture = read_picture("scene:3-14")
    assert np.array_equal(picture.pixels, scene(3, 14).draw(64))
    assert read_picture("scene:3-14", enough=32).pixels.shape == (32, 32, 3)
    with pytest.raises(DataError, match="scenes: 'scene:x' is no scene; expected scene:SEED-NUM"):
        read_picture("scene:x")


def test_without_pillow_the_extra_is_named_and_scenes_go_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtra, match=r"Run pip install 'regard\[captions\]'"):
        read_picture(MAKES["png"])
    assert read_picture("scene:0-1").width == 64
