"""Files that lie about their numbers: one line that names key, value and range, and little work."""

import lzma
import random
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from math import inf, nan
from pathlib import Path
from types import NoneType, UnionType
from typing import get_args, get_origin, get_type_hints

import gguf
import numpy as np
import pytest

from engine.errors import BadFile, CutawayError, TensorMismatch
from engine.gguf import GGUFFile, open_gguf
from engine.gguf.formats import FORMATS, UNREADABLE
from engine.gguf.metadata import Metadata, MetadataEntry
from engine.gguf.tensors import TensorInfo
from engine.gguf.values import ValueType
from engine.models.build import BuiltModel, build_model, find
from engine.runner import load
from engine.weights.params import Meta, OneOf
from tests.gguf_files import drafted
from tests.goldens.tiny import ARCHITECTURES, Value, write_tiny
from tests.goldens.vision.families import TEXTS, write_text

UINT64, FLOAT, STRING = (
    gguf.GGUFValueType.UINT64,
    gguf.GGUFValueType.FLOAT64,
    gguf.GGUFValueType.STRING,
)
TEXT = Path(__file__).parents[2] / "goldens" / "text"
INTEGERS = [0, 1, 7, 1 << 31, 1 << 63, (1 << 64) - 1, -1, -(1 << 31)]
# The third makes a magnitude of YaRN's nearly 0.
FLOATS = [0.0, 1.0, 4.5399929762484854e-05, -4.0, 5e-324, 1e308, nan, inf, -inf]
WORDS = ["", "longrope", "y" * 70_000]
READABLE = [fmt for fmt in FORMATS.values() if fmt not in UNREADABLE]
KINDS = {
    bool: ValueType.BOOL,
    int: ValueType.INT64,
    float: ValueType.FLOAT64,
    str: ValueType.STRING,
}


def keys(architecture: str) -> Iterator[tuple[type, Meta]]:
    """Type and marker of every metadata key that its params declare, but those of arrays alone."""
    params = find(architecture).Params
    hints = get_type_hints(params, include_extras=True)
    for field in fields(params):  # type: ignore[arg-type]
        kind, *extra = get_args(hints[field.name])
        meta = next(e for e in extra if isinstance(e, Meta))
        if get_origin(kind) is UnionType:
            kind = [one for one in get_args(kind) if one is not NoneType][-1]
        if get_origin(kind) is not tuple or meta.by_layer:
            yield get_args(kind)[0] if get_origin(kind) is tuple else kind, meta


def values(kind: type, meta: Meta) -> list[object]:
    if isinstance(meta.allowed, OneOf):
        return [*WORDS, *meta.allowed.words]
    if kind is bool:
        return [False, True]
    return [*(INTEGERS if kind is int else FLOATS), kind(meta.allowed.low), kind(meta.allowed.high)]


def with_values(file: GGUFFile, **values: object) -> Metadata:
    """The metadata of a file with other values, by key within the architecture."""
    metadata = file.metadata
    entries = {key: metadata[key] for key in metadata}
    for key, value in values.items():
        raw = memoryview(value.encode()) if isinstance(value, str) else value
        full = f"{metadata.architecture}.{key}"
        entries[full] = MetadataEntry(KINDS[type(value)], raw)  # type: ignore[arg-type]
    return Metadata(metadata.path, entries)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    folder = tmp_path_factory.mktemp("tiny")
    tiny = {name: write_tiny(folder / f"{name}.gguf", name) for name in ARCHITECTURES}
    return tiny | {name: write_text(folder / f"{name}.gguf", name) for name in TEXTS}


def turned(built: BuiltModel) -> Iterator[np.ndarray]:
    """The tables of rotations that a step makes of the params."""
    for rope in {layer.rope for layer in built.layers if layer is not None} - {None}:
        assert rope is not None
        yield rope.table(np.arange(4, dtype=np.int32))
        yield rope.turn(np.array([-3, 300], np.int32))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("architecture", "kind", "meta"),
    [
        pytest.param(architecture, kind, meta, id=f"{architecture}-{meta.key}")
        for architecture in (*ARCHITECTURES, *TEXTS)
        for kind, meta in keys(architecture)
    ],
)
def test_every_key_has_a_range(
    architecture: str, kind: type, meta: Meta, tiny: Mapping[str, Path]
) -> None:
    """With YaRN, which divides and takes logarithms of what the file says: an error of another
    kind fails, and so does a warning of NumPy's.
    """
    with open_gguf(tiny[architecture]) as file, np.errstate(all="raise", under="ignore"):
        original = file.metadata
        for value in values(kind, meta):
            file.metadata = original
            file.metadata = with_values(file, **{"rope.scaling.type": "yarn", meta.key: value})
            try:
                built = build_model(file, 64, 16)
            except CutawayError as error:
                message = str(error).removeprefix(f"{file.paths[0]}: ")
                assert "\n" not in message
                assert len(message) < 300
                if not meta.allowed.has(value):
                    assert message.startswith(f"metadata '{architecture}.{meta.key}' is ")
                    assert message.endswith(f"; expected {meta.allowed}")
            else:
                assert meta.allowed.has(value)
                assert all(np.isfinite(table).all() for table in turned(built))


