"""A tiny random llama in every tensor type, on every device against the host."""

from pathlib import Path
from zlib import crc32

import gguf
import numpy as np
import pytest

from engine.backends.opencl.drivers.device import list_devices
from engine.gguf.formats import BF16, F16, F32, Format
from engine.runner import load
from tests.goldens.tiny import TOKENS, V, byte_level_vocabulary, tiny_tokens
from tests.kernels.blocks import QUANTIZED, random_blocks, with_scales
from tests.kernels.values import to_bf16
from tests.truth.compare import nmse

E, F, D, HEADS, KV_HEADS, LAYERS = 256, 512, 64, 4, 2, 2
FORMATS = [F32, F16, BF16, *QUANTIZED]
DEVICES = [pytest.param(info.name, marks=pytest.mark.device) for info in list_devices()]


def matrix(rng: np.random.Generator, fmt: Format, rows: int, k: int) -> np.ndarray:
    """Outputs about as large as inputs: [rows, row bytes]."""
    wanted = k**-0.5
    if not fmt.quantized:
        values = (rng.standard_normal((rows, k)) * wanted).astype(np.float32)
        stored = to_bf16(values) if fmt is BF16 else values.astype(str(fmt.dtype))
        return np.ascontiguousarray(stored).view(np.uint8).reshape(rows, -1)
    raw = random_blocks(rng, fmt, rows, k)
    kind = gguf.GGMLQuantizationType(fmt.id)
    size = float(np.sqrt(np.square(gguf.dequantize(raw, kind)).mean()))
    return with_scales(rng, fmt, raw.reshape(rows, -1, fmt.bytes), 0.01 * wanted / size)


def write_model(path: Path, fmt: Format) -> Path:
    """All matrices, the embedding too, are of `fmt`."""
    rng = np.random.default_rng(crc32(fmt.name.encode()))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(256)
    writer.add_embedding_length(E)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_feed_forward_length(F)
    writer.add_rope_dimension_count(D)
    writer.add_layer_norm_rms_eps(1e-5)
    byte_level_vocabulary(writer)
    shapes = {"token_embd": (V, E), "output": (V, E)}
    for i in range(LAYERS):
        block = {
            "attn_q": (HEADS * D, E),
            "attn_k": (KV_HEADS * D, E),
            "attn_v": (KV_HEADS * D, E),
            "attn_output": (E, HEADS * D),
            "ffn_gate": (F, E),
            "ffn_up": (F, E),
            "ffn_down": (E, F),
        }
        shapes |= {f"blk.{i}.{name}": shape for name, shape in block.items()}
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{name}.weight", rng.uniform(0.5, 1.5, E).astype(np.float32))
    writer.add_tensor("output_norm.weight", rng.uniform(0.5, 1.5, E).astype(np.float32))
    for name, (rows, k) in shapes.items():
        kind = gguf.GGMLQuantizationType(fmt.id)
        writer.add_tensor(f"{name}.weight", matrix(rng, fmt, rows, k), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def logits(path: Path, device: str) -> np.ndarray:
    """Of all positions: float32 [T, V]."""
    tokens = tiny_tokens("llama").tolist()
    with load(path, device=device, ctx=256) as model:
        return np.concatenate([part for _, part in model.logits(tokens)])


@pytest.fixture(scope="module")
def hosts() -> dict[str, tuple[Path, np.ndarray]]:
    """The files made so far, with the host's logits."""
    return {}


# All formats are packed by test_pack.py and multiplied by test_matmul.py.
@pytest.mark.full_cases("pocl|intel:0-(IQ[123]|Q[235]|NV|TQ1|IQ4_NL)")
@pytest.mark.parametrize("fmt", FORMATS, ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_logits_are_the_hosts(
    device: str,
    fmt: Format,
    hosts: dict[str, tuple[Path, np.ndarray]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    if fmt.name not in hosts:
        path = write_model(tmp_path_factory.mktemp("formats") / f"{fmt}.gguf", fmt)
        hosts[fmt.name] = path, logits(path, "host")
    path, want = hosts[fmt.name]
    got = logits(path, device)
    assert want.shape == (TOKENS, V)
    assert want.std() > 0.1
    error = nmse(got, want)
    print(f"{fmt} on {device}: NMSE {error:.1e}")
    assert error <= 1e-4
