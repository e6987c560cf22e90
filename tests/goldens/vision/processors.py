"""Makes pixels.npz: what transformers' image processors make of small pictures.

    python -m tests.goldens.vision.processors

with transformers 5.23.0, torch 2.13.0 and Pillow 13.0.0; Llama 4's processor needs torchvision 0.28
too. Each family has small tiles, so that odd grids, several tiles and padding all come up in little
space. Processors are those on Pillow (Llama 4 has none). What they do that families do not:
LLaVA's pads to a square here, which its published settings leave to a crop that cuts pictures.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.llama4.image_processing_llama4 import Llama4ImageProcessor
from transformers.models.llava.image_processing_pil_llava import LlavaImageProcessorPil
from transformers.models.llava_next.image_processing_pil_llava_next import (
    LlavaNextImageProcessorPil,
)
from transformers.models.mllama.image_processing_pil_mllama import MllamaImageProcessorPil
from transformers.models.pixtral.image_processing_pil_pixtral import PixtralImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from tests.goldens.vision.pixels import CLIP, COLOURS, FILE, HALF, IMAGENET, SIZES, picture

Views = list[np.ndarray]
"""float32 [h, w, 3] each."""

PINPOINTS = [[14 * h, 14 * w] for h, w in ((2, 4), (4, 2), (4, 4), (6, 2), (2, 6))]


def edge(n: int) -> dict[str, int]:
    return {"height": n, "width": n}


def upright(values: Any) -> np.ndarray:
    """[3, h, w] -> [h, w, 3]."""
    return np.moveaxis(np.asarray(values), 0, -1)


def gemma3(shown: Image.Image) -> Views:
    return [upright(Gemma3ImageProcessorPil(size=edge(56))(shown)["pixel_values"][0])]


def pixtral(shown: Image.Image) -> Views:
    made = PixtralImageProcessorPil(size={"longest_edge": 80}, patch_size=edge(16))(shown)
    w, h = made["image_sizes"][0][::-1]
    return [upright(made["pixel_values"][0])[:h, :w]]


def mistral3(shown: Image.Image) -> Views:
    made = PixtralImageProcessorPil(size={"longest_edge": 110}, patch_size=edge(28))(shown)
    w, h = made["image_sizes"][0][::-1]
    return [upright(made["pixel_values"][0])[:h, :w]]


def qwen(patch: int, colours: tuple[Any, Any], least: int, most: int) -> Callable[..., Views]:
    def views(shown: Image.Image) -> Views:
        make = Qwen2VLImageProcessorPil(
            patch_size=patch,
            size={"shortest_edge": least, "longest_edge": most},
            image_mean=colours[0],
            image_std=colours[1],
        )
        made = make(shown)
        _, gh, gw = np.asarray(made["image_grid_thw"])[0]
        patches = np.asarray(made["pixel_values"])  # cells, places in a cell, channel, time, y, x
        cells = patches.reshape(gh // 2, gw // 2, 2, 2, 3, 2, patch, patch)
        assert np.array_equal(cells[..., 0, :, :], cells[..., 1, :, :])
        whole = cells[..., 0, :, :].transpose(0, 2, 5, 1, 3, 6, 4)
        return [whole.reshape(gh * patch, gw * patch, 3)]

    return views


def mllama(shown: Image.Image) -> Views:
    make = MllamaImageProcessorPil(
        size=edge(28), max_image_tiles=4, image_mean=CLIP[0], image_std=CLIP[1]
    )
    made = make(shown)
    return [upright(tile) for tile in made["pixel_values"][0][0][: made["num_tiles"][0][0]]]


def llama4(shown: Image.Image) -> Views:
    make = Llama4ImageProcessor(size=edge(28), max_patches=16)
    tiles = make(shown, return_tensors="pt")["pixel_values"].float().numpy()
    return [upright(tile) for tile in tiles.reshape(-1, 3, 28, 28)]


def idefics3(shown: Image.Image) -> Views:
    make = Idefics3ImageProcessorPil(
        size={"longest_edge": 112}, max_image_size={"longest_edge": 28}
    )
    return [upright(tile) for tile in make(shown)["pixel_values"][0]]


def llava(shown: Image.Image) -> Views:
    make = LlavaImageProcessorPil(size={"shortest_edge": 56}, crop_size=edge(56), do_pad=True)
    return [upright(make(shown)["pixel_values"][0])]


def llava_next(shown: Image.Image) -> Views:
    make = LlavaNextImageProcessorPil(
        size={"shortest_edge": 28}, crop_size=edge(28), image_grid_pinpoints=PINPOINTS
    )
    return [upright(tile) for tile in make(shown)["pixel_values"][0]]


def internvl(shown: Image.Image) -> Views:
    make = GotOcr2ImageProcessorPil(
        size=edge(28),
        crop_to_patches=True,
        max_patches=12,
        image_mean=IMAGENET[0],
        image_std=IMAGENET[1],
    )
    return [upright(tile) for tile in make(shown)["pixel_values"]]


def gemma4(shown: Image.Image) -> Views:
    made = Gemma4ImageProcessorPil(max_soft_tokens=70, patch_size=4)(shown)
    places = np.asarray(made["image_position_ids"])[0]  # x, y; -1 where there is no patch
    places = places[places[:, 0] >= 0]
    w, h = places.max(0) + 1
    patches = np.asarray(made["pixel_values"])[0][: w * h].reshape(h, w, 4, 4, 3)
    return [patches.transpose(0, 2, 1, 3, 4).reshape(4 * h, 4 * w, 3)]


FAMILIES: dict[str, Callable[[Image.Image], Views]] = {
    "gemma3": gemma3,
    "pixtral": pixtral,
    "mistral3": mistral3,
    "qwen25vl": qwen(14, CLIP, 3136, 8000),
    "qwen3vl": qwen(16, HALF, 4096, 10000),
    "mllama": mllama,
    "llama4": llama4,
    "idefics3": idefics3,
    "llava": llava,
    "llava_next": llava_next,
    "internvl": internvl,
    "gemma4": gemma4,
}


def levels(family: str, values: np.ndarray) -> np.ndarray:
    """The uint8 pixels behind a processor's values, from which they follow."""
    mean, std = map(np.array, COLOURS[family])
    made = np.rint((values * std + mean) * 255)
    # Llama 4's are computed in bfloat16.
    within = 2**-7 if family == "llama4" else 1e-6
    np.testing.assert_allclose((made / 255 - mean) / std, values, atol=within, rtol=0)
    return made.astype(np.uint8)


def main() -> None:
    arrays = {}
    for family, views in FAMILIES.items():
        for w, h in SIZES:
            try:
                made = views(Image.fromarray(picture(w, h)))
            except ValueError as error:  # more than 200 times as long as high
                print(family, w, h, error)
                continue
            for number, values in enumerate(made):
                arrays[f"{family}/{w}x{h}/{number}"] = levels(family, values)
    np.savez_compressed(FILE, **arrays)
    print(Path(FILE).stat().st_size, "bytes,", len(arrays), "views")


if __name__ == "__main__":
    main()