def test_all_that_is_out_of_range_comes_in_one_error(tmp_path: Path) -> None:
    metadata = {
        "llama.rope.freq_base": (1.0, FLOAT),
        "llama.attention.head_count": (0, UINT64),
        "llama.rope.scaling.factor": (-4.0, FLOAT),
    }
    path = write_tiny(tmp_path / "odd.gguf", "llama", metadata=metadata)
    with open_gguf(path) as file, pytest.raises(BadFile) as caught:
        build_model(file, 64, 16)
    assert str(caught.value).removeprefix(str(path)) == (
        ": metadata 'llama.attention.head_count' is 0; expected 1 to 65536;"
        " 'llama.rope.freq_base' is 1.0; expected 2 to 1000000000000;"
        " 'llama.rope.scaling.factor' is -4.0; expected 0, or 0.01 to 65536"
    )


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        (
            {"attention.head_count": (7, UINT64)},
            "embedding_length 64 is not a multiple of head_count 7",
        ),
        (
            {"attention.head_count_kv": (3, UINT64)},
            "head_count 4 is not a multiple of head_count_kv 3",
        ),
        ({"rope.dimension_count": (15, UINT64)}, "is 15; expected an even number up to 16"),
        ({"rope.dimension_count": (18, UINT64)}, "is 18; expected an even number up to 16"),
    ],
)
def test_numbers_that_do_not_go_together(
    metadata: dict[str, Value], words: str, tmp_path: Path
) -> None:
    own = {f"llama.{key}": value for key, value in metadata.items()}
    path = write_tiny(tmp_path / "odd.gguf", "llama", metadata=own)
    with open_gguf(path) as file, pytest.raises(BadFile, match=words):
        build_model(file, 64, 16)


