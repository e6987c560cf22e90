"""Pictures, and what the families' processors make of them: `pixels.npz`, by `processors.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

FILE = Path(__file__).parent / "pixels.npz"
SIZES = ((56, 56), (64, 48), (31, 17), (112, 28), (90, 61), (20, 130), (1, 1), (200, 3))
"""Width and height; the first and the fourth need no resize in some families."""

CLIP = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
HALF = (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)
IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NONE = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
COLOURS = {
    "gemma3": HALF,
    "pixtral": CLIP,
    "mistral3": CLIP,
    "qwen25vl": CLIP,
    "qwen3vl": HALF,
    "mllama": CLIP,
    "llama4": HALF,
    "idefics3": HALF,
    "llava": CLIP,
    "llava_next": CLIP,
    "internvl": IMAGENET,
    "gemma4": NONE,
}
"""Each family's mean and standard deviation of red, green and blue."""


def picture(w: int, h: int) -> np.ndarray:
    """uint8 [h, w, 3]: a slope, a disc with a hard edge, and grain."""
    y, x = np.mgrid[:h, :w].astype(np.float64)
    slope = np.stack([x / w, y / h, (x + y) / (w + h)], axis=-1) * 255
    disc = ((x / w - 0.4) ** 2 + (y / h - 0.6) ** 2 < 0.08)[:, :, None]
    grain = np.random.default_rng([w, h]).integers(-12, 13, (h, w, 3))
    return np.clip(np.where(disc, 255 - slope, slope) + grain, 0, 255).astype(np.uint8)


def load_views(family: str, size: tuple[int, int]) -> list[np.ndarray]:
    """uint8 [h, w, 3] of each view, before normalising; none where the picture is refused."""
    with np.load(FILE) as file:
        start = f"{family}/{size[0]}x{size[1]}/"
        count = sum(name.startswith(start) for name in file.files)
        return [file[f"{start}{number}"] for number in range(count)]
