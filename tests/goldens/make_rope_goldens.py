"""Makes `rope.npz`: python -m tests.goldens.make_rope_goldens

Tables of transformers' rotary embeddings in several dimensions.
Needs torch and transformers. For each of three modules:

    <name>_positions  int32 [4, T]      time, height, width and what the fourth section reads
    <name>_base       float64
    <name>_table      float32 [T, 2n]   n cosines, then n sines: half of what the module gives,
                                        whose other half is the same again
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from transformers import Qwen2VLTextConfig, Qwen3VLTextConfig
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
from transformers.models.qwen2_vl.modeling_qwen2_vl import (
    Qwen2VLRotaryEmbedding,
    Qwen2VLVisionRotaryEmbedding,
)
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

HERE = Path(__file__).parent
TEXT = {"hidden_size": 512, "num_attention_heads": 4, "head_dim": 128}
# A line of text, a picture of 2 x 3 patches, text again.
T = [0, 1, 2, *[3] * 6, 6, 7, 90]
H = [0, 1, 2, 3, 3, 3, 4, 4, 4, 6, 7, 90]
W = [0, 1, 2, 3, 4, 5, 3, 4, 5, 6, 7, 90]


def table(module: torch.nn.Module, positions: np.ndarray) -> np.ndarray:
    """[T, 2n] of the module's cosines and sines, of which it gives each twice."""
    ids = torch.from_numpy(positions.astype(np.int64))
    halves = []
    for part in module(torch.zeros(1), ids):
        flat = part.reshape(-1, part.shape[-1])
        half = flat.shape[1] // 2
        assert torch.equal(flat[:, :half], flat[:, half:])
        halves.append(flat[:, :half].numpy())
    return np.hstack(halves).astype(np.float32)


def rope(theta: float, sections: list[int], **more: object) -> dict[str, object]:
    return {"rope_type": "default", "rope_theta": theta, "mrope_section": sections, **more}


def main() -> None:
    text = np.array([T, H, W], np.int32)
    grid = np.array([H, W], np.int32)
    parameters = rope(1e6, [16, 24, 24])
    two = Qwen2VLRotaryEmbedding(Qwen2VLTextConfig(**TEXT, rope_parameters=parameters))
    parameters = rope(5e6, [24, 20, 20], mrope_interleaved=True)
    three = Qwen3VLTextRotaryEmbedding(Qwen3VLTextConfig(**TEXT, rope_parameters=parameters))
    vision = Qwen2VLVisionRotaryEmbedding(Qwen2VLVisionConfig(embed_dim=320, num_heads=4))
    made = {
        # The fourth section of the first is empty; where the third's sizes end, time goes on.
        "qwen2_vl": (np.vstack([text, 0 * text[:1]]), 1e6, table(two, text[:, None])),
        "qwen3_vl": (np.vstack([text, text[:1]]), 5e6, table(three, text[:, None])),
        # Row and column, twice, as ggml wants them.
        "qwen2_vl_vision": (np.vstack([grid, grid]), 1e4, table(vision, grid.T)),
    }
    parts = ("positions", "base", "table")
    arrays = {
        f"{name}_{part}": np.asarray(value)
        for name, values in made.items()
        for part, value in zip(parts, values, strict=True)
    }
    np.savez_compressed(HERE / "rope.npz", **arrays)


if __name__ == "__main__":
    main()