@pytest.mark.parametrize(
    ("size", "words"), [(7, r"\[7\]"), (1_000_000, r"\[1000000\]")], ids=["short", "long"]
)
def test_a_constant_is_refused_by_its_header(
    size: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = {"rope_freqs.weight": np.ones(size, np.float32)}
    path = write_tiny(tmp_path / "odd.gguf", "llama", tensors=tensors)
    read: list[str] = []
    data = GGUFFile.data
    monkeypatch.setattr(GGUFFile, "data", lambda file, name: read.append(name) or data(file, name))
    expected = rf"rope_freqs\.weight is {words}; expected \[8\]"
    with open_gguf(path) as file, pytest.raises(BadFile, match=expected):
        build_model(file, 64, 16)
    assert read == []


@pytest.mark.parametrize("value", [0.0, -1.0, nan, inf])
def test_a_constant_has_a_range_too(value: float, tmp_path: Path) -> None:
    factors = np.ones(8, np.float32)
    factors[5] = value
    path = write_tiny(tmp_path / "odd.gguf", "llama", tensors={"rope_freqs.weight": factors})
    with open_gguf(path) as file, pytest.raises(BadFile, match=f"weight holds {value:g}; expected"):
        build_model(file, 64, 16)


def test_a_constant_may_have_further_dimensions_of_one(tmp_path: Path) -> None:
    """[8, 1] is [8]; it came out as a list within a list, which no table of angles has."""
    factors = np.full((1, 8), 2, np.float32)
    path = write_tiny(tmp_path / "odd.gguf", "llama", tensors={"rope_freqs.weight": factors})
    with open_gguf(path) as file:
        assert file.tensors["rope_freqs.weight"].n_dims == 2
        ropes = {cache.rope for cache in build_model(file, 64, 16).layers}
    assert [rope.factors for rope in ropes if rope is not None] == [(2.0,) * 8]


def peak(path: Path) -> int:
    """Bytes that building takes at most, or that refusing takes."""
    with open_gguf(path) as file:
        tracemalloc.start()
        try:
            build_model(file, 64, 16)
        except CutawayError:
            pass
        finally:
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    return most


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("count", [2, 65_536])
def test_blocks_are_compared_with_the_tensors_first(
    architecture: str, count: int, tmp_path: Path
) -> None:
    """Refusing does no more than building what is there."""
    usual = peak(write_tiny(tmp_path / "tiny.gguf", architecture))
    metadata = {f"{architecture}.block_count": (count, UINT64)}
    path = write_tiny(tmp_path / "odd.gguf", architecture, metadata=metadata)
    with open_gguf(path) as file, pytest.raises(BadFile, match=rf"block_count is {count} but the"):
        build_model(file, 64, 16)
    assert peak(path) <= 2 * usual


def test_a_block_far_away_takes_no_more_than_one_that_is_there(tmp_path: Path) -> None:
    usual = peak(write_tiny(tmp_path / "tiny.gguf", "llama"))
    far = {"blk.99999999.attn_q.weight": np.ones((64, 64), np.float16)}
    path = write_tiny(tmp_path / "odd.gguf", "llama", tensors=far)
    with open_gguf(path) as file, pytest.raises(TensorMismatch, match=r"blk\.3 to blk\.99999998"):
        build_model(file, 64, 16)
    assert peak(path) <= 2 * usual


@pytest.mark.parametrize(
    ("architecture", "metadata"),
    [
        ("llama", {"rope.scaling.type": ("yarn", STRING), "rope.scaling.factor": (0.01, FLOAT)}),
        ("llama", {"attention.layer_norm_rms_epsilon": (1e-12, FLOAT)}),
        ("gemma3", {"attention.sliding_window": ((1 << 31) - 1, UINT64)}),
        ("gemma3", {"attention.sliding_window": (0, UINT64)}),
        ("gemma3", {"attention.sliding_window": (1, UINT64)}),
        ("gemma3", {"rope.freq_base": (1e12, FLOAT), "rope.scaling.factor": (65536.0, FLOAT)}),
    ],
)
def test_what_is_in_range_is_computed(
    architecture: str, metadata: dict[str, Value], tmp_path: Path
) -> None:
    own = {f"{architecture}.{key}": value for key, value in metadata.items()}
    path = write_tiny(tmp_path / "odd.gguf", architecture, metadata=own)
    with load(path, device="host", ctx=64) as model:
        for _, logits in model.logits(range(10, 30)):
            assert np.isfinite(logits).all()


def odd(info: TensorInfo, chance: random.Random) -> TensorInfo:
    """The same tensor as a header might tell of it: another type, another shape, or both."""
    fmt = chance.choice([info.fmt, chance.choice(READABLE)])
    a, b, *_ = info.shape
    shape = chance.choice(
        [info.shape, (b, a, 1, 1), (2 * a, b, 1, 1), (a, b + 1, 1, 1), (a, b, 2, 1), (256, 2, 2, 2)]
    )
    if shape[0] % fmt.block:
        return info  # the reader refuses it
    size = fmt.row_bytes(shape[0]) * shape[1] * shape[2] * shape[3]
    return replace(info, fmt=fmt, shape=shape, n_dims=4, offset=0, nbytes=size)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_tensors_of_any_type_and_shape(
    architecture: str, count: int, tiny: Mapping[str, Path]
) -> None:
    """Each is bound and makes a graph, or is refused in one line."""
    chance = random.Random(5)
    refusals: list[str] = []
    with open_gguf(tiny[architecture]) as file:
        original = dict(file.tensors)
        for _ in range(count):
            chosen = chance.sample(sorted(original), chance.choice([1, 1, 1, 3]))
            file.tensors = original | {name: odd(original[name], chance) for name in chosen}
            try:
                build_model(file, 64, 16)
            except CutawayError as error:
                refusals.append(str(error))
    assert not any("\n" in refusal for refusal in refusals)
    assert count / 5 < len(refusals) < count * 4 / 5


@pytest.mark.parametrize("tensor", ["attn_k", "attn_k_norm"])
def test_a_layer_that_lends_keys_has_them(tensor: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole.gguf"
    whole.write_bytes(lzma.decompress((TEXT / "gemma3n.gguf.xz").read_bytes()))
    with open_gguf(whole) as file:
        draft = drafted(file)
    del draft.tensors[f"blk.0.{tensor}.weight"]
    path = draft.write(tmp_path / "odd.gguf")
    with (
        open_gguf(path) as file,
        pytest.raises(TensorMismatch, match=rf"1 tensors missing: blk\.0\.{tensor}\.weight"),
    ):
        build_model(file, 64, 16)
