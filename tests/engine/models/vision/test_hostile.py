"""Projectors that lie about their numbers: one line that names key, value and range."""

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from math import inf, nan
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from engine.errors import BadFile, CutawayError, TensorMismatch, UnsupportedModel
from engine.gguf import GGUFFile, open_gguf
from engine.gguf.metadata import Metadata, MetadataEntry
from engine.gguf.values import ValueType
from engine.images.plan import Limits, Size
from engine.models.vision import gemma4u, is_vision
from engine.models.vision.base import Family, TextHost
from engine.models.vision.build import MMPROJ, build_tower, find, kind_of
from engine.weights.params import MOST_VALUES, Meta, Range
from tests.engine.models.test_hostile import odd
from tests.engine.models.vision.running import host_of
from tests.engine.models.vision.test_goldens import KNOWN
from tests.goldens.vision.families import PAIR, host_sizes, write_pair, write_single
from tests.goldens.vision.files import llava
from tests.goldens.vision.store import load_state

INTEGERS = [0, 1, 7, 1 << 31, 1 << 63, (1 << 64) - 1, -1]
FLOATS = [0.0, -4.0, 5e-324, 1e308, nan, inf, -inf]
KINDS = {
    int: ValueType.INT64,
    float: ValueType.FLOAT64,
    str: ValueType.STRING,
    bool: ValueType.BOOL,
}
# Of two that belong together the one that is left is named; of two names the newer one.
TOGETHER = {
    "mm.input_norm.weight": "mm.patch_merger.weight",
    "mm.patch_merger.weight": "mm.input_norm.weight",
    "model.image_newline": "v.image_newline",
    "v.norm_embd.weight": "v.position_embd.weight",
    "v.position_embd.weight": "v.norm_embd.weight",
    "v.std_bias": "v.std_scale",
    "v.std_scale": "v.std_bias",
    **{f"v.blk.{i}.attn_q_norm.weight": f"v.blk.{i}.attn_k_norm" for i in range(2)},
    **{f"v.blk.{i}.attn_k_norm.weight": f"v.blk.{i}.attn_q_norm" for i in range(2)},
}
SIZES = [Size(1, 1), Size(31, 17), Size(4000, 3000), Size(10000, 60)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("mmproj")
    return {f: write_pair(folder, f)[1] if f in PAIR else write_single(folder, f) for f in KNOWN}


def host(family: str) -> TextHost:
    sizes = host_sizes(family)
    return host_of(KNOWN[family], sizes.embedding, sizes.eps)


def family_of(file: GGUFFile) -> Family:
    return find(kind_of(file), file.metadata.architecture != MMPROJ)


def keys(family: str, files: Mapping[str, Path]) -> Iterator[tuple[Any, Meta]]:
    """Type and marker of every metadata key that its params declare."""
    with open_gguf(files[family]) as file:
        params = family_of(file).Params
    hints = get_type_hints(params, include_extras=True)
    for field in fields(params):
        kind, *extra = get_args(hints[field.name])
        yield kind, next(e for e in extra if isinstance(e, Meta))


def values(kind: type, meta: Meta) -> list[Any]:
    assert isinstance(meta.allowed, Range)
    if kind is bool:
        return [True, False]
    return [*(INTEGERS if kind is int else FLOATS), kind(meta.allowed.low), kind(meta.allowed.high)]


def with_value(file: GGUFFile, key: str, value: Any) -> Metadata:
    """The metadata of a file with another value, by the full key."""
    entries = {key: file.metadata[key] for key in file.metadata}
    raw = memoryview(value.encode()) if isinstance(value, str) else value
    entries[f"{file.metadata.architecture}.{key}"] = MetadataEntry(KINDS[type(value)], raw)
    return Metadata(file.metadata.path, entries)


@pytest.mark.parametrize("family", KNOWN)
def test_every_key_has_a_range(family: str, files: Mapping[str, Path]) -> None:
    """Each value is refused in one line, or makes a tower that plans any picture."""
    with open_gguf(files[family]) as file:
        original, arch = file.metadata, file.metadata.architecture
        for kind, meta in keys(family, files):
            if get_origin(kind) is tuple:
                continue
            for value in values(kind, meta):
                file.metadata = original
                file.metadata = with_value(file, meta.key, value)
                try:
                    tower = build_tower(file, host(family)).tower
                except CutawayError as error:
                    message = str(error).removeprefix(f"{file.paths[0]}: ")
                    assert "\n" not in message
                    assert len(message) < 300
                    if not meta.allowed.has(value):
                        assert message.startswith(f"metadata '{arch}.{meta.key}' is ")
                        assert message.endswith(f"; expected {meta.allowed}")
                    continue
                assert meta.allowed.has(value)
                for limits in (Limits(), Limits(rows=64), Limits(one_view=True)):
                    assert tower.worst(limits) > 0
                    assert all(tower.plan(size, limits).rows > 0 for size in SIZES)
        file.metadata = original


def test_arrays_have_a_length_and_elements_in_a_range(tmp_path: Path) -> None:
    def build(**changed: list[float]) -> None:
        made = llava.mmproj(load_state("llava"))
        more = {f"clip.vision.{key}": value for key, value in changed.items()}
        odd_one = replace(made, metadata={**made.metadata, **more})
        with open_gguf(odd_one.write(tmp_path / "odd.gguf")) as file:
            build_tower(file, host("llava"))

    build(image_mean=[0.4, 0.4, 0.4])
    with pytest.raises(BadFile, match=r"'clip\.vision\.image_mean' has 2 values; expected 3"):
        build(image_mean=[0.4, 0.4])
    with pytest.raises(BadFile, match=r"image_std' is 0\.0; expected 0\.001 to 16"):
        build(image_std=[0.5, 0.0, 0.5])
    with pytest.raises(BadFile, match=r"image_mean' is nan; expected -16 to 16"):
        build(image_mean=[0.5, nan, 0.5])
    long = [28] * (MOST_VALUES + 1)
    with pytest.raises(BadFile, match=rf"has {len(long)} values; expected at most {MOST_VALUES}"):
        build(image_grid_pinpoints=long)
    with pytest.raises(BadFile, match="are not pairs of a width and a height"):
        build(image_grid_pinpoints=[28, 56, 28])
    with pytest.raises(BadFile, match="has 16352x16352, which is not up to 64 tiles of"):
        build(image_grid_pinpoints=[28 * 584, 28 * 584])
    with pytest.raises(BadFile, match=r"vision\.feature_layer 3 is above vision\.block_count 2"):
        build(feature_layer=[3])


@pytest.mark.parametrize("count", [40, pytest.param(4000, marks=pytest.mark.full)])
@pytest.mark.parametrize("family", KNOWN)
def test_tensors_of_any_type_and_shape(family: str, count: int, files: Mapping[str, Path]) -> None:
    """Each is bound and makes a graph, or is refused in one line."""
    chance = random.Random(7)
    refusals: list[str] = []
    with open_gguf(files[family]) as file:
        original = dict(file.tensors)
        for _ in range(count):
            chosen = chance.sample(sorted(filter(is_vision, original)), chance.choice([1, 1, 3]))
            file.tensors = original | {name: odd(original[name], chance) for name in chosen}
            try:
                build_tower(file, host(family))
            except CutawayError as error:
                refusals.append(str(error))
    assert not any("\n" in refusal for refusal in refusals)
    assert count / 5 < len(refusals) < count


@pytest.mark.parametrize("family", KNOWN)
def test_missing_and_unused_tensors_are_named(family: str, files: Mapping[str, Path]) -> None:
    with open_gguf(files[family]) as file:
        original = dict(file.tensors)
        ignored = family_of(file).Model.ignored
        for name in filter(is_vision, original):
            file.tensors = {n: t for n, t in original.items() if n != name}
            optional = (name.endswith(".bias") and "ln" not in name) or name == "v.class_embd"
            bounds = name.endswith(("put_min", "put_max"))
            if optional or bounds or name.startswith(ignored):
                continue
            with pytest.raises((TensorMismatch, BadFile)) as caught:
                build_tower(file, host(family))
            own = name.removesuffix(".weight").removesuffix(".bias")
            left = TOGETHER.get(name, name).removesuffix(".weight").removesuffix(".bias")
            first = re.sub("attn_qkv$", "attn_q", re.sub("attn_output$", "attn_out", left))
            first = re.sub("attn_norm$", "ln1", re.sub("ffn_norm$", "ln2", first))
            assert any(part in str(caught.value) for part in (own, left, first))
        extra = next(iter(original.values()))
        file.tensors = original | {"v.blk.0.bait.weight": extra}
        with pytest.raises(TensorMismatch, match=r"v\.blk\.0\.bait\.weight"):
            build_tower(file, host(family))
        file.tensors = original | {"a.blk.0.sound.weight": extra}
        build_tower(file, host(family))


@pytest.mark.parametrize("family", KNOWN)
def test_no_picture_is_larger_than_the_worst(family: str, files: Mapping[str, Path]) -> None:
    chance = random.Random(3)
    with open_gguf(files[family]) as file:
        tower = build_tower(file, host(family)).tower
    side = tower.params.cell if isinstance(tower, gemma4u.Model) else tower.params.patch
    for _ in range(200):
        w, h = int(10 ** chance.uniform(0, 4)), int(10 ** chance.uniform(0, 4))
        size = Size(max(w, -(-h // 199)), max(h, -(-w // 199)))
        limits = Limits(rows=chance.choice([None, 1, 7, 60, 300, 4096]))
        worst = tower.worst(limits)
        for view in tower.plan(size, limits).views:
            patches = view.size.w * view.size.h // side**2
            assert tower.bucket(patches) <= worst, (size, limits, view.size)


def test_blocks_are_compared_with_the_tensors(files: Mapping[str, Path]) -> None:
    with open_gguf(files["gemma3"]) as file:
        file.metadata = with_value(file, "vision.block_count", 1024)
        with pytest.raises(BadFile, match=r"vision\.block_count is 1024 but the tensors make 2"):
            build_tower(file, host("gemma3"))


def test_what_cannot_read_its_rows_is_told(files: Mapping[str, Path]) -> None:
    fits = host("gemma3")
    with open_gguf(files["gemma3"]) as file:
        words = (
            "a gemma3 projector for the architecture 'llama' is not supported; supported: gemma3"
        )
        with pytest.raises(UnsupportedModel, match=words):
            build_tower(file, TextHost("llama", fits.n_embd, 2, 1e-6, lambda token: True))
        words = "its rows are 64 wide, those of the text model 128: it belongs to another model"
        with pytest.raises(BadFile, match=words):
            build_tower(file, TextHost("gemma3", 128, 2, 1e-6, lambda token: True))
        words = "has no '<start_of_image>', which a gemma3 projector needs"
        with pytest.raises(BadFile, match=words):
            build_tower(
                file, TextHost("gemma3", 64, 2, 1e-6, lambda token: token != "<start_of_image>")
            )


def test_rows_with_places_need_a_text_model_that_has_them(files: Mapping[str, Path]) -> None:
    with open_gguf(files["glm4v"]) as file:
        build_tower(file, host("glm4v"))
        words = "has no rope.dimension_sections, by which rows of a glm4v projector are placed"
        with pytest.raises(BadFile, match=words):
            build_tower(file, replace(host("glm4v"), has_axes=False))


def test_further_rows_are_as_many_as_the_text_model_adds(files: Mapping[str, Path]) -> None:
    fits = host("qwen3vl")
    with open_gguf(files["qwen3vl"]) as file:
        build_tower(file, replace(fits, n_deepstack=2))
        words = "makes 2 additional rows for each place, the text model adds such in 3 layers"
        with pytest.raises(BadFile, match=words):
            build_tower(file, replace(fits, n_deepstack=3))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        (
            "projector_type",
            "hearing",
            r"projector 'hearing' is not supported; supported: dots_ocr,",
        ),
        ("vision.projector_type", "", r"projector '' is not supported"),
        ("has_vision_encoder", False, r"is for sound, not for pictures"),
    ],
)
def test_kinds_that_are_not_known(
    key: str, value: Any, words: str, files: Mapping[str, Path]
) -> None:
    with open_gguf(files["gemma3"]) as file:
        file.metadata = with_value(file, key, value)
        with pytest.raises(CutawayError, match=words):
            build_tower(file, host("gemma3"))
