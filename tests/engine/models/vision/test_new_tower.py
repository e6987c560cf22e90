"""A tower that the engine has never seen is one file: the one in ./towers.

What it computes is held against its definition, written once more in NumPy below.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.device.backend import Component
from engine.errors import BadFile, TensorMismatch, UnsupportedModel
from engine.gguf import open_gguf
from engine.images.plan import Learned, Limits, Rows, Size, Text
from engine.models import vision
from engine.models.vision.build import build_tower, supported
from tests.engine.models.vision.definition import attention, convolved, rms_norm, silu
from tests.engine.models.vision.running import host_of, running
from tests.goldens.tiny import Draws, write_tiny
from tests.truth.compare import nmse

E, D, H, F, PATCH, MERGE, BLOCKS, EPS, LOUD = 48, 32, 4, 40, 4, 2, 2, 1e-5, 3.0
VIEW = ((Draws(3).uniform(16, 40, 3) + 1) * 127.5).astype(np.uint8)
HOST = host_of("llama", E)


def tensors() -> dict[str, np.ndarray]:
    """In the order and orientation of the file."""
    draws = Draws(8)
    made = {
        "v.patch_embd.weight": draws.matrix(D, 3 * PATCH**2, gain=2).reshape(D, 3, PATCH, PATCH),
        "v.class_embd": draws.norm(D),
        "mm.norm.weight": draws.norm(D),
        "mm.output.weight": draws.matrix(E, D),
        "mm.loudness.weight": np.array([LOUD], np.float32),
        "mm.line_end": draws.norm(E),
    }
    for i in range(BLOCKS):
        for name, rows, columns in (
            *(("attn_q", D, D), ("attn_k", D, D), ("attn_v", D, D), ("attn_out", D, D)),
            *(("ffn_gate", F, D), ("ffn_up", F, D), ("ffn_down", D, F)),
        ):
            made[f"v.blk.{i}.{name}.weight"] = draws.matrix(rows, columns, gain=2)
        made[f"v.blk.{i}.ln1.weight"] = draws.norm(D)
        made[f"v.blk.{i}.ln2.weight"] = draws.norm(D)
    return made


def write(writer: gguf.GGUFWriter) -> None:
    is_single = writer.arch != "clip"
    if not is_single:
        writer.add_string("clip.projector_type", "owl")
    keys = {"block_count": BLOCKS, "embedding_length": D, "attention.head_count": H}
    for key, value in (keys | {"image_size": 64, "patch_size": PATCH, "feathers": MERGE}).items():
        writer.add_uint32(f"{writer.arch}.vision.{key}", value)
    writer.add_float32(f"{writer.arch}.vision.attention.layer_norm_epsilon", EPS)
    for name, values in tensors().items():
        writer.add_tensor(name.replace("mm.output", "mm.hoot") if is_single else name, values)
    if is_single:
        writer.add_tensor("token_embd.weight", np.ones((8, E), np.float32))


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    folder = Path(__file__).parent / "towers"
    monkeypatch.setattr(vision, "__path__", [*vision.__path__, str(folder)])
    yield
    sys.modules.pop(f"{vision.__name__}.owl", None)
    vision.__dict__.pop("owl", None)


@pytest.fixture
def path(tmp_path: Path, known: None) -> Path:
    return write_tiny(tmp_path / "mmproj-owl.gguf", "clip", write=write)


def by_definition(view: np.ndarray) -> np.ndarray:
    """Rows [cells, E] of a picture in raster order, in float64."""
    w = {name: t.astype(np.float64) for name, t in tensors().items()}
    x = convolved(view / 127.5 - 1, w["v.patch_embd.weight"], None)
    rows, cols = view.shape[0] // PATCH, view.shape[1] // PATCH
    half = np.concatenate([[0], np.arange(len(x)) % cols * 2 // cols])
    x = np.vstack([w["v.class_embd"], x])
    for i in range(BLOCKS):
        block = {
            n.removeprefix(f"v.blk.{i}."): t for n, t in w.items() if n.startswith(f"v.blk.{i}")
        }
        h = rms_norm(x, block["ln1.weight"], EPS)
        q, k, v = ((h @ block[f"attn_{part}.weight"].T).reshape(len(x), H, -1) for part in "qkv")
        seen = half[:, None] == half if i % 2 else None
        x = x + attention(q, k, v, seen) @ block["attn_out.weight"].T
        h = rms_norm(x, block["ln2.weight"], EPS)
        gated = silu(h @ block["ffn_gate.weight"].T) * (h @ block["ffn_up.weight"].T)
        x = x + gated @ block["ffn_down.weight"].T
    cells = x[1:].reshape(rows // MERGE, MERGE, cols // MERGE, MERGE, D).mean((1, 3))
    return rms_norm(cells.reshape(-1, D), w["mm.norm.weight"], EPS) @ w["mm.output.weight"].T * LOUD


def test_it_is_unknown_without_its_folder(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "mmproj-owl.gguf", "clip", write=write)
    words = (
        r"projector 'owl' is not supported; supported: dots_ocr, gemma3, gemma4uv, gemma4v, glm4v"
    )
    with open_gguf(path) as file, pytest.raises(UnsupportedModel, match=words):
        build_tower(file, HOST)


@pytest.mark.usefixtures("known")
def test_it_is_found_by_its_projector() -> None:
    assert "owl" in supported()


def test_it_computes_what_it_defines(path: Path) -> None:
    with running(path, HOST) as tower:
        rows = tower.rows(VIEW)
        again = tower.rows(VIEW[:8, :24])  # in a plan of the same size, with other padding
        assert nmse(rows, by_definition(VIEW)) < 1e-11
        assert nmse(again, by_definition(VIEW[:8, :24])) < 1e-11
        assert np.array_equal(tower.built.learned["hoot"], tensors()["mm.line_end"])


@pytest.mark.usefixtures("known")
def test_a_single_file_is_the_same_tower(tmp_path: Path, path: Path) -> None:
    single = write_tiny(tmp_path / "owl.gguf", "owl", write=write)
    with running(path, HOST) as tower, running(single, HOST) as other:
        assert np.array_equal(tower.rows(VIEW), other.rows(VIEW))
        assert not any("token_embd" in name for name in other.built.sources.values())


@pytest.mark.parametrize(
    "device", [pytest.param(i.name, marks=pytest.mark.device, id=i.name) for i in list_devices()]
)
def test_it_lies_on_a_device(path: Path, device: str) -> None:
    with running(path, HOST, device) as tower:
        assert nmse(tower.rows(VIEW), by_definition(VIEW)) < 1e-8


def test_its_plan_follows_from_the_size(path: Path) -> None:
    with open_gguf(path) as file:
        tower = build_tower(file, HOST).tower
    plan = tower.plan(Size(41, 17), Limits())
    assert plan.views[0].size == Size(40, 16)
    assert plan.pieces == (Text("<owl>"), Rows(0, 0, 10), Learned("hoot"))
    assert plan.rows == 11
    assert tower.places(plan, 5, 0).tolist() == [list(range(5, 16))] * 4


def test_its_bytes_are_vision_of_the_output_block(path: Path) -> None:
    with open_gguf(path) as file:
        built = build_tower(file, HOST)
        sizes = {name: file.tensors[name].nbytes for name in built.sources.values()}
    assert {(o.component, o.layer) for o in built.owners.values()} == {(Component.VISION, 2)}
    assert set(built.owners) == set(built.sources)
    assert {t.name: t.nbytes for t in built.sources} == sizes
    numbers = {"mm.loudness.weight", "mm.line_end"}
    assert set(sizes) == set(tensors()) - numbers


def test_it_is_held_to_its_names_and_ranges(tmp_path: Path, known: None) -> None:
    def build(**changes: object) -> None:
        path = write_tiny(tmp_path / "odd.gguf", "clip", write=write, **changes)  # type: ignore[arg-type]
        with open_gguf(path) as file:
            build_tower(file, HOST)

    with pytest.raises(TensorMismatch, match=r"v\.blk\.2\.bait\.weight"):
        build(tensors={"v.blk.2.bait.weight": np.ones(D, np.float32)})
    with pytest.raises(BadFile, match=r"mm\.loudness\.weight is \[2\]; expected \[1\]"):
        build(tensors={"mm.loudness.weight": np.ones(2, np.float32)})
    with pytest.raises(BadFile, match=r"mm\.line_end is \[8\]; expected \[48\]"):
        build(tensors={"mm.line_end": np.ones(8, np.float32)})
    feathers = {"clip.vision.feathers": (9, gguf.GGUFValueType.UINT32)}
    with pytest.raises(BadFile, match=r"'clip\.vision\.feathers' is 9; expected 1 to 8"):
        build(metadata=feathers)
