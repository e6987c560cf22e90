"""Files to pixels: orientation, depth, colour, alpha, frames; and sentences for the others."""

import io
import struct
from hashlib import sha256

import numpy as np
import pytest
from PIL import Image, ImageCms

from engine.errors import BadPicture
from engine.images import decode as module
from engine.images.decode import MOST_SCANS, decode, from_array, from_image
from engine.settings import MOST_PICTURE_BYTES
from tests.engine.images.files import LOSSLESS, LOSSY, chunk, header, noise, png, saved

ORIENTATION = 0x0112
# EXIF 2.3, tag 274: at which side the stored row 0 and column 0 are to be seen.
SIDES = {
    1: ("top", "left"),
    2: ("top", "right"),
    3: ("bottom", "right"),
    4: ("bottom", "left"),
    5: ("left", "top"),
    6: ("right", "top"),
    7: ("right", "bottom"),
    8: ("left", "bottom"),
}
OTHER = {"top": "bottom", "bottom": "top", "left": "right", "right": "left"}


@pytest.mark.parametrize("kind", LOSSLESS)
def test_lossless_formats_give_the_same_pixels(kind: str) -> None:
    rgb = noise(37, 21)
    picture = decode(saved(Image.fromarray(rgb), kind))
    np.testing.assert_array_equal(picture.rgb, rgb)
    assert (picture.size, picture.notes) == ((37, 21), ())


@pytest.mark.parametrize("kind", LOSSY)
def test_lossy_formats_give_what_pillow_gives(kind: str) -> None:
    data = saved(Image.fromarray(noise(37, 21)), kind)
    with Image.open(io.BytesIO(data)) as image:
        np.testing.assert_array_equal(decode(data).rgb, np.asarray(image.convert("RGB")))


def corner(upright: np.ndarray, *sides: str) -> np.ndarray:
    """The mean colour at a corner: one of the sides is top or bottom, the other left or right."""
    h, w, _ = upright.shape
    y = slice(0, h // 4) if "top" in sides else slice(h - h // 4, h)
    x = slice(0, w // 4) if "left" in sides else slice(w - w // 4, w)
    return upright[y, x].mean((0, 1))


@pytest.mark.parametrize("turn", SIDES)
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "AVIF", "TIFF"])
def test_orientation(kind: str, turn: int) -> None:
    stored = np.zeros((24, 40, 3), np.uint8)
    stored[:12, :20] = (250, 0, 0)  # row 0, column 0
    stored[:12, 20:] = (0, 250, 0)
    stored[12:, :20] = (0, 0, 250)
    exif = Image.Exif()
    exif[ORIENTATION] = turn
    picture = decode(saved(Image.fromarray(stored), kind, exif=exif))
    row, column = SIDES[turn]
    for sides, colour in (
        ((row, column), (250, 0, 0)),
        ((row, OTHER[column]), (0, 250, 0)),
        ((OTHER[row], column), (0, 0, 250)),
    ):
        np.testing.assert_allclose(corner(picture.rgb, *sides), colour, atol=12)
    assert picture.size == ((40, 24) if turn < 5 else (24, 40))
    if kind != "TIFF" and turn > 1:  # Pillow turns a TIFF while it loads it
        assert picture.notes == (f"turned upright (EXIF orientation {turn})",)


