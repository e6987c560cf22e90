"""Makes the files and goldens of text models that no class of transformers computes:

    python -m tests.goldens.text.make_direct [ROW ...]

Needs llama-cpp-python and gguf. Of each row a file of random float32 tensors, `ROW.gguf.xz`, and in
`ROW.npz` ids [2, 96] and llama.cpp's float32 logits [2, 96, V], with keys and values in float32.
"""

from __future__ import annotations

import lzma
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.goldens.peer import Peer
from tests.goldens.text.direct import PROMPT, Direct, Key, Shape, directs
from tests.goldens.text.recipe import T, V
from tests.goldens.text.vocabulary import write_vocabulary

HERE = Path(__file__).parent
MATRIX, VECTOR = 64, 256
"""Values are on grids as coarse as `randomise` has them, exact in float16."""
PACKED = {"preset": 9 | lzma.PRESET_EXTREME}
Floats = NDArray[np.float32]


def make(row: str, recipe: Direct) -> str:
    """Writes both files; tells how large they are, and how far logits differ from each other."""
    draws = np.random.default_rng(recipe.seed)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made.gguf"
        write(path, recipe, draws)
        ids = draws.integers(3, V, (2, T)).astype(np.int32)
        peer = Peer(path, T, exact=True, embeds=recipe.encodes, ranks=recipe.ranks)
        texts = [text.tolist() for text in ids]
        if recipe.ranks:
            logits = np.stack([peer.scores(text) for text in texts])
        elif recipe.answers:
            logits = np.stack([peer.answer(text[:PROMPT], text[PROMPT:]) for text in texts])
        elif recipe.encodes:
            logits = np.stack([peer.embeddings(text) for text in texts])
        else:
            logits = np.stack([peer.logits(text, range(T)) for text in texts])
        peer.close()
        data = path.read_bytes()
    packed = lzma.compress(data, **PACKED)
    (HERE / f"{row}.gguf.xz").write_bytes(packed)
    np.savez_compressed(HERE / f"{row}.npz", ids=ids, logits=logits)
    return f"{row}: {len(data)} bytes, packed {len(packed)}; logits of std {logits.std():.2f}"


def write(path: Path, recipe: Direct, draws: np.random.Generator) -> None:
    """The model's file."""
    writer = gguf.GGUFWriter(path, recipe.architecture)
    for key, value in recipe.keys.items():
        add(writer, key if key.startswith("tokenizer.") else f"{recipe.architecture}.{key}", value)
    write_vocabulary(writer)
    for name, shape in recipe.tensors.items():
        if name in recipe.values:
            writer.add_tensor(name, np.array(recipe.values[name], np.float32))
            continue
        factor = next((f for part, f in recipe.peaked.items() if part in name), 1.0)
        writer.add_tensor(name, drawn(name, shape, draws) * np.float32(factor))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add(writer: gguf.GGUFWriter, key: str, value: Key) -> None:
    """A key by the type of its value."""
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    else:
        writer.add_uint32(key, value)


def drawn(name: str, shape: Shape, draws: np.random.Generator) -> Floats:
    """Norms about 1, other vectors about 0, matrices that keep lengths: in NumPy's order."""
    normal = draws.standard_normal(shape[::-1])
    if len(shape) == 1:
        about = 1.0 if "norm.weight" in name else 0.0
        return on_grid(about + 0.3 * normal, VECTOR)
    gain = 2.0 if "token_embd" in name else 0.6 / shape[0] ** 0.5
    return on_grid(gain * normal, MATRIX)


def on_grid(values: NDArray[np.float64], steps: int) -> Floats:
    """The nearest multiples of 1 / steps."""
    return (np.round(values * steps) / steps).astype(np.float32)


def main() -> None:
    """All rows, or those that are named."""
    known = directs()
    for row in sys.argv[1:] or known:
        print(make(row, known[row]), flush=True)  # noqa: T201  a command for people


if __name__ == "__main__":
    main()
