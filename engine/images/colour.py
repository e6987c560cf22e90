"""From whatever a file holds to RGB of 8 bits, a strip of rows at a time."""

from collections.abc import Callable, Iterator
from io import BytesIO
from math import isfinite

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

Bytes = NDArray[np.uint8]
Convert = Callable[[Image.Image], Bytes]
"""From a strip in the file's mode to u8 [h, w, 3]."""

STRIP = 1 << 20  # pixels
WHITE = (255, 255, 255, 255)


def strips(image: Image.Image) -> Iterator[tuple[int, Image.Image]]:
    """A loaded picture in strips from top to bottom, each with its first row."""
    step = max(STRIP // image.width, 1)
    for top in range(0, image.height, step):
        yield top, image.crop((0, top, image.width, min(top + step, image.height)))


def to_rgb(image: Image.Image) -> tuple[Convert, list[str]]:
    """How a loaded picture's strips become RGB, and notes on what that changes or leaves."""
    if image.mode.startswith("I;16"):
        return _grey(0, 65535), []
    if image.mode in ("I", "F"):
        if image.mode == "I" and image.format in ("PNG", "PPM"):  # 16 bits in Pillow's 32
            return _grey(0, 65535), []
        low, high = _extremes(image)
        return _grey(low, high), [f"values from {low:g} to {high:g} scaled to black and white"]
    if image.has_transparency_data:
        return _on_white, ["transparent parts shown on white"] + _profile_note(image)
    if image.mode in ("CMYK", "LAB"):
        return _by_profile(image)
    return _plain, _profile_note(image)


def _plain(strip: Image.Image) -> Bytes:
    return np.asarray(strip.convert("RGB"))


def _on_white(strip: Image.Image) -> Bytes:
    if strip.mode == "La":
        strip = strip.convert("LA")
    shown = strip.convert("RGBA")
    return _plain(Image.alpha_composite(Image.new("RGBA", shown.size, WHITE), shown))


def _grey(low: float, high: float) -> Convert:
    """Numbers between `low` and `high` as shades; what is no number is black."""

    def convert(strip: Image.Image) -> Bytes:
        values = np.asarray(strip).astype(np.float64)
        scaled = (np.clip(values, low, high) - low) * (255 / ((high - low) or 1))
        shades = np.rint(np.nan_to_num(scaled)).astype(np.uint8)
        return np.repeat(shades[:, :, None], 3, axis=2)

    return convert


def _extremes(image: Image.Image) -> tuple[float, float]:
    """The least and the largest finite value."""
    low, high = float("inf"), float("-inf")
    for _, strip in strips(image):
        values = np.asarray(strip)
        finite = values[np.isfinite(values)]
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    return (low, high) if isfinite(low) else (0.0, 0.0)


def _by_profile(image: Image.Image) -> tuple[Convert, list[str]]:
    """Printing colours: by the file's profile to sRGB, else by Pillow's formula."""
    profile = image.info.get("icc_profile")
    if not profile:
        return _plain, []
    try:
        source = ImageCms.ImageCmsProfile(BytesIO(profile))
        transform = ImageCms.buildTransform(
            source, ImageCms.createProfile("sRGB"), image.mode, "RGB"
        )
    except (ImageCms.PyCMSError, OSError, TypeError, ValueError):
        return _plain, ["its colour profile cannot be used"]
    return lambda strip: np.asarray(transform.apply(strip)), []


def _profile_note(image: Image.Image) -> list[str]:
    """Models saw pictures as the numbers in the file, whatever their profile or gamma said."""
    profile = image.info.get("icc_profile") or b""
    is_srgb = not profile or any("sRGB".encode(code) in profile for code in ("ascii", "utf-16-be"))
    gamma = image.info.get("gamma")
    is_usual = not isinstance(gamma, float) or abs(gamma - 1 / 2.2) < 0.01
    return [] if is_srgb and is_usual else ["its colour profile is not applied"]