@pytest.mark.parametrize("strip", [1, 70, 1 << 20])
@pytest.mark.parametrize("turn", [1, 4, 6, 7])
def test_strips_join(turn: int, strip: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.images.colour.STRIP", strip)
    exif = Image.Exif()
    exif[ORIENTATION] = turn
    stored = noise(33, 20)
    upright = {
        1: stored,
        4: stored[::-1],
        6: np.rot90(stored, -1),
        7: stored[::-1, ::-1].swapaxes(0, 1),
    }
    found = decode(saved(Image.fromarray(stored), "PNG", exif=exif)).rgb
    np.testing.assert_array_equal(found, upright[turn])


@pytest.mark.parametrize("block", [b"II*\0\xff\xff\xff\xff", b"MM\0*\0\0\0\x08\xff\xff", b"xx"])
def test_broken_exif_is_no_reason_to_refuse(block: bytes) -> None:
    rgb = noise(9, 5)
    picture = decode(png(9, 5, 8, 2, rows(rgb), chunk(b"eXIf", block)))
    np.testing.assert_array_equal(picture.rgb, rgb)


@pytest.mark.parametrize("turn", [0, 9, 65535])
def test_orientations_that_are_none_turn_nothing(turn: int) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = turn
    rgb = noise(9, 5)
    np.testing.assert_array_equal(decode(saved(Image.fromarray(rgb), "PNG", exif=exif)).rgb, rgb)


def rows(values: np.ndarray) -> bytes:
    """Rows of a PNG without filters; numbers of 16 bits have their high byte first."""
    plain = values.astype(">u2") if values.dtype == np.uint16 else values
    return b"".join(b"\0" + row.tobytes() for row in plain)


LEVELS = np.array([[0, 1, 128, 129, 256, 1000, 32768, 65406, 65407, 65535]], np.uint16)


def sixteen(kind: str) -> bytes:
    if kind == "PNG":
        return png(10, 1, 16, 0, rows(LEVELS))
    if kind == "PGM":
        return b"P5 10 1 65535\n" + LEVELS.astype(">u2").tobytes()
    stream = io.BytesIO()
    Image.fromarray(LEVELS).save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PGM", "JPEG2000"])
def test_grey_of_16_bits_is_scaled_not_clipped(kind: str) -> None:
    picture = decode(sixteen(kind))
    assert picture.rgb[0, :, 0].tolist() == [0, 0, 0, 1, 1, 4, 128, 254, 255, 255]
    assert (picture.rgb == picture.rgb[:, :, :1]).all()
    assert picture.notes == ()


def test_colours_of_16_bits_keep_their_high_byte() -> None:
    values = np.random.default_rng(1).integers(0, 65536, (3, 5, 3)).astype(np.uint16)
    np.testing.assert_array_equal(decode(png(5, 3, 16, 2, rows(values))).rgb, values >> 8)


@pytest.mark.parametrize("kind", ["I", "F"])
def test_other_numbers_are_spread_from_their_least_to_their_largest(kind: str) -> None:
    values = np.array([[-100, 0, 120, 300]], {"I": np.int32, "F": np.float32}[kind])
    stream = io.BytesIO()
    Image.fromarray(values).save(stream, "TIFF")
    picture = decode(stream.getvalue())
    assert picture.rgb[0, :, 0].tolist() == [0, 64, 140, 255]
    assert picture.notes == ("values from -100 to 300 scaled to black and white",)


def test_what_is_no_number_is_black() -> None:
    values = np.array([[np.nan, 1, 3, np.inf, -np.inf]], np.float32)
    assert from_image(Image.fromarray(values)).rgb[0, :, 0].tolist() == [0, 0, 255, 255, 0]
    nothing = np.full((2, 2), np.nan, np.float32)
    assert (from_image(Image.fromarray(nothing)).rgb == 0).all()


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBX", "YCbCr", "HSV"])
def test_other_modes_are_those_of_pillow(mode: str) -> None:
    image = Image.fromarray(noise(20, 10)).convert(mode)
    np.testing.assert_array_equal(from_image(image).rgb, np.asarray(image.convert("RGB")))


@pytest.mark.parametrize("kind", ["JPEG", "TIFF"])
def test_printing_colours(kind: str) -> None:
    ink = np.zeros((16, 16, 4), np.uint8)
    ink[:, 8:] = (0, 255, 255, 0)  # magenta and yellow
    data = saved(Image.fromarray(ink, "CMYK"), kind)
    found = decode(data).rgb
    np.testing.assert_allclose(found[:, :7].mean((0, 1)), (255, 255, 255), atol=3)
    np.testing.assert_allclose(found[:, 9:].mean((0, 1)), (255, 0, 0), atol=3)


def test_printing_colours_by_their_profile() -> None:
    lab = Image.new("LAB", (4, 4), (128, 128, 128))  # half lightness, grey
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    picture = decode(saved(lab, "TIFF", icc_profile=profile))
    assert abs(int(picture.rgb[0, 0, 0]) - 119) <= 2  # L* = 50
    assert picture.notes == ()
    picture = decode(saved(Image.new("CMYK", (4, 4)), "TIFF", icc_profile=b"nonsense" * 20))
    assert (picture.rgb == 255).all()
    assert picture.notes == ("its colour profile cannot be used",)


def test_profiles_of_screens_are_not_applied() -> None:
    """Models saw the numbers of the file."""
    rgb = noise(8, 8)
    image = Image.fromarray(rgb)
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    assert decode(saved(image, "PNG", icc_profile=srgb)).notes == ()
    wide = decode(saved(image, "PNG", icc_profile=b"Display P3" * 20))
    np.testing.assert_array_equal(wide.rgb, rgb)
    assert wide.notes == ("its colour profile is not applied",)
    dark = decode(png(8, 8, 8, 2, rows(rgb), chunk(b"gAMA", struct.pack(">I", 100000))))
    np.testing.assert_array_equal(dark.rgb, rgb)
    assert dark.notes == ("its colour profile is not applied",)


HIDDEN = (10, 20, 30)


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF", "TGA", "JPEG2000", "QOI"])
def test_transparent_parts_are_white(kind: str) -> None:
    rgba = np.zeros((4, 6, 4), np.uint8)
    rgba[:, :2] = (*HIDDEN, 0)
    rgba[:, 2:4] = (100, 0, 200, 255)
    rgba[:, 4:] = (0, 0, 0, 102)  # 40 %
    picture = decode(saved(Image.fromarray(rgba), kind))
    expected = [[255] * 3] * 2 + [[100, 0, 200]] * 2 + [[153] * 3] * 2
    np.testing.assert_array_equal(picture.rgb, [expected] * 4)
    assert picture.notes == ("transparent parts shown on white",)


def test_palettes_and_keys_with_transparency() -> None:
    indices = np.array([[0, 1, 2]], np.uint8)
    palette = chunk(b"PLTE", bytes([*HIDDEN, 200, 0, 0, 0, 200, 0]))
    alphas = chunk(b"tRNS", bytes([0, 255, 128]))
    found = decode(png(3, 1, 8, 3, rows(indices), palette, alphas)).rgb
    assert found.tolist() == [[[255, 255, 255], [200, 0, 0], [127, 227, 127]]]
    values = np.array([[HIDDEN, (1, 2, 3)]], np.uint8)
    key = chunk(b"tRNS", struct.pack(">HHH", *HIDDEN))
    assert decode(png(2, 1, 8, 2, rows(values), key)).rgb.tolist() == [[[255] * 3, [1, 2, 3]]]
    greys = np.array([[7, 9]], np.uint8)
    key = chunk(b"tRNS", struct.pack(">H", 7))
    assert decode(png(2, 1, 8, 0, rows(greys), key)).rgb.tolist() == [[[255] * 3, [9] * 3]]
    both = np.array([[[50, 0], [60, 255]]], np.uint8)
    assert decode(png(2, 1, 8, 4, rows(both))).rgb.tolist() == [[[255] * 3, [60] * 3]]


def animated(kind: str, count: int) -> bytes:
    frames = [Image.new("RGB", (6, 4), (40 * n, 0, 0)) for n in range(count)]
    options = {} if kind == "TIFF" else {"duration": 50}
    return saved(frames[0], kind, save_all=True, append_images=frames[1:], **options)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF", "AVIF"])
def test_of_several_frames_the_first(kind: str) -> None:
    picture = decode(animated(kind, 5))
    np.testing.assert_allclose(picture.rgb, 0, atol=3)
    assert picture.notes == ("frame 1 of 5",)


def test_a_later_frame_may_be_broken() -> None:
    data = animated("GIF", 5)
    picture = decode(data[: len(data) // 2])
    assert picture.size == (6, 4)
    assert picture.notes


def test_a_phones_second_picture_is_not_mentioned() -> None:
    first, second = Image.fromarray(noise(16, 16)), Image.fromarray(noise(8, 8))
    stream = io.BytesIO()
    first.save(stream, "MPO", save_all=True, append_images=[second])
    picture = decode(stream.getvalue())
    assert (picture.size, picture.notes) == ((16, 16), ())


def test_identity() -> None:
    rgb = noise(6, 4)
    picture = decode(saved(Image.fromarray(rgb), "PNG"))
    assert picture.digest == sha256(struct.pack("<II", 6, 4) + rgb.tobytes()).hexdigest()
    assert decode(saved(Image.fromarray(rgb), "BMP")).digest == picture.digest
    other = from_array(np.ascontiguousarray(rgb.reshape(6, 4, 3)))
    assert other.digest != picture.digest
    with pytest.raises(ValueError, match="read-only"):
        picture.rgb[0, 0, 0] = 1


def test_arrays_and_images() -> None:
    rgb = noise(6, 4)
    np.testing.assert_array_equal(from_array(rgb[:, ::-1]).rgb, rgb[:, ::-1])
    assert from_array(rgb[:, :, 0]).rgb.tolist() == rgb[:, :, :1].repeat(3, 2).tolist()
    assert (from_array(np.zeros((2, 3, 4), np.uint8)).rgb == 255).all()
    for wrong in (np.zeros((2, 3, 3)), np.zeros((2, 3, 2), np.uint8), np.zeros(4, np.uint8)):
        with pytest.raises(BadPicture, match="expected uint8"):
            from_array(wrong)
    with pytest.raises(BadPicture, match="has no pixels"):
        from_array(np.zeros((0, 3, 3), np.uint8))
    with pytest.raises(BadPicture, match="has no pixels"):
        from_image(Image.new("RGB", (0, 5)))


@pytest.mark.parametrize("kind", LOSSLESS | LOSSY)
def test_a_file_cut_off_is_refused(kind: str) -> None:
    data = saved(Image.fromarray(noise(200, 150)), kind)
    with pytest.raises(
        BadPicture, match=r"^cat\.x: (the file is cut off or damaged \(.+\)|not a )"
    ):
        decode(data[: len(data) // 2], "cat.x")


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "JPEG", "QOI", "PPM", "TGA"])
def test_bombs_are_refused_by_their_header(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bombs = [header(kind, 65500, 65500)]
    bombs += [header(kind, 9000, 9000)] if kind != "JPEG" else []  # it is scaled
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("pixels were allocated"))
    expected = r"million pixels; a \w+ may have \d+: save it smaller|more than \d+ million pixels"
    for bomb in bombs:
        with pytest.raises(BadPicture, match=expected):
            decode(bomb)


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadPicture, match=r"^b\.png: the file is empty$"):
        decode(b"", "b.png")
    with pytest.raises(BadPicture, match=r"64\.0 MiB are more than 64; save it smaller"):
        decode(bytes(MOST_PICTURE_BYTES + 1))
    with pytest.raises(BadPicture, match=r"a side of 40000x1 is longer than 32768"):
        decode(header("PNG", 40000, 1))
    monkeypatch.setattr(module, "MOST_PIXELS", 100)
    assert decode(saved(Image.fromarray(noise(10, 10)), "PNG")).size == (10, 10)
    with pytest.raises(BadPicture, match=r"11x10 are 0\.0 million pixels; a PNG may have 0"):
        decode(saved(Image.fromarray(noise(11, 10)), "PNG"))
    monkeypatch.setitem(module.MOST_PIXELS_OF, "progressive JPEG", 50)
    image = Image.fromarray(noise(10, 10))
    decode(saved(image, "JPEG"))
    with pytest.raises(BadPicture, match="a progressive JPEG may have"):
        decode(saved(image, "JPEG", progressive=True))


@pytest.mark.parametrize("turn", [1, 6])
def test_a_large_jpeg_is_scaled(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Pillow would scale the whole of it; in its orientation."""
    monkeypatch.setattr(module, "MOST_PIXELS", 10_000)
    exif = Image.Exif()
    exif[0x0112] = turn
    smooth = Image.fromarray(noise(12, 9)).resize((240, 180), Image.Resampling.BICUBIC)
    picture = decode(saved(smooth, "JPEG", quality=95, exif=exif))
    assert picture.notes[0] == "scaled from 240x180 to 60x45"
    upright = smooth.rotate(-90, expand=True) if turn == 6 else smooth
    assert picture.size == tuple(side // 4 for side in upright.size)
    expected = np.asarray(upright.resize(picture.size, Image.Resampling.BOX), np.float32)
    assert np.abs(picture.rgb - expected).mean() < 4
    monkeypatch.setattr(module, "MOST_PIXELS", 600)
    with pytest.raises(BadPicture, match="a JPEG may have"):
        decode(saved(smooth, "JPEG"))


def test_108_megapixels_of_a_telephone() -> None:
    data = saved(Image.new("RGB", (12000, 9000), (200, 30, 90)), "JPEG")
    picture = decode(data)
    assert picture.size == (6000, 4500)
    assert picture.notes == ("scaled from 12000x9000 to 6000x4500",)
    assert np.abs(picture.rgb[::500, ::500].astype(int) - (200, 30, 90)).max() < 6


def test_a_jpeg_of_endless_scans_is_refused() -> None:
    """Each scan of a few bytes goes over all pixels once more."""
    data = saved(Image.fromarray(noise(64, 64)), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    scan = data[last:-2]
    decode(data[:-2] + scan * 20 + data[-2:])
    with pytest.raises(BadPicture, match="more than 100 scans"):
        decode(data[:-2] + scan * MOST_SCANS + data[-2:])


def test_endless_blocks_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment of a GIF in blocks of one byte, and frames without end."""
    monkeypatch.setattr(module._Reads, "left", 2000)  # as MOST_READS, in less time
    data = saved(Image.new("L", (3, 3)), "GIF")
    end = data.index(b"\x2c")  # where the first frame starts
    with pytest.raises(BadPicture, match="too many small blocks"):
        decode(data[:end] + b"\x21\xfe" + b"\x01a" * 5000 + b"\0" + data[end:])
    frame = data[end:-1]
    picture = decode(data[:end] + frame * 3000 + b";")
    assert picture.notes == ("only its first frame",)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "HEIC is not read; save it as PNG or JPEG"),
        (b'<?xml version="1.0"?><svg xmlns="x"/>', "SVG is not read; save it as PNG or JPEG"),
        (b"%PDF-1.7\n", "PDF is not read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "PostScript is not read"),
        (b"GGUF\3\0\0\0", r"not a picture in a format that is read \(PNG, JPEG, .*JPEG 2000"),
        (b"hello", "save it as PNG or JPEG"),
    ],
)
def test_what_is_no_picture(data: bytes, expected: str) -> None:
    with pytest.raises(BadPicture, match=expected):
        decode(data)


def test_formats_that_run_programs_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(
        "PIL.EpsImagePlugin.EpsImageFile._open", lambda self: tried.append("EPS"), raising=True
    )
    with pytest.raises(BadPicture):
        decode(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n")
    assert tried == []
