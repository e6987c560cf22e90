"""Towers of every family against float32 transformers, on the same pixels.

Rows in float32 on the host differ by what adding in another order does; a device may keep its
results in float16 where it says so. `KNOWN` are the families whose tower is there.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.backends.opencl.drivers.device import list_devices
from engine.images.plan import Learned, Limits, Rows, Size, Text
from tests.engine.models.vision.running import Running, host_of, running
from tests.goldens.vision.families import (
    PAIR,
    SINGLE,
    files_of,
    host_sizes,
    write_pair,
    write_single,
)
from tests.goldens.vision.store import Case, Seen, load_cases, load_state
from tests.truth.compare import nmse

KNOWN = {
    "gemma3": "gemma3",
    "gemma4": "gemma4",
    "gemma4e": "gemma4",
    "gemma4u": "gemma4",
    "idefics3": "llama",
    "mistral3": "llama",
    "llava": "llama",
    "qwen2vl": "qwen2vl",
    "qwen25vl": "qwen2vl",
    "pixtral": "llama",
    "llava_next": "llama",
    "internvl": "qwen2",
    "qwen3vl": "qwen3vl",
    "qwen35": "qwen35",
    "llama4": "llama4",
    "lfm2": "lfm2",
    "glm4v": "glm4",
    "glm4vmoe": "glm4moe",
    "glmocr": "glm4",
    "minicpmv": "qwen2",
    "kimivl": "deepseek2",
    "paddleocr": "paddleocr",
    "hunyuanvl": "hunyuan_vl",
    "lightonocr": "qwen3",
    "dotsocr": "qwen2",
    "minicpmv46": "qwen35",
    "kimik25": "deepseek2",
    "janus": "llama",
    "mllama": "mllama",
}
"""By family, the architecture of its text model."""

FILES = [(f, False) for f in PAIR if f in KNOWN] + [(f, True) for f in SINGLE if f in KNOWN]
OPENCL = [pytest.param(i.name, marks=pytest.mark.device, id=i.name) for i in list_devices()]


@contextmanager
def tower_of(
    family: str, folder: Path, is_single: bool = False, device: str = "host", kind: Kind = Kind.F32
) -> Iterator[Running]:
    """The family's tower from one of its layouts."""
    sizes = host_sizes(family)
    is_single = is_single or family not in PAIR
    arch = family if is_single else KNOWN[family]
    host = host_of(arch, sizes.embedding, sizes.eps)
    if is_single:
        path = write_single(folder, family, kind)
    else:
        _, path = write_pair(folder, family, kind)
    with running(path, host, device) as made:
        yield made


def rows_of(tower: Running, seen: Seen) -> np.ndarray:
    """A picture's rows as its plan's pieces have them, f32 [rows, E]; where pieces have none, those
    of all views.
    """
    height, width = seen.picture.shape[:2]
    limits = Limits(one_view=len(seen.views) == 1)
    plan = tower.built.tower.plan(Size(width, height), limits)
    assert [v.size for v in plan.views] == [(v.shape[1], v.shape[0]) for v in seen.views]
    if plan.cross:
        return tower.rows(np.concatenate(seen.views), plan)
    made = {i: tower.rows(seen.views[i], plan, i) for i in tower.built.tower.passes(plan)}
    return np.concatenate([piece_rows(tower, made, piece) for piece in plan.pieces])


def piece_rows(
    tower: Running, made: Mapping[int, np.ndarray], piece: Text | Rows | Learned
) -> np.ndarray:
    """The rows that stand for a piece; none for text."""
    if isinstance(piece, Rows):
        return made[piece.view][piece.first :][: piece.count]
    if isinstance(piece, Learned):
        return np.asarray(tower.built.learned[piece.name], np.float32)[None]
    return np.empty((0, made[0].shape[1]), np.float32)


def errors(tower: Running, family: str) -> dict[str, float]:
    """NMSE of each picture's rows, by case and number."""
    return {
        f"{case.name} {i}": nmse(rows_of(tower, seen), seen.rows)
        for case in load_cases(family).values()
        for i, seen in enumerate(case.seen)
    }


def worst(found: dict[str, float]) -> float:
    print({name: f"{error:.1e}" for name, error in found.items()})
    return max(found.values())


@pytest.mark.parametrize(("family", "is_single"), FILES)
def test_rows_are_transformers(family: str, is_single: bool, tmp_path: Path) -> None:
    with tower_of(family, tmp_path, is_single) as tower:
        assert worst(errors(tower, family)) < 1e-9


@pytest.mark.parametrize("family", PAIR)
def test_pictures_take_fewer_places_only_on_axes(family: str, tmp_path: Path) -> None:
    """A text model that counts tokens alone would be shifted by too few."""
    with tower_of(family, tmp_path) as tower:
        plan = tower.built.tower.plan(Size(140, 98), Limits())
        assert plan.advance is None or tower.built.tower.axes


@pytest.mark.sampled(3)
@pytest.mark.full_cases(r"pocl:0-(?!llava\])")  # another driver sees with one family
@pytest.mark.parametrize("family", KNOWN)
@pytest.mark.parametrize("device", OPENCL)
def test_rows_on_devices(device: str, family: str, tmp_path: Path) -> None:
    with tower_of(family, tmp_path, device=device, kind=Kind.F16) as tower:
        assert worst(errors(tower, family)) < 1e-5


@pytest.mark.full_cases(r"\[pocl")
@pytest.mark.parametrize("family", KNOWN)
@pytest.mark.parametrize("device", OPENCL)
def test_rows_of_q8_0_on_devices(device: str, family: str, tmp_path: Path) -> None:
    """Against the host on the same file: what blocks of 8 bits lose is not the device's doing."""
    with (
        tower_of(family, tmp_path, kind=Kind.Q8_0) as exact,
        tower_of(family, tmp_path, device=device, kind=Kind.Q8_0) as tower,
    ):
        case = next(iter(load_cases(family).values()))
        assert nmse(rows_of(tower, case.seen[0]), rows_of(exact, case.seen[0])) < 1e-5


def test_f16_holds_the_weights_exactly(tmp_path: Path) -> None:
    case: Case = load_cases("gemma3")["two"]
    with (
        tower_of("gemma3", tmp_path, kind=Kind.F16) as half,
        tower_of("gemma3", tmp_path / "f32") as whole,
    ):
        assert np.array_equal(rows_of(half, case.seen[0]), rows_of(whole, case.seen[0]))


@pytest.mark.parametrize("family", PAIR)
def test_names_are_llama_cpps(family: str) -> None:
    """As the `gguf` package lists them; old files have three more, llama.cpp's own one, MiniCPM-V
    4.6 those of its windows.
    """
    tables = gguf.MODEL_TENSORS[gguf.MODEL_ARCH.MMPROJ]
    known = {gguf.TENSOR_NAMES[t].replace("{bid}", "0") for t in tables}
    known |= {"v.patch_embd.weight.1", "model.image_newline", "resampler.pos_embed_k"}
    known.add("v.patch_norm.0")
    parts = ("ln1", "attn_q", "attn_k", "attn_v", "attn_out", "ds_ln", "ds_ffn_up", "ds_ffn_down")
    known |= {f"v.vit_merger.{part}" for part in parts}  # as llama.cpp lists them since
    for name in files_of(family).mmproj(load_state(family)).tensors:
        plain = re.sub(r"\.\d+(?=\.)", ".0", name)
        plain = re.sub(r"\.(weight|bias|(in|out)put_(min|max))$", "", plain)
        assert name in known or plain in known, name
