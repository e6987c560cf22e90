"""Files of any size with random weights, to measure speed with: nothing is downloaded or kept.

    python -m tests.engine.models.published.weights NAME FILE [FORMAT]

NAME is one of SHAPES below or of sizes.py. Matrices are Q4_K and Q6_K, as in Q4_K_M files, or all
of FORMAT; weights are as large as makes all layers' results, and so the logits, finite. Of a shape
with a block that predicts further tokens (mtp), layers add nothing, so that the block is always
right; so do those of one that "counts", where each token is followed by the next id. `gain` and
`edited` of `tests.engine.runner.drafting` measure with these what speculation gains.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, dequantize
from gguf import GGMLQuantizationType as Type

from engine.gguf.values import ValueType
from tests.engine.models.published.dense import HEADS
from tests.engine.models.published.header import F16, F32, pair, type_of
from tests.engine.models.published.recurrent import qwen35
from tests.engine.models.published.size import (
    NORMS,
    Size,
    attention,
    dense,
    experts,
    keys,
    kv,
    vectors,
    whole,
)
from tests.engine.models.published.sizes import SIZES
from tests.gguf_files import Blocks, Draft, padded

Q8_0, Q4_K, Q6_K = Type.Q8_0, Type.Q4_K, Type.Q6_K
BLOCKS: Mapping[int, tuple[int, int]] = {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}
"""Of each type: weights and bytes of a block."""
CHUNK = 1 << 22  # blocks' bytes drawn at once
ROWS = 1 << 10  # rows made floats at once
HEAD = "output.weight"
MOE = {**attention(1024, 16, 4, 128), **experts(1024, 768, 24), **vectors(NORMS, 1024), **HEADS}

HYBRID = qwen35("qwen35", 1.0e9, (24, 1024, 3584, 8, 2, 256, 248320), 16)


def predicting(size: Size) -> Size:
    """The same with a block more, like the last layer, that predicts the token after the next."""
    n, e = int(str(size.keys["block_count"])), int(str(size.keys["embedding_length"]))
    last, own = f"blk.{n - 1}.", f"blk.{n}."
    block = {
        own + name.removeprefix(last): shape
        for name, shape in size.shapes.items()
        if name.startswith(last)
    }
    block |= {own + "nextn.eh_proj.weight": (2 * e, e)}
    block |= {f"{own}nextn.{norm}.weight": (e,) for norm in ("enorm", "hnorm")}
    keys = {**size.keys, "block_count": n + 1, "nextn_predict_layers": 1}
    return replace(size, keys=keys, shapes={**size.shapes, **block})


SHAPES: Mapping[str, Size] = {
    "dense-1b": dense("llama", 1.24e9, (16, 2048, 8192, 32, 8, 64, 128256), tied=True),
    "experts-1b": Size(
        *("qwen3moe", 1.1e9, kv(16, 4, 128), 65536),
        keys(
            *(16, 1024, 3072, 16, 4, 128),
            expert_count=24,
            expert_used_count=4,
            expert_feed_forward_length=768,
        ),
        whole(16, 1024, 65536, lambda i: MOE, tied=True),
    ),
    "8b": SIZES["llama-3.1-8b"],
    "8b-counts": SIZES["llama-3.1-8b"],
    "8b-4layers": dense("llama", 0, (4, 4096, 14336, 32, 8, 128, 128256)),
    "30b-experts": SIZES["qwen3-30b-a3b"],
    "hybrid-1b": HYBRID,
    "hybrid-1b-mtp": predicting(HYBRID),
    "hybrid-9b-mtp": predicting(
        qwen35("qwen35", 8.95e9, (32, 4096, 12288, 16, 4, 256, 248320), 32)
    ),
}


def kind_of(name: str, size: Size, flat: int | None = None) -> int:
    """What a Q4_K_M file keeps it in: more bits for the logits' matrix, and in an eighth of the
    layers at either end and each third between for values and for what the feed-forward gives.
    Matrices are `flat` where it is given.
    """
    shape = size.shapes[name]
    if type_of(name, shape) == F32:
        return F32
    if "nextn." in name:
        return F16
    if flat is not None:
        return F16 if shape[0] % BLOCKS[flat][0] else flat
    if shape[0] % 256:
        return Q8_0 if shape[0] % 32 == 0 else F16
    if name.startswith(("token_embd", "output.")):
        return Q6_K if name.startswith("output.") or "output.weight" not in size.shapes else Q4_K
    if "attn_v." in name or "ffn_down" in name:
        layer, layers = int(name.split(".")[1]), int(str(size.keys["block_count"]))
        inside = layers // 8 <= layer < 7 * layers // 8
        return Q4_K if inside and (layer - layers // 8) % 3 != 2 else Q6_K
    return Q4_K


ADDS = ("attn_output", "ssm_out", "ffn_down")
"""Matrices whose results a layer adds."""


def drawn(
    name: str, shape: Sequence[int], kind: int, draws: np.random.Generator, silent: bool = False
) -> Iterator[bytes]:
    """Its blocks, with weights that neither grow nor shrink what goes through them. Layers that are
    `silent` add nothing; a block that predicts takes the next token as it is.
    """
    gain, (weights, size) = 0.6 / np.sqrt(shape[0]), BLOCKS[kind]
    if silent and any(part in name for part in ADDS):
        gain = 0.0
    if "nextn.eh_proj" in name:
        yield np.eye(shape[1], shape[0]).astype("<f2").tobytes()
        return
    if "nextn." in name:
        yield np.ones(shape, "<f4").tobytes()
        return
    if kind == F32:
        yield _floats(name, shape, draws).astype("<f4").tobytes()
        return
    left = prod(shape) // weights
    while left:
        n = min(left, max(1, CHUNK // size))
        left -= n
        if kind == F16:
            yield (gain * draws.standard_normal(n)).astype("<f2").tobytes()
            continue
        blocks = np.frombuffer(bytearray(draws.bytes(n * size)), np.uint8).reshape(n, size)
        at, scales = scales_of(kind, gain)
        blocks[:, at : at + scales.nbytes] = scales.view(np.uint8)
        yield blocks.tobytes()


# Where a block's halves are: d, and with a minimum m, by which random codes and scales of blocks
# come to a deviation of 1 about 0: (byte, codes' deviation, m in d).
HALVES: Mapping[int, tuple[int, float, float]] = {
    Type.Q4_0: (0, 4.6, 0),
    Type.Q4_1: (0, 4.6, -7.5),
    Type.Q5_0: (0, 9.2, 0),
    Type.Q5_1: (0, 9.2, -15.5),
    Type.Q8_0: (0, 73, 0),
    Type.Q4_K: (0, 170, 7.5),
    Type.Q5_K: (0, 340, 15.5),
    Type.Q6_K: (208, 1370, 0),
    Type.IQ4_XS: (0, 1250, 0),
}


def scales_of(kind: int, gain: float) -> tuple[int, np.ndarray]:
    """The byte of a block where its scales begin, and the scales."""
    if kind == Type.MXFP4:  # an exponent; its numbers deviate by 3
        return 0, np.array([round(127 + np.log2(gain / 3))], np.uint8)
    at, deviation, minimum = HALVES[kind]
    d = gain / deviation
    return at, np.array([d, minimum * d] if minimum else [d], "<f2")


def shifted(head: bytes, shape: Sequence[int], kind: int) -> Iterator[bytes]:
    """Rows of embeddings, each the row of the next id in `head`; the first follows the last."""
    rows = np.frombuffer(head, np.uint8).reshape(shape[1], -1)
    for at in range(0, shape[1], ROWS):
        ids = np.arange(at + 1, min(at + ROWS, shape[1]) + 1) % shape[1]
        yield dequantize(rows[ids], Type(kind)).astype("<f2").tobytes()


def _floats(name: str, shape: Sequence[int], draws: np.random.Generator) -> np.ndarray:
    size = prod(shape)
    if name.endswith("ssm_a"):
        return -draws.uniform(0.5, 4.0, size)
    if "ssm_dt" in name:
        return draws.uniform(-4.0, -1.0, size)
    if len(shape) == 1:
        return 1 + 0.1 * draws.standard_normal(size)
    return 0.6 / np.sqrt(shape[0]) * draws.standard_normal(size)


def write(
    path: Path, size: Size, seed: int = 1, flat: int | None = None, counts: bool = False
) -> Path:
    """The whole file; its matrices are `flat` where it is given. If it `counts`, each token is
    followed by the next id; `size` must have an output matrix of its own.
    """
    pairs = {"general.architecture": pair(size.arch), "general.name": pair(path.stem)}
    pairs |= {f"{size.arch}.{key}": pair(value) for key, value in size.keys.items()}
    pairs["tokenizer.ggml.model"], pairs["tokenizer.ggml.pre"] = pair("gpt2"), pair("qwen2")
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]  # so that a text has tokens
    words = [*letters, *(f"w{i}" for i in range(len(letters), size.v))]
    pairs["tokenizer.ggml.tokens"] = (ValueType.ARRAY, (ValueType.STRING, words))
    pairs["tokenizer.ggml.token_type"] = (ValueType.ARRAY, (ValueType.INT32, [1] * size.v))
    pairs["tokenizer.ggml.merges"] = (ValueType.ARRAY, (ValueType.STRING, ["w 0"]))
    kinds = {name: kind_of(name, size, flat) for name in size.shapes}
    if counts:
        kinds["token_embd.weight"] = F16
    tensors, offsets, end = {}, {}, 0
    for name, shape in size.shapes.items():
        weights, nbytes = BLOCKS[kinds[name]]
        tensors[name] = Blocks(kinds[name], shape, b"")
        offsets[name] = end
        end += padded(prod(shape) // weights * nbytes, 32)
    draws, silent = np.random.default_rng(seed), counts or "nextn_predict_layers" in size.keys
    head = b"".join(drawn(HEAD, size.shapes[HEAD], kinds[HEAD], draws)) if counts else b""
    with path.open("wb") as file:
        header = Draft(pairs, tensors, offsets=offsets).header()
        start = padded(len(header), 32)
        file.write(header)
        for name, shape in size.shapes.items():
            file.seek(start + offsets[name])
            if counts and name == HEAD:
                file.write(head)
            elif counts and name.startswith("token_embd"):
                file.writelines(shifted(head, shape, kinds[HEAD]))
            else:
                file.writelines(drawn(name, shape, kinds[name], draws, silent))
        file.truncate(start + end)
    return path


def main() -> None:
    name, path, *formats = sys.argv[1:]
    flat = Type[formats[0]] if formats else None
    made = write(Path(path), {**SIZES, **SHAPES}[name], flat=flat, counts=name.endswith("counts"))
    print(made)  # noqa: T201  a command for people


if __name__ == "__main__":
    main()
